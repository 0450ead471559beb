"""Runs: the commands that wake and stop them, how they start, and the six ways in which they end."""

from __future__ import annotations

from typing import Literal

from windlass.events.values.blocks import Value
from windlass.events.values.failures import CauseKind, Failure, StopReason
from windlass.events.values.setup import RunOptions
from windlass.events.values.usage import Usage

from .base import Command, Decision, Nat


class PartialBody(Value, frozen=True, kw_only=True):
    """What a model had written, or a program had printed, when it was stopped."""

    text: str = ""
    reasoning: str = ""
    output: str = ""
    """What the program had printed that a state of a machine ran."""


class WakeReceived(Command, frozen=True, kw_only=True, tag="wake.received"):
    """Do the scheduled step now, or resume what is owed."""


class InterruptReceived(Command, frozen=True, kw_only=True, tag="interrupt.received"):
    """Stop what is running; it may go on later. The host adds what the model had written so far."""

    reason: str = ""
    jobs: bool = False
    """Whether background jobs are to end too."""
    tokens: Nat = 0
    usage: Usage | None = None
    body: PartialBody | None = None


class CancelReceived(Command, frozen=True, kw_only=True, tag="cancel.received"):
    """Stop what is running and close it for good."""

    reason: str = ""
    jobs: bool = False
    """Whether background jobs are to end too."""
    tokens: Nat = 0
    usage: Usage | None = None
    body: PartialBody | None = None


class RunStarted(Decision, frozen=True, kw_only=True, tag="run.started"):
    """A burst of work begins. `continues` names the run that it takes up again and whose budget it inherits."""

    run_id: str
    commands: tuple[str, ...] = ()
    continues: str | None = None
    trigger: Literal[
        "prompt",
        "answer",
        "approval",
        "result",
        "settle",
        "wake",
        "timer",
        "signal",
        "job",
        "child",
        "call",
        "change",
        "cancel",
        "interrupt",
        "compact",
        "unmount",
        "flow",
        "machine",
    ]
    options: RunOptions | None = None
    trace: str = ""
    """The trace context that it belongs to, as a `traceparent`: that of whoever began it, or of the run that it
    continues; empty if nobody brought one."""


class Terminal(Decision, frozen=True, kw_only=True):
    """Base of the six ways in which a run ends. `commands` are those that end with it."""

    run_id: str
    stop: StopReason
    commands: tuple[str, ...] = ()
    usage: Usage = Usage()
    cost_nanos: Nat = 0
    turns: Nat = 0
    labels: tuple[str, ...] = ()
    """What its answer is marked with: all that its model had seen."""


class RunCompleted(Terminal, frozen=True, kw_only=True, tag="run.completed"):
    """The agent came to an end of its own, or to an orderly stop at a limit."""

    cause: CauseKind | None = None


class RunFailed(Terminal, frozen=True, kw_only=True, tag="run.failed"):
    """The run could not go on."""

    failure: Failure
    cause: CauseKind = "unknown"


class RunCancelled(Terminal, frozen=True, kw_only=True, tag="run.cancelled"):
    """The run was closed for good by a command; the session was not."""


class RunInterrupted(Terminal, frozen=True, kw_only=True, tag="run.interrupted"):
    """The run was stopped by a command and may go on."""


class RunAsked(Terminal, frozen=True, kw_only=True, tag="run.asked"):
    """Only people or clients owe something now. `failure` says why, if a provider refused."""

    waiting_for: tuple[str, ...] = ()
    failure: Failure | None = None


class RunSlept(Terminal, frozen=True, kw_only=True, tag="run.slept"):
    """Nothing is owed before this time."""

    wake_at_ms: Nat
    failure: Failure | None = None
