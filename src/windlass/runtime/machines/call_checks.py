"""What an agent wants of a machine, checked before the kernel does it: definitions as a whole, inputs by their
schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events import known_types
from windlass.events.errors import Refused, UsageError
from windlass.events.trees.machines import MachineReceived
from windlass.events.values.blocks import JsonObject
from windlass.events.values.machines import MachineSpec
from windlass.kernel.parts.machines.machine_tools import CreateArgs, SelectArgs
from windlass.kernel.parts.machines.states import OPEN

from .checks import problems_of
from .inputs import unfit

if TYPE_CHECKING:
    from windlass.kernel.state import State

SHOWN_MAX = 10


def wrong_with(state: State, tool: str, args: JsonObject) -> tuple[str, ...]:
    """What is wrong with a call of a machine's tools; empty if nothing is."""
    try:
        if tool == "create_machine":
            return _created(known_types.convert(args, CreateArgs))
        if tool == "select_state":
            return _selected(state, known_types.convert(args, SelectArgs))
    except (msgspec.ValidationError, UsageError) as error:
        return (str(error),)
    return ()


def _created(args: CreateArgs) -> tuple[str, ...]:
    spec = MachineSpec(name=args.name, states=args.states, first=args.first, when=args.when)
    problems = list(_incomplete(spec)) + problems_of(spec, by_model=True)
    first = next((one for one in spec.states if one.name == spec.first), None)
    if not problems and first is not None and (reason := unfit(first, args.input)):
        problems = [f"{first.name}: {reason}"]
    return tuple(problems[:SHOWN_MAX])


def _incomplete(spec: MachineSpec) -> list[str]:
    """What a model left out: a builder or a file would not have let it."""
    problems = []
    for one in spec.states:
        missing = {
            "agent": not one.prompt and "prompt",
            "script": not one.command and "command",
            "poll": (not one.command and "command") or (one.every_ms is None and "every_ms"),
            "timer": (one.at_ms is None) == (one.after_ms is None) and "after_ms or at_ms, one of them",
            "park": not one.question and "question",
            "terminal": False,
        }[one.kind]
        if missing:
            problems.append(f"{one.name}: it needs {missing}")
    return problems


def _selected(state: State, args: SelectArgs) -> tuple[str, ...]:
    spec = state.machine.spec or state.machine.given
    chosen = next((one for one in spec.states if one.name == args.state), None) if spec is not None else None
    if chosen is None or args.input is None:
        return ()  # the kernel says so, or looks at the input that is kept
    reason = unfit(chosen, args.input)
    return (f"{chosen.name}: {reason}",) if reason else ()


def check_received(command: MachineReceived, state: State) -> None:
    """Raises `Refused` for an input that does not fit the state that is wanted, and if a machine is to begin that is at
    work."""
    spec = state.machine.spec or state.machine.given
    if not command.state and state.machine.status in OPEN:
        raise Refused(
            "at_work",
            f"the machine is at work, in state {state.machine.current!r}: to have it begin again, name the state, "
            f"select({spec.first if spec is not None else ''!r})",
        )
    wanted = (command.state or spec.first) if spec is not None else ""
    chosen = next((one for one in spec.states if one.name == wanted), None) if spec is not None else None
    if chosen is None or command.body is None:
        return
    if reason := unfit(chosen, command.body.input):
        raise Refused("unfit_input", f"{chosen.name}: {reason}")
