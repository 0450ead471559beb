"""Runs: how one begins, how it is woken or stopped, and the six ways in which it ends.

                    ┌─▶ run.completed    of its own, or orderly at a limit
                    ├─▶ run.failed       it could not go on; may be resumed
    run.started ────┼─▶ run.cancelled    closed for good by a command
                    ├─▶ run.interrupted  stopped by a command; may be resumed
                    ├─▶ run.asked        only people or clients owe something now
                    └─▶ run.slept        nothing is owed before a time
        ▲                    │
        └── (continues) ─────┘  by an answer, a wake, a timer, a prompt

What comes next while a run is active is said in `windlass.kernel.program`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from windlass.events.commands import QueueChanged
from windlass.events.runs import (
    CancelReceived,
    InterruptReceived,
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
    WakeReceived,
)
from windlass.events.sessions import SessionRewound
from windlass.events.timers import TimerCancelled
from windlass.events.values.failures import Failure, StopReason, cause_of
from windlass.events.values.ids import run_id
from windlass.events.values.setup import RunOptions
from windlass.events.values.traces import TraceContext, inside
from windlass.kernel import parts
from windlass.kernel.part import Decisions, Misfit, Part, Row, Why
from windlass.kernel.parts import queue, retries, timers, turns
from windlass.kernel.parts.machines import states
from windlass.kernel.parts.tools import jobs, labels, open_calls
from windlass.kernel.parts.trees import child_side, grants, worktrees
from windlass.kernel.phases import STARTED, Asked, Asleep, AwaitingTools, BackingOff, Between, Idle

if TYPE_CHECKING:
    from windlass.kernel.state import State


AWAITING_TOOLS, BETWEEN = AwaitingTools(), Between()

Trigger = Literal[
    "prompt",
    "answer",
    "approval",
    "result",
    "settle",
    "wake",
    "timer",
    "signal",
    "job",
    "child",
    "call",
    "change",
    "cancel",
    "interrupt",
    "compact",
    "unmount",
    "flow",
    "machine",
]
SAID = ("prompt", "signal")
"""What begins a run of its own, in the trace of whoever said it."""
StopMark = Literal["completed", "hook_denied", "repeated", "output_invalid", "budget"]


class Run(msgspec.Struct, kw_only=True, gc=False):
    """The current run, or the last one; blank before the first."""

    run_id: str = ""
    first_run_id: str = ""
    resumable: bool = False
    """Whether it has ended and may be resumed by a wake."""
    commands: list[str] = []
    options: RunOptions | None = None
    stop: StopMark | None = None
    """Set if the run must end at the next boundary, and why."""
    stop_limit: str = ""
    trace: str = ""
    """The trace context that it belongs to; empty if nobody brought one."""


# --- verbs --------------------------------------------------------------------------------------------------------


def between(state: State) -> None:
    """Where an active run is when no request is out: in its turn, with what a person runs meanwhile, or between."""
    waits = (
        state.turn.open
        or state.calls.by_id
        or state.flow.graph is not None
        or state.machine.status == "computing"
        or worktrees.holds_up(state)
        or grants.holds_up(state)
    )
    state.phase = AWAITING_TOOLS if waits else BETWEEN


def join(state: State, command: str | None) -> None:
    """A command that ends when the active run does."""
    if state.active and command is not None:
        state.run.commands.append(command)


def must_end(state: State, why: StopMark, limit: str = "") -> None:
    """Has the run end at the next boundary."""
    state.run.stop = why
    if limit:
        state.run.stop_limit = limit


def goes_on(state: State) -> None:
    """Somebody said more to a run that was about to end well."""
    if state.run.stop == "completed":
        state.run.stop = None


def traced(state: State, name: str, attempt: int = 1, *, run: Run | None = None) -> TraceContext:
    """The trace context of a request or a call of a run, by its id; of the current run unless another is given."""
    return inside((run or state.run).trace, state.root_id or state.session_id, state.session_id, name, attempt)


# --- fold ---------------------------------------------------------------------------------------------------------


def run_started(state: State, event: RunStarted) -> None:
    if state.active:
        raise Misfit("a run is active")
    previous = state.run
    fresh = Run(
        run_id=event.run_id,
        first_run_id=event.run_id,
        commands=list(event.commands),
        options=event.options,
        trace=event.trace,
    )
    if event.continues is not None:
        fresh.first_run_id = previous.first_run_id
        fresh.options = event.options or previous.options
    state.run = fresh
    between(state)


def counted_anew(event: RunStarted) -> bool:
    """Whether what a run was stopped for before is counted from the beginning. Somebody who says to go on means it;
    budgets are not counted anew."""
    return event.continues is None or event.trigger in ("wake", "prompt")


def run_ended(state: State, event: Terminal) -> None:
    run = state.run
    if run.run_id != event.run_id:
        raise Misfit("another run is active")
    run.commands = []
    run.resumable = False
    state.phase = Idle()


def run_stopped(state: State, event: RunInterrupted | RunFailed) -> None:
    run_ended(state, event)
    state.run.resumable = True


def run_asked(state: State, event: RunAsked) -> None:
    run_ended(state, event)
    state.phase = Asked()
    state.run.resumable = True


def run_slept(state: State, event: RunSlept) -> None:
    run_ended(state, event)
    state.phase = Asleep()
    state.run.resumable = True


def session_rewound(state: State, event: SessionRewound) -> None:
    state.run.resumable = False


# --- beginning and ending -----------------------------------------------------------------------------------------


def begin(
    state: State,
    trigger: Trigger,
    commands: tuple[str, ...] = (),
    *,
    continues: bool = False,
    options: RunOptions | None = None,
    trace: str = "",
) -> Decisions:
    """Opens a run; one that resumes the last if `continues`. What nobody said anything new for stays in the trace of
    the run before."""
    if state.queue.held:
        yield QueueChanged(operation="released")
    previous = state.run.run_id if continues and state.run.run_id else None
    if not trace and (continues or trigger not in SAID):
        trace = state.run.trace
    yield RunStarted(
        run_id=run_id(state.seq + 1),
        commands=commands,
        continues=previous,
        trigger=trigger,
        options=options,
        trace=trace,
    )


def resume(state: State, trigger: Trigger, command: str) -> Decisions:
    """An answer to a session whose run ended asked: the run that continues it begins; else it joins the active one."""
    if not state.active:
        yield from begin(state, trigger, (command,), continues=True)


def ended(state: State, kind: type[Terminal], stop: StopReason, **more: Any) -> Terminal:
    """The terminal of the current run, with what it used and the commands that end with it."""
    spent = state.budget.spent_here
    return kind(
        run_id=state.run.run_id,
        stop=stop,
        commands=tuple(state.run.commands),
        usage=spent.usage,
        cost_nanos=spent.cost_nanos,
        turns=state.turn.here,
        labels=labels.told(state),
        **more,
    )


def fail(state: State, stop: StopReason, why: Failure) -> Decisions:
    """Ends the run as failed; waiting prompts are held until somebody looks."""
    yield from turns.close(state)
    yield from states.run_fails(state)
    yield from queue.keep_inputs(state)
    yield from queue.hold(state)
    yield ended(state, RunFailed, stop, failure=why, cause=cause_of(why))


def stop_all(state: State, why: Why) -> Decisions:
    """Closes all that is open, part by part."""
    for stop in parts.TABLES.stop:
        yield from stop(state, why)


def interrupt(state: State, stop: StopReason = "user_abort") -> Decisions:
    """Stops the active run; it may be resumed. The queue is held until the next command."""
    yield from stop_all(state, "interrupted")
    if open_calls.unsettled(state):
        yield from ask_first(state)
        return
    yield from queue.keep_inputs(state)
    yield from queue.hold(state)
    yield ended(state, RunInterrupted, stop)


def cancel(state: State) -> Decisions:
    """Closes the active run for good."""
    yield from stop_all(state, "cancelled")
    if open_calls.unsettled(state):
        yield from ask_first(state)
        return
    yield from queue.keep_inputs(state)
    yield ended(state, RunCancelled, "user_abort")


def ask_first(state: State, why: Failure | None = None) -> Decisions:
    """Ends a run that was stopped in the middle of a call of which a person must say first what became of it. Its turn
    stays open until then, and what was said to it waits."""
    wanted = tuple(thing.open_id for thing in parts.owed_by_people(parts.opens(state)))
    yield from queue.hold(state)
    yield ended(state, RunAsked, "awaiting_people", waiting_for=wanted, failure=why)


# --- commands -----------------------------------------------------------------------------------------------------


def on_wake(state: State, fact: WakeReceived) -> Decisions:
    this = (fact.command_id,)
    due = timers.first_due(state)
    if isinstance(state.phase, BackingOff):
        yield TimerCancelled(timer_id=state.phase.timer_id, reason="woken")
        yield from retries.try_again(state)
        yield queue.done(fact.command_id, "the next attempt is made now")
    elif state.active:
        yield queue.done(fact.command_id, "the session is at work already")
    elif parts.awaits_somebody(state):
        yield queue.done(fact.command_id, "the session waits for an answer")
    elif due is not None:
        yield TimerCancelled(timer_id=due.timer_id, reason="woken")
        yield from begin(state, "machine" if due.kind == "machine" else "wake", this, continues=True)
    elif state.run.resumable:
        yield from begin(state, "wake", this, continues=True)
    elif state.queue.waiting:
        yield from queue.take_next(state)
        yield queue.done(fact.command_id, "the queue goes on")
    else:
        yield queue.done(fact.command_id, "nothing to wake")


def on_interrupt(state: State, fact: InterruptReceived) -> Decisions:
    if fact.jobs:
        yield from jobs.stop_all(state)
    if state.active:
        yield from interrupt(state)
        yield queue.done(fact.command_id)
    elif parts.awaits_somebody(state):
        # Nobody waits for these answers any more: what was asked is withdrawn, and a later word goes on from there.
        yield from begin(state, "interrupt", continues=True)
        yield from interrupt(state)
        yield queue.done(fact.command_id)
    elif child_side.owes_end(state):
        yield from begin(state, "interrupt")
        yield from interrupt(state)
        yield queue.done(fact.command_id)
    elif child_side.sleeps(state):
        yield from retries.drop(state)
        yield from begin(state, "interrupt", continues=True)
        yield from interrupt(state)
        yield queue.done(fact.command_id)
    elif any(parts.opens(state)):
        yield from timers.cancel_all(state)
        yield from stop_all(state, "cancelled")
        yield queue.done(fact.command_id, "the wake is cancelled")
    else:
        yield queue.done(fact.command_id, "nothing to interrupt")


def on_cancel(state: State, fact: CancelReceived) -> Decisions:
    if fact.jobs:
        yield from jobs.stop_all(state)
    if not state.active and (state.run.resumable or child_side.owes_end(state) or any(parts.opens(state))):
        yield from retries.drop(state)
        yield from begin(state, "cancel", continues=True)
    if state.active:
        yield from cancel(state)
        yield queue.done(fact.command_id)
    else:
        yield queue.done(fact.command_id, "nothing to cancel")


PART = Part(
    name="runs",
    facts={
        WakeReceived: Row(when=STARTED, check=child_side.check_going_on, then=on_wake),
        InterruptReceived: Row(when=STARTED, then=on_interrupt),
        CancelReceived: Row(when=STARTED, then=on_cancel),
    },
    decisions={
        RunStarted: run_started,
        RunCompleted: run_ended,
        RunFailed: run_stopped,
        RunCancelled: run_ended,
        RunInterrupted: run_stopped,
        RunAsked: run_asked,
        RunSlept: run_slept,
    },
    hears={SessionRewound: session_rewound},
)
