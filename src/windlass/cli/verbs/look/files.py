"""`windlass files`: which files a session's tools changed, and how."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.workspace.file_history import Past
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass files march               the files that tools changed, with the lines that came and went
  windlass files march --diff        with the difference between what each held at first and what it was left with
  windlass files march --since 40    what was changed after record 40: what 'rewind --to 40 --files' would put back
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("--since", type=int, default=0, metavar="SEQ", help="only what changed after this record")
    parser.add_argument("--diff", action="store_true", help="show what changed in each, as far as it was kept")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, files)


async def files(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Prints them, in the order in which they changed last."""
    from windlass.cli.terminal.text import put, tell, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.workspace.file_history import FileHistory

    history = FileHistory()
    for seq, event in (await read_point(store, key)).events.items():
        if seq > args.since:
            history.add(event)
    pasts = history.newest_first()[::-1]
    if args.json:
        tell_json(pasts)
        return 0
    if not pasts:
        tell(f"no tool of session {spelt(key.session)!r} reported a changed file")
    for past in pasts:
        put(_line(past))
        if args.diff:
            for line in await _difference(store, key, past):
                put(line)
    return 0


def _line(past: Past) -> str:
    from windlass.cli.terminal.visible_text import spelt

    verb = "created" if past.before is None else "removed" if past.after is None else "changed"
    if past.before is None and past.after is None:
        verb = "created and removed" if not past.why_not else "changed"
    why = f"  ({past.why_not})" if past.why_not else ""
    return f"{verb}  {spelt(past.path)}  +{past.lines_added} -{past.lines_removed}{why}"


async def _difference(store: Store, key: Key, past: Past) -> list[str]:
    """The lines of the difference, or why there is none to show."""
    from windlass.cli.screen.person_requests import detail_lines
    from windlass.cli.terminal.text import Paint
    from windlass.events.errors import NotFound
    from windlass.events.tools.permissions import WriteDetail
    from windlass.tools.files.write.diffs import unified

    if past.before == past.after:
        return []
    contents: list[bytes | None] = []
    for name in (past.before, past.after):
        try:
            contents.append(None if name is None else await store.blobs.get(key.tenant, name))
        except NotFound:
            return ["  what it held was not kept"]
    diff = unified(past.path.removeprefix("/"), *contents)
    return detail_lines(WriteDetail(path=past.path, diff=diff), Paint())[1:]
