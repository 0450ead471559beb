"""`windlass cost`: what sessions have used, one of them by model or all of a store."""

from __future__ import annotations

import argparse
from typing import Any

from windlass.cli import options

EXAMPLES = """examples:
  windlass cost                      what every session of the store has used, and the sum
  windlass cost march                one session with its children, by model
  windlass cost --json               for programs
"""
HEADS = {"input_tokens": "IN", "cached_tokens": "CACHED", "output_tokens": "OUT"}


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
        rows = [
            {
                "session": row.session,
                "agent": row.agent,
                "input_tokens": row.input_tokens,
                "output_tokens": row.output_tokens,
                "cost_nanos": row.cost_nanos,
            }
            for row in await store.index.find(Query(tenant=args.tenant, limit=stores.FIND_MAX))
        ]
    place = spelt(options.told_place(args))
    print_costs(rows, "session", as_json=args.json, empty=f"no session in {place} yet: nothing was spent")
    return 0


def print_costs(rows: list[dict[str, Any]], what: str, *, as_json: bool, empty: str) -> None:
    """The rows as JSON or as a table with their sum."""
    from windlass.cli.screen.number_words import dollars
    from windlass.cli.screen.tables import fitted
    from windlass.cli.terminal.text import put, screen_width, tell, tell_json

    if as_json:
        tell_json(rows)
        return
    if not rows:
        tell(empty)
        return
    names = [name for name in rows[0] if name != "cost_nanos"]
    cells = [[HEADS.get(name, name.upper()) for name in names] + ["COST"]]
    for row in rows:
        cells.append([shown(row[name]) for name in names] + [dollars(row["cost_nanos"])])
    if len(rows) > 1:
        sums = ["sum" if name == what else total(rows, name) for name in names]
        cells.append([*sums, dollars(sum(row["cost_nanos"] for row in rows))])
    numbers = [n for n, name in enumerate([*names, "cost"]) if name not in ("model", "session", "agent")]
    for line in fitted(cells, screen_width(), right=numbers):
        put(line)


def shown(value: Any) -> str:
    from windlass.cli.terminal.visible_text import spelt

    return f"{value:,}" if isinstance(value, int) else spelt(str(value))


def total(rows: list[dict[str, Any]], name: str) -> str:
    values = [row[name] for row in rows]
    return f"{sum(values):,}" if all(isinstance(value, int) for value in values) else ""
