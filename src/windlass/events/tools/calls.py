"""Tool calls: one small machine per call, from requested to exactly one result."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.base import Category, Command, Decision, Fact, Nat
from windlass.events.hooks import HookRuling
from windlass.events.questions import QuestionBody
from windlass.events.turns import Prepared
from windlass.events.values.access import Access
from windlass.events.values.blocks import BlobRef, JsonObject, ResultBlock, Value
from windlass.events.values.failures import Failure
from windlass.events.values.policy import Trait
from windlass.events.values.setup import Spawning
from windlass.events.workspace import FileChange

from .permissions import Changed

DenialReason = Literal[
    "malformed_arguments",
    "invalid_arguments",
    "unknown_tool",
    "unavailable_tool",
    "rules",
    "no_approver",
    "asked_enough",
    "person",
    "content_excluded",
    "hook",
    "mode",
    "repeated",
    "budget",
    "too_many_calls",
    "truncated_reply",
    "quarantine",
    "isolation",
    "skill",
]
"""Why a call never ran. The model always learns of it as the call's result."""


class CallBody(Value, frozen=True, kw_only=True):
    """What a call was given: an object, a text for custom tools, or what could not be parsed."""

    args: JsonObject | None = None
    text: str | None = None
    malformed: str | None = None


class ResultBody(Value, frozen=True, kw_only=True):
    """A result: what the model sees, what a person sees if that is more, and the whole if it was too large."""

    content: tuple[ResultBlock, ...] = ()
    display: tuple[ResultBlock, ...] | None = None
    whole: BlobRef | None = None
    telemetry: JsonObject | None = None
    private_error: str | None = None
    """The full text of an exception: for the log, not for the model."""


class ToolRequested(Decision, frozen=True, kw_only=True, tag="tool.requested"):
    """A call was asked for. Its arguments are those of the fact in the same append."""

    CATEGORY: ClassVar[Category] = "syscall"
    ECHO: ClassVar[bool] = True
    call_id: str
    tool: str
    ordinal: Nat = 0
    digest: str = ""
    by_person: bool = False
    labels: tuple[str, ...] = ()
    """What its result is marked with beside what its tool's results are, as far as that is known before."""
    traits: tuple[Trait, ...] | None = None
    """What this very call does, if that is less than its tool can do."""
    spawning: Spawning | None = None
    """What it says about the child session that it starts, if it starts one."""
    node: str = ""
    """The node of a workflow that makes it."""
    state: str = ""
    """The state of a machine that makes it."""
    body: CallBody | None = None


class PreparedBody(Value, frozen=True, kw_only=True):
    """What the host found out about a call, and its arguments where hooks changed them."""

    prepared: Prepared
    args: JsonObject | None = None
    text: str | None = None


class ToolPrepared(Fact, frozen=True, kw_only=True, tag="tool.prepared"):
    """The host ran its hooks on a call and looked up what the gate needs."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    digest: str
    changed: bool = False
    labels: tuple[str, ...] = ()
    """What its result is marked with beside what its tool's results are, as far as that is known before."""
    traits: tuple[Trait, ...] | None = None
    """What this very call does, if that is less than its tool can do."""
    spawning: Spawning | None = None
    """What it says about the child session that it starts, if it starts one."""
    hooks: tuple[HookRuling, ...] = ()
    body: PreparedBody | None = None


class ToolAllowed(Decision, frozen=True, kw_only=True, tag="tool.allowed"):
    """The gate let a call pass: by a rule, by default, by a standing approval or by a person."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    by: Literal["rule", "default", "grant", "person", "kernel"]
    rule: str = ""
    counts: tuple[str, ...] = ()
    """The rules with a rate or a quota that count it, by their digests."""
    joins: tuple[str, ...] = ()
    """The labels that it joins with a way out, with the word of whoever let it pass."""
    access: Access | None = None
    """What it may reach beyond what its sandbox gives to all, if whoever let it pass spoke of that."""


class ToolDenied(Decision, frozen=True, kw_only=True, tag="tool.denied"):
    """A call will not run. `detail` is told to the model."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    reason: DenialReason
    rule: str = ""
    detail: str = ""
    feedback_seq: Nat | None = None
    tokens: Nat = 0
    stop: bool = False
    """The run ends because of it."""


class ToolReconsidered(Decision, frozen=True, kw_only=True, tag="tool.reconsidered"):
    """What a call was judged by changed before it could start: it goes through the gate again."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    changed: tuple[Changed, ...]


class ToolStarted(Decision, frozen=True, kw_only=True, tag="tool.started"):
    """The intent to run a call, written just before it is dispatched. The same key means the same effect."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    epoch: Nat
    attempt: Nat = 1


class ToolDelegated(Decision, frozen=True, kw_only=True, tag="tool.delegated"):
    """A call waits for an attached client to run it."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str


class ToolFinished(Fact, frozen=True, kw_only=True, tag="tool.finished"):
    """A tool returned. A failing tool is an ordinary result, not an exception."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    ok: bool = True
    failure: Failure | None = None
    error_code: str | None = None
    tokens: Nat = 0
    bytes: Nat = 0
    duration_ms: Nat = 0
    spooled_bytes: Nat = 0
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    hooks: tuple[HookRuling, ...] = ()
    body: ResultBody | None = None


class ToolResolved(Decision, frozen=True, kw_only=True, tag="tool.resolved"):
    """The kernel itself performed a call (a todo, a plan, a timer); this is its result."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    text: str
    ok: bool = True
    tokens: Nat = 0


class ToolTimedOut(Fact, frozen=True, kw_only=True, tag="tool.timed_out"):
    """A tool did not end within its time. `settle` = a person is to say what happened."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    timeout_ms: Nat
    settle: bool = False
    tokens: Nat = 0
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    body: ResultBody | None = None


class ToolSuspended(Fact, frozen=True, kw_only=True, tag="tool.suspended"):
    """A tool parked itself; a `tool_result` command will complete it, perhaps in another process, perhaps in weeks."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    note: str = ""
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    body: CallBody | None = None


class ToolAsked(Fact, frozen=True, kw_only=True, tag="tool.asked"):
    """A running tool wants to ask a person something."""

    CATEGORY: ClassVar[Category] = "ipc"
    call_id: str
    body: QuestionBody | None = None


class ToolCancelled(Decision, frozen=True, kw_only=True, tag="tool.cancelled"):
    """A call was given up before it gave a result. `started` = it may have had effects."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    reason: Literal["cancelled", "interrupted", "superseded", "not_carried_over", "forced"]
    started: bool = False


class ToolOutcomeUnknown(Decision, frozen=True, kw_only=True, tag="tool.outcome_unknown"):
    """A call was cut off while it ran and may not run again by itself. `settle` = a person is to say what happened."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    settle: bool = False


class ToolSettled(Command, frozen=True, kw_only=True, tag="tool.settled"):
    """A person says what became of a call whose outcome was unknown: it happened (with this result), it did not, or it
    is to run again."""

    call_id: str
    outcome: Literal["happened", "did_not_happen", "run_again"]
    tokens: Nat = 0
    body: ResultBody | None = None


class ResultReceived(Command, frozen=True, kw_only=True, tag="result.received"):
    """A client completed a call that it was to run, or that had suspended itself."""

    call_id: str
    ok: bool = True
    error_code: str | None = None
    tokens: Nat = 0
    bytes: Nat = 0
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    body: ResultBody | None = None


class UserCallBody(Value, frozen=True, kw_only=True):
    """A call that a person makes, with what the host found out about it."""

    args: JsonObject = {}
    prepared: Prepared | None = None


class CallReceived(Command, frozen=True, kw_only=True, tag="call.received"):
    """A person runs a tool: same gate, same log, marked as theirs."""

    tool: str
    body: UserCallBody | None = None


class RepeatWarned(Decision, frozen=True, kw_only=True, tag="repeat.warned"):
    """The same call with the same arguments came again; the model is told."""

    call_id: str
    count: Nat
