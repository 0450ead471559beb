"""The machine of a session: which state is the current one, and how far its work has got.

    machine.moved ─┬─▶ computing ──▶ calling ──▶ returned ──▶ machine.left ──▶ the next state, or choosing
                   │       ▲  └────▶ told (the agent works) ──▲
                   │       └── sleeping ◀── a poll that was not met
                   ├─▶ sleeping ──▶ returned                       (a timer)
                   └─▶ machine.ended                               (a terminal; one may begin again from there)

A state that is stopped leaves the machine interrupted: the agent, or a person, says how it goes on. What a state does
with its input is the host's to say; here it is only counted, waited for and followed by another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.errors import Refused
from windlass.events.sessions import SessionStarted
from windlass.events.timers import TimerCancelled, TimerFired
from windlass.events.tools.calls import CallBody, ToolCancelled, ToolRequested
from windlass.events.trees.machines import (
    MachineComputed,
    MachineCreated,
    MachineEnded,
    MachineInterrupted,
    MachineLeft,
    MachineMoved,
    MachineReceived,
    MachineSlept,
)
from windlass.events.values.ids import call_id, timer_id
from windlass.events.values.machines import ANY_STATE, MachineSpec, MachineState
from windlass.kernel.effects import ComputeState
from windlass.kernel.part import Decisions, Misfit, Open, Part, Row, Why
from windlass.kernel.parts import queue, runs, timers
from windlass.kernel.parts.machines import program
from windlass.kernel.parts.tools import gate
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import STARTED, WORKING, Asked, Asleep, AwaitingTools, Between

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State

Status = Literal[
    "none", "entered", "computing", "calling", "told", "sleeping", "returned", "paused", "left", "choosing",
    "interrupted", "ended",
]  # fmt: skip
AT_WORK = ("entered", "computing", "calling", "told", "returned", "paused", "left")
"""Where a run is needed for the machine to go on."""
OPEN = (*AT_WORK, "sleeping", "choosing")
"""Where the machine has neither ended nor been stopped."""
GOES_ON = ("returned", "paused")
"""Where nothing is waited for: the next decision is the machine's."""
WORKED_OUT = ("agent", "script", "poll", "park")
"""Kinds of states whose work the host says."""
NOTE_TOKENS = 64
GIVEN = "state:"
"""How the note is marked that shows what a state gave."""


class Progress(msgspec.Struct, kw_only=True, gc=False):
    """How often a state was entered, tried and slept in, over the machine's whole life."""

    kind: str
    visits: int = 0
    attempts: int = 0
    sleeps: int = 0
    since_ms: int = 0
    """When it was entered last."""


class Machine(msgspec.Struct, kw_only=True, gc=False):
    """The machine of a session. Blank before there is one."""

    given: MachineSpec | None = None
    """What the session was set up with."""
    spec: MachineSpec | None = None
    states: dict[str, MachineState] = {}
    status: Status = "none"
    by_agent: bool = False
    """Whether the agent had it begin, and is told of its end."""
    current: str = ""
    visit: int = 0
    attempt: int = 0
    entered_ms: int = 0
    moved_seq: int = 0
    call_id: str = ""
    timer_id: str = ""
    until_ms: int = 0
    slept: bool = False
    """Whether it has slept in this state."""
    ok: bool = True
    error: str = ""
    reason: str = ""
    result_seq: int | None = None
    """Where what the state gave is."""
    result_tokens: int = 0
    base_seq: int | None = None
    """Where the input is that is carried on."""
    output_seq: int | None = None
    """Where what is to be added to it is."""
    choices: tuple[str, ...] = ()
    reminders: int = 0
    """How often the agent was told to choose."""
    took_over: bool = False
    """Whether a call of the open turn set it going: the model is not called again for that."""
    entries: dict[str, int] = {}
    """How often each state was entered since somebody last had it begin."""
    quick: dict[str, int] = {}
    """How often in a row each poll found at once what it waits for."""
    progress: dict[str, Progress] = {}
    outcome: str = ""
    created_ms: int = 0
    updated_ms: int = 0


def follow(spec: MachineState, states: dict[str, MachineState]) -> tuple[str, ...]:
    """The states that may follow one."""
    return tuple(states) if not spec.next or ANY_STATE in spec.next else spec.next


# --- verbs --------------------------------------------------------------------------------------------------------


def settle(state: State) -> None:
    """What the machine waits for has changed: so may have what the run waits for."""
    if type(state.phase) in (AwaitingTools, Between):
        runs.between(state)


def call_requested(state: State, call: str) -> None:
    """The current state makes a call."""
    state.machine.call_id = call
    state.machine.status = "calling"


def call_closed(state: State, call: Call, ok: bool) -> None:
    """A call of a state has its result: the event being folded now."""
    machine = state.machine
    if call.call_id == machine.call_id:
        machine.call_id, machine.status = "", "returned"
        machine.ok, machine.error = ok, call.error if call.attempt else "not_run"
        machine.result_seq, machine.result_tokens = state.seq, call.tokens
    settle(state)


def reminded(state: State) -> None:
    """The agent was told once more that it has to choose."""
    state.machine.reminders += 1


def turn_over(state: State) -> bool:
    """A turn ends that took the machine over: whether it set it going, so that the model is not called again for its
    calls."""
    state.machine.took_over = False
    return state.machine.status in OPEN


def next_wake_ms(state: State) -> int | None:
    """When the machine goes on by itself, if it sleeps."""
    return state.machine.until_ms if state.machine.status == "sleeping" else None


# --- fold ---------------------------------------------------------------------------------------------------------


def session_started(state: State, event: SessionStarted) -> None:
    if event.setup.machine is not None:
        state.machine = Machine(given=event.setup.machine)


def machine_received(state: State, event: MachineReceived) -> None:
    runs.join(state, event.command_id)


def machine_created(state: State, event: MachineCreated) -> None:
    before = state.machine
    if before.status in OPEN:
        raise Misfit(f"the machine is {before.status}")
    spec = event.spec or before.given
    if spec is None:
        raise Misfit("there is no definition")
    state.machine = Machine(
        given=before.given,
        spec=spec,
        states={one.name: one for one in spec.states},
        by_agent=event.by == "agent",
        created_ms=state.now_ms,
    )


def machine_moved(state: State, event: MachineMoved) -> None:
    machine, spec = state.machine, state.machine.states[event.state]
    if machine.status in ("computing", "calling", "told", "sleeping") or event.visit != machine.visit + 1:
        raise Misfit(f"the machine is {machine.status}")
    if event.by == "person" or event.reactivates:
        machine.entries, machine.quick = {}, {}
        machine.by_agent = event.by == "agent"
    machine.current, machine.visit, machine.attempt = event.state, event.visit, 1
    machine.status = "computing" if spec.kind in WORKED_OUT else "entered"
    machine.moved_seq, machine.entered_ms, machine.slept = state.seq, state.now_ms, False
    machine.base_seq, machine.output_seq = event.base_seq, event.output_seq
    machine.choices, machine.reminders, machine.outcome = (), 0, ""
    machine.result_seq, machine.error, machine.reason = None, "", ""
    machine.took_over = event.by == "agent"
    machine.entries[event.state] = machine.entries.get(event.state, 0) + 1
    progress = machine.progress.setdefault(event.state, Progress(kind=spec.kind))
    progress.visits += 1
    progress.attempts += 1
    progress.since_ms = machine.updated_ms = state.now_ms
    settle(state)


def machine_computed(state: State, event: MachineComputed) -> None:
    machine = state.machine
    machine.base_seq, machine.output_seq = state.seq, None
    if event.work == "told":
        machine.status = "told"
        queue.steer(state, queue.Input(seq=state.seq, kind="note", tokens=event.tokens, part="machine"))
    elif event.work == "none":
        machine.status, machine.ok, machine.reason = "returned", False, event.reason
        machine.error = "input"
    else:
        machine.status = "entered"  # the call that follows says the rest
    settle(state)


def machine_slept(state: State, event: MachineSlept) -> None:
    machine = state.machine
    machine.status, machine.until_ms, machine.slept = "sleeping", event.until_ms, True
    machine.timer_id = timer_id(state.seq)
    machine.progress[event.state].sleeps += 1
    timers.put(state, machine.timer_id, event.until_ms, "machine")
    settle(state)


def timer_fired(state: State, event: TimerFired) -> None:
    machine = state.machine
    if machine.timer_id and event.timer_id == machine.timer_id:
        spec = machine.states[machine.current]
        late_ms = state.now_ms - machine.until_ms
        over(state, late=spec.misfire == "fail" and late_ms > spec.late_ms)


def timer_cancelled(state: State, event: TimerCancelled) -> None:
    if event.timer_id == state.machine.timer_id and event.reason == "woken":
        over(state)


def over(state: State, *, late: bool = False) -> None:
    """The time that the machine waited for is over."""
    machine = state.machine
    machine.timer_id = ""
    if machine.states[machine.current].kind == "poll":
        machine.status = "computing"
        machine.attempt += 1
        machine.progress[machine.current].attempts += 1
    else:
        machine.status, machine.ok, machine.result_seq = "returned", not late, None
        machine.reason = "its time was noticed too late" if late else ""


def tool_cancelled(state: State, event: ToolCancelled) -> None:
    """Somebody said something else instead of answering: the state is entered again behind that."""
    machine = state.machine
    if event.reason == "superseded" and machine.status == "returned" and machine.result_seq == state.seq:
        machine.status = "paused"


def machine_left(state: State, event: MachineLeft) -> None:
    machine = state.machine
    if event.visit != machine.visit or machine.status not in OPEN or machine.status == "choosing":
        raise Misfit(f"the machine is {machine.status}")
    forget_work(state)
    if machine.states[machine.current].kind == "poll" and event.outcome == "done":
        machine.quick[machine.current] = 0 if machine.slept else machine.quick.get(machine.current, 0) + 1
    machine.output_seq = event.output_seq if event.output_seq is not None else machine.output_seq
    machine.updated_ms = state.now_ms
    machine.status, machine.choices = ("choosing", event.choices) if event.choices else ("left", ())
    if event.choices:
        show_output(state, event.output_seq)
        queue.steer(state, queue.Input(seq=state.seq, kind="note", tokens=NOTE_TOKENS, part="machine"))


def show_output(state: State, seq: int | None) -> None:
    """Puts what a state gave before the model; what the model said itself it knows."""
    machine = state.machine
    if seq is not None and seq == machine.result_seq:
        tokens = machine.result_tokens + NOTE_TOKENS
        queue.steer(state, queue.Input(seq=seq, kind="note", tokens=tokens, part=GIVEN + machine.current))


def forget_work(state: State) -> None:
    """What the current state waited for is waited for no more."""
    machine = state.machine
    machine.call_id = ""
    if machine.timer_id:
        timers.drop(state, machine.timer_id)
        machine.timer_id = ""


def machine_interrupted(state: State, event: MachineInterrupted) -> None:
    machine = state.machine
    if machine.status not in OPEN:
        raise Misfit(f"the machine is {machine.status}")
    forget_work(state)
    machine.status, machine.choices, machine.updated_ms = "interrupted", (), state.now_ms
    queue.steer(state, queue.Input(seq=state.seq, kind="note", tokens=NOTE_TOKENS, part="machine", waits=True))
    settle(state)


def machine_ended(state: State, event: MachineEnded) -> None:
    machine = state.machine
    if machine.status not in OPEN:
        raise Misfit(f"the machine is {machine.status}")
    forget_work(state)
    machine.status, machine.outcome, machine.choices = "ended", event.outcome, ()
    machine.reason, machine.updated_ms = event.reason, state.now_ms
    waits = not machine.by_agent or not state.active
    queue.steer(state, queue.Input(seq=state.seq, kind="note", tokens=NOTE_TOKENS, part="machine", waits=waits))
    settle(state)


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_received(state: State, fact: MachineReceived) -> None:
    child_side.check_going_on(state, fact)
    spec = state.machine.spec or state.machine.given
    if spec is None:
        raise Refused("no_machine", f"{state.session_id!r} has no state machine: give its agent one, machine=...")
    name = entered_first(state.machine, fact)
    known = [one.name for one in spec.states]
    if name not in known:
        raise Refused("unknown_state", f"the machine {spec.name!r} has no state {name!r}: it has {', '.join(known)}")


def entered_first(machine: Machine, fact: MachineReceived) -> str:
    """The state that a command names, else the one that the machine begins with."""
    spec = machine.spec or machine.given
    return fact.state or (spec.first if spec is not None else "")


def on_received(state: State, fact: MachineReceived) -> Decisions:
    """A person, or code, says which state comes next."""
    seq, machine = state.seq, state.machine
    name = entered_first(machine, fact)
    if not state.active:
        resumes = isinstance(state.phase, Asked | Asleep)
        yield from runs.begin(state, "machine", (fact.command_id,), continues=resumes)
    yield from program.replace(state)
    if state.machine.spec is None:
        yield MachineCreated(by="person")
    machine = state.machine
    base = seq if fact.body is not None else machine.base_seq
    yield from program.enter(state, name, "person", base_seq=base)


def check_computed(state: State, fact: MachineComputed) -> None:
    machine = state.machine
    here = (machine.status, machine.visit, machine.attempt) == ("computing", fact.visit, fact.attempt)
    if not here or not state.active:
        raise Refused("stale", f"nobody waits for visit {fact.visit} of a state")
    call = fact.body.call if fact.body is not None else None
    if (call is not None) != (fact.work == "call"):
        raise Refused("malformed", "a state that makes a call says which")


def on_computed(state: State, fact: MachineComputed) -> Decisions:
    """Requests the call of a state; it goes through the gate like any other."""
    made = fact.body.call if fact.body is not None else None
    if made is None:
        return
    name, prepared = call_id(state.seq, 0), made.prepared
    yield ToolRequested(
        call_id=name,
        tool=made.tool,
        digest=prepared.digest if prepared is not None else "",
        labels=prepared.labels if prepared is not None else (),
        traits=prepared.traits if prepared is not None else None,
        state=state.machine.current,
        body=CallBody(args=made.args),
    )
    yield from gate.rule(state, state.calls.by_id[name], prepared, made.args, None)


def stop(state: State, why: Why) -> Decisions:
    """A prompt in place of what is open leaves the machine where it is."""
    machine = state.machine
    if machine.status not in OPEN or why == "superseded":
        return
    if why == "cancelled" and state.active:
        yield MachineEnded(
            state=machine.current, visit=machine.visit, outcome="cancelled", reason="cancelled by a command"
        )
    else:
        yield interrupted(state, "not_carried_over" if why == "not_carried_over" else "interrupted")


def interrupted(state: State, reason: Literal["interrupted", "failed", "not_carried_over"]) -> MachineInterrupted:
    return MachineInterrupted(state=state.machine.current, visit=state.machine.visit, reason=reason)


def run_fails(state: State) -> Decisions:
    """The run that the machine was at work in fails. One that sleeps sleeps on."""
    if state.machine.status in AT_WORK:
        yield interrupted(state, "failed")


# --- what is open -------------------------------------------------------------------------------------------------


def owes(state: State) -> Iterable[ComputeState]:
    machine = state.machine
    if machine.status != "computing" or not state.active:
        return ()
    name = f"{machine.current}/{machine.visit}.{machine.attempt}"
    return (ComputeState(effect_id=name, state=machine.current, visit=machine.visit, attempt=machine.attempt),)


def opens(state: State) -> Iterator[Open]:
    machine = state.machine
    if machine.status == "computing" and state.active:
        yield Open(kind="state", open_id=machine.current, by="us", seq=machine.moved_seq)


STANDS = {"interrupted": "stopped in {}", "choosing": "in {}, to choose what follows"}
"""How the machine stands in its state, if it is not at work there."""


def stands(state: State) -> str:
    """The state that the machine is in, or how it ended."""
    machine = state.machine
    if machine.status == "none":
        return ""
    if machine.status == "ended":
        return f"machine {machine.outcome} in {machine.current}"
    here = f"{machine.current} ({machine.states[machine.current].kind})" if machine.current in machine.states else "?"
    return STANDS.get(machine.status, "in {}").format(here)


PART = Part(
    name="states",
    facts={
        MachineReceived: Row(when=STARTED, check=check_received, fold=machine_received, then=on_received),
        MachineComputed: Row(when=WORKING, check=check_computed, fold=machine_computed, then=on_computed),
    },
    decisions={
        MachineCreated: machine_created,
        MachineMoved: machine_moved,
        MachineSlept: machine_slept,
        MachineLeft: machine_left,
        MachineInterrupted: machine_interrupted,
        MachineEnded: machine_ended,
    },
    keeps=lambda state: state.machine.current,
    hears={
        SessionStarted: session_started,
        TimerFired: timer_fired,
        TimerCancelled: timer_cancelled,
        ToolCancelled: tool_cancelled,
    },
    stop=stop,
    owes=owes,
    opens=opens,
    stands=stands,
)
