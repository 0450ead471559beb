"""`windlass show` and `windlass cost`: one session, or what sessions have used, at a glance."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import msgspec

from windlass.events.permissions import PermissionRequested
from windlass.events.questions import QuestionRequested
from windlass.events.turns import ModelFailed
from windlass.kernel.owed import overview
from windlass.kernel.state import State
from windlass.store.base import Key, Query, Store

from . import asking, commands, options, stores, words
from .text import Paint, one_line, screen_width, tell, tell_json, visible

LABEL_WIDTH = 9
WHY_CHARS_MAX = 400
HEADS = {"input_tokens": "IN", "cached_tokens": "CACHED", "output_tokens": "OUT"}


def run(args: argparse.Namespace) -> int:
    """Does it."""
    if args.verb == "show":
        return asyncio.run(show(args))
    return asyncio.run(cost(args) if args.session else costs(args))


async def show(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        found = await stores.folded(store, key)
        waiting = await store.inbox(key)
        forks = await store.forks(key)
        holder = await stores.holder_of(store, key)
    if args.json:
        plain = msgspec.to_builtins(overview(found.state))
        plain |= {"session": key.session, "seq": found.state.seq, "inbox": len(waiting), "forks": forks}
        plain |= {"held": holder is not None, "holder": stores.plain_holder(holder)}
        plain |= {"open": [msgspec.to_builtins(ask) for ask in found.state.asks.values()]}
        tell_json(plain)
        return 0
    driver = stores.driver(holder) if holder is not None else ""
    for line in about(key, found, driver=driver, inbox=len(waiting), forks=forks):
        tell(line, indent=" " * LABEL_WIDTH)
    asked = open_questions(found, commands.at(args))
    for line in asked or ["", *how_to_go_on(found.state, key.session, args, held=bool(driver))]:
        print(line)
    return 0


def about(key: Key, found: stores.Folded, *, driver: str, inbox: int, forks: list[str]) -> list[str]:
    """The session in a few lines. `driver` is whoever has it now, in words."""
    view = overview(found.state)
    state = found.state
    rows = [
        ("session", f"{visible(key.session)}{f'  “{one_line(view.title, 48)}”' if view.title else ''}"),
        ("state", state_of(state, driver)),
        ("agent", f"{visible(view.agent)}   model {visible(state.model.name)}   mode {state.mode}"),
        ("tools", ", ".join(map(visible, state.tools)) or "none"),
        ("log", f"{words.plural(state.seq, 'record')}, {words.plural(state.turns, 'turn')}"),
        ("used", f"{words.tokens(state.spent.usage)} (tokens), {words.dollars(state.spent.cost_nanos)}"),
        ("begun", words.moment(view.created_ms)),
        ("changed", words.moment(view.updated_ms)),
    ]
    if view.waiting_for == ("credentials",):
        rows.insert(2, ("why", refused(found)))
    if driver and not state.active:
        rows.append(("open in", driver))
    if view.next_wake_ms is not None:
        rows.append(("wakes", words.moment(view.next_wake_ms)))
    if state.queue:
        rows.append(("queue", words.plural(len(state.queue), "prompt") + " waiting"))
    if inbox:
        rows.append(("inbox", words.plural(inbox, "command") + " that nobody has taken yet"))
    if forks:
        rows.append(("forks", ", ".join(map(visible, forks))))
    return words.table(rows)


def refused(found: stores.Folded) -> str:
    """What the provider, or whoever looked for a key, said last."""
    said = [event.failure.message for event in found.events.values() if isinstance(event, ModelFailed)]
    return one_line(said[-1], WHY_CHARS_MAX) if said else "the provider takes no request without a key"


def state_of(state: State, driver: str) -> str:
    """What it does, and where it rests, why."""
    view = overview(state)
    if view.waiting_for:
        return f"{view.state}: waits for {', '.join(map(visible, view.waiting_for))}"
    if state.resumable and view.state == "idle":
        return "idle: its last run was stopped and may go on"
    if state.active:
        return f"{view.state}: {f'{driver} drives it now' if driver else 'cut off, and nobody drives it now'}"
    return view.state


def how_to_go_on(state: State, session: str, args: argparse.Namespace, *, held: bool) -> list[str]:
    """The command that makes a session go on which waits for nobody."""
    run = f"  {commands.run_of(state.agent.name, session, args)}"
    name, at = commands.word(session), commands.at(args)
    if state.active:
        return [f"  windlass logs {name} -f{at}"] if held else [run]
    if overview(state).waiting_for == ("credentials",):
        return [run]
    if state.resumable or state.timers or state.queue:
        return [f"  windlass wake {name}{at}", run]
    return [f"{run} 'what to do now'"]


def open_questions(found: stores.Folded, at: str) -> list[str]:
    """What waits for a person, whole, and the commands that answer it."""
    paint, lines = Paint(), []
    for ask in found.state.asks.values():
        event = found.event(ask.seq)
        lines.append("")
        if isinstance(event, PermissionRequested):
            lines += asking.permission_lines(event, paint)
        elif isinstance(event, QuestionRequested):
            lines += asking.question_lines(event, paint)
        lines += asking.how_to_answer(found.key.session, ask.ask_id, ask.kind, at)
    for call in found.state.calls.values():
        if call.status == "unknown":
            settle = f"  windlass settle {commands.word(found.key.session)} {call.call_id}"
            lines += ["", f"the outcome of {visible(call.tool)} [{call.call_id}] is unknown; say what happened with"]
            lines += [f"{settle} {outcome}{at}" for outcome in ("happened", "did_not_happen", "run_again")]
    return lines


async def cost(args: argparse.Namespace) -> int:
    """One session by model."""
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        state = (await stores.folded(store, key)).state
    rows: list[dict[str, Any]] = [
        {
            "model": name,
            "requests": totals.requests,
            "input_tokens": totals.usage.input_tokens,
            "cached_tokens": totals.usage.cache_read_tokens,
            "output_tokens": totals.usage.output_tokens,
            "cost_nanos": totals.cost_nanos,
        }
        for name, totals in state.totals.items()
    ]
    print_costs(rows, "model", as_json=args.json, empty=f"session {key.session} has used no model yet")
    return 0


async def costs(args: argparse.Namespace) -> int:
    """Every session of the store."""
    place = visible(options.place_of(args))
    async with stores.opened(args) as store:
        rows = [
            {
                "session": row.session,
                "agent": row.agent,
                "input_tokens": row.input_tokens,
                "output_tokens": row.output_tokens,
                "cost_nanos": row.cost_nanos,
            }
            for row in await every(store, args.tenant)
        ]
    print_costs(rows, "session", as_json=args.json, empty=f"no session in {place} yet: nothing was spent")
    return 0


async def every(store: Store, tenant: str) -> list[Any]:
    return await store.find(Query(tenant=tenant, limit=stores.FIND_MAX))


def print_costs(rows: list[dict[str, Any]], what: str, *, as_json: bool, empty: str) -> None:
    if as_json:
        tell_json(rows)
        return
    if not rows:
        tell(empty)
        return
    names = [name for name in rows[0] if name != "cost_nanos"]
    cells = [[HEADS.get(name, name.upper()) for name in names] + ["COST"]]
    for row in rows:
        cells.append([shown(row[name]) for name in names] + [words.dollars(row["cost_nanos"])])
    if len(rows) > 1:
        sums = ["sum" if name == what else total(rows, name) for name in names]
        cells.append([*sums, words.dollars(sum(row["cost_nanos"] for row in rows))])
    numbers = [n for n, name in enumerate([*names, "cost"]) if name not in ("model", "session", "agent")]
    for line in words.fitted(cells, screen_width(), right=numbers):
        print(line)


def shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def total(rows: list[dict[str, Any]], name: str) -> str:
    values = [row[name] for row in rows]
    return f"{sum(values):,}" if all(isinstance(value, int) for value in values) else ""
