"""The definition of a state machine: its states, what each does, and what may follow it. Plain data."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .blocks import JsonObject, Nat, Value

Count = Annotated[int, msgspec.Meta(gt=0)]

StateKind = Literal["agent", "script", "poll", "timer", "park", "terminal"]
"""What happens in a state: the agent works on something; a program runs; a program runs again and again until it says
that something is so; a time is waited for; a person decides; nothing, since it is an end."""

MachineOutcome = Literal["completed", "failed", "cancelled"]
"""How a machine ended."""

VISITS_MAX = 20
"""How often a state may be entered, unless the machine says otherwise."""

QUICK_POLLS_MAX = 3
"""How often in a row a poll may find at once what it waits for, unless the machine says otherwise."""

ANY_STATE = "*"
"""Stands among the states that may follow for all of them."""


class MachineState(Value, frozen=True, kw_only=True):
    """One state of a machine."""

    name: str
    kind: StateKind
    """What happens in it."""
    when: str = ""
    """When it is the right one, for whoever chooses."""
    next: tuple[str, ...] = ()
    """The states that may follow. One follows by itself; of several, a person chooses behind a `park`, else the agent.
    If it names none, the agent chooses among all."""
    on_failure: str = ""
    """The state that follows if it does not end well."""
    input: JsonObject | None = None
    """The JSON Schema that its input must fit."""
    prompt: str = ""
    """Of an agent: what it is told. `{input.name}` stands for a value of the input."""
    command: tuple[str, ...] = ()
    """Of a script or a poll: a program and its arguments; no shell reads them. An argument `{input.name}` stands for a
    value of the input, which is in the environment too."""
    cwd: str = "."
    timeout_ms: Count = 120_000
    """How long the program may take."""
    success_codes: tuple[Nat, ...] = (0,)
    """The exit codes with which it ended well; of a poll: with which what it looks for is so."""
    every_ms: Count | None = None
    """Of a poll: how long to wait before the next attempt."""
    give_up_ms: Count | None = None
    """Of a poll: how long it goes on before it fails."""
    at_ms: Nat | None = None
    """Of a timer: the time, in milliseconds since 1970."""
    after_ms: Count | None = None
    """Of a timer, instead: how long to wait."""
    misfire: Literal["fire", "fail"] = "fire"
    """Of a timer that is noticed too late: it fires all the same, or the state fails."""
    late_ms: Nat = 60_000
    """Of a timer: how late is too late."""
    question: str = ""
    """Of a park: what a person is asked; what they may choose are the states that may follow."""
    outcome: MachineOutcome = "completed"
    """Of a terminal: how the machine ends there."""
    reason: str = ""
    """Of a terminal: why, in words."""


class MachineSpec(Value, frozen=True, kw_only=True):
    """A state machine as a value."""

    name: str
    states: tuple[MachineState, ...]
    first: str = ""
    """The state that it begins with, unless another one is chosen."""
    when: str = ""
    """What it is for: whether a task fits is judged by this."""
    visits_max: Count = VISITS_MAX
    """How often a state may be entered; then the machine goes in circles, and fails."""
    quick_polls_max: Count = QUICK_POLLS_MAX
    """How often in a row a poll may find at once what it waits for; then it tests nothing, and the machine fails."""
