"""A session as somebody's child: whether it has ended, and what it tells its parent of how it gets on.

run.asked, run.slept, run.started (goes on) ──▶ child.moved    in the parent's inbox
the end of its run ──▶ child.finished, with what was used and what those below may still use
(the last end below it) ──▶ child.settled
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Command, Event
from windlass.events.errors import Refused
from windlass.events.runs import RunAsked, RunCompleted, RunFailed, RunSlept, RunStarted, Terminal
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import ChildFinished, ChildMoved, ChildStatus, Used
from windlass.events.values.failures import Failure, failure
from windlass.events.values.ids import child_end_id, child_moved_id, child_settled_id, child_task_id
from windlass.events.values.usage import Usage
from windlass.kernel.part import Decisions, Send
from windlass.kernel.parts import budgets, runs
from windlass.kernel.parts.flows import node_graph
from windlass.kernel.parts.trees import child_shares
from windlass.kernel.phases import Asleep, Idle

if TYPE_CHECKING:
    from windlass.kernel.state import State

CAUSE_CHARS_MAX = 500
WELL = ("completed", "task_complete", "max_tokens", "refused")
"""Ends of a run of the agent's own."""
TOLD_ABOVE = frozenset({*Terminal.__subclasses__(), RunStarted})
"""What its parent hears of."""
BOOKED = frozenset({ChildFinished, ChildSettled})
"""What tells how much a child has used."""


class Cause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a session somewhere below failed, and which: the calls that lead from the root to it."""

    failure: Failure
    scope: str

    def __str__(self) -> str:
        return f"{self.scope} failed: {self.failure.message}"


# --- what it is ---------------------------------------------------------------------------------------------------


def has_ended(state: State) -> bool:
    """Whether the session is a child that has told its end. What was set aside for it is given back by then."""
    return state.parent_id is not None and bool(state.run.run_id) and isinstance(state.phase, Idle)


def owes_end(state: State) -> bool:
    """Whether it is a child that has done nothing yet, so that no run of it can end."""
    return state.parent_id is not None and not state.run.run_id


def sleeps(state: State) -> bool:
    """Whether it is a child that rests until a time. Its parent waits for its end, so that it cannot just stop."""
    return state.parent_id is not None and isinstance(state.phase, Asleep)


def orphaned(state: State) -> bool:
    """Whether it is a child that has ended and left others at work."""
    return has_ended(state) and any(
        not child.stopping and child.mode != "detached" for child in state.children.open.values()
    )


def unsettled(state: State) -> bool:
    """Whether somebody below may still use something that is not booked here. Who is detached was booked in full."""
    here = state.children
    return bool(here.unsettled) or any(child.mode != "detached" for child in here.open.values())


def settles(state: State, events: list[Event]) -> bool:
    """Whether a child that ended before those below it has just booked the last of them."""
    booked = any(type(event) in BOOKED for event in events)
    return booked and has_ended(state) and not unsettled(state)


def check_going_on(state: State, fact: Command) -> None:
    """Raises `Refused` if the session is a child that has ended."""
    if has_ended(state):
        raise Refused("ended", "this child session has ended, and its budget with it: fork it to go on from here")


def without_task(state: State, command: str, why: str) -> Decisions:
    """A child that did not get its task ends at once."""
    if owes_end(state) and command == child_task_id(state.session_id):
        yield from runs.begin(state, "prompt")
        yield from runs.fail(state, "error", failure("no_progress", why))


def origin_of(child: str) -> str:
    """The call that a child session carries out, by the child's id."""
    return child.rpartition("~")[2]


# --- what it tells its parent ---------------------------------------------------------------------------------------


def to_parent(state: State, first_seq: int, events: list[Event]) -> Iterator[Send]:
    """How a child gets on, as it is behind the append: a run that began and ended in it is no news."""
    last, seq = None, first_seq
    for at, event in enumerate(events, start=first_seq):
        if type(event) in TOLD_ABOVE:
            last, seq = event, at
    parent_id = state.parent_id
    if parent_id is None:
        return
    if last is None and settles(state, events):
        yield Send(parent_id, _settled(state))
    if isinstance(last, RunAsked):
        yield _moved(state, parent_id, seq, "asked", waiting_for=last.waiting_for)
    elif isinstance(last, RunSlept):
        yield _moved(state, parent_id, seq, "sleeping", wake_at_ms=last.wake_at_ms)
    elif isinstance(last, Terminal):
        said = state.turn.last_reply_seq if state.flow.graph is None else node_graph.answer_seq(state.flow)
        yield Send(parent_id, _finished(state, seq, last), said)
    elif isinstance(last, RunStarted) and last.continues is not None:
        yield _moved(state, parent_id, seq, "working")


def _moved(state: State, parent_id: str, seq: int, status: str, **more: object) -> Send:
    moved = ChildMoved(
        command_id=child_moved_id(state.session_id, seq),
        actor=f"session:{state.session_id}",
        auth="none",
        child_id=state.session_id,
        call_id=origin_of(state.session_id),
        child_seq=seq,
        status=status,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )
    return Send(parent_id, moved)


def cause_of(state: State, end: Terminal) -> Cause | None:
    """Why a run failed: a workflow hands on what its child said, if it failed because of that one."""
    failure = end.failure if isinstance(end, RunFailed) else None
    if failure is None:
        return None
    below = state.children.cause
    if below is not None and any(node.cause == str(below) for node in node_graph.causes(state.flow)):
        return below
    message = failure.message[:CAUSE_CHARS_MAX]
    return Cause(failure=msgspec.structs.replace(failure, message=message, detail=None), scope=state.scope)


def _finished(state: State, seq: int, end: Terminal) -> ChildFinished:
    cause = cause_of(state, end)
    return ChildFinished(
        command_id=child_end_id(state.session_id),
        actor=f"session:{state.session_id}",
        auth="none",
        child_id=state.session_id,
        call_id=origin_of(state.session_id),
        ok=isinstance(end, RunCompleted) and end.stop in WELL,
        labels=end.labels,
        status=status_of(end),
        child_seq=seq,
        used=budgets.used_up(state, apart=child_shares.reserves(state)),
        held=_held_below(state) if unsettled(state) else None,
        failure=cause.failure if cause is not None else None,
        failed_in=cause.scope if cause is not None else "",
    )


def _held_below(state: State) -> Used:
    aside = child_shares.reserves(state)
    return Used(
        usage=Usage(input_tokens=aside.tokens),
        cost_nanos=aside.cost_nanos,
        turns=aside.turns,
        calls=aside.calls,
        children=aside.children,
    )


def _settled(state: State) -> ChildSettled:
    return ChildSettled(
        command_id=child_settled_id(state.session_id),
        actor=f"session:{state.session_id}",
        auth="none",
        child_id=state.session_id,
        call_id=origin_of(state.session_id),
        child_seq=state.seq,
        used=budgets.used_up(state, apart=child_shares.reserves(state)),
    )


def status_of(end: Terminal) -> ChildStatus:
    """How a child came to its end, in a word."""
    if isinstance(end, RunCompleted):
        return "completed" if end.stop in WELL else "timeout" if end.stop == "time_budget" else "error"
    return "error" if isinstance(end, RunFailed) else "aborted"
