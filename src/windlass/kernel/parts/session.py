"""The life of a session: it is started, taken over by new owners, forked, shut down. Its slice is the state's header.

session.started ──▶ (work) ──▶ session.resumed   a new owner, under a newer epoch
                           ──▶ session.forked    another session, from here on
                           ──▶ session.imported  a copy of it, in another store or under another name
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
    ModelTotals,
    NoticeGiven,
    SessionForked,
    SessionImported,
    SessionResumed,
    SessionShutDown,
    SessionStarted,
    SessionTotalled,
)
from windlass.events.values.specs import Policy
from windlass.kernel import parts
from windlass.kernel.part import Decisions, Misfit, Part, Row
from windlass.kernel.parts import runs
from windlass.kernel.parts.tools import toolset
from windlass.kernel.phases import NEW, STARTED, Asked, Idle, New

if TYPE_CHECKING:
    from windlass.kernel.state import State


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


def session_imported(state: State, event: SessionImported) -> None:
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.parent_id = None


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
    if state.setup.mode != "interactive":
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
        SessionForked: Row(when=STARTED, fold=session_forked, then=on_forked),
        SessionImported: Row(when=STARTED, fold=session_imported, then=on_imported),
        SessionShutDown: Row(when=STARTED, then=on_shut_down),
        NoticeGiven: Row(when=STARTED),
        ContentErased: Row(when=STARTED),
    },
    decisions={SessionTotalled: None},
)
