"""`windlass fork`: begin a new session from a point of another, whose history it shares."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass fork march                a new session that continues from where march is now
  windlass fork march --at 40 --as march-retry      from after record 40, under this id
  windlass fork march --deny p40 --as march-no      what if somebody had said no?
  windlass fork march --reopen q52   ask again what was asked there; then 'windlass answer'

The history is shared, not copied; march itself is not touched. What was open at that point is closed in the fork. With
--approve, --deny or --reopen the fork begins where that was asked, and it is open there again, with whatever else was
asked at that point.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--at", type=int, metavar="SEQ", help="after this record (else at the end)")
    where.add_argument("--reopen", metavar="REQUEST", help="where this was asked, and ask it again")
    where.add_argument("--approve", metavar="REQUEST", help="where this was asked, and allow it")
    where.add_argument("--deny", metavar="REQUEST", help="where this was asked, and refuse it")
    parser.add_argument("--feedback", default="", metavar="TEXT", help="with --deny: what the model should know")
    parser.add_argument("--as", dest="new", metavar="ID", help="the id of the new session")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, fork)


async def fork(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Makes the fork, answers in it what is to be answered otherwise, and says how it goes on."""
    from windlass.cli import shell_lines, stores
    from windlass.cli.terminal.text import put, tell, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.runtime.api.runtime import Runtime

    await check(args, store, key)
    reopen = args.reopen or args.approve or args.deny
    async with Runtime(store, tenant=args.tenant) as runtime:
        made = await runtime.fork(key, args.new, at_seq=args.at, reopen=reopen)
    answered = await answer(args, store, made.key)
    head = await store.log.head(made.key)
    seq = head.origin.seq if head is not None and head.origin is not None else 0
    if args.json:
        tell_json({"session": made.session_id, "origin": key.session, "at_seq": seq})
        return 0
    tell(f"{spelt(made.session_id)} continues from record {seq} of {spelt(key.session)}{answered}")
    if args.at is not None and seq < args.at:
        tell(f"(record {args.at} was written together with others: the fork begins before them)")
    if args.reopen:
        put(f"  windlass show {shell_lines.word(made.session_id)}{shell_lines.at(args)}")
        return 0
    if await stores.flow_of(store, key):
        put(f"  {shell_lines.flow_of(made.session_id, args)}")
        return 0
    agent = (await stores.row_of(store, key)).agent
    what = "" if reopen else " 'what to do now'"
    put(f"  {shell_lines.run_of(agent, made.session_id, args)}{what}")
    return 0


async def answer(args: argparse.Namespace, store: Store, branch: Key) -> str:
    """Answers in the fork what is to be answered otherwise; gives what to say of it."""
    from windlass.cli import identity
    from windlass.cli.open_requests import wanted_request
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.tools.permissions import FeedbackBody, PermissionApproved, PermissionDenied
    from windlass.runtime.operate.command_delivery import deliver
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.open_requests import Asker

    if args.reopen:
        return f", where {spelt(args.reopen)} is open again"
    if not (args.approve or args.deny):
        return ""
    request = wanted_request([Asker(point=await read_point(store, branch))], args.approve or args.deny, "permission")
    name, who, command_id = request.request_id, identity.actor(), identity.fresh_command_id()
    body = FeedbackBody(feedback=args.feedback) if args.feedback else None
    yes = PermissionApproved(command_id=command_id, actor=who, request_id=name, digest=request.digest or None)
    no = PermissionDenied(command_id=command_id, actor=who, request_id=name, body=body)
    await deliver(store, branch, yes if args.approve else no, wait_s=0)
    return f", where {spelt(name)} ({spelt(request.tool)}) is {'approved' if args.approve else 'denied'}"


async def check(args: argparse.Namespace, store: Store, key: Key) -> None:
    """Raises `UsageError` if there is no such point, the new id is taken, or feedback is for nobody."""
    from windlass.events.errors import UsageError
    from windlass.store.base import Key

    if args.feedback and not args.deny:
        raise UsageError("--feedback goes with --deny REQUEST")
    for request in (args.approve, args.deny):
        if request is not None and request.startswith("q"):
            raise UsageError(f"{request} is a question: use --reopen {request}, then 'windlass answer'")

    head = await store.log.head(key)
    if args.at is not None and head is not None and not 1 <= args.at <= head.seq:
        raise UsageError(f"--at {args.at}: session {key.session!r} has the records 1 to {head.seq}")
    if args.new is not None and await store.log.head(Key(args.tenant, args.new)) is not None:
        raise UsageError(f"session {args.new!r} exists already: give the fork another id with --as")
