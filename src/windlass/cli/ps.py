"""`windlass ps`: the sessions of a store, what each does, what it waits for, how old it is, what it cost."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.store.base import Holder, IndexRow, Query

from . import options, stores, words
from .text import Paint, cells, hung, one_line, screen_width, tell, tell_json, visible

HEAD = ("SESSION", "STATE", "AGENT", "AGE", "COST")
DRIVER = "DRIVEN BY"
"""A column that is there only where somebody drives something."""
REST = ("WAITING FOR", "TITLE")
NOTHING = "-"
TITLE_CHARS = (60, 40, 20)
"""How much of a title is shown: the first that fits beside the rest."""
COLOURS = {"running": "green", "asked": "yellow", "sleeping": "blue", "parked": "red"}


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(show(args))


async def show(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise UsageError(f"--limit {args.limit}: give a number of at least 1")
    async with stores.opened(args) as store:
        query = query_of(args)
        rows = await store.find(query)
        holders = await stores.holders_of(store, rows)
    if args.json:
        tell_json([plain_row(row, holders.get(row.session)) for row in rows])
        return 0
    if not rows:
        tell(none(args))
        return 0
    drivers = {session: stores.driver(holder) for session, holder in holders.items()}
    for line in table(rows, drivers, stores.now_ms(), screen_width()):
        print(line)
    if len(rows) == args.limit:
        tell(f"the {words.plural(args.limit, 'session')} that changed last; --limit shows more")
    return 0


def plain_row(row: IndexRow, holder: Holder | None) -> dict[str, Any]:
    """A row for programs."""
    return {**msgspec.to_builtins(row), "held": holder is not None, "holder": stores.plain_holder(holder)}


def none(args: argparse.Namespace) -> str:
    place = visible(options.place_of(args))
    if filtered(args):
        return f"no session in {place} fits: 'windlass ps' lists all of them"
    return f"no session in {place} yet: begin one with 'windlass run' or 'windlass chat'"


def filtered(args: argparse.Namespace) -> bool:
    return bool(args.state or args.waiting or args.agent or args.text)


def query_of(args: argparse.Namespace) -> Query:
    states = tuple(args.state or ()) + (("asked",) if args.waiting else ())
    return Query(tenant=args.tenant, states=states, agent=args.agent, text=args.text, limit=args.limit)


def table(rows: list[IndexRow], drivers: dict[str, str], now: int, width: int) -> list[str]:
    """The rows as text. Where they are wider than the screen, titles are cut; where that is not enough, who drives a
    session, what it waits for and its title stand beneath it."""
    paint = Paint()
    head = (*HEAD, *((DRIVER,) if drivers else ()), *REST)
    for most in TITLE_CHARS:
        lines = words.table([head, *(cells_of(row, drivers, now, most) for row in rows)])
        if max(map(cells, lines)) <= width:
            return [lines[0], *(painted(line, row, paint) for line, row in zip(lines[1:], rows, strict=True))]
    short = words.table([HEAD, *(cells_of(row, {}, now, 0)[: len(HEAD)] for row in rows)])
    if max(map(cells, short)) > width:
        return [line for row in rows for line in by_itself(row, drivers, now, width)]
    found = [short[0]]
    for line, row in zip(short[1:], rows, strict=True):
        found.append(painted(line, row, paint))
        found += [piece for more in beneath(row, drivers, now) for piece in hung(more, width, "    ")]
    return found


def by_itself(row: IndexRow, drivers: dict[str, str], now: int, width: int) -> list[str]:
    """A session on a screen that has no room for columns."""
    name, *rest = cells_of(row, {}, now, 0)[: len(HEAD)]
    lines = [f"  {' · '.join(rest)}", *beneath(row, drivers, now)]
    return [name, *(piece for line in lines for piece in hung(line, width, "    "))]


def cells_of(row: IndexRow, drivers: dict[str, str], now: int, title: int) -> tuple[str, ...]:
    return (
        visible(row.session),
        row.state,
        visible(row.agent) or NOTHING,
        words.span(now - row.updated_ms) if row.updated_ms else NOTHING,
        words.dollars(row.cost_nanos),
        *((drivers.get(row.session, NOTHING),) if drivers else ()),
        waits(row, drivers, now) or NOTHING,
        one_line(row.title, title) if row.title and title else NOTHING,
    )


def beneath(row: IndexRow, drivers: dict[str, str], now: int) -> list[str]:
    """What does not fit beside a session."""
    title = [f"  “{one_line(row.title, TITLE_CHARS[0])}”"] if row.title else []
    driven = [f"  driven by {drivers[row.session]}"] if row.session in drivers else []
    waiting = waits(row, drivers, now)
    return title + driven + ([f"  waits for {waiting}"] if waiting else [])


def painted(line: str, row: IndexRow, paint: Paint) -> str:
    return line.replace(f" {row.state} ", f" {paint(row.state, COLOURS.get(row.state, ''))} ", 1)


def waits(row: IndexRow, drivers: dict[str, str], now: int) -> str:
    """What would make a session go on; empty where nothing is awaited."""
    if row.waiting_for:
        return one_line(", ".join(row.waiting_for), 200)
    if row.next_wake_ms is not None:
        left = row.next_wake_ms - now
        return f"its time, in {words.span(left)}" if left > 0 else "its time has come: whoever drives it"
    if row.owed and row.session not in drivers:
        return f"whoever runs {visible(row.agent)!r} (cut off)"
    return ""
