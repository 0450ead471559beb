"""`windlass cost`: what sessions have used, one of them by model or all of a store."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import IndexRow

EXAMPLES = """examples:
  windlass cost                      what every session of the store has used, and the sum
  windlass cost march                one session with its children, by model
  windlass cost --json               for programs
"""
HEADS = {"input_tokens": "IN", "cached_tokens": "CACHED", "output_tokens": "OUT"}
OWN = "own_"
ONCE = "The sum counts each request once: a session's line has its children's too, a fork's what its origin had used."


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", nargs="?", help="one session (else all of the store)")
    options.add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    return asyncio.run(by_model(args) if args.session else by_session(args))


async def by_model(args: argparse.Namespace) -> int:
    """One session by model, with the children that it pays for."""
    from windlass.cli import stores
    from windlass.runtime.trees.tree_sums import sums_by_model

    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        sums = await sums_by_model(store, key)
    rows: list[dict[str, Any]] = [
        {
            "model": name,
            "requests": totals.requests,
            "input_tokens": totals.usage.input_tokens,
            "cached_tokens": totals.usage.cache_read_tokens,
            "output_tokens": totals.usage.output_tokens,
            "cost_nanos": totals.cost_nanos,
        }
        for name, totals in sums.items()
    ]
    print_costs(rows, "model", as_json=args.json, empty=f"session {key.session} has used no model yet")
    return 0


async def by_session(args: argparse.Namespace) -> int:
    """Every session of the store."""
    from windlass.cli import stores
    from windlass.cli.terminal.visible_text import spelt
    from windlass.store.base import Query

    async with stores.opened(args) as store:
        rows = [row_of(row) for row in await store.index.find(Query(tenant=args.tenant, limit=stores.FIND_MAX))]
    place = spelt(options.told_place(args))
    print_costs(rows, "session", as_json=args.json, empty=f"no session in {place} yet: nothing was spent")
    return 0


def row_of(row: IndexRow) -> dict[str, Any]:
    """What a session has used with those below it and before it, and the part of that which is its own."""
    return {
        "session": row.session,
        "agent": row.agent,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cost_nanos": row.cost_nanos,
        "own_input_tokens": row.input_tokens if row.own_input_tokens is None else row.own_input_tokens,
        "own_output_tokens": row.output_tokens if row.own_output_tokens is None else row.own_output_tokens,
        "own_cost_nanos": row.cost_nanos if row.own_cost_nanos is None else row.own_cost_nanos,
    }


def print_costs(rows: list[dict[str, Any]], what: str, *, as_json: bool, empty: str) -> None:
    """The rows as JSON or as a table with their sum, in which each request to a model counts once."""
    from windlass.cli.screen.number_words import dollars
    from windlass.cli.screen.tables import fitted
    from windlass.cli.terminal.text import put, screen_width, tell, tell_json

    if as_json:
        tell_json(rows)
        return
    if not rows:
        tell(empty)
        return
    names = [name for name in rows[0] if name != "cost_nanos" and not name.startswith(OWN)]
    cells = [[HEADS.get(name, name.upper()) for name in names] + ["COST"]]
    for row in rows:
        cells.append([shown(row[name]) for name in names] + [dollars(row["cost_nanos"])])
    if len(rows) > 1:
        sums = ["sum" if name == what else total(rows, name) for name in names]
        cells.append([*sums, dollars(sum(own(row, "cost_nanos") for row in rows))])
    numbers = [n for n, name in enumerate([*names, "cost"]) if name not in ("model", "session", "agent")]
    for line in fitted(cells, screen_width(), right=numbers):
        put(line)
    if any(own(row, name) != row[name] for row in rows for name in row if f"{OWN}{name}" in row):
        put(ONCE)


def shown(value: Any) -> str:
    from windlass.cli.terminal.visible_text import spelt

    return f"{value:,}" if isinstance(value, int) else spelt(str(value))


def own(row: dict[str, Any], name: str) -> Any:
    """A figure of a row as it goes into the sum."""
    return row.get(f"{OWN}{name}", row[name])


def total(rows: list[dict[str, Any]], name: str) -> str:
    values = [own(row, name) for row in rows]
    return f"{sum(values):,}" if all(isinstance(value, int) for value in values) else ""
