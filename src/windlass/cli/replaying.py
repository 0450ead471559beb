"""`windlass replay`: a session again from some point, with another model or policy, and what then went otherwise.

Tools and people are answered from the log, so that a replay has no effects unless it is told to.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace

from windlass.events.base import Event
from windlass.events.blocks import InputBlock
from windlass.events.errors import UsageError
from windlass.events.items import HistoryItem
from windlass.events.runs import PromptReceived
from windlass.events.sessions import InstructionsRendered
from windlass.kernel.render import render
from windlass.models.base import Model
from windlass.runtime.agent import Agent
from windlass.runtime.approvals import Approver
from windlass.store.base import Store

from . import commands, stores, words
from .agents import agent_of
from .recalling import described
from .recollecting import Recollecting, answering_from, lines_of, played, point_at, recorded, words_of
from .text import Paint, tell, tell_json, visible

NAME_MAX = 80


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(replay(args))


async def replay(args: argparse.Namespace) -> int:
    """Runs it again, and tells the difference. What an agent's own code prints is no part of its JSON."""
    with redirect_stdout(sys.stderr) if args.json else nullcontext():
        old, new, then, now = await lived_again(args)
    return report(args, old, new, then, now)


async def lived_again(args: argparse.Namespace) -> tuple[str, str, list[HistoryItem], list[HistoryItem]]:
    """Both sessions, and what each came to behind the point."""
    from_file = agent_of(args) if args.agent is not None else None
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        whole = await stores.folded(store, key)
        if not 0 <= args.at <= whole.at_seq:
            raise UsageError(f"--at {args.at}: session {key.session!r} has the records 1 to {whole.at_seq}")
        point = await point_at(store, key, args.at)
        prompts = prompts_behind(whole.events, point.rest_seq)
        if not prompts:
            raise UsageError(f"no prompt was given behind record {args.at}: there is nothing to run again")
        if args.live and point.said:
            raise UsageError(
                f"--at {args.at} lies within a run, and --live would make the calls before it again: leave one of "
                f"them out, or begin where the run does, with --at {point.rest_seq}"
            )
        agent = from_file or agent_of(args, described(whole))
        model = Recollecting(opened_model(agent), point.said)
        # Under its own name no other session is taken for one of this agent, whose tools may only play.
        agent = replace(agent, name=f"{agent.name[:NAME_MAX]} (replay)", model=model)
        if args.instructions is None:
            agent = replace(agent, instructions=told(whole, agent))
        if not args.live:
            agent = replace(agent, tools=[played(made, recorded(whole.events)) for made in agent.toolset])
        person = None if args.live else answering_from(words_of(whole.events))
        again = await run_again(store, agent, point.begun, prompts, person, args)
        then, now = items_of(whole)[len(point.begun) :], items_of(again)[len(point.begun) :]
    if model.strayed and not args.json:
        tell(f"it went otherwise before record {args.at} already: what was said then did not follow any more")
    return key.session, again.key.session, then, now


def opened_model(agent: Agent) -> Model:
    """The agent's own model, open."""
    if agent.model is None or isinstance(agent.model, str):
        from windlass.models.catalogue import open_model

        return open_model(agent.model)
    return agent.model


def told(found: stores.Folded, agent: Agent) -> str:
    """What the agent is told: its own instructions, with those that the session had from files of its folder."""
    event = found.events.get(found.state.instructions_seq)
    if isinstance(event, InstructionsRendered) and event.sources and event.body is not None:
        return event.body.text
    return agent.instructions


def prompts_behind(events: dict[int, Event], at_seq: int) -> list[tuple[InputBlock, ...]]:
    """What was said to the agent behind a record."""
    return [
        event.body.content
        for seq, event in events.items()
        if seq > at_seq and isinstance(event, PromptReceived) and event.body is not None
    ]


def items_of(found: stores.Folded) -> list[HistoryItem]:
    return render(found.state, found.event)


async def run_again(
    store: Store,
    agent: Agent,
    begun: list[HistoryItem],
    prompts: Iterable[tuple[InputBlock, ...]],
    person: Approver | None,
    args: argparse.Namespace,
) -> stores.Folded:
    """The new session, from the same history, given the same prompts, each to its end."""
    from windlass.runtime.runtime import Runtime

    notes = {"replay_of": str(args.session), "replay_at": str(args.at)}
    async with Runtime(store, agents=[agent], tenant=args.tenant, approver=person, take_up=False) as runtime:
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
        tell_json({"replayed": old, "session": new, "same": not changed, "before": before, "after": after})
        return int(changed)
    paint = Paint()
    for line in difflib.unified_diff(before, after, f"{old} (then)", f"{new} (now)", lineterm="", n=2):
        colour = "green" if line.startswith("+") else "red" if line.startswith("-") else ""
        print(paint(visible(line), colour))
    told = "it went otherwise" if changed else f"it went as before: {words.plural(len(now), 'item')}"
    tell(f"{told}; look at it with: windlass logs {commands.word(new)}{commands.at(args)}")
    return int(changed)
