"""Definitions of state machines as this protocol writes them, in both directions.

There a command is a text for a shell, with values of the input spliced into it. Here a value never becomes shell text:
a definition that wants that is refused, and told how a program gets the value instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.events.values.machines import MachineSpec, MachineState
from windlass.runtime.machines.drafts import Draft
from windlass.runtime.machines.machine import BadMachine, Machine
from windlass.runtime.machines.state_fields import FIELDS

TEMPLATE = re.compile(r"\{\{\s*input\.([A-Za-z_]\w*(?:\.\w+)*)\s*\}\}")
SHELL = ("sh", "-c")
COMMON = ("name", "kind", "when", "inputSchema", "next", "onFailure")
PROGRAM = ("command", "cwd", "timeoutMs", "successCodes")
KNOWN: dict[str, tuple[str, ...]] = {
    "agent": (*COMMON, "prompt"),
    "script": (*COMMON, *PROGRAM),
    "poll": (*COMMON, *PROGRAM, "intervalMs"),
    "timer": (*COMMON, "wakeAt", "wakeAfterMs"),
    "park": (*COMMON, "question"),
    "terminal": ("name", "kind", "when", "status", "reason"),
}
"""The fields of each kind. `next`, `onFailure`, `park` and `wakeAfterMs` are more than the protocol asks for."""
NOT_HERE = {
    "systemPrompt": "put it in front of the prompt",
    "allowedSkills": "give the agent only those skills",
}
"""Fields that are refused rather than passed over: they would say what a state may not do."""
RENAMED = {"inputSchema": "input", "onFailure": "on_failure", "successCodes": "success_codes", "status": "outcome"}
SECONDS = {"timeoutMs": "timeout", "intervalMs": "every", "wakeAfterMs": "after"}
"""Milliseconds there; here a number is seconds."""


def machine_of(definition: Mapping[str, Any]) -> Machine:
    """The machine that a definition describes. Raises `BadMachine` with all that is wrong."""
    name = definition.get("name") if isinstance(definition.get("name"), str) else ""
    problems = [
        f"{key!r} is no field of a definition: there are name, prompt and states"
        for key in definition
        if key not in ("name", "prompt", "states")
    ]
    listed = definition.get("states")
    if not isinstance(listed, list) or not listed:
        raise BadMachine(
            str(name), [*problems, "states: a list is wanted, each with name, kind, and what happens there"]
        )
    drafts = [_draft(number, given, problems) for number, given in enumerate(listed, start=1)]
    if problems:
        raise BadMachine(str(name), problems)
    return Machine(
        str(name), [draft for draft in drafts if draft is not None], when=str(definition.get("prompt") or "")
    )


def _draft(number: int, given: Any, problems: list[str]) -> Draft | None:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not isinstance(given.get("kind"), str):
        problems.append(f"state {number}: a table of fields is wanted, with name and kind")
        return None
    name, kind = given["name"], given["kind"]
    if kind not in KNOWN:
        problems.append(f"{name}: {kind!r} is no kind of a state: there are {', '.join(KNOWN)}")
        return None
    fields: dict[str, Any] = {}
    for key, value in given.items():
        if key in NOT_HERE:
            problems.append(f"{name}: {key} is not known here: {NOT_HERE[key]}")
        elif key not in KNOWN[kind]:
            problems.append(f"{name}: {kind} states have no {key!r}: they have {', '.join(KNOWN[kind])}")
        elif key not in ("name", "kind") and value is not None:
            _put(fields, name, key, value, problems)
    return Draft(name, kind, fields)


def _put(fields: dict[str, Any], name: str, key: str, value: Any, problems: list[str]) -> None:
    """Puts one field as it is called here."""
    if key in SECONDS:
        if isinstance(value, int | float) and not isinstance(value, bool):
            fields[SECONDS[key]] = value / 1000
        else:
            problems.append(f"{name}: {key}: a number of milliseconds is wanted, not {value!r}")
    elif key == "wakeAt":
        fields["at"] = int(value) if isinstance(value, float) else value
    elif key == "command":
        if isinstance(value, str) and (placeholder := TEMPLATE.search(value)) is not None:
            problems.append(
                f"{name}: command: a value of the input is not spliced into shell text: write "
                f'"${_variable(placeholder[1])}" in place of {placeholder[0]}'
            )
        fields["command"] = [*SHELL, value] if isinstance(value, str) else value
    elif key in ("prompt", "question"):
        fields[key] = _prompt(str(value))
    else:
        fields[RENAMED.get(key, key)] = value


def _variable(path: str) -> str:
    """The environment variable in which a program finds a value."""
    return "INPUT_" + path.partition(".")[0].upper()


def _prompt(text: str) -> str:
    """A text with its values as they are written here. Braces of other meaning are doubled."""
    pieces = TEMPLATE.split(text)
    for at in range(0, len(pieces), 2):
        pieces[at] = re.sub(r"\{([A-Za-z_]\w*(?:\.\w+)*)\}", r"{{\1}}", pieces[at])
    return "".join(f"{{input.{piece}}}" if at % 2 else piece for at, piece in enumerate(pieces))


def machine_again(spec: MachineSpec) -> Machine:
    """The machine that a recorded definition is of, for the process that resumes its session."""
    plain = [Draft(one.name, one.kind, _fields(one)) for one in spec.states]
    return Machine(
        spec.name,
        plain,
        first=spec.first,
        when=spec.when,
        visits_max=spec.visits_max,
        quick_polls_max=spec.quick_polls_max,
    )


def _fields(state: MachineState) -> dict[str, Any]:
    plain = MachineState(name=state.name, kind=state.kind)
    fields: dict[str, Any] = {}
    for field in FIELDS[state.kind]:
        kept, convert = KEPT.get(field, (field, None))
        value = getattr(state, kept)
        if value != getattr(plain, kept):
            fields[field] = convert(value) if convert is not None else msgspec.to_builtins(value)
    return fields


def _seconds(ms: int) -> float:
    return ms / 1000


KEPT: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "timeout": ("timeout_ms", _seconds),
    "every": ("every_ms", _seconds),
    "give_up": ("give_up_ms", _seconds),
    "after": ("after_ms", _seconds),
    "late": ("late_ms", _seconds),
    "at": ("at_ms", None),
}
"""What is written as a duration or a time, and kept as milliseconds."""


def definition_form(spec: MachineSpec) -> JsonObject:
    """A definition as this protocol writes it."""
    return {"name": spec.name, "prompt": spec.when, "states": [_state_form(state) for state in spec.states]}


def _state_form(state: MachineState) -> JsonObject:
    form: JsonObject = {"name": state.name, "kind": state.kind}
    told: dict[str, Any] = {
        "when": state.when,
        "inputSchema": state.input,
        "next": list(state.next),
        "onFailure": state.on_failure,
        "question": _prompt_form(state.question),
        "reason": state.reason,
        "wakeAt": state.at_ms,
        "wakeAfterMs": state.after_ms,
        "intervalMs": state.every_ms,
        "prompt": _prompt_form(state.prompt),
    }
    form |= {key: value for key, value in told.items() if value not in (None, "", [])}
    if state.kind in ("script", "poll"):
        form["command"] = _command_form(state.command)
        form |= {"cwd": state.cwd, "timeoutMs": state.timeout_ms, "successCodes": list(state.success_codes)}
    if state.kind == "terminal":
        form["status"] = state.outcome
    return form


def _prompt_form(text: str) -> str:
    told = re.sub(r"(?<!\{)\{input\.([\w.]+)\}(?!\})", r"{{ input.\1 }}", text)
    return re.sub(r"\{\{([A-Za-z_]\w*(?:\.\w+)*)\}\}", r"{\1}", told)


def _command_form(command: tuple[str, ...]) -> str:
    """A program and its arguments as a text for a shell."""
    return command[2] if command[:2] == SHELL and len(command) == 3 else shlex.join(command)
