"""What a session is set up to be: agent, model, settings, mode, title. Changed by commands, and at each resume by what
the agent's code says otherwise than before.

    change.received ──▶ model | mode | title | metadata | settings changed    (task, pins, grants: see their parts)
    change.received ──▶ agent selected | deselected, at rest ──▶ session.resumed, by an owner with that code
    session.resumed ──▶ the same, agent.changed and toolset.changed, if the code that is bound now differs
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from windlass.events.changes import (
    AgentDeselected,
    AgentSelected,
    ChangeAgent,
    ChangeGrants,
    ChangeMetadata,
    ChangeMode,
    ChangeModel,
    ChangePins,
    ChangeReceived,
    ChangeSettings,
    ChangeTask,
    ChangeTitle,
    LimitsChanged,
    MetadataChanged,
    ModeChanged,
    ModelChanged,
    PolicyChanged,
    SettingsChanged,
    TitleChanged,
)
from windlass.events.context import PinsChanged
from windlass.events.errors import Refused
from windlass.events.sessions import AgentChanged, SessionForked, SessionImported, SessionResumed, SessionStarted
from windlass.events.tasks import TaskChanged
from windlass.events.tools.permissions import GrantsChanged
from windlass.events.values.models import ModelRef
from windlass.events.values.policy import WorkMode
from windlass.events.values.settings import Settings
from windlass.events.values.setup import AgentRef, Chosen, Routing, SessionOptions, Terms
from windlass.kernel.part import Decisions, Part, Row, bounded
from windlass.kernel.parts import queue, tasks
from windlass.kernel.parts.context import history, prefix
from windlass.kernel.parts.tools import gate, labels, toolset
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.state import State


METADATA_MAX = 128
METADATA_CHARS_MAX = 4_096
TITLE_CHARS_MAX = 200


UNBOUND = Terms(model=ModelRef(name=""))
"""The terms of a session to which no agent has been bound yet."""


class CurrentSetup(msgspec.Struct, kw_only=True, gc=False):
    """What the session is set up to be, as it stands now."""

    agent: AgentRef = AgentRef(name="")
    model: ModelRef = ModelRef(name="")
    settings: Settings = Settings()
    terms: Terms = UNBOUND
    """What the agent's code said when the session was last bound to it."""
    mode: WorkMode = "interactive"
    routing: Routing = "agent"
    title: str = ""
    metadata: dict[str, str] = {}
    options: SessionOptions = SessionOptions()
    """What it has otherwise than the agent's code says, without content."""
    next_agent: ChangeAgent | None = None
    """Who is to run it once the run that goes on has ended."""
    knowledge_tokens: int = 0
    seq: int = 0
    """The record whose content tells the setup."""


def session_started(state: State, event: SessionStarted) -> None:
    given = event.setup
    state.setup = CurrentSetup(
        agent=given.agent,
        model=given.model,
        settings=given.settings,
        terms=Terms(
            model=given.model,
            policy=given.policy,
            limits=given.limits,
            run_limits=given.run_limits,
            settings=given.settings,
            mode=given.mode,
        ),
        mode=given.mode,
        routing=given.routing,
        title=event.title,
        metadata=dict(event.metadata),
        options=given.options,
        knowledge_tokens=event.knowledge_tokens,
        seq=state.seq,
    )


def session_resumed(state: State, event: SessionResumed) -> None:
    if event.tools is not None:  # its content tells of them; the content itself may be erased by now
        state.setup.seq = state.seq
    if event.options is not None:
        if event.options.sandbox != state.setup.options.sandbox:
            gate.sandbox_changed(state)
        selected(state, event.options.specialist)
        state.setup.options = event.options
    if event.knowledge_tokens is not None and event.knowledge_tokens != state.setup.knowledge_tokens:
        state.setup.knowledge_tokens = event.knowledge_tokens
        prefix.differs(state, "instructions")


def session_forked(state: State, event: SessionForked) -> None:
    """What the origin came to be held to is as if it had been said of this session; its mode is a change of its own."""
    state.setup.next_agent = None
    if event.held is None:
        return
    before, held = state.setup.options, event.held
    if held.sandbox is not None and held.sandbox != before.sandbox:
        gate.sandbox_changed(state)
    state.setup.options = msgspec.structs.replace(
        before,
        policy=held.policy or before.policy,
        quarantine=held.quarantine or before.quarantine,
        sandbox=held.sandbox or before.sandbox,
        isolation=held.isolation or before.isolation,
    )
    if held.specialist is not None:
        selected(state, held.specialist)


def session_imported(state: State, event: SessionImported) -> None:
    state.setup.next_agent = None
    # Where its commands run belongs to what they may do: an import must not let them out.
    if not event.moved:
        state.setup.options = SessionOptions(sandbox=state.setup.options.sandbox)
    state.setup.agent = msgspec.structs.replace(state.setup.agent, digest="")
    state.setup.terms = UNBOUND  # what the agent says here is all news


def agent_changed(state: State, event: AgentChanged) -> None:
    state.setup.agent = event.agent


def change_received(state: State, event: ChangeReceived) -> None:
    """The last word counts: who is wanted already, or again, need not be selected."""
    change = event.change
    if isinstance(change, ChangeAgent):
        now = state.setup.options.specialist
        wanted = Chosen(name=change.agent, only_reads=change.only_reads) if change.agent else None
        state.setup.next_agent = change if wanted != now else None


def agent_selected(state: State, event: AgentSelected) -> None:
    selected(state, Chosen(name=event.agent, only_reads=event.only_reads))


def agent_deselected(state: State, event: AgentDeselected) -> None:
    selected(state, None)


def selected(state: State, specialist: Chosen | None) -> None:
    """Another agent runs the session: calls that have not begun are judged again if it may do less than they do."""
    before = state.setup.options
    state.setup.next_agent = None
    state.setup.options = msgspec.structs.replace(before, specialist=specialist)
    if gate.only_reads(specialist) != gate.only_reads(before.specialist):
        gate.reading_changed(state)


def model_changed(state: State, event: ModelChanged) -> None:
    if event.model.name != state.setup.model.name:
        history.forget_measure(state)
        prefix.differs(state, "model")
    state.setup.model = event.model
    if event.reason == "resume":
        now_bound(state, model=event.model)


def mode_changed(state: State, event: ModeChanged) -> None:
    state.setup.mode = event.mode
    if event.reason == "resume":
        now_bound(state, mode=event.mode)


def title_changed(state: State, event: TitleChanged) -> None:
    state.setup.title = event.title


def metadata_changed(state: State, event: MetadataChanged) -> None:
    for key, value in event.metadata.items():
        if value is None:
            state.setup.metadata.pop(key, None)
        else:
            state.setup.metadata[key] = value
    bounded(state.setup.metadata, METADATA_MAX)


def settings_changed(state: State, event: SettingsChanged) -> None:
    state.setup.settings = event.settings
    if event.reason == "resume":
        now_bound(state, settings=event.settings)


def policy_changed(state: State, event: PolicyChanged) -> None:
    now_bound(state, policy=event.policy)


def limits_changed(state: State, event: LimitsChanged) -> None:
    now_bound(state, limits=event.limits, run_limits=event.run_limits)


def now_bound(state: State, **terms: Any) -> None:
    """Remembers what the agent's code says, so that only what it changes later is a change."""
    # What is as if nothing had been said is the very same object, so that it is written as nothing, live and folded.
    same = {name: usual if value == (usual := getattr(UNBOUND, name)) else value for name, value in terms.items()}
    state.setup.terms = msgspec.structs.replace(state.setup.terms, **same)


def needs(state: State) -> tuple[int, ...]:
    return (state.setup.seq,)


def check_change(state: State, fact: ChangeReceived) -> None:
    change = fact.change
    match change:
        case ChangePins():
            history.check_pins(state, change)
        case ChangeGrants():
            gate.check_grants(state, change)
        case ChangeTask():
            tasks.check_task(change.task)
        case ChangeMetadata():
            check_metadata(change)
        case ChangeMode():
            labels.check_free(state, "its mode cannot be changed")
        case ChangeAgent():
            check_agent(state, change)
        case ChangeModel() | ChangeTitle() | ChangeSettings():
            pass
        case _:
            assert_never(change)


def check_agent(state: State, change: ChangeAgent) -> None:
    if state.flow.graph is not None:
        raise Refused("no_conversation", "a workflow has no conversation that a specialist could run")
    labels.check_free(state, "its agent cannot be changed")


def check_metadata(change: ChangeMetadata) -> None:
    if any(len(key) + len(value or "") > METADATA_CHARS_MAX for key, value in change.metadata.items()):
        raise Refused("too_large", f"one entry of the metadata is at most {METADATA_CHARS_MAX} characters")


def on_change(state: State, fact: ChangeReceived) -> Decisions:
    change = fact.change
    match change:
        case ChangeModel():
            yield ModelChanged(previous=state.setup.model.name, model=change.model)
        case ChangeMode():
            if change.mode != state.setup.mode:
                yield ModeChanged(previous=state.setup.mode, mode=change.mode)
        case ChangeTitle():
            yield TitleChanged(title=change.title[:TITLE_CHARS_MAX])
        case ChangeMetadata():
            yield MetadataChanged(metadata=change.metadata)
        case ChangeTask():
            yield TaskChanged(task=change.task, fields=("task",))
        case ChangePins():
            yield PinsChanged(pinned=change.pin, unpinned=change.unpin)
        case ChangeGrants():
            added = tuple(gate.bound(state, grant) for grant in change.add)
            yield GrantsChanged(added=added, revoked=change.revoke)
        case ChangeSettings():
            yield SettingsChanged(settings=change.settings)
        case ChangeAgent():
            if not state.active:
                yield from select(state)
        case _:
            assert_never(change)
    yield queue.done(fact.command_id)


def chooses(state: State) -> bool:
    """Whether somebody else is to run the session, as soon as no run goes on. A quarantined one keeps its agent."""
    return state.setup.next_agent is not None and not state.labels.quarantined


def select(state: State) -> Decisions:
    """Who was wanted runs the session from here on."""
    change, before = state.setup.next_agent, state.setup.options.specialist
    if change is None or not chooses(state):
        return
    if change.agent:
        yield AgentSelected(
            agent=change.agent,
            display_name=change.display_name,
            tools=change.tools,
            only_reads=change.only_reads,
            previous=before.name if before is not None else "",
        )
    elif before is not None:
        yield AgentDeselected(agent=before.name)


def taken_over(state: State, fact: SessionResumed) -> Decisions:
    """Says what differs between the recorded agent and the one bound now; nothing is guessed."""
    if fact.terms is not None:
        yield from adopt(state, fact.terms)
    if fact.agent is None and fact.tools is None:
        return
    before = state.toolset.tools
    now = {spec.name: spec for spec in fact.tools} if fact.tools is not None else dict(before)
    missing = tuple(name for name in before if name not in now)
    added = tuple(name for name in now if name not in before)
    changed = tuple(name for name, spec in now.items() if name in before and before[name] != spec)
    agent = fact.agent or state.setup.agent
    if agent != state.setup.agent or missing or added or changed:
        yield AgentChanged(previous=state.setup.agent, agent=agent, missing=missing, changed=changed, added=added)
    if added or changed:
        yield toolset.reloaded(state, tuple(now[name] for name in (*added, *changed)))
    if missing:
        yield toolset.removed(state, missing)


def adopt(state: State, terms: Terms) -> Decisions:
    """What the agent's code says otherwise than before holds from here on; what it says as before changes nothing, so
    that what a command changed stays. What was changed before an import was changed elsewhere: all of it holds anew."""
    before = state.setup.terms
    unbound = not before.model.name
    fixed = state.labels.quarantined and not unbound  # it keeps the policy and the mode that it was given
    if unbound or terms.model != before.model:
        yield ModelChanged(previous=state.setup.model.name, model=terms.model, reason="resume")
    if unbound or (terms.policy != before.policy and not fixed):
        yield PolicyChanged(policy=terms.policy)
    if unbound or (terms.limits, terms.run_limits) != (before.limits, before.run_limits):
        yield LimitsChanged(limits=terms.limits, run_limits=terms.run_limits)
    if unbound or terms.settings != before.settings:
        yield SettingsChanged(settings=terms.settings, reason="resume")
    if unbound or (terms.mode != before.mode and not fixed):
        yield ModeChanged(previous=state.setup.mode, mode=terms.mode, reason="resume")


PART = Part(
    name="setup",
    facts={ChangeReceived: Row(when=STARTED, check=check_change, fold=change_received, then=on_change)},
    decisions={
        AgentChanged: agent_changed,
        AgentSelected: agent_selected,
        AgentDeselected: agent_deselected,
        ModelChanged: model_changed,
        ModeChanged: mode_changed,
        TitleChanged: title_changed,
        MetadataChanged: metadata_changed,
        SettingsChanged: settings_changed,
    },
    hears={
        SessionStarted: session_started,
        SessionResumed: session_resumed,
        SessionForked: session_forked,
        SessionImported: session_imported,
        PolicyChanged: policy_changed,
        LimitsChanged: limits_changed,
    },
    taken_over=taken_over,
    needs=needs,
)
