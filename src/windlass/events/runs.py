"""Commands that make a session work, the queue, runs with their terminals, and turns."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Category, Command, Decision, Fact, Nat
from .blocks import AnyAttachment, InputBlock, JsonObject, Value
from .failures import CauseKind, Failure, FinishReason, StopReason
from .hooks import HookRuling
from .specs import Behavior, Origin, RunOptions
from .usage import Usage


class PromptBody(Value, frozen=True, kw_only=True):
    """A prompt as sent to the model, and as shown to people where that differs."""

    content: tuple[InputBlock, ...]
    displayed: str | None = None
    attachments: tuple[AnyAttachment, ...] = ()


class PromptReceived(Command, frozen=True, kw_only=True, tag="prompt.received"):
    """Someone said something to the agent."""

    behavior: Behavior | None = None
    origin: Origin = Origin()
    tokens: Nat = 0
    bytes: Nat = 0
    options: RunOptions | None = None
    hooks: tuple[HookRuling, ...] = ()
    body: PromptBody | None = None


class PartialBody(Value, frozen=True, kw_only=True):
    """What a model had written when it was stopped."""

    text: str = ""
    reasoning: str = ""


class WakeReceived(Command, frozen=True, kw_only=True, tag="wake.received"):
    """Do the scheduled step now, or go on with what is owed."""


class InterruptReceived(Command, frozen=True, kw_only=True, tag="interrupt.received"):
    """Stop what is running; it may go on later. The host adds what the model had written so far."""

    reason: str = ""
    tokens: Nat = 0
    usage: Usage | None = None
    body: PartialBody | None = None


class CancelReceived(Command, frozen=True, kw_only=True, tag="cancel.received"):
    """Stop what is running and close it for good."""

    reason: str = ""
    tokens: Nat = 0
    usage: Usage | None = None
    body: PartialBody | None = None


class QueueBody(Value, frozen=True, kw_only=True):
    """New texts for queued prompts, by prompt id."""

    edits: dict[str, PromptBody] = {}


class QueueEdited(Command, frozen=True, kw_only=True, tag="queue.edited"):
    """The queue becomes this order; prompts that are not named are dropped; some may have a new text."""

    order: tuple[str, ...]
    tokens: dict[str, Nat] = {}
    body: QueueBody | None = None


class SignalBody(Value, frozen=True, kw_only=True):
    """What a signal carries."""

    payload: JsonObject = {}
    text: str = ""


class SignalReceived(Command, frozen=True, kw_only=True, tag="signal.received"):
    """Something outside happened that the agent may care about."""

    kind: str
    source: str = ""
    urgency: Literal["critical", "high", "normal", "low"] = "normal"
    dedupe_key: str | None = None
    tokens: Nat = 0
    body: SignalBody | None = None


class SignalDisposed(Decision, frozen=True, kw_only=True, tag="signal.disposed"):
    """What was done with a signal: acted on at once, kept for the next turn, shown only, or dropped."""

    CATEGORY: ClassVar[Category] = "ipc"
    signal_id: str
    disposition: Literal["run", "steer", "queued", "observed", "duplicate", "dropped"]


class CommandRefused(Fact, frozen=True, kw_only=True, tag="command.refused"):
    """A command was taken and not carried out. Nothing else changed."""

    CATEGORY: ClassVar[Category] = "ipc"
    command_id: str
    code: str
    message: str
    actor: str = ""


class CommandCompleted(Decision, frozen=True, kw_only=True, tag="command.completed"):
    """The terminal of a command that neither opened a run nor joined one."""

    CATEGORY: ClassVar[Category] = "ipc"
    command_id: str
    note: str = ""


class QueueChanged(Decision, frozen=True, kw_only=True, tag="queue.changed"):
    """What became of prompts that wait: they joined the queue, steer the run, were taken by a run, entered the history
    of a run that stopped before the model saw them, were dropped; or the queue was put in order, held, released."""

    CATEGORY: ClassVar[Category] = "ipc"
    operation: Literal["queued", "steering", "taken", "absorbed", "edited", "held", "released", "dropped"]
    prompt_ids: tuple[str, ...] = ()


class RunStarted(Decision, frozen=True, kw_only=True, tag="run.started"):
    """A burst of work begins. `continues` names the run that it goes on with and whose budget it inherits."""

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
        "call",
        "cancel",
        "interrupt",
        "compact",
        "unmount",
    ]
    options: RunOptions | None = None


class Terminal(Decision, frozen=True, kw_only=True):
    """Base of the six ways in which a run ends. `commands` are those that end with it."""

    run_id: str
    stop: StopReason
    commands: tuple[str, ...] = ()
    usage: Usage = Usage()
    cost_nanos: Nat = 0
    turns: Nat = 0


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
    """Only people or clients owe something now. `failure` says why, where a provider refused."""

    waiting_for: tuple[str, ...] = ()
    failure: Failure | None = None


class RunSlept(Terminal, frozen=True, kw_only=True, tag="run.slept"):
    """Nothing is owed before this time."""

    wake_at_ms: Nat
    failure: Failure | None = None


class TurnStarted(Decision, frozen=True, kw_only=True, tag="turn.started"):
    """One model call and the tool calls it will ask for begin. `absorbs` are the prompts that enter the history now."""

    turn_id: str
    number: Nat
    absorbs: tuple[Nat, ...] = ()
    notes: tuple[str, ...] = ()
    wrap_up: bool = False


class TurnFinished(Decision, frozen=True, kw_only=True, tag="turn.finished"):
    """The turn's reply is in and each of its calls has its one result."""

    finish: FinishReason | None = None
    calls: Nat = 0


class TimerSet(Decision, frozen=True, kw_only=True, tag="timer.set"):
    """Something is to happen at a time."""

    timer_id: str
    at_ms: Nat
    kind: Literal["wait", "retry"]
    note: str = ""


class TimerFired(Fact, frozen=True, kw_only=True, tag="timer.fired"):
    """The time of a timer has come. One that fires twice counts once."""

    timer_id: str


class TimerCancelled(Decision, frozen=True, kw_only=True, tag="timer.cancelled"):
    """A timer will not fire."""

    timer_id: str
    reason: Literal["cancelled", "superseded", "not_carried_over", "woken"]


class BudgetWarned(Decision, frozen=True, kw_only=True, tag="budget.warned"):
    """A share of a limit is used up. Said once per limit and scope."""

    limit: Literal["tokens", "money", "turns", "calls", "time"]
    scope: Literal["run", "session"]
    used: Nat
    allowed: Nat

    @property
    def fraction(self) -> float:
        return min(1.0, self.used / self.allowed) if self.allowed else 1.0


class BudgetStopped(Decision, frozen=True, kw_only=True, tag="budget.stopped"):
    """A limit would be passed by going on; the run stops, after one wrap-up turn where that fits."""

    limit: Literal["tokens", "money", "turns", "calls", "time", "price"]
    scope: Literal["run", "session"]
    used: Nat
    allowed: Nat
    wrap_up: bool = False
