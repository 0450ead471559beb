"""What comes next in a machine: a state is entered, tried again, left for another one, or the machine ends.

what the work of a state came to ─▶ it sleeps, or is left ─▶ the one state that follows │ the agent chooses │ the end
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from windlass.events.questions import AnswerReceived
from windlass.events.trees.machines import MachineBody, MachineEnded, MachineLeft, MachineMoved, MachineSlept
from windlass.events.values.machines import ANY_STATE, MachineState
from windlass.kernel.part import Decisions
from windlass.kernel.parts.flows import program as flow
from windlass.kernel.parts.machines import loop_guard, states

if TYPE_CHECKING:
    from windlass.kernel.state import State

NOT_MET = ("exit_code", "timeout")
"""What is said of a program that ran: it ended with another code, or not in time."""


def go_on(state: State) -> Decisions:
    """The machine waits for nothing: what its state came to is looked at."""
    machine = state.machine
    spec = machine.states[machine.current]
    if machine.status == "paused":
        yield from enter(state, machine.current, "rule", base_seq=machine.base_seq)
    elif spec.kind == "poll":
        yield from polled(state, spec)
    else:
        yield from leave(state, well=machine.ok, reason=machine.reason or why_failed(state))


def why_failed(state: State) -> str:
    machine = state.machine
    if machine.ok:
        return ""
    if machine.error in NOT_MET:
        late = machine.error == "timeout"
        return "its program was not done in time" if late else "its program ended with another code than is success"
    return "it was not run" if machine.error == "not_run" else "its work did not end well"


def polled(state: State, spec: MachineState) -> Decisions:
    """One attempt of a poll is over."""
    machine = state.machine
    if spec.every_ms is None:  # refused where a machine is defined
        yield from end(state, "failed", f"the poll {machine.current} does not say how often")
        return
    until_ms = state.now_ms + spec.every_ms
    if machine.ok:
        if untested := loop_guard.tests_nothing(machine):
            yield from end(state, "failed", untested)
        else:
            yield from leave(state, well=True)
    elif machine.error not in NOT_MET:
        yield from leave(state, well=False, reason=machine.reason or why_failed(state))
    elif spec.give_up_ms is not None and until_ms - machine.entered_ms > spec.give_up_ms:
        yield from leave(state, well=False, reason=f"it was given up after {machine.attempt} attempts")
    else:
        yield MachineSlept(state=machine.current, visit=machine.visit, until_ms=until_ms)


def agent_done(state: State) -> Decisions:
    """The agent has nothing more to say in its state: what it said last is what the state gave."""
    yield from leave(state, well=True, output_seq=state.turn.last_reply_seq)


def answered(state: State, fact: AnswerReceived, seq: int) -> Decisions:
    """A person answered what the current state asked: what they chose comes next."""
    machine = state.machine
    if machine.status != "returned" or machine.result_seq != seq:
        return
    first = fact.body.answers[0] if fact.body is not None and fact.body.answers else None
    picked = (first.selected or ((first.text,) if first.text else ())) if first is not None else ()
    well = fact.outcome == "answered"
    yield from leave(
        state, well=well, choice=picked[0] if picked else "", reason="" if well else f"it was {fact.outcome}"
    )


def leave(state: State, *, well: bool, output_seq: int | None = None, choice: str = "", reason: str = "") -> Decisions:
    """Leaves the current state, and enters the one that follows if that is no matter of choice."""
    machine = state.machine
    spec = machine.states[machine.current]
    allowed = states.follow(spec, machine.states)
    given = machine.result_seq if output_seq is None else output_seq
    follows = _follows(spec, allowed, well, choice)
    asked_again = well and not follows and is_peoples(spec)
    fails = not follows and not well and bool(spec.next)
    yield MachineLeft(
        state=machine.current,
        visit=machine.visit,
        outcome="done" if well else "failed",
        output_seq=given,
        choices=() if follows or fails or asked_again else allowed,
        reason=reason,
    )
    if asked_again:
        yield from enter(state, machine.current, "person", base_seq=machine.base_seq)
    elif follows:
        by: Literal["person", "rule"] = "person" if choice and well else "rule"
        yield from enter(state, follows, by, base_seq=machine.base_seq, output_seq=machine.output_seq)
    elif fails:
        yield from end(state, "failed", f"{machine.current} failed: {reason or 'nothing is to follow then'}")


def is_peoples(spec: MachineState) -> bool:
    """Whether only a person says what follows a state, and with a word of those that it names: whatever else they
    answer, a "no" above all, is no choice, and they are asked again."""
    return spec.kind == "park" and bool(spec.next) and ANY_STATE not in spec.next


def _follows(spec: MachineState, allowed: tuple[str, ...], well: bool, choice: str) -> str:
    """The state that follows by itself, or that a person chose; empty if there is none."""
    if not well:
        return spec.on_failure
    if choice in allowed:
        return choice
    if is_peoples(spec):
        return ""
    return spec.next[0] if len(spec.next) == 1 and spec.next == allowed else ""


def enter(
    state: State,
    name: str,
    by: Literal["agent", "person", "rule"],
    *,
    base_seq: int | None = None,
    output_seq: int | None = None,
    body: MachineBody | None = None,
) -> Decisions:
    """Makes a state the current one. One that is entered by rule again and again ends the machine."""
    machine = state.machine
    spec = machine.states[name]
    if by == "rule" and (circles := loop_guard.in_circles(machine, name)):
        yield from end(state, "failed", circles)
        return
    yield MachineMoved(
        state=name,
        kind=spec.kind,
        visit=machine.visit + 1,
        by=by,
        base_seq=base_seq,
        output_seq=output_seq,
        reactivates=machine.status == "ended",
        body=body,
    )
    if spec.kind == "terminal":
        yield from end(state, spec.outcome, spec.reason)
    elif spec.kind == "timer":
        until_ms = spec.at_ms if spec.at_ms is not None else state.now_ms + (spec.after_ms or 0)
        yield MachineSlept(state=name, visit=machine.visit, until_ms=until_ms)


def end(state: State, outcome: Literal["completed", "failed", "cancelled"], reason: str = "") -> Decisions:
    machine = state.machine
    yield MachineEnded(state=machine.current, visit=machine.visit, outcome=outcome, reason=reason)


def replace(state: State) -> Decisions:
    """Another state is to take the place of the current one, whatever that is doing. An agent that goes on from its own
    state has ended it."""
    machine = state.machine
    if machine.status not in states.OPEN or machine.status == "choosing":
        return
    done, left = machine.status == "told", machine.call_id
    yield MachineLeft(
        state=machine.current,
        visit=machine.visit,
        outcome="done" if done else "replaced",
        output_seq=state.turn.reply_seq if done else None,
    )
    if left:
        yield from flow.give_up(state, [left])
