"""What is wrong with a machine, before it starts: each line names the state and says what to do about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from windlass.events.errors import UsageError
from windlass.events.values.machines import ANY_STATE, MachineSpec, MachineState
from windlass.kernel.parts.machines.machine_tools import STATES_MAX
from windlass.kernel.parts.machines.states import follow
from windlass.tools.validator import Validator

from .inputs import named_in, spoken_of, stands_alone, unknown_in
from .interpreters import SHELLS, reads_as_code

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
RESERVED = ("interrupted",)
NEAR = ("input", "inptu", "imput", "inupt", "inputs", "inpt", "iput", "nput", "intput", "inpu", "ipnut", "innput")
"""Words that are meant to be `input`, in commands, where braces may be anybody's."""
AGENT_DELAY_MS_MIN = 30_000
"""How soon a machine that a model wrote may look again."""


def problems_of(spec: MachineSpec, *, by_model: bool = False, unread: bool = False) -> list[str]:
    """All that is wrong with a machine; empty if it can be gone through. `unread`: some of its states could not be
    read, so that nothing is said of the ways between them."""
    names = [one.name for one in spec.states]
    problems = list(_names(names))
    if problems:
        return problems
    by_name = {one.name: one for one in spec.states}
    if spec.first not in by_name:
        problems.append(f"first: there is no state {spec.first!r}{_meant(spec.first, by_name)}")
    for one in spec.states:
        problems += [f"{one.name}: {told}" for told in _state(one, by_name, by_model=by_model)]
    if unread:
        return problems
    if not any(one.kind == "terminal" and one.outcome == "completed" for one in spec.states):
        problems.append("it has no end at which its work is done: add a terminal with outcome 'completed'")
    return problems or list(_ways(spec, by_name))


def _names(names: list[str]) -> Iterator[str]:
    if not names:
        yield "it has no states: give it at least one, and an end"
    if len(names) > STATES_MAX:
        yield f"it has {len(names)} states, and {STATES_MAX} are the most: divide it into several machines"
    for name in dict.fromkeys(names):
        if not NAME.fullmatch(name):
            yield f"{name!r}: a state's name is 1 to 64 letters, digits, '_' and '-', and begins with a letter"
        elif name in RESERVED:
            yield f"{name}: this name stands for something else: give the state another one"
        elif names.count(name) > 1:
            yield f"{name}: {names.count(name)} states have this name: give each its own"


def _state(one: MachineState, states: Mapping[str, MachineState], *, by_model: bool) -> Iterator[str]:
    """What is wrong with one state."""
    for name in (*one.next, *([one.on_failure] if one.on_failure else [])):
        if name not in states and name != ANY_STATE:
            yield f"{name!r} is to follow it, which is no state{_meant(name, states)}"
    if len(set(one.next)) < len(one.next):
        yield "a state is named twice among those that may follow: name it once"
    if one.input is not None:
        try:
            Validator(one.input, "input").errors({})
        except UsageError as error:
            yield f"input: {str(error).partition(': ')[2]}"
    yield from _references(one)
    if one.kind in ("script", "poll"):
        yield from _command(one)
    if one.kind == "poll" and one.every_ms is not None and one.give_up_ms is not None and one.give_up_ms < one.every_ms:
        yield "it would give up before it looks again: let 'give_up' be longer than 'every'"
    if by_model:
        yield from _delays(one)


def _references(one: MachineState) -> Iterator[str]:
    """What its texts speak of and nobody will fill in, and values that the schema of its input does not have."""
    for text in (one.prompt, one.question):
        for name in unknown_in(text):
            yield (
                f"it speaks of {{{name}}}, which stands for nothing: {_fix(name)}, or {{{{{name}}}}} for the braces "
                "themselves"
            )
    for word in one.command:
        for name in unknown_in(word):
            if name.partition(".")[0].lower() in NEAR:
                yield f"{word!r} speaks of {{{name}}}, which stands for nothing: {_fix(name)}"
    for text in (one.prompt, one.question):
        for path in spoken_of(text):
            yield from _in_schema(one, path)
    for word in one.command:
        for path in named_in(word):
            yield from _in_schema(one, path)


def _fix(name: str) -> str:
    """What was meant, most likely."""
    first, _, rest = name.partition(".")
    if first == "input":
        return "name a value of it, such as {input.name}"
    return f"write {{input.{rest if rest and first.lower() in NEAR else name}}}"


def _in_schema(one: MachineState, path: str) -> Iterator[str]:
    """Why the schema of its input does not have a value."""
    schema = one.input
    for step in path.split("."):
        known = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(known, dict):
            return
        if step not in known:
            yield f"{{input.{path}}} is no part of its input: its schema has {', '.join(known) or 'nothing'}"
            return
        schema = known[step]


def _command(one: MachineState) -> Iterator[str]:
    """Input enters a program as whole arguments, and never as text that an interpreter reads."""
    for number, word in enumerate(one.command):
        if not named_in(word):
            continue
        if number == 0:
            yield f"{word!r} is to be the program: name the program itself, input is for its arguments"
        elif not stands_alone(word):
            yield f"{word!r}: input is a whole argument, '{{input.name}}', and no part of one"
        elif reader := reads_as_code(one.command, number, stands_alone):
            what = "a shell" if reader in SHELLS else repr(reader)
            yield (
                f"{word!r} would be read by {what}: pass it behind the text, as in "
                "['sh', '-c', 'echo \"$1\"', 'sh', '{input.name}'], or read $INPUT_NAME there"
            )


def _delays(one: MachineState) -> Iterator[str]:
    for word, delay_ms in (("every_ms", one.every_ms), ("after_ms", one.after_ms)):
        if delay_ms is not None and delay_ms < AGENT_DELAY_MS_MIN:
            yield f"{word}: {delay_ms} ms is too soon: at least {AGENT_DELAY_MS_MIN}"


def _ways(spec: MachineSpec, states: Mapping[str, MachineState]) -> Iterator[str]:
    """States that nothing leads to, and states from which no way leads to an end."""
    leads = {name: _leads(one, dict(states)) for name, one in states.items()}
    reached = _closure([spec.first], leads)
    for name in states:
        if name not in reached:
            yield f"{name}: nothing leads there: name it among those that may follow another state, or take it out"
    back: dict[str, set[str]] = {name: set() for name in states}
    for name, targets in leads.items():
        for target in targets:
            back[target].add(name)
    ends = [name for name, one in states.items() if one.kind == "terminal"]
    ending = _closure(ends, back)
    for name in states:
        if name in reached and name not in ending:
            yield f"{name}: no way leads from there to an end: let a terminal follow somewhere"


def _leads(one: MachineState, states: dict[str, MachineState]) -> set[str]:
    if one.kind == "terminal":
        return set()
    return {*follow(one, states), *([one.on_failure] if one.on_failure else [])}


def _closure(begin: list[str], leads: Mapping[str, set[str]]) -> set[str]:
    closure, line = set(begin), list(begin)
    while line:
        for name in leads[line.pop()]:
            if name not in closure:
                closure.add(name)
                line.append(name)
    return closure


def _meant(name: str, states: Mapping[str, MachineState]) -> str:
    near = difflib.get_close_matches(name, states, n=1)
    return f": did you mean {near[0]!r}?" if near else f": there are {', '.join(states)}"
