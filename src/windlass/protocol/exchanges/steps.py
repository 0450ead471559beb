"""What happens in one exchange, as the few steps that every protocol of request and answer has a form for."""

from __future__ import annotations

import msgspec

from windlass.events.runs import Terminal
from windlass.events.values.blocks import JsonObject
from windlass.events.values.setup import Task
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every step."""


class Began(Step, frozen=True, kw_only=True):
    """All commands of the exchange are in the log: the first and the last of them stand in these records."""

    first: int
    last: int
    at_ms: int


class TurnBegan(Step, frozen=True, kw_only=True):
    """The model is about to be asked, for this turn of its run."""

    number: int


class TurnEnded(Step, frozen=True, kw_only=True):
    """Its reply is in, and each call of it has its result."""

    number: int


class ReasoningWritten(Step, frozen=True, kw_only=True):
    """More of the reasoning before a text, which is called by the request that it answers."""

    message_id: str
    text: str


class ReasoningDone(Step, frozen=True, kw_only=True):
    """The reasoning is complete; what of it was not told before has been told now."""

    message_id: str
    text: str


class TextWritten(Step, frozen=True, kw_only=True):
    """More of a text, which is called by the request that it answers. Told in order and without a gap."""

    message_id: str
    text: str


class TextDone(Step, frozen=True, kw_only=True):
    """A text is complete; what of it was not told before has been told now."""

    message_id: str
    text: str


class CallMade(Step, frozen=True, kw_only=True):
    """A call was asked for, whoever is to run it. `message_id` is the reply that asks for it; empty if none did."""

    call_id: str
    tool: str
    args: JsonObject
    message_id: str = ""


class CallBegan(Step, frozen=True, kw_only=True):
    """A tool of the host begins to run."""

    call_id: str
    tool: str
    args: JsonObject


class CallEnded(Step, frozen=True, kw_only=True):
    """A call of the host's has its one result, be it that it never ran."""

    call_id: str
    tool: str
    args: JsonObject
    ok: bool
    text: str


class CallAnswered(Step, frozen=True, kw_only=True):
    """A call that asked a person has its result: what they said."""

    call_id: str
    text: str


class CallHandedOut(Step, frozen=True, kw_only=True):
    """A call waits for the client to run it."""

    call_id: str
    tool: str
    args: JsonObject


class PermissionAsked(Step, frozen=True, kw_only=True):
    """Somebody is asked whether a call may run."""

    ask: PermissionAsk


class QuestionAsked(Step, frozen=True, kw_only=True):
    """Somebody is asked something."""

    ask: QuestionAsk


class Closed(Step, frozen=True, kw_only=True):
    """A call that was handed out, a permission or a question is not open any more."""

    open_id: str
    text: str = ""
    """The result of a call."""


class TaskTold(Step, frozen=True, kw_only=True):
    """The task state (goal, plan, todos, …) is this now."""

    task: Task


class Ended(Step, frozen=True, kw_only=True):
    """The exchange is over, at this record. Without a terminal its commands led to no run, and `why` says why; or its
    run is held up."""

    seq: int
    terminal: Terminal | None = None
    why: str = ""
    held: bool = False
    """Whether the run goes on, and nothing of it moves before somebody answers what a running tool asks."""
