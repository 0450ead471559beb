"""The input of states: where it is in the log, whether it fits, and how prompts and programs get it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from windlass.events.trees.machines import MachineComputed, MachineMoved, MachineReceived
from windlass.events.turns import ModelReplied
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.machines import MachineState
from windlass.runtime.flows.outputs import outcome_of
from windlass.tools.validator import Validator

from .interpreters import is_argument_of_code

REFERENCE = re.compile(r"\{input\.([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\}")
SPOKEN = re.compile(r"\{\{([A-Za-z_]\w*(?:\.\w+)*)\}\}|\{([A-Za-z_]\w*(?:\.\w+)*)\}")
"""What a text for people or models speaks of; doubled braces are braces."""
NUMBER = re.compile(r"-\d+(?:\.\d+)?")
NOT_IN_NAMES = re.compile(r"[^A-Z0-9_]")
WHOLE_INPUT = "MACHINE_INPUT"
OF_INPUT = "INPUT_"
OUTPUT_CHARS_MAX = 16_000
ENVIRONMENT_CHARS_MAX = 100_000
"""More than this is given to no program: an argument has a bound of its own in most systems."""

EventAt = Callable[[int], Awaitable[Any]]


def named_in(word: str) -> list[str]:
    """The values of the input that a word of a command speaks of."""
    return REFERENCE.findall(word)


def spoken_of(text: str) -> list[str]:
    """The values of the input that a prompt or a question speaks of."""
    return [name.partition(".")[2] for _, name in SPOKEN.findall(text) if name.startswith("input.")]


def unknown_in(text: str) -> list[str]:
    """What stands in braces, and is no value of the input."""
    return [name for _, name in SPOKEN.findall(text) if name and not name.startswith("input.")]


def stands_alone(word: str) -> bool:
    """Whether a word is nothing but one value of the input."""
    return REFERENCE.fullmatch(word) is not None


def value_at(given: JsonObject, path: str) -> Any:
    """A value of the input, by its path. Raises `KeyError`."""
    part: Any = given
    for step in path.split("."):
        if isinstance(part, list) and step.isdigit() and int(step) < len(part):
            part = part[int(step)]
        elif isinstance(part, dict) and step in part:
            part = part[step]
        else:
            raise KeyError(path)
    return part


def as_text(value: Any) -> str:
    """A value as a program or a prompt gets it: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()


def filled(text: str, given: JsonObject) -> str:
    """A prompt or a question with the values that it speaks of. Raises `KeyError` for one that is not there."""

    def put(match: re.Match[str]) -> str:
        if match[1]:
            return f"{{{match[1]}}}"
        known = match[2].startswith("input.")
        return as_text(value_at(given, match[2].partition(".")[2])) if known else match[0]

    return SPOKEN.sub(put, text)


def arguments(command: tuple[str, ...], given: JsonObject) -> list[str]:
    """A command with the values of its input as whole arguments."""
    return [as_text(value_at(given, named_in(word)[0])) if stands_alone(word) else word for word in command]


def environment(given: JsonObject) -> dict[str, str]:
    """The input as environment variables: each value by its name, and the whole as JSON."""
    variables = {WHOLE_INPUT: as_text(given)}
    for name, value in given.items():
        variables[OF_INPUT + NOT_IN_NAMES.sub("_", name.upper())] = as_text(value)
    kept = {name: value for name, value in variables.items() if "\0" not in value}
    return kept if sum(map(len, kept.values())) <= ENVIRONMENT_CHARS_MAX else {}


def unfit(spec: MachineState, given: JsonObject) -> str:
    """Why an input does not fit a state; empty if it does."""
    if spec.input is not None and (errors := Validator(spec.input, f"state {spec.name!r}").errors(given)):
        return f"its input does not fit: {'; '.join(errors)}"
    wanted = [
        *spoken_of(spec.prompt),
        *spoken_of(spec.question),
        *(path for word in spec.command for path in named_in(word)),
    ]
    for path in wanted:
        try:
            value_at(given, path)
        except KeyError:
            return f"its input has no {path!r}"
    return _option_among(spec.command, given)


def _option_among(command: tuple[str, ...], given: JsonObject) -> str:
    """Why a program would take a value for one of its options; empty if none is."""
    for number, word in enumerate(command):
        if not stands_alone(word) or "--" in command[:number] or is_argument_of_code(command, number, stands_alone):
            continue
        path = named_in(word)[0]
        text = as_text(value_at(given, path))
        if text.startswith("-") and text != "-" and not NUMBER.fullmatch(text):
            return f"the value of {path!r} begins with '-' and would be read as an option: put {word!r} behind a '--'"
    return ""


async def input_of(moved: MachineMoved, event_at: EventAt) -> JsonObject:
    """The input of a visit: as it was given, or the one before with what the last state gave."""
    if moved.body is not None:
        return moved.body.input
    visit_input: JsonObject = {}
    if moved.base_seq is not None:
        base = await event_at(moved.base_seq)
        if isinstance(base, MachineReceived | MachineComputed) and base.body is not None:
            visit_input = dict(base.body.input)
    if moved.output_seq is not None:
        visit_input |= output_in(await event_at(moved.output_seq))
    return visit_input


def output_in(event: Any) -> JsonObject:
    """What a state gave, as values: an object as such, all else under the name `output`."""
    value = said_in(event)
    if isinstance(value, str):
        text = value.strip()
        try:
            parsed = msgspec.json.decode(text) if text.startswith("{") else None
        except (msgspec.DecodeError, RecursionError):  # a program may print what it likes
            parsed = None
        return parsed if isinstance(parsed, dict) else {"output": shortened(text)}
    return value if isinstance(value, dict) else {"output": value}


def said_in(event: Any) -> Any:
    """What a record holds that a state came to."""
    if isinstance(event, ModelReplied):
        blocks = event.body.blocks if event.body is not None else ()
        return "".join(block.text for block in blocks if isinstance(block, Text))
    return outcome_of(event).value


def shortened(text: str) -> str:
    """The head and the tail of a long text."""
    if len(text) <= OUTPUT_CHARS_MAX:
        return text
    head = OUTPUT_CHARS_MAX * 3 // 10
    tail = OUTPUT_CHARS_MAX - head
    return f"{text[:head]}\n[… {len(text) - OUTPUT_CHARS_MAX:,} characters are left out here …]\n{text[-tail:]}"
