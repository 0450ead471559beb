"""A machine as its log tells it: where it stands, what each state was given and gave, and every step that it took."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from windlass.events.runs import CancelReceived, InterruptReceived
from windlass.events.trees.machines import (
    MachineComputed,
    MachineCreated,
    MachineEnded,
    MachineInterrupted,
    MachineLeft,
    MachineMoved,
)
from windlass.events.values.machines import MachineSpec
from windlass.kernel.owed import waiting_words
from windlass.kernel.parts.machines.states import Machine
from windlass.kernel.parts.machines.states import next_wake_ms as wakes_at
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record
from windlass.store.base import Key, Store

from .inputs import output_in, said_in

StepKind = Literal["created", "moved", "left", "interrupted", "ended"]


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a machine. Steps are only ever added."""

    kind: StepKind
    seq: int
    at_ms: int
    state: str = ""
    visit: int = 0
    by: str = ""
    """Who had it begin, or chose the state: `agent`, `person`, `rule`."""
    outcome: str = ""
    reactivates: bool = False
    input: Any = None
    """What the state was given, as far as that was worked out."""
    output: Any = None
    """What the state gave; of an interrupted one, what it had given so far."""
    reason: str = ""


class StateProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How often a state was entered, tried and slept in."""

    kind: str
    visits: int
    attempts: int
    sleeps: int
    since_ms: int


class MachineView(msgspec.Struct, frozen=True, kw_only=True):
    """A machine at one point of its session's log."""

    name: str
    status: str
    """`none` before it has begun, `computing`, `calling`, `told`, `sleeping`, `choosing`, `interrupted`, `ended`."""
    state: str
    outcome: str
    reason: str
    input: Any
    wake_at_ms: int | None
    progress: dict[str, StateProgress]
    history: tuple[Step, ...]
    created_ms: int
    updated_ms: int
    definition: MachineSpec

    @property
    def way(self) -> list[str]:
        """The states that were entered, in order."""
        return [step.state for step in self.history if step.kind == "moved"]


async def stored_view(store: Store, key: Key) -> tuple[MachineView | None, tuple[str, ...]]:
    """The machine of a stored session as it stands now, and what its session waits for from people, in words."""
    log = LogReader(store)
    state = (await log.fold(key)).state
    return await view_at(log, key, state), waiting_words(state)


async def view_at(log: LogReader, key: Key, state: State) -> MachineView | None:
    """The machine of a session as it stands in a state of it; None if it has none."""
    if state.machine.spec is None and state.machine.given is None:
        return None
    return view_of(state, [record async for record in log.records(key, until=state.seq)])


def view_of(state: State, records: Sequence[Record]) -> MachineView | None:
    """The same, given the records up to there."""
    machine = state.machine
    spec = machine.spec or machine.given
    if spec is None:
        return None
    steps = steps_in(records)
    moved = next((step for step in reversed(steps) if step.kind == "moved"), None)
    return MachineView(
        name=spec.name,
        status=machine.status,
        state=machine.current,
        outcome=machine.outcome,
        reason=machine.reason if machine.status == "ended" else "",
        input=moved.input if moved is not None else None,
        wake_at_ms=wakes_at(state),
        progress=_progress(machine),
        history=tuple(steps),
        created_ms=machine.created_ms,
        updated_ms=machine.updated_ms,
        definition=spec,
    )


def _progress(machine: Machine) -> dict[str, StateProgress]:
    return {name: StateProgress(**msgspec.structs.asdict(one)) for name, one in machine.progress.items()}


def steps_in(records: Sequence[Record]) -> list[Step]:
    """Every step of a session's machines among its records."""
    steps: list[Step] = []
    wanted: dict[int, int] = {}
    """Where in the list what stands at a seq belongs; outputs come before the step that names them."""
    partial = ""
    for record in records:
        event = record.event
        if isinstance(event, InterruptReceived | CancelReceived):
            partial = (event.body.output or event.body.text) if event.body is not None else ""
        elif isinstance(event, MachineComputed) and steps:
            _given(steps, event)
        elif (step := _step(record, partial)) is not None:
            steps.append(step)
            if isinstance(event, MachineLeft) and event.output_seq is not None:
                wanted[event.output_seq] = len(steps) - 1
    for record in records if wanted else ():
        if (place := wanted.get(record.seq)) is not None:
            value = output_in(record.event) if said_in(record.event) is not None else None
            plain = value["output"] if isinstance(value, dict) and set(value) == {"output"} else value
            steps[place] = msgspec.structs.replace(steps[place], output=plain)
    return steps


def _given(steps: list[Step], event: MachineComputed) -> None:
    """Adds the input of a visit to the step that entered it."""
    for place in range(len(steps) - 1, -1, -1):
        if steps[place].kind == "moved" and steps[place].visit == event.visit:
            if event.body is not None:
                steps[place] = msgspec.structs.replace(steps[place], input=event.body.input)
            return


def _step(record: Record, partial: str) -> Step | None:
    step = functools.partial(Step, seq=record.seq, at_ms=record.at_ms)
    match record.event:
        case MachineCreated() as event:
            return step(kind="created", by=event.by)
        case MachineMoved() as event:
            given = event.body.input if event.body is not None else None
            return step(
                kind="moved",
                state=event.state,
                visit=event.visit,
                by=event.by,
                reactivates=event.reactivates,
                input=given,
            )
        case MachineLeft() as event:
            return step(kind="left", state=event.state, visit=event.visit, outcome=event.outcome, reason=event.reason)
        case MachineInterrupted() as event:
            kept = partial or None
            return step(kind="interrupted", state=event.state, visit=event.visit, reason=event.reason, output=kept)
        case MachineEnded() as event:
            return step(kind="ended", state=event.state, visit=event.visit, outcome=event.outcome, reason=event.reason)
        case _:
            return None
