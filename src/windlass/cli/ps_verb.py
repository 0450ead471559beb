"""`windlass ps`: the sessions of a store, what each does, what it waits for, how old it is, what it cost."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from windlass.store.base import IndexRow, Query, Store

from . import stores, words
from .text import Paint, is_terminal, one_line, visible, width_of

EXAMPLES = """examples:
  windlass ps                        every session, the one that changed last first
  windlass ps --waiting              only those that wait for a person
  windlass ps --agent clerk --json   for programs: one JSON array

states: running, asked (waits for a person or client), sleeping (until a time), idle, new
"""
STATES = ("new", "idle", "running", "asked", "sleeping", "parked")
COLOURS = {"running": "green", "asked": "yellow", "sleeping": "blue", "parked": "red"}
LIMIT = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    stores.add_store(parser)
    parser.add_argument("--state", choices=STATES, action="append", help="only sessions in this state (repeatable)")
    parser.add_argument("--waiting", action="store_true", help="short for --state asked")
    parser.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
    parser.add_argument("--text", metavar="WORDS", help="only sessions with this in their id, title or agent")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"how many at most ({LIMIT})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(show(args))


async def show(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        rows = await find(store, args)
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return 0
    if not rows:
        print(f"no session in {stores.place_of(args)} fits" if filtered(args) else "no session yet: 'windlass run'")
        return 0
    for line in table(rows, stores.now_ms(), width_of(sys.stdout) if is_terminal(sys.stdout) else 0):
        print(line)
    return 0


def filtered(args: argparse.Namespace) -> bool:
    return bool(args.state or args.waiting or args.agent or args.text)


async def find(store: Store, args: argparse.Namespace) -> list[IndexRow]:
    states = tuple(args.state or ()) + (("asked",) if args.waiting else ())
    query = Query(tenant=args.tenant, states=states, agent=args.agent, text=args.text, limit=max(1, args.limit))
    return await store.find(query)


def table(rows: list[IndexRow], now: int, width: int) -> list[str]:
    """The rows as text, cut to a screen where there is one."""
    paint = Paint()
    cells = [("SESSION", "STATE", "AGENT", "AGE", "COST", "WAITING FOR")]
    cells += [
        (
            visible(row.session),
            row.state,
            visible(row.agent) or "-",
            words.span(now - row.updated_ms) if row.updated_ms else "-",
            words.dollars(row.cost_nanos),
            waits(row, now),
        )
        for row in rows
    ]
    lines = words.table(cells)
    found = [one_line_of(line, width) for line in lines]
    return [found[0]] + [
        line.replace(f" {row.state} ", f" {paint(row.state, COLOURS.get(row.state, ''))} ", 1)
        for line, row in zip(found[1:], rows, strict=True)
    ]


def one_line_of(line: str, width: int) -> str:
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def waits(row: IndexRow, now: int) -> str:
    """What would make a session go on."""
    if row.waiting_for:
        return one_line(", ".join(row.waiting_for), 200)
    if row.next_wake_ms is not None:
        left = row.next_wake_ms - now
        return f"wakes in {words.span(left)}" if left > 0 else "was to wake: nobody drives it"
    if row.owed:
        return f"agent {visible(row.agent)!r} (whoever drives it)"
    return one_line(row.title, 60) if row.title else "-"
