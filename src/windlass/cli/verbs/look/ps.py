"""`windlass ps`: list sessions: what each does, what it waits for, how old it is, what it cost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Holder, IndexRow, Query, Store

EXAMPLES = """examples:
  windlass ps                        every session, the one that changed last first
  windlass ps --waiting              only those that rest until a person answers, each tree by its root
  windlass ps --agent clerk --json   for programs: one JSON array
  windlass ps --tree                 each session below the one that started it, and what each waits for
  windlass ps --tree --svg           the same drawn; --mermaid gives it as Mermaid text

states: running, asked (waits for a person or client), sleeping (until a time), idle, new,
left (handed over: it goes on elsewhere, 'windlass show' says where),
parked (its process died on it too often; 'windlass wake' tries again; a child session has failed by that)
with --tree: ready (nobody does it yet), running, blocked (waits for a person, client or child),
suspended (until a time, or until somebody wakes it), done (and how it ended)
A workflow says how many of its nodes have ended, a state machine which state it is in ("stands" in --json).
What has an answer in the inbox is marked "answered": the session goes on when its agent is run.
"""

STATES = ("new", "idle", "running", "asked", "sleeping", "left", "parked")

LIMIT = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_store(parser)
    parser.add_argument("--state", choices=STATES, action="append", help="only sessions in this state (repeatable)")
    parser.add_argument(
        "--waiting", action="store_true", help="those that rest until a person answers, them or one below them"
    )
    parser.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
    parser.add_argument("--text", metavar="WORDS", help="only sessions with this in their id, title or agent")
    parser.add_argument("--tree", action="store_true", help="whole trees, child sessions below their parents")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"how many at most ({LIMIT})")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of a table")
    form.add_argument("--svg", action="store_true", help="with --tree: draw the trees as SVG")
    form.add_argument("--mermaid", action="store_true", help="with --tree: draw them as Mermaid text")
    form.add_argument("--ids", action="store_true", help="print only the ids, one per line")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    return asyncio.run(ps(args))


async def ps(args: argparse.Namespace) -> int:
    """Prints them."""
    import sys

    from windlass.cli import stores
    from windlass.cli.screen.lease_holders import driver
    from windlass.cli.screen.number_words import plural
    from windlass.cli.screen.ps_table import marked, table, with_jobs
    from windlass.cli.terminal.text import put, screen_width, tell, tell_json
    from windlass.events.errors import UsageError
    from windlass.runtime.operate.disk_room import no_room
    from windlass.runtime.operate.lease_holder import holders_of
    from windlass.runtime.operate.open_requests import answers_of_rows
    from windlass.runtime.operate.session_jobs import job_counts

    if args.limit < 1:
        raise UsageError(f"--limit {args.limit}: give a number of at least 1")
    if (args.svg or args.mermaid) and not args.tree:
        raise UsageError("what is to be drawn? windlass ps --tree --svg")
    if args.tree:
        return await tree(args)
    async with stores.opened(args) as store:
        query = query_of(args)
        rows = await waiting(store, query) if args.waiting else await store.index.find(query)
        holders, answers = await holders_of(store, rows), await answers_of_rows(store, rows)
        jobs = await job_counts(store, rows, options.place_of(args))
    full = no_room(options.place_of(args))
    if full:
        put(full, sys.stderr)
    if args.ids:
        for row in rows:
            put(row.session)
        return 0
    if args.json:
        tell_json(
            [
                plain_row(row, holders.get(row.session), answers.get(row.session, {}), jobs.get(row.session, 0))
                for row in rows
            ]
        )
        return 0
    if not rows:
        tell(none(args))
        return 0
    drivers = {session: driver(holder) for session, holder in holders.items()}
    for line in table(with_jobs(marked(rows, answers), jobs), drivers, stores.now_ms(), screen_width()):
        put(line)
    if len(rows) == args.limit:
        tell(f"the {plural(args.limit, 'session')} that changed last; --limit shows more")
    return 0


async def waiting(store: Store, query: Query) -> list[IndexRow]:
    """The sessions that fit a query and wait for people, or one below them does: the agent and the words that are asked
    for are theirs. Only roots are named, since what is asked below one is answered there."""
    import msgspec

    from windlass.runtime.operate.open_requests import roots_of
    from windlass.runtime.trees.tree_rows import TREE_MAX
    from windlass.store.base import Query
    from windlass.store.rules.index_query import matches

    rows = await store.index.find(Query(tenant=query.tenant, states=query.states, limit=TREE_MAX))
    anyhow = msgspec.structs.replace(query, states=())
    return [row for row in await roots_of(store, rows) if matches(anyhow, row)][: query.limit]


async def tree(args: argparse.Namespace) -> int:
    """Prints the trees of the sessions that fit, each from its root on."""
    import msgspec

    from windlass.cli import stores
    from windlass.cli.screen.ps_tree import tree_lines
    from windlass.cli.terminal.text import put, screen_width, tell, tell_json
    from windlass.runtime.operate.process_table import process_table
    from windlass.runtime.trees.tree_rows import root_of
    from windlass.store.base import Key

    async with stores.opened(args) as store:
        roots = dict.fromkeys(root_of(row.session) for row in await store.index.find(query_of(args)))
        processes = [process for root in roots for process in await process_table(store, Key(args.tenant, root))]
    if processes and (args.svg or args.mermaid):
        from windlass.cli.screen.graphs import tree_diagram

        for line in (tree_diagram.svg if args.svg else tree_diagram.mermaid)(processes).splitlines():
            put(line)
    elif args.ids:
        for process in processes:
            put(process.session)
    elif args.json:
        tell_json([msgspec.to_builtins(process) for process in processes])
    elif not processes:
        tell(none(args))
    else:
        for line in tree_lines(processes, screen_width()):
            put(line)
    return 0


def query_of(args: argparse.Namespace) -> Query:
    from windlass.store.base import Query

    states = tuple(args.state or ()) + (("asked",) if args.waiting else ())
    return Query(tenant=args.tenant, states=states, agent=args.agent, text=args.text, limit=args.limit)


def plain_row(row: IndexRow, holder: Holder | None, answers: dict[str, str], jobs: int) -> dict[str, Any]:
    """A row for programs: every column, also where it says nothing."""
    import msgspec

    from windlass.cli.screen.lease_holders import plain_holder

    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.asdict(row))
    return {**plain, "held": holder is not None, "holder": plain_holder(holder), "answers": answers, "jobs": jobs}


def none(args: argparse.Namespace) -> str:
    """What is said if there is none to list."""
    from windlass.cli.terminal.visible_text import spelt

    place = spelt(options.told_place(args))
    if args.state or args.waiting or args.agent or args.text:
        return f"no session in {place} fits: 'windlass ps' lists all of them"
    return f"no session in {place} yet: begin one with 'windlass run' or 'windlass chat'"
