"""The tools by which an agent goes through a machine: create one, choose a state, look at it. The kernel performs them;
the host has checked definitions and inputs before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.trees.machines import MachineBody, MachineCreated
from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.machines import MachineSpec, MachineState
from windlass.kernel.part import Decisions
from windlass.kernel.parts.machines import loop_guard, program, states
from windlass.kernel.parts.tools import kernel_tools

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State

STATES_MAX = 64


class CreateArgs(Value, frozen=True, kw_only=True):
    """`create_machine`: a definition, the state to begin with, and its input."""

    name: str
    states: tuple[MachineState, ...]
    first: str
    when: str = ""
    input: JsonObject = {}


class SelectArgs(Value, frozen=True, kw_only=True):
    """`select_state`: the state that comes next."""

    state: str
    input: JsonObject | None = None


class LookArgs(Value, frozen=True, kw_only=True):
    """`machine_state`: nothing."""


def create_machine(state: State, call: Call, args: CreateArgs) -> Decisions:
    machine = state.machine
    spec = MachineSpec(name=args.name, states=args.states, first=args.first, when=args.when)
    if machine.status in states.OPEN:
        told = f"the machine {_name(state)} is at work, in state {machine.current}: end it first, with select_state"
        yield kernel_tools.resolved(call, told, ok=False)
    elif machine.given is not None:
        yield kernel_tools.resolved(call, "this session has a machine of its own: use select_state", ok=False)
    elif (problem := unsound(spec)) is not None:
        yield kernel_tools.resolved(call, problem, ok=False)
    else:
        yield MachineCreated(spec=spec, by="agent")
        yield from program.enter(state, spec.first, "agent", body=MachineBody(input=args.input))
        yield kernel_tools.resolved(call, f"the machine {spec.name} is in state {spec.first}")


def unsound(spec: MachineSpec) -> str | None:
    """What no machine may be begun with. The host has said all that is wrong before."""
    names = [one.name for one in spec.states]
    if len(names) > STATES_MAX or len(set(names)) != len(names):
        return f"a machine has at most {STATES_MAX} states, each with a name of its own"
    wanted = [spec.first, *(name for one in spec.states for name in (*one.next, one.on_failure) if name)]
    strange = [name for name in wanted if name not in names and name != "*"]
    untimed = [
        one.name
        for one in spec.states
        if (one.kind == "poll" and one.every_ms is None)
        or (one.kind == "timer" and (one.at_ms is None) == (one.after_ms is None))
    ]
    if strange:
        return f"there is no state {strange[0]!r}"
    return f"{untimed[0]}: say when it goes on" if untimed else None


def select_state(state: State, call: Call, args: SelectArgs) -> Decisions:
    problem = why_not(state, args.state)
    if problem is not None:
        yield kernel_tools.resolved(call, problem, ok=False)
        return
    yield from program.replace(state)
    if state.machine.spec is None:
        yield MachineCreated(by="agent")
    machine = state.machine
    body = MachineBody(input=args.input) if args.input is not None else None
    yield from program.enter(
        state, args.state, "agent", base_seq=machine.base_seq, output_seq=machine.output_seq, body=body
    )
    warning = loop_guard.warning(machine, args.state)
    yield kernel_tools.resolved(call, f"the machine is in state {args.state}{warning}")


def why_not(state: State, name: str) -> str | None:
    """Why the agent cannot have a state be the next one."""
    machine = state.machine
    spec = machine.spec or machine.given
    if spec is None:
        return "there is no state machine: create one with create_machine"
    known = {one.name: one for one in spec.states}
    if name not in known:
        return f"there is no state {name!r}: there are {', '.join(known)}"
    if is_parked(state) and name != machine.current:
        return f"a person says what follows {machine.current}: they are asked once you have nothing more to say"
    if machine.status in states.OPEN:
        allowed = machine.choices or states.follow(known[machine.current], known)
        if name not in allowed:
            return f"{name} cannot follow {machine.current}: choose from {', '.join(allowed)}"
    if machine.status == "ended" and known[name].kind == "terminal":
        return f"the machine has ended: to have it begin again, choose a state that is no end, not {name}"
    if known[name].kind != "terminal" and (circles := loop_guard.in_circles(machine, name)):
        return f"{circles}. Choose another state, or an end"
    return None


def is_parked(state: State) -> bool:
    """Whether the machine is where only a person has it go on, also if it was stopped there."""
    machine = state.machine
    here = machine.states.get(machine.current)
    return here is not None and machine.status not in ("none", "ended") and program.is_peoples(here)


def machine_state(state: State, call: Call, args: LookArgs) -> Decisions:
    machine = state.machine
    spec = machine.spec or machine.given
    if spec is None:
        yield kernel_tools.resolved(call, "there is no state machine")
        return
    progress = {name: msgspec.structs.asdict(one) for name, one in machine.progress.items()}
    told = {
        "machine": spec.name,
        "status": machine.status,
        "state": machine.current,
        "outcome": machine.outcome,
        "wakes_at_ms": states.next_wake_ms(state),
        "progress": progress,
        "states": [
            {"name": one.name, "kind": one.kind, "when": one.when, "next": list(one.next)} for one in spec.states
        ],
    }
    yield kernel_tools.resolved(call, msgspec.json.encode(told, order="deterministic").decode())


def _name(state: State) -> str:
    return state.machine.spec.name if state.machine.spec is not None else ""


MACHINE_TOOLS: dict[str, tuple[type[Value], Callable[..., Decisions]]] = {
    "create_machine": (CreateArgs, create_machine),
    "select_state": (SelectArgs, select_state),
    "machine_state": (LookArgs, machine_state),
}
