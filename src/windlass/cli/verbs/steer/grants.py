"""`windlass grants`: show the standing approvals of a session, or take some back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.events.values.policy import Grant
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass grants march              what may run without asking again, and until when
  windlass grants march --revoke g53 take one back (repeatable); calls that wait under it are judged again
  windlass grants march --revoke-all take all of them back
  windlass grants march --hear audit let the session 'audit', of another tree, tell it something; --revoke takes it back
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--revoke", metavar="GRANT", action="append", help="take this one back (repeatable)")
    change.add_argument("--revoke-all", action="store_true", help="take all of them back")
    change.add_argument("--hear", metavar="SESSION", help="let this session of another tree tell it something")
    change.add_argument("--json", action="store_true", help="print them as JSON")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, grants)


async def grants(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Shows the standing approvals, or takes some back."""
    import msgspec

    from windlass.cli.terminal.text import put, tell, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.runtime.operate.command_delivery import now_ms
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.open_requests import standing_approvals

    standing = standing_approvals(await read_point(store, key), now_ms())
    if args.json:
        tell_json([msgspec.to_builtins(grant) for grant in standing])
        return 0
    if args.revoke or (args.revoke_all and standing):
        return await revoke(args, store, key, standing)
    if args.hear is not None:
        return await hear(args, store, key)
    if not standing:
        tell(f"session {spelt(key.session)!r} has no standing approvals: whatever its policy asks about is asked")
    for line in lines_of(standing, now_ms()):
        put(line)
    return 0


def lines_of(standing: list[Grant], now_ms: int) -> list[str]:
    """The standing approvals as a table."""
    from windlass.cli.screen import number_words
    from windlass.cli.terminal.visible_text import spelt

    if not standing:
        return []
    rows = [("GRANT", "TOOL", "FOR", "BY", "ENDS")]
    for grant in standing:
        if grant.session:
            what = f"what session {spelt(grant.session)!r} says"
        elif grant.pattern is not None:
            what = f"calls that fit {spelt(grant.pattern)!r}"
        else:
            what = "every call"
        what += ", also with all three legs" if grant.trifecta else ""
        what += f", {spelt(grant.access.said)}" if grant.access.said else ""
        ends = "never" if grant.expires_ms is None else f"in {number_words.span(grant.expires_ms - now_ms)}"
        rows.append((spelt(grant.grant_id), spelt(grant.tool), what, spelt(grant.by) or "-", ends))
    return number_words.table(rows)


async def hear(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Lets a session of another tree tell this one something."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.changes import ChangeGrants, ChangeReceived
    from windlass.runtime.operate.open_requests import to_hear
    from windlass.store.rules.ids import check_id

    by = identity.actor()
    grant = to_hear(check_id("session id", args.hear), by)
    command = ChangeReceived(command_id=identity.fresh_command_id(), actor=by, change=ChangeGrants(add=(grant,)))
    said = f"session {spelt(args.hear)!r} may tell it something: {spelt(grant.grant_id)}"
    return await command_delivery.send(store, key, command, said, args)


async def revoke(args: argparse.Namespace, store: Store, key: Key, standing: list[Grant]) -> int:
    """Takes some back."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.changes import ChangeGrants, ChangeReceived
    from windlass.events.errors import UsageError

    known = [grant.grant_id for grant in standing]
    wanted = known if args.revoke_all else list(dict.fromkeys(args.revoke))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        there = f"there are {', '.join(map(spelt, known))}" if known else "it has none"
        raise UsageError(f"no standing approval {unknown[0]!r} in session {key.session!r}: {there}")
    command = ChangeReceived(
        command_id=identity.fresh_command_id(), actor=identity.actor(), change=ChangeGrants(revoke=tuple(wanted))
    )
    return await command_delivery.send(store, key, command, f"revoked: {', '.join(map(spelt, wanted))}", args)
