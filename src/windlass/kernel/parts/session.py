"""The life of a session: it is started, taken over by new owners, forked, shut down. Its slice is the state's header.

session.started ──▶ (work) ──▶ session.resumed   a new owner, under a newer epoch
                           ──▶ session.forked    another session, from here on
                           ──▶ session.imported  a copy of it, in another store or under another name
                           ──▶ handoff.received  it goes on in another store, and never again in this one
                           ──▶ session.shut_down its totals are told; it may be resumed later
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.changes import ModeChanged, PolicyChanged
from windlass.events.errors import Refused
from windlass.events.runs import RunInterrupted
from windlass.events.sessions import (
    CodeTotals,
    ContentErased,
    HandoffReceived,
    ModelTotals,
    NoticeGiven,
    SessionForked,
    SessionImported,
    SessionResumed,
    SessionShutDown,
    SessionStarted,
    SessionTotalled,
)
from windlass.events.values.ids import prompt_id
from windlass.events.values.policy import Policy
from windlass.kernel import parts
from windlass.kernel.part import Decisions, Misfit, Part, Row
from windlass.kernel.parts import queue, runs
from windlass.kernel.parts.tools import toolset
from windlass.kernel.phases import COPIED, LEAVING, NEW, STARTED, Asked, Idle, Left, New

if TYPE_CHECKING:
    from windlass.kernel.state import State


PLACE_CHARS_MAX = 1_000


def session_started(state: State, event: SessionStarted) -> None:
    if not isinstance(state.phase, New):
        raise Misfit("the session has started before")
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.started_ms = state.now_ms
    state.phase = Idle()
    state.parent_id, state.root_id = event.parent_id, event.root_id
    state.scope, state.depth = event.scope, event.depth


def session_resumed(state: State, event: SessionResumed) -> None:
    if event.epoch <= state.epoch:
        raise Misfit("a resumed session has a newer epoch")
    state.epoch = event.epoch


def session_forked(state: State, event: SessionForked) -> None:
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.parent_id = None
    back(state)


def session_imported(state: State, event: SessionImported) -> None:
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.parent_id = None
    back(state)


def handed_over(state: State, event: HandoffReceived) -> None:
    state.phase = Left(
        to=event.to, session=event.session, command_id=event.command_id, asked=isinstance(state.phase, Asked)
    )


def back(state: State) -> None:
    """A log that continues one which was handed over is where that one was before."""
    if isinstance(state.phase, Left):
        state.phase = Asked() if state.phase.asked else Idle()


def check_handoff(state: State, fact: HandoffReceived) -> None:
    if not fact.to.strip() or not fact.session or max(len(fact.to), len(fact.session)) > PLACE_CHARS_MAX:
        raise Refused("malformed", f"say where it goes on and as what, each in at most {PLACE_CHARS_MAX} characters")
    if state.parent_id is not None or state.schedule.plan is not None or state.flow.graph is not None:
        raise Refused("not_alone", "children, schedules and workflows are not handed over: only sessions of their own")
    if waiting := [seq for seq, given in state.queue.inputs.items() if given.kind == "user"]:
        raise Refused("busy", f"prompt {prompt_id(waiting[0])} waits for its turn: let it run, or drop it first")
    for behind in parts.TABLES.behind:
        for words in behind(state):
            raise Refused("busy", words)
    if busy := [thing for thing in parts.opens(state) if not parts.is_asked_anywhere(thing)]:
        raise Refused("busy", f"{busy[0].kind} {busy[0].open_id} is not over: wait for it, or end it first")


def check_resumed(state: State, fact: SessionResumed) -> None:
    if fact.epoch <= state.epoch:
        raise Refused("stale_epoch", f"epoch {fact.epoch} is not newer than {state.epoch}")


def on_resumed(state: State, fact: SessionResumed) -> Decisions:
    """A new owner: each part issues its intents of an older epoch again, or closes them by their contract."""
    for taken_over in parts.TABLES.taken_over:
        yield from taken_over(state, fact)


def on_imported(state: State, fact: SessionImported) -> Decisions:
    """What was allowed elsewhere is not allowed here: the agent that is bound next says anew what may be done."""
    if state.gate.policy != Policy():
        yield PolicyChanged(policy=Policy())
    if state.setup.mode != "interactive" and not (fact.moved and state.setup.mode == "plan"):
        yield ModeChanged(previous=state.setup.mode, mode="interactive", reason="resume")
    yield from on_carried_over(state, fact)
    if mounted := tuple(name for name, spec in state.toolset.tools.items() if spec.runs == "client"):
        yield toolset.removed(state, mounted)


def on_forked(state: State, fact: SessionForked) -> Decisions:
    """A fork is held to what its origin is held to by now, however early the record is that it continues from."""
    held = fact.held
    if held is not None and held.policy is not None and held.policy != state.gate.policy:
        yield PolicyChanged(policy=held.policy)
    if held is not None and held.mode is not None and held.mode != state.setup.mode:
        yield ModeChanged(previous=state.setup.mode, mode=held.mode)
    yield from on_carried_over(state, fact)


def on_carried_over(state: State, fact: SessionForked | SessionImported) -> Decisions:
    """Nothing that was open at the origin is carried over, but for what people are to be asked in a fork too; nor is
    what was approved there for later. The run may be resumed from here."""
    for dropped in parts.TABLES.forked:
        yield from dropped(state)
    carried = {ask.ask_id for ask in state.asks.open.values() if ask.carried}
    if not state.active:
        others = any(thing.open_id not in carried for thing in parts.opens(state))
        others = others or any(call.status == "child" for call in state.open_calls())
        if not others and (carried or not isinstance(state.phase, Asked)):
            return
        yield from runs.begin(state, "cancel", continues=True)
    yield from runs.stop_all(state, "not_carried_over")
    if not carried:  # else the run ends asked
        yield runs.ended(state, RunInterrupted, "superseded")


def on_handed_over(state: State, fact: HandoffReceived) -> Decisions:
    yield queue.done(fact.command_id)


def on_shut_down(state: State, fact: SessionShutDown) -> Decisions:
    models = tuple(
        ModelTotals(
            model=name,
            requests=totals.requests,
            usage=totals.usage.total(),
            cost_nanos=totals.cost_nanos,
            duration_ms=totals.duration_ms,
        )
        for name, totals in state.budget.totals.items()
    )
    code = state.workspace.code
    yield SessionTotalled(
        models=models,
        code=CodeTotals(lines_added=code.lines_added, lines_removed=code.lines_removed, files=tuple(code.files)),
        current_model=state.setup.model.name,
        started_ms=state.started_ms,
    )


PART = Part(
    name="session",
    facts={
        SessionStarted: Row(when=NEW, fold=session_started),
        SessionResumed: Row(when=STARTED, check=check_resumed, fold=session_resumed, then=on_resumed),
        SessionForked: Row(when=COPIED, fold=session_forked, then=on_forked),
        HandoffReceived: Row(when=LEAVING, check=check_handoff, fold=handed_over, then=on_handed_over),
        SessionImported: Row(when=COPIED, fold=session_imported, then=on_imported),
        SessionShutDown: Row(when=STARTED, then=on_shut_down),
        NoticeGiven: Row(when=STARTED),
        ContentErased: Row(when=STARTED),
    },
    decisions={SessionTotalled: None},
)
