"""`windlass ps`: the sessions of a store, what each does, what it waits for, how old it is, what it cost."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from windlass.store.base import IndexRow, Query, Store

from . import options, stores, words
from .text import Paint, is_terminal, one_line, visible, width_of

COLOURS = {"running": "green", "asked": "yellow", "sleeping": "blue", "parked": "red"}


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
        print(f"no session in {options.place_of(args)} fits" if filtered(args) else "no session yet: 'windlass run'")
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
