"""`windlass replay`: a session again from some point, with another model or policy, and what then went otherwise.

Tools are answered from the log, so that a replay has no effects unless it is told to.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from windlass.events.base import Event
from windlass.events.blocks import InputBlock, plain_text
from windlass.events.calls import ToolFinished, ToolRequested
from windlass.events.errors import UsageError
from windlass.events.items import HistoryItem
from windlass.events.runs import PromptReceived
from windlass.kernel.render import render
from windlass.runtime.agent import Agent
from windlass.store.base import Store
from windlass.tools.canonical import digest
from windlass.tools.context import ToolError
from windlass.tools.tool import tool

from . import options, stores, words
from .agents import agent_of
from .inspecting import head_of, item_text
from .text import Paint, visible

NAME_MAX = 80
Recorded = dict[tuple[str, str], list[tuple[bool, str]]]
"""The results of calls by tool and arguments, in their order."""


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(replay(args, agent_of(args)))


async def replay(args: argparse.Namespace, agent: Agent) -> int:
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        whole = await stores.folded(store, key)
        if not 0 <= args.at <= whole.at_seq:
            raise UsageError(f"--at {args.at}: session {key.session!r} has the records 1 to {whole.at_seq}")
        before = await stores.folded(store, key, until=args.at) if args.at else None
        if before is not None and before.state.active:
            raise UsageError(f"--at {args.at} lies within a run: choose a record at which one has ended")
        prompts = prompts_behind(whole.events, args.at)
        if not prompts:
            raise UsageError(f"no prompt was given behind record {args.at}: there is nothing to run again")
        begun = render(before.state, before.event) if before is not None else []
        # Under its own name no other session is taken for one of this agent, whose tools may only play.
        agent = replace(agent, name=f"{agent.name[:NAME_MAX]} (replay)")
        if not args.live:
            agent = replace(agent, tools=[played(made, recorded(whole.events)) for made in agent.toolset])
        again = await run_again(store, agent, begun, prompts, args)
        then, now = items_of(whole)[len(begun) :], items_of(again)[len(begun) :]
    return report(args, key.session, again.key.session, then, now)


def prompts_behind(events: dict[int, Event], at_seq: int) -> list[tuple[InputBlock, ...]]:
    """What was said to the agent behind a record."""
    return [
        event.body.content
        for seq, event in events.items()
        if seq > at_seq and isinstance(event, PromptReceived) and event.body is not None
    ]


def items_of(found: stores.Folded) -> list[HistoryItem]:
    return render(found.state, found.event)


def recorded(events: dict[int, Event]) -> Recorded:
    """What each call got, by tool and arguments."""
    asked = {event.call_id: event for event in events.values() if isinstance(event, ToolRequested)}
    found: Recorded = {}
    for event in events.values():
        call = asked.get(event.call_id) if isinstance(event, ToolFinished) else None
        if isinstance(event, ToolFinished) and call is not None and call.body is not None and event.body is not None:
            name = (call.tool, digest(call.body.args or {}))
            found.setdefault(name, []).append((event.ok, plain_text(event.body.content)))
    return found


def played(made: Any, results: Recorded) -> Any:
    """A tool that answers from the recording and has no effects. Kernel tools and the like stay what they are."""
    if made.function is None:
        return made
    left = {name: list(found) for name, found in results.items()}

    def answer(**args: Any) -> str:
        waiting = left.get((made.name, digest(args)))
        if not waiting:
            raise ToolError("this call was not made in the recorded session, and tools do not run in a replay")
        ok, text = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if not ok:
            raise ToolError(text)
        return text

    answer.__name__ = made.name
    return tool(
        name=made.name,
        description=made.description,
        parameters=made.parameters.schema,
        contract="pure",
        kind=made.options.kind,
        traits=made.options.traits,
        alias=made.options.alias,
    )(answer)


async def run_again(
    store: Store,
    agent: Agent,
    begun: list[HistoryItem],
    prompts: Iterable[tuple[InputBlock, ...]],
    args: argparse.Namespace,
) -> stores.Folded:
    """The new session, from the same history, given the same prompts, each to its end."""
    from windlass.runtime.runtime import Runtime

    notes = {"replay_of": str(args.session), "replay_at": str(args.at)}
    async with Runtime(store, agents=[agent], tenant=args.tenant) as runtime:
        session = await runtime.session(agent, args.new, title="a replay", metadata=notes, history=begun)
        for content in prompts:
            await session.prompt(content)
            await session.result()
        return await stores.folded(store, session.key)


def report(args: argparse.Namespace, old: str, new: str, then: list[HistoryItem], now: list[HistoryItem]) -> int:
    """Prints the difference of two histories; the exit code says whether there is one."""
    before, after = lines_of(then), lines_of(now)
    changed = before != after
    if args.json:
        import json

        print(json.dumps({"replayed": old, "session": new, "same": not changed, "before": before, "after": after}))
        return int(changed)
    paint = Paint()
    for line in difflib.unified_diff(before, after, f"{old} (then)", f"{new} (now)", lineterm="", n=2):
        colour = "green" if line.startswith("+") else "red" if line.startswith("-") else ""
        print(paint(visible(line), colour))
    told = "it went otherwise" if changed else f"it went as before: {words.plural(len(now), 'item')}"
    at = f" --store {args.store}" if args.store else ""
    print(f"{told}; look at it with: windlass logs {visible(new)}{at} (in {options.place_of(args)})")
    return int(changed)


def lines_of(items: list[HistoryItem]) -> list[str]:
    """A history as lines that can be compared: who says what, without places in a log."""
    found: list[str] = []
    for item in items:
        found.append(head_of(item).partition("] ")[2])
        found += [f"  {line}" for line in item_text(item).splitlines()]
    return found
