"""A session run again from some point, with another model or policy, and what it then came to.

Tools and people are answered from the log, so that a replay has no effects unless it is told to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as changed

import msgspec

from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import UsageError
from windlass.events.values.setup import SessionOptions
from windlass.events.workspace import InstructionsRendered
from windlass.models.base import Model
from windlass.runtime.api.agent import Agent
from windlass.runtime.streams.blob_reader import blob_reader
from windlass.store.base import Store

from .comparison import Comparison, compare
from .inspection import instructions_of
from .log_point import Point, read_point
from .recorded_model import RecordedModel, Start, read_start
from .recorded_person import answers_of, recorded_person
from .recorded_tools import recorded_tool, results_of

NAME_MAX = 80


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Two sessions, the one that was replayed and the new one, and what each came to behind the point."""

    replayed: str
    session: str
    comparison: Comparison
    items: int
    """How many items the new session has behind the point."""
    strayed: bool
    """Whether it went differently before the point already, so that what was said then did not follow any more."""


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is to be run again."""

    at_seq: int = 0
    """Behind which record; 0 is the beginning."""
    session_id: str | None = None
    """The id of the new session."""
    live: bool = False
    """Whether tools really run and people are really asked."""
    own_instructions: bool = False
    """Whether the agent is told its own instructions alone, without what the session had from files of its folder."""


class WithinRun(UsageError):
    """A live replay would have to begin within a run. `rest_seq` is the record behind which it could begin."""

    def __init__(self, at_seq: int, rest_seq: int) -> None:
        self.rest_seq = rest_seq
        super().__init__(
            f"record {at_seq} lies within a run, and a live replay would make the calls before it again: begin where "
            f"the run does, behind record {rest_seq}"
        )


async def replay(store: Store, whole: Point, agent: Agent, plan: ReplayPlan) -> Replay:
    """Runs a session again, given what it is as a whole. Raises `UsageError` if there is nothing to run again, and
    `WithinRun`."""
    start = await read_start(store, whole.key, plan.at_seq)
    prompts = prompts_behind(whole, start.rest_seq)
    if not prompts:
        raise UsageError(f"no prompt was given behind record {plan.at_seq}: there is nothing to run again")
    if plan.live and start.replies:
        raise WithinRun(plan.at_seq, start.rest_seq)
    model = RecordedModel(opened_model(agent), start.replies)
    again = await run_again(store, whole, replayed_agent(store, whole, agent, model, plan), prompts, start, plan)
    before, after = whole.items()[len(start.items) :], again.items()[len(start.items) :]
    return Replay(
        replayed=whole.key.session,
        session=again.key.session,
        comparison=compare(before, after),
        items=len(after),
        strayed=model.strayed,
    )


def replayed_agent(store: Store, whole: Point, agent: Agent, model: Model, plan: ReplayPlan) -> Agent:
    """The agent of the new session. Under its own name no other session is taken for one of this agent, whose tools
    may only play."""
    agent = changed(agent, name=f"{agent.name[:NAME_MAX]} (replay)", model=model)
    if not plan.own_instructions:
        agent = changed(agent, instructions=told(whole, agent))
    if not plan.live:
        results, fetch = results_of(whole.events), blob_reader(store, whole.key.tenant)
        agent = changed(agent, tools=[recorded_tool(made, results, fetch) for made in agent.toolset])
    return agent


def opened_model(agent: Agent) -> Model:
    """The agent's own model, open."""
    if agent.model is None or isinstance(agent.model, str):
        from windlass.models.catalogue.names import open_model

        return open_model(agent.model)
    return agent.model


def told(whole: Point, agent: Agent) -> str:
    """What the agent is told: its own instructions, with those that the session had from files of its folder."""
    event = whole.events.get(whole.state.workspace.instructions_seq)
    from_files = isinstance(event, InstructionsRendered) and bool(event.sources) and event.body is not None
    return instructions_of(whole) if from_files else agent.instructions


def prompts_behind(point: Point, seq: int) -> list[PromptBody]:
    """What was said to the agent behind a record, with what was attached to it, as it was read then."""
    return [
        event.body
        for at, event in point.events.items()
        if at > seq and isinstance(event, PromptReceived) and event.body is not None
    ]


async def run_again(
    store: Store,
    whole: Point,
    agent: Agent,
    prompts: Iterable[PromptBody],
    start: Start,
    plan: ReplayPlan,
) -> Point:
    """The new session, from the same history, given the same prompts, each to its end."""
    from windlass.runtime.api.runtime import Runtime

    key = whole.key
    person = None if plan.live else recorded_person(answers_of(whole.events))
    options = SessionOptions(sandbox=whole.state.setup.options.sandbox if plan.live else None)
    notes = {"replay_of": key.session, "replay_at": str(plan.at_seq)}
    async with Runtime(store, agents=[agent], tenant=key.tenant, approver=person, take_up=False) as runtime:
        session = await runtime.session(
            agent, plan.session_id, title="a replay", metadata=notes, history=start.items, options=options
        )
        for said in prompts:  # as it is: nothing that was attached is read again
            await runtime.send(
                session.key, PromptReceived(command_id=runtime.ports.fresh_id(), actor="user", body=said)
            )
            await session.result()
        return await read_point(store, session.key)
