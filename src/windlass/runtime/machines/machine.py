"""A state machine as a value: its states, checked when it is made."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.values.machines import QUICK_POLLS_MAX, VISITS_MAX, MachineSpec, MachineState

from .checks import problems_of
from .drafts import Draft
from .state_fields import read

NAME_CHARS_MAX = 100


class BadMachine(UsageError):
    """A definition that no session could go through. `problems` names each state and what to do about it."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        told = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(f"the state machine {name!r} cannot be gone through:\n{told}")
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Machine:
    """A state machine: the states that a task may be in. `Agent(machine=…)` has the agent go through it; it holds no
    state itself, so that any number of agents and sessions may share one."""

    name: str
    """What people call it."""
    states: Sequence[Draft]
    """The states, as the functions in `windlass.machines` make them."""
    first: str = ""
    """The state that it begins with; the first of the list if none is named."""
    when: str = ""
    """What it is for: whether a task fits is judged by this."""
    visits_max: int = VISITS_MAX
    """How often a state may be entered; then the machine goes in circles, and fails."""
    quick_polls_max: int = QUICK_POLLS_MAX
    """How often in a row a poll may find at once what it waits for; then it tests nothing, and the machine fails."""

    def __post_init__(self) -> None:
        problems = list(self._wrong())
        if not problems:
            spec = self._read(problems)
            problems += problems_of(spec, unread=bool(problems))
        if problems:
            raise BadMachine(str(self.name), problems)

    def _wrong(self) -> Sequence[str]:
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= NAME_CHARS_MAX:
            return ["name: a text of 1 to 100 characters is wanted"]
        if isinstance(self.states, str | Mapping) or not all(isinstance(one, Draft) for one in self.states):
            return ["states: a list is wanted, of states that windlass.machines makes"]
        problems = []
        for field in ("visits_max", "quick_polls_max"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                problems.append(f"{field}: a number of at least 1 is wanted, not {value!r}")
        return problems

    def _read(self, problems: list[str]) -> MachineSpec:
        """The definition; an end stands for each state that cannot be read, with the ways out of it that can be."""
        states = [read(draft, problems) or _unread(draft) for draft in self.states]
        first = self.first or (self.states[0].name if self.states else "")
        return MachineSpec(
            name=self.name,
            states=tuple(states),
            first=first,
            when=self.when,
            visits_max=self.visits_max,
            quick_polls_max=self.quick_polls_max,
        )

    @functools.cached_property
    def spec(self) -> MachineSpec:
        """The definition as the log keeps it."""
        return self._read([])


def _unread(draft: Draft) -> MachineState:
    """What is known of a state that cannot be read: where it leads."""
    follow, failed = draft.fields.get("next", ()), draft.fields.get("on_failure", "")
    names = [follow] if isinstance(follow, str) else follow if isinstance(follow, list | tuple) else []
    return MachineState(
        name=draft.name,
        kind="terminal",
        next=tuple(name for name in names if isinstance(name, str)),
        on_failure=failed if isinstance(failed, str) else "",
    )


AUTO = "auto"
"""In place of a machine: the agent may create one when a task has a lifecycle."""


def machine_given(given: Any) -> Machine | str | None:
    """What an agent was given as its machine. Raises `UsageError` for what is none."""
    if isinstance(given, Machine):
        return given
    if given is None or (isinstance(given, str) and given == AUTO):
        return AUTO if given is not None else None
    raise UsageError(f"machine={given!r}: give a windlass.machines.Machine, 'auto' or None")
