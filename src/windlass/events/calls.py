"""Tool calls: one small machine per call, from requested to exactly one result; and the set of tools itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Category, Command, Decision, Fact, Nat
from .blocks import BlobRef, JsonObject, ResultBlock, Value
from .failures import Failure
from .hooks import HookRuling
from .questions import QuestionBody
from .sessions import FileChange
from .specs import ToolSpec, ToolText
from .turns import Prepared

DenialReason = Literal[
    "malformed_arguments",
    "invalid_arguments",
    "unknown_tool",
    "unavailable_tool",
    "rules",
    "no_approver",
    "person",
    "content_excluded",
    "hook",
    "mode",
    "repeated",
    "budget",
    "too_many_calls",
    "digest_changed",
    "truncated_reply",
]
"""Why a call never ran. The model always learns of it as the call's result."""


class CallBody(Value, frozen=True, kw_only=True):
    """What a call was given: an object, a text for custom tools, or what could not be parsed."""

    args: JsonObject | None = None
    text: str | None = None
    malformed: str | None = None


class ResultBody(Value, frozen=True, kw_only=True):
    """A result: what the model sees, what a person sees where that is more, and the whole where it was too large."""

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
    hooks: tuple[HookRuling, ...] = ()
    body: PreparedBody | None = None


class ToolAllowed(Decision, frozen=True, kw_only=True, tag="tool.allowed"):
    """The gate let a call pass: by a rule, by default, by a standing approval or by a person."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    by: Literal["rule", "default", "grant", "person", "kernel"]
    rule: str = ""


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
    """A tool did not end within its time."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    timeout_ms: Nat
    tokens: Nat = 0
    changes: tuple[FileChange, ...] = ()
    body: ResultBody | None = None


class ToolSuspended(Fact, frozen=True, kw_only=True, tag="tool.suspended"):
    """A tool parked itself; a `tool_result` command will complete it, perhaps in another process, perhaps in weeks."""

    CATEGORY: ClassVar[Category] = "syscall"
    call_id: str
    note: str = ""
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
    reason: Literal["cancelled", "interrupted", "superseded", "budget", "not_carried_over", "forced"]
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


class ToolBody(Value, frozen=True, kw_only=True):
    """What models are told of mounted tools."""

    tools: tuple[ToolText, ...] = ()


class MountReceived(Command, frozen=True, kw_only=True, tag="mount.received"):
    """Offer more tools, or newer ones, from the next turn on."""

    tools: tuple[ToolSpec, ...]
    source: str = ""
    body: ToolBody | None = None


class UnmountReceived(Command, frozen=True, kw_only=True, tag="unmount.received"):
    """Take tools away at the next turn. `force` gives up calls that still run."""

    tools: tuple[str, ...]
    force: bool = False


class ToolsetChanged(Decision, frozen=True, kw_only=True, tag="toolset.changed"):
    """The set of tools changes: staged, in force, waiting for calls to end, forced, or failed."""

    CATEGORY: ClassVar[Category] = "syscall"
    operation: Literal["add", "remove", "reload", "load"]
    phase: Literal["pending", "applied", "draining", "forced", "failed"]
    target: str = ""
    tools: tuple[ToolSpec, ...] = ()
    names: tuple[str, ...] = ()
    revision: Nat = 0
    hidden: Nat = 0
    error: str = ""
