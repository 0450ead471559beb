"""`windlass verify`: check that logs are what was written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

from .anchor import add_key, secret_of

if TYPE_CHECKING:
    from windlass.cli.terminal.text import Paint
    from windlass.runtime.operate.verification import Verdict
    from windlass.store.base import Store

EXAMPLES = """examples:
  windlass verify march              one session
  windlass verify                    every session of the store
  windlass verify --anchor notes     and that they still hold what 'windlass anchor' noted
  windlass verify --json             for programs

Three levels: the hash chain holds; every record is legal where it stands; the facts lead to the same decisions. A
difference in the last is drift (another version decided), not damage; nor is what a newer version wrote.
exit codes: 0 everything holds (drift is reported), 1 something is damaged, or could not be read
"""
MARK_WIDTH = 9
"""The verdict and what parts it from the rest."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", nargs="?", help="one session (else every one)")
    options.add_store(parser)
    parser.add_argument(
        "--anchor", metavar="FILE|HASH", help="also: what 'windlass anchor' noted before, or one hash of a log"
    )
    add_key(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    from windlass.cli.terminal.text import tell_json

    verdicts = asyncio.run(verify(args))
    if args.json:
        tell_json(verdicts)
    else:
        show(verdicts, options.told_place(args))
    return 1 if any(not verdict.sound for verdict in verdicts) else 0


async def verify(args: argparse.Namespace) -> list[Verdict]:
    """The verdicts on one session or on all of the store."""
    from windlass.cli import stores
    from windlass.runtime.operate.verification import verify_session, verify_store

    async with stores.opened(args) as store:
        if args.session:
            verdicts = [await verify_session(store, await stores.session_key(store, args))]
        else:
            verdicts = [verdict async for verdict in verify_store(store, args.tenant)]
        return await against_anchor(args, store, verdicts) if args.anchor else verdicts


async def against_anchor(args: argparse.Namespace, store: Store, verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts with what the logs are not that was noted of them. Raises `UsageError` for notes that are none."""
    from windlass.events.errors import UsageError
    from windlass.runtime.operate.anchors import judged, judged_by_hash, read_anchors

    if is_hash(args.anchor):
        if not args.session:
            raise UsageError("--anchor HASH is of one session: name it, or give the file that 'windlass anchor' wrote")
        return [await judged_by_hash(store, args.tenant, verdicts[0], args.anchor)]
    anchors = [
        anchor for anchor in read_anchors(lines_of(args.anchor), secret_of(args)) if anchor.tenant == args.tenant
    ]
    if args.session:
        anchors = [anchor for anchor in anchors if anchor.session == verdicts[0].session]
    return await judged(store, verdicts, anchors)


def lines_of(file: str) -> list[bytes]:
    """The lines of a file. Raises `UsageError` if it cannot be read."""
    import pathlib

    from windlass.events.errors import UsageError

    try:
        return pathlib.Path(file).read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the anchors {file!r}: {error.strerror or error}") from error


def is_hash(text: str) -> bool:
    """Whether it is a chain hash, and not the name of a file."""
    import re

    return re.fullmatch(r"[A-Za-z0-9_-]{32}", text) is not None


def show(verdicts: list[Verdict], place: str) -> None:
    """A line for each session, its problems beneath it, and what to do about them."""
    from windlass.cli.screen.number_words import plural, table
    from windlass.cli.terminal.text import Paint, cells, put, screen_width, tell
    from windlass.cli.terminal.visible_text import spelt, visible

    paint = Paint()
    rows = [(spelt(one.session), plural(one.records, "record"), one.hash[:16]) for one in verdicts]
    lines = table(rows, right=(1,))
    narrow = max(map(cells, lines), default=0) > screen_width() - MARK_WIDTH
    for one, row, line in zip(verdicts, rows, lines, strict=True):
        mark = _mark(one, paint)
        put(f"{mark}  {row[0] if narrow else line}")
        if narrow:
            put(f"{'':{MARK_WIDTH}}{row[1]}, {row[2]}")
        for problem in one.problems:
            tell(f"         {visible(problem)}", indent=" " * 11)
    damaged = sum(is_damaged(one) for one in verdicts)
    unread = sum(one.unread for one in verdicts)
    if not verdicts:
        tell(f"no session in {spelt(place)} yet: there is nothing to verify")
    elif damaged:
        tell(
            f"{damaged} of {plural(len(verdicts), 'session')} damaged: 'windlass logs' shows what stands before the "
            "damage, and 'windlass fork SESSION --at SEQ' goes on from there"
        )
    elif not unread:
        tell(f"{plural(len(verdicts), 'session')}, every record as it was written")
    if unread:
        tell(
            f"{unread} of {plural(len(verdicts), 'session')} could not be read, so nothing is known of them: mend what "
            "is said of each, and run this again"
        )


def is_damaged(verdict: Verdict) -> bool:
    """Whether it was read, and is not what was written."""
    return not verdict.sound and not verdict.unread


def _mark(verdict: Verdict, paint: Paint) -> str:
    if verdict.unread:
        return paint("UNREAD ", "red")
    if not verdict.sound:
        return paint("DAMAGED", "red")
    return paint("newer  ", "yellow") if verdict.newer else paint("ok     ", "green")
