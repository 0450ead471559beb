"""Writes the pages that are generated from the code, and builds the site.

With `--check` it only says what is wrong: pages that are stale, settings and names that nobody has said a word about,
links that lead nowhere, pages that the site does not list.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
REGENERATE = "python dev/docs.py"
SILENT_FLAG = re.compile(r"^\| `([^`]+)` \| *\|$", re.MULTILINE)
"""A row of the command line's page that says nothing."""


def pages() -> dict[str, str]:
    """What each generated file should hold, by its path in the repository."""
    from dev import api_page, events_page, flow_files_page, freeze, rooms_page, settings_page

    from windlass.cli.reference import cli_page

    return {
        "docs/architecture.md": rooms_page.render(),
        "docs/cli.md": cli_page(),
        "docs/events.md": events_page.render(),
        "docs/reference/workflow-files.md": flow_files_page.render(),
        "docs/reference/settings.md": settings_page.render(),
        "docs/reference/windlass.md": api_page.render(),
        "tests/events/names.txt": freeze.names(),
        "tests/events/defaults.txt": freeze.defaults(),
    }


def stale(root: pathlib.Path = ROOT) -> list[str]:
    """The generated files that do not hold what they should."""
    return [name for name, text in pages().items() if _read(root / name) != text]


def silent() -> list[str]:
    """What has no entry, or an entry without a word."""
    from dev import api_page, flow_files_page, settings_page

    from windlass.cli.reference import cli_page

    flags = [f"{flag} of the command line has no help" for flag in SILENT_FLAG.findall(cli_page())]
    return [*settings_page.complaints(), *api_page.complaints(), *flow_files_page.complaints(), *flags]


def write(root: pathlib.Path = ROOT) -> list[str]:
    """Writes what is stale and says which files that was."""
    changed = stale(root)
    for name, text in pages().items():
        if name in changed:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
    return changed


def _read(path: pathlib.Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def wrong() -> list[str]:
    """Everything that is wrong with the docs, each with what to do about it."""
    from dev.site import links

    old = [f"{name} is stale: run '{REGENERATE}' and commit what it writes" for name in stale()]
    return [*old, *silent(), *links.complaints(ROOT)]


def built(out: pathlib.Path) -> int:
    """Builds the site, unless something is wrong with its pages."""
    from dev.site import build, links

    found = links.complaints(ROOT)
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"wrote {len(build.build(ROOT, out))} files: open {out / 'index.html'}")
    return 1 if found else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; fail where something is wrong")
    what.add_argument("--site", metavar="OUT", type=pathlib.Path, help="build the site into this folder, emptied first")
    told = parser.parse_args(arguments)
    if told.site is not None:
        return built(told.site)
    if told.check:
        found = wrong()
        for line in found:
            print(line, file=sys.stderr)
        return 1 if found else 0
    for name in write():
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
