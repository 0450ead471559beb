"""`windlass prune`: remove old sessions, after a dry run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import IndexRow

EXAMPLES = """examples:
  windlass prune --older-than 30d    what would be removed (a dry run)
  windlass prune --older-than 30d --yes      remove it

Only sessions that are at rest (idle) are removed, none that forks refer to, and none that another process has open.
"""
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_store(parser)
    parser.add_argument("--older-than", required=True, metavar="AGE", help="such as 12h, 30d, 8w: since its change")
    parser.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
    parser.add_argument("--yes", action="store_true", help="remove them; without it nothing is changed")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    from windlass.cli import stores
    from windlass.cli.terminal.text import tell_json

    rows, forks, held = asyncio.run(prune(args))
    now = stores.now_ms()
    if args.json:
        tell_json([plain_row(row, forks.get(row.session, []), held, now, removed=args.yes) for row in rows])
    else:
        show(args, rows, forks, held, now)
    return 0


async def prune(args: argparse.Namespace) -> tuple[list[IndexRow], dict[str, list[str]], dict[str, str]]:
    """The old sessions, the forks of those that have some, and who has those open that somebody has: both stay. The
    others are removed if that is wanted."""
    from windlass.cli import stores
    from windlass.cli.screen.lease_holders import driver
    from windlass.runtime.operate.lease_holder import holders_of
    from windlass.runtime.operate.session_removal import remove_session
    from windlass.store.base import Key, Query

    options.here_only(args, "pruning")
    before = stores.now_ms() - age_ms(args.older_than)
    query = Query(
        tenant=args.tenant, states=("idle",), agent=args.agent, updated_before_ms=before, limit=stores.FIND_MAX
    )
    async with stores.opened(args) as store:
        rows = await store.index.find(query)
        forks = {row.session: await store.log.forks(Key(args.tenant, row.session)) for row in rows}
        held = {session: driver(holder) for session, holder in (await holders_of(store, rows)).items()}
        for row in rows if args.yes else ():
            if not forks[row.session] and row.session not in held:
                taken = await remove_session(store, options.place_of(args), Key(args.tenant, row.session))
                held |= {} if taken else {row.session: "another process"}
    return rows, {session: names for session, names in forks.items() if names}, held


def plain_row(row: IndexRow, forks: list[str], held: dict[str, str], now: int, *, removed: bool) -> dict[str, object]:
    """A session for programs."""
    return {
        "session": row.session,
        "agent": row.agent,
        "age_ms": now - row.updated_ms,
        "removed": removed and not forks and row.session not in held,
        "forks": forks,
        "open_in": held.get(row.session),
    }


def show(
    args: argparse.Namespace, rows: list[IndexRow], forks: dict[str, list[str]], held: dict[str, str], now: int
) -> None:
    """A line for each session, and how many are removed."""
    from windlass.cli.screen.number_words import plural, span, table
    from windlass.cli.terminal.text import put, tell
    from windlass.cli.terminal.visible_text import spelt

    verb = "removed" if args.yes else "would remove"
    lines = [
        ("kept", spelt(row.session), f"its forks need it: {', '.join(map(spelt, forks[row.session]))}")
        if row.session in forks
        else ("kept", spelt(row.session), f"open in {held[row.session]}: close it there first")
        if row.session in held
        else (verb, spelt(row.session), f"{span(now - row.updated_ms)} old")
        for row in rows
    ]
    for line in table(lines):
        put(line)
    going = plural(sum(row.session not in {*forks, *held} for row in rows), "session")
    if not rows:
        tell(f"no session at rest is older than {args.older_than}: nothing to remove")
    elif args.yes:
        tell(f"removed {going}")
    else:
        tell(f"a dry run: nothing was changed; --yes removes {going}")


def age_ms(text: str) -> int:
    """An age such as `30d`, in milliseconds."""
    from windlass.events.errors import UsageError

    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS_MS:
        raise UsageError(f"--older-than {text!r}: write a number and one of {', '.join(UNITS_MS)}, such as 30d")
    return int(number) * UNITS_MS[unit]
