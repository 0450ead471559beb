"""Turns: one model request and the calls that its reply asked for.

    turn.started ──▶ (request, reply, calls: see `requests` and `calls`) ──▶ turn.finished

A turn takes what steers into the history when it begins, and puts the results of its calls there when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.runs import RunStarted
from windlass.events.turns import TurnFinished, TurnStarted
from windlass.events.values.setup import ItemRef
from windlass.kernel.part import Decisions, Misfit, Part, Why
from windlass.kernel.parts import budgets, queue, runs, tasks
from windlass.kernel.parts.context import history
from windlass.kernel.parts.machines import states
from windlass.kernel.parts.tools import calls
from windlass.kernel.parts.trees import worktrees
from windlass.kernel.phases import ACTIVE

if TYPE_CHECKING:
    from windlass.kernel.state import State


class Turn(msgspec.Struct, kw_only=True, gc=False):
    """The open turn, or the last one; then what is counted over the turns of the run."""

    open: bool = False
    turn_id: str = ""
    number: int = 0
    reply_seq: int | None = None
    finish: str | None = None
    calls: list[str] = []
    bad: bool = False
    """Some call could not be read; the model is asked again, a bounded number of times."""
    wrap_up: bool = False
    # over the run
    here: int = 0
    owed: bool = False
    """Whether the model must be called (again) before the run may end."""
    reasks: int = 0
    nudges: int = 0
    wrapping_up: bool = False
    last_reply_seq: int | None = None
    last_finish: str | None = None


# --- verbs --------------------------------------------------------------------------------------------------------


def wrap_up(state: State) -> None:
    """The next turn is the last of the run."""
    state.turn.wrapping_up = True


def owe(state: State) -> None:
    """The model must be called again before the run may end."""
    state.turn.owed = True


def replied(state: State, finish: str, empty: bool) -> None:
    """The reply of the open turn is the event being folded now."""
    turn = state.turn
    turn.finish = turn.last_finish = finish
    if not empty:
        turn.reply_seq = turn.last_reply_seq = state.seq


def asked_for(state: State, call_id: str) -> int | None:
    """Adds a call of the reply to the open turn; the reply's record."""
    turn = state.turn
    if not turn.open:
        raise Misfit("no turn is open")
    turn.calls.append(call_id)
    return turn.reply_seq


def call_unreadable(state: State) -> None:
    state.turn.bad = True


# --- fold ---------------------------------------------------------------------------------------------------------


def turn_started(state: State, event: TurnStarted) -> None:
    turn = state.turn
    if turn.open or type(state.phase) not in ACTIVE:
        raise Misfit("a turn is open" if turn.open else "no run is active")
    turn.open = True
    turn.turn_id = event.turn_id
    turn.number = event.number
    turn.reply_seq = turn.finish = None
    if event.wrap_up:
        turn.wrap_up = turn.wrapping_up = True
    turn.here += 1
    turn.owed = False
    budgets.spend_turn(state)
    if state.run.stop is not None:
        runs.goes_on(state)
    if state.task.done:
        tasks.taken_up_again(state)
    if state.tree.status == "merged":
        worktrees.taken_up_again(state)
    if state.history.notes:
        history.flush_notes(state)
    for seq in event.absorbs:
        queue.absorb(state, seq)
    for note in event.notes:
        history.push(state, ItemRef(seq=state.seq, kind="note", tokens=32, part=note))
        if note in ("nudge", "continue"):
            turn.nudges += 1
        elif note == "choose_state":
            states.reminded(state)


def turn_finished(state: State, event: TurnFinished) -> None:
    turn = state.turn
    if not turn.open:
        raise Misfit("no turn is open")
    turn.reasks = turn.reasks + 1 if turn.bad else 0
    if turn.calls:
        calls.into_history(state, turn.calls)
        turn.nudges = 0
        turn.owed = not (state.machine.took_over and states.turn_over(state))
        turn.calls = []
    elif turn.reply_seq is None or turn.finish == "pause":
        turn.owed = True
    turn.open = turn.bad = turn.wrap_up = False
    if state.history.notes:
        history.flush_notes(state)
    runs.between(state)


def run_started(state: State, event: RunStarted) -> None:
    turn = state.turn
    turn.here = turn.nudges = 0
    turn.wrapping_up = False
    if runs.counted_anew(event):
        turn.reasks = 0
    if event.continues is None:
        turn.last_reply_seq = turn.last_finish = None
        turn.owed = False
    turn.owed = turn.owed or event.trigger in ("wake", "timer", "signal")


def close(state: State) -> Decisions:
    """Ends an open turn whose calls all have their results."""
    if state.turn.open:
        yield TurnFinished(finish=state.turn.finish, calls=len(state.turn.calls))  # type: ignore[arg-type]


def stop(state: State, why: Why) -> Decisions:
    """Its calls were stopped before it; one that a fork carries over keeps its turn open."""
    if not state.open_calls():
        yield from close(state)


def needs(state: State) -> Iterable[int]:
    return (state.turn.last_reply_seq,) if state.turn.last_reply_seq is not None else ()


PART = Part(
    name="turns",
    decisions={TurnStarted: turn_started, TurnFinished: turn_finished},
    hears={RunStarted: run_started},
    stop=stop,
    needs=needs,
)
