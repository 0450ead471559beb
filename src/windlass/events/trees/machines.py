"""State machines: a task with a lifecycle, gone through state by state in the session of its agent."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.base import Category, Command, Decision, Fact, Nat
from windlass.events.trees.flows import NodeCall
from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.machines import MachineOutcome, MachineSpec, StateKind


class MachineBody(Value, frozen=True, kw_only=True):
    """What a state is given."""

    input: JsonObject = {}


class ComputedBody(Value, frozen=True, kw_only=True):
    """What was worked out for a state: its whole input, and the call that it makes or what the agent is told."""

    input: JsonObject = {}
    call: NodeCall | None = None
    text: str = ""


class MachineReceived(Command, frozen=True, kw_only=True, tag="machine.received"):
    """Somebody has the machine begin, or go to another state."""

    state: str = ""
    """The state; the first one if empty."""
    body: MachineBody | None = None


class MachineCreated(Decision, frozen=True, kw_only=True, tag="machine.created"):
    """A machine begins."""

    CATEGORY: ClassVar[Category] = "proc"
    spec: MachineSpec | None = None
    """Its definition; None if it is the one that the session was set up with."""
    by: Literal["agent", "person"]


class MachineMoved(Decision, frozen=True, kw_only=True, tag="machine.moved"):
    """Another state is the current one. Its input is here, or is the one before with what the last state gave."""

    CATEGORY: ClassVar[Category] = "proc"
    state: str
    """The state, by its name."""
    kind: StateKind
    """What happens in it."""
    visit: Nat
    """How many states have been entered, this one included."""
    by: Literal["agent", "person", "rule"]
    """Who chose it; `rule`: nothing else could follow."""
    base_seq: Nat | None = None
    """The record that has the input which is carried on."""
    output_seq: Nat | None = None
    """The record that has what is added to it."""
    reactivates: bool = False
    """Whether the machine had ended before."""
    body: MachineBody | None = None


class MachineComputed(Fact, frozen=True, kw_only=True, tag="machine.computed"):
    """The host worked out what a state does with its input: the call that it makes, or what the agent is told."""

    CATEGORY: ClassVar[Category] = "proc"
    visit: Nat
    """The visit that it belongs to."""
    attempt: Nat = 1
    work: Literal["call", "told", "none"]
    """What there is to do; `none` if the input does not fit."""
    tokens: Nat = 0
    reason: str = ""
    body: ComputedBody | None = None


class MachineSlept(Decision, frozen=True, kw_only=True, tag="machine.slept"):
    """The machine waits for a time: that of a timer, or of the next attempt of a poll."""

    CATEGORY: ClassVar[Category] = "proc"
    state: str
    """The state, by its name."""
    visit: Nat
    """The visit that it belongs to."""
    until_ms: Nat
    """When it goes on."""


class MachineLeft(Decision, frozen=True, kw_only=True, tag="machine.left"):
    """A state has ended, or another one took its place."""

    CATEGORY: ClassVar[Category] = "proc"
    state: str
    """The state, by its name."""
    visit: Nat
    """The visit that it belongs to."""
    outcome: Literal["done", "failed", "replaced"]
    """How it ended."""
    output_seq: Nat | None = None
    """The record that has what it gave."""
    choices: tuple[str, ...] = ()
    """The states that the agent may choose from now; none if it has nothing to choose."""
    reason: str = ""


class MachineInterrupted(Decision, frozen=True, kw_only=True, tag="machine.interrupted"):
    """The machine was stopped in a state; the agent says how it goes on. What the state had given so far is in the
    command that stopped it."""

    CATEGORY: ClassVar[Category] = "proc"
    state: str
    """The state, by its name."""
    visit: Nat
    """The visit that it belongs to."""
    reason: Literal["interrupted", "failed", "not_carried_over"]
    """Why: by a command, with the run that it was in, or because a fork begins without it."""


class MachineEnded(Decision, frozen=True, kw_only=True, tag="machine.ended"):
    """A machine came to its end. What it was for may have failed all the same; the run that it was in has not."""

    CATEGORY: ClassVar[Category] = "proc"
    state: str
    """The state that it ended in."""
    visit: Nat
    """The visit that it belongs to."""
    outcome: MachineOutcome
    """How it ended."""
    reason: str = ""
