"""How a run ended, for the caller: text, output, cost, and what it waits for; and the exceptions of a failed one."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.events.errors import WindlassError
from windlass.events.runs import RunAsked, RunCancelled, RunCompleted, RunFailed, RunInterrupted, RunSlept, Terminal
from windlass.events.turns import ModelReplied
from windlass.events.values.blocks import Text
from windlass.events.values.failures import Failure, StopReason
from windlass.events.values.usage import NANOS_PER_USD, Usage

Status = Literal["completed", "failed", "cancelled", "interrupted", "asked", "sleeping"]

LIMITS = ("max_turns", "token_budget", "money_budget", "time_budget", "call_budget", "max_tokens")
"""Stops of a run that completed because it had to."""

STATUS: dict[type[Terminal], Status] = {
    RunCompleted: "completed",
    RunFailed: "failed",
    RunCancelled: "cancelled",
    RunInterrupted: "interrupted",
    RunAsked: "asked",
    RunSlept: "sleeping",
}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one run."""

    session: str
    run_id: str
    status: Status
    stop: StopReason
    text: str = ""
    output: Any = None
    usage: Usage = Usage()
    cost_nanos: int = 0
    turns: int = 0
    waiting_for: tuple[str, ...] = ()
    wake_at_ms: int | None = None
    failure: Failure | None = None
    labels: tuple[str, ...] = ()
    """What text and output are marked with: all that the model had seen, such as `private` or `untrusted:web`."""

    @property
    def ok(self) -> bool:
        return self.status == "completed"

    @property
    def cost_usd(self) -> float:
        return self.cost_nanos / NANOS_PER_USD


def result_of(session: str, terminal: Terminal, reply: ModelReplied | None, output: Any = None) -> Result:
    """A result from a run's terminal and the last thing that the model said in it."""
    return Result(
        session=session,
        run_id=terminal.run_id,
        status=STATUS[type(terminal)],
        stop=terminal.stop,
        text=reply_text(reply) if reply is not None else "",
        output=output,
        usage=terminal.usage,
        cost_nanos=terminal.cost_nanos,
        turns=terminal.turns,
        waiting_for=terminal.waiting_for if isinstance(terminal, RunAsked) else (),
        wake_at_ms=terminal.wake_at_ms if isinstance(terminal, RunSlept) else None,
        failure=terminal.failure if isinstance(terminal, RunFailed | RunSlept | RunAsked) else None,
        labels=terminal.labels,
    )


def reply_text(reply: ModelReplied) -> str:
    """The text of a reply."""
    if reply.body is None:
        return ""
    return "".join(block.text for block in reply.body.blocks if isinstance(block, Text))


class RunError(WindlassError):
    """A run did not complete. `result` says how it ended."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class ProviderError(RunError):
    """The model's provider failed."""


class ContextExceeded(RunError):
    """The conversation does not fit the model's window, also after making room."""


class Aborted(RunError):
    """The run was interrupted or cancelled."""


class ToolNotAllowed(RunError):
    """The run ended because a tool was not allowed: a person denied a call and stopped the run, or a guard said a fatal
    no to a call or its result."""


class LimitReached(RunError):
    """The run stopped at a limit before the model gave an answer."""


class NeedsAnswer(RunError):
    """The run waits for a person, and there is no store that could keep it until they answer."""


class Parked(WindlassError):
    """Nothing in this process can resume the session: its log cannot be read, or driving it broke. The others go
    on; this one is untouched."""


def _nothing_to_show(result: Result) -> RunError | None:
    """The exception for a run that completed and has no answer, if somebody waits for one."""
    named = f"run {result.run_id} of session {result.session!r}"
    if result.stop in LIMITS:
        return LimitReached(f"{named} stopped at its limit: {result.stop.replace('_', ' ')}", result)
    return ProviderError(f"{named}: the model refused to answer", result) if result.stop == "refused" else None


def error_of(result: Result, *, output: bool = False) -> RunError | None:
    """The exception for a run that did not complete, or that was stopped with nothing to show: if an `output` is
    wanted, a text is not it. None otherwise."""
    if result.status == "completed":
        shown = result.output is not None or (bool(result.text) and not output)
        return None if shown else _nothing_to_show(result)
    why = result.failure.message if result.failure is not None else result.stop.replace("_", " ")
    message = f"run {result.run_id} of session {result.session!r} ended {result.status}: {why}"
    if result.status in ("cancelled", "interrupted"):
        return Aborted(message, result)
    if result.status == "asked":
        waits = ", ".join(result.waiting_for)
        return NeedsAnswer(
            f"{message} (waiting for {waits}): give the agent an approver, or a store and answer later", result
        )
    if result.stop == "context_overflow":
        return ContextExceeded(message, result)
    if result.stop == "hook_denied":
        return ToolNotAllowed(message, result)
    if result.failure is not None and result.failure.failure_class in ("model", "auth", "content_filtered"):
        return ProviderError(message, result)
    return RunError(message, result)
