"""The locked requirements of `./demo` and `./check`: what `locks/` holds, whether it fits, whether it is sound.

    python dev/lock.py            write the locks anew (needs `uv`: pip install uv)
    python dev/lock.py --check    say whether they fit pyproject.toml; needs no network
    python dev/lock.py --audit    ask the package index which locked versions have known vulnerabilities

A lock names each package with its version and the digests of its files, and no index: where to fetch from is the
machine's own affair.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
LOCKS = {"demo": ("embedded", "cel"), "check": ("dev", "test", "embedded")}
"""Each lock, and the extras that it holds."""
ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)", re.MULTILINE)
AUDIT_TIMEOUT_S = 20
INDEX_VARIABLE = "WINDLASS_AUDIT_INDEX"


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, str]:
    """The versions that a lock names."""
    return {normal(found["name"]): found["version"] for found in ENTRY.finditer(text)}


def wanted(extras: tuple[str, ...]) -> set[str]:
    """The packages that pyproject.toml and the build need by name, extras of our own resolved."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting, names = [*project["dependencies"], *(ROOT / "locks" / "build.in").read_text().splitlines()], set[str]()
    open_ = list(extras)
    while open_:
        waiting += project["optional-dependencies"][open_.pop()]
        while waiting:
            line = waiting.pop().strip()
            own = re.fullmatch(r"windlass\[([\w,-]+)\]", line)
            if own:
                open_ += own[1].split(",")
            elif found := re.match(r"[A-Za-z0-9._-]+", line):
                names.add(normal(found[0]))
    return names


def problems(name: str, extras: tuple[str, ...]) -> list[str]:
    """What is wrong with one lock."""
    path = ROOT / "locks" / f"{name}.txt"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = [f"locks/{name}.txt: {missing} is not locked" for missing in sorted(wanted(extras) - set(locked(text)))]
    if "://" in text or "--index" in text:
        found.append(f"locks/{name}.txt: names an index or an address")
    for block in re.split(r"\n(?=\S)", text):
        entry = ENTRY.match(block)
        if entry is not None and "--hash=sha256:" not in block:
            found.append(f"locks/{name}.txt: {entry['name']} has no digest")
    return found


def write() -> int:
    """Resolves both for all platforms and every Python from 3.11 on."""
    for name, extras in LOCKS.items():
        command = [
            "uv",
            "pip",
            "compile",
            "pyproject.toml",
            "locks/build.in",
            "--universal",
            "--python-version",
            "3.11",
        ]
        command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet"]
        command += [word for extra in extras for word in ("--extra", extra)]
        try:
            subprocess.run(
                [*command, "--output-file", f"locks/{name}.txt"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
            )
        except FileNotFoundError:
            print("uv is missing, which resolves the locks: pip install uv", file=sys.stderr)
            return 1
    return 0


def check() -> int:
    """Whether the locks fit what pyproject.toml asks for."""
    found = [line for name, extras in LOCKS.items() for line in problems(name, extras)]
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print("write them anew: python dev/lock.py", file=sys.stderr)
    return 1 if found else 0


def audit() -> int:
    """Asks the index of each version. 0 if none is known to be vulnerable, 1 if some is, 2 if it is not said."""
    base = os.environ.get(INDEX_VARIABLE, "").rstrip("/")
    if not base:
        print(f"set {INDEX_VARIABLE} to the address of an index that tells of vulnerabilities", file=sys.stderr)
        return 2
    versions = {entry for name in LOCKS for entry in locked((ROOT / "locks" / f"{name}.txt").read_text()).items()}
    worst = 0
    for name, version in sorted(versions):
        try:
            with urllib.request.urlopen(f"{base}/pypi/{name}/{version}/json", timeout=AUDIT_TIMEOUT_S) as answer:
                told: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, ValueError, OSError) as error:
            print(f"{name} {version}: the index does not say ({error})", file=sys.stderr)
            worst = 2
            continue
        for known in told.get("vulnerabilities", []):
            fixed = ", ".join(known.get("fixed_in") or []) or "no version"
            print(f"{name} {version}: {known.get('id')}, mended in {fixed}")
            worst = worst or 1
    return worst


if __name__ == "__main__":
    sys.exit({"--check": check, "--audit": audit}.get(" ".join(sys.argv[1:]), write)())
