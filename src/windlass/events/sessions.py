"""The life of a session: started, resumed, changed, rewound, forked, shut down."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Category, Command, Decision, Fact, Nat
from .blocks import JsonObject, Value
from .items import HistoryItem
from .specs import (
    AgentRef,
    Grant,
    ItemRef,
    Limits,
    ModelRef,
    Policy,
    Settings,
    Setup,
    Task,
    Terms,
    ToolSpec,
    ToolText,
    WorkMode,
    Workspace,
)
from .usage import Usage


class SetupBody(Value, frozen=True, kw_only=True):
    """The content of a setup: what models are told of the tools, and an imported history."""

    tools: tuple[ToolText, ...] = ()
    imported: tuple[HistoryItem, ...] = ()
    knowledge: tuple[str, ...] = ()
    output_schema: JsonObject | None = None


class SessionStarted(Command, frozen=True, kw_only=True, tag="session.started"):
    """A session exists. This is setup, not a run; the effective agent is recorded by digest."""

    CATEGORY: ClassVar[Category] = "proc"
    session_id: str
    epoch: Nat
    setup: Setup
    title: str = ""
    metadata: dict[str, str] = {}
    workspace: Workspace | None = None
    parent_id: str | None = None
    parent_call_id: str | None = None
    root_id: str | None = None
    scope: str = "primary"
    depth: Nat = 0
    imported: tuple[ItemRef, ...] = ()
    knowledge_tokens: Nat = 0
    producer: str = ""
    body: SetupBody | None = None


class SessionResumed(Fact, frozen=True, kw_only=True, tag="session.resumed"):
    """A new owner took the session. Intents of earlier epochs are closed by their contracts after this."""

    CATEGORY: ClassVar[Category] = "proc"
    epoch: Nat
    runner: str = ""
    workspace: Workspace | None = None
    agent: AgentRef | None = None
    """The agent bound now, where it differs from the recorded one."""
    tools: tuple[ToolSpec, ...] | None = None
    """The tools bound now, where they differ from the recorded ones."""
    terms: Terms | None = None
    """What the agent's code says now, where it said something else when the session was last bound to it."""
    knowledge_tokens: Nat | None = None
    recovered: str | None = None
    """What the store had to cut off or set aside on opening."""
    body: SetupBody | None = None


class AgentChanged(Decision, frozen=True, kw_only=True, tag="agent.changed"):
    """The bound code is not the recorded one; the session goes on with it."""

    CATEGORY: ClassVar[Category] = "proc"
    previous: AgentRef
    agent: AgentRef
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


class ModelTotals(Value, frozen=True, kw_only=True):
    """What one model was used for in a session."""

    model: str
    requests: Nat = 0
    usage: Usage = Usage()
    cost_nanos: Nat = 0
    duration_ms: Nat = 0


class CodeTotals(Value, frozen=True, kw_only=True):
    """Files and lines that tools reported as changed."""

    lines_added: Nat = 0
    lines_removed: Nat = 0
    files: tuple[str, ...] = ()


class SessionShutDown(Fact, frozen=True, kw_only=True, tag="session.shut_down"):
    """The host closed the session; it may be resumed later."""

    CATEGORY: ClassVar[Category] = "proc"
    kind: Literal["routine", "error"] = "routine"
    reason: str = ""


class SessionTotalled(Decision, frozen=True, kw_only=True, tag="session.totalled"):
    """The sums of a session at its shutdown."""

    CATEGORY: ClassVar[Category] = "proc"
    models: tuple[ModelTotals, ...] = ()
    code: CodeTotals = CodeTotals()
    current_model: str = ""
    started_ms: Nat = 0


class SessionForked(Fact, frozen=True, kw_only=True, tag="session.forked"):
    """This log continues another one from its record `at_seq`. What was open there is closed after this."""

    CATEGORY: ClassVar[Category] = "proc"
    session_id: str
    origin_id: str
    at_seq: Nat
    origin_hash: str
    epoch: Nat
    by: str = ""


class WorkspaceChanged(Fact, frozen=True, kw_only=True, tag="workspace.changed"):
    """The host saw that the work happens elsewhere now, or on another branch."""

    workspace: Workspace


class FileChange(Value, frozen=True, kw_only=True):
    """One file that a tool changed."""

    path: str
    operation: Literal["create", "update", "delete"]
    lines_added: Nat = 0
    lines_removed: Nat = 0


class FilesChanged(Decision, frozen=True, kw_only=True, tag="files.changed"):
    """A tool changed files."""

    call_id: str
    changes: tuple[FileChange, ...]


class ModelChanged(Decision, frozen=True, kw_only=True, tag="model.changed"):
    """The session's model is another one from the next request on."""

    previous: str
    model: ModelRef
    reason: Literal["command", "fallback", "resume"] = "command"


class ModeChanged(Decision, frozen=True, kw_only=True, tag="mode.changed"):
    """The work mode is another one; the gate enforces it."""

    CATEGORY: ClassVar[Category] = "syscall"
    previous: WorkMode
    mode: WorkMode
    reason: Literal["command", "resume"] = "command"


class TitleChanged(Decision, frozen=True, kw_only=True, tag="title.changed"):
    """The session has another title."""

    title: str


class MetadataChanged(Decision, frozen=True, kw_only=True, tag="metadata.changed"):
    """Metadata were set; a key with None is removed."""

    metadata: dict[str, str | None]


class SettingsChanged(Decision, frozen=True, kw_only=True, tag="settings.changed"):
    """The session runs by other numbers from here on."""

    settings: Settings
    reason: Literal["command", "resume"] = "command"


class PolicyChanged(Decision, frozen=True, kw_only=True, tag="policy.changed"):
    """The agent's code has another policy now; calls are judged by it from here on."""

    CATEGORY: ClassVar[Category] = "syscall"
    policy: Policy


class LimitsChanged(Decision, frozen=True, kw_only=True, tag="limits.changed"):
    """The agent's code has other budgets now. What was spent stays spent."""

    CATEGORY: ClassVar[Category] = "sched"
    limits: Limits
    run_limits: Limits


class TaskChanged(Decision, frozen=True, kw_only=True, tag="task.changed"):
    """The task state (goal, plan, todos, …) is this now."""

    CATEGORY: ClassVar[Category] = "mm"
    task: Task
    fields: tuple[str, ...] = ()


class PlanChanged(Decision, frozen=True, kw_only=True, tag="plan.changed"):
    """The plan was written, rewritten or dropped."""

    operation: Literal["create", "update", "delete"]


class PinsChanged(Decision, frozen=True, kw_only=True, tag="pins.changed"):
    """These items stay verbatim through every compaction, or no longer do."""

    CATEGORY: ClassVar[Category] = "mm"
    pinned: tuple[Nat, ...] = ()
    unpinned: tuple[Nat, ...] = ()


class TaskCompleted(Decision, frozen=True, kw_only=True, tag="task.completed"):
    """The agent declared its task done."""

    summary: str = ""
    success: bool = True


class Change(Value, frozen=True, kw_only=True, tag_field="what"):
    """Base of what a `change` command may change."""


class ChangeModel(Change, frozen=True, kw_only=True, tag="model"):
    """Use another model."""

    model: ModelRef


class ChangeMode(Change, frozen=True, kw_only=True, tag="mode"):
    """Work in another mode."""

    mode: WorkMode


class ChangeTitle(Change, frozen=True, kw_only=True, tag="title"):
    """Give another title."""

    title: str


class ChangeMetadata(Change, frozen=True, kw_only=True, tag="metadata"):
    """Set or (None) remove metadata."""

    metadata: dict[str, str | None]


class ChangeTask(Change, frozen=True, kw_only=True, tag="task"):
    """Replace the task state."""

    task: Task


class ChangePins(Change, frozen=True, kw_only=True, tag="pins"):
    """Pin or unpin items by their seq."""

    pin: tuple[Nat, ...] = ()
    unpin: tuple[Nat, ...] = ()


class ChangeGrants(Change, frozen=True, kw_only=True, tag="grants"):
    """Add or revoke standing approvals."""

    add: tuple[Grant, ...] = ()
    revoke: tuple[str, ...] = ()


class ChangeSettings(Change, frozen=True, kw_only=True, tag="settings"):
    """Run by other numbers."""

    settings: Settings


AnyChange = (
    ChangeModel | ChangeMode | ChangeTitle | ChangeMetadata | ChangeTask | ChangePins | ChangeGrants | ChangeSettings
)


class ChangeReceived(Command, frozen=True, kw_only=True, tag="change.received"):
    """A client changes the session itself: model, mode, title, metadata, task state, pins, grants, settings."""

    change: AnyChange


class RewindReceived(Command, frozen=True, kw_only=True, tag="rewind.received"):
    """Make the history what it was at `to_seq` (0 clears it). `restored` is what the host found visible there."""

    to_seq: Nat
    restored: tuple[ItemRef, ...] = ()


class SessionRewound(Decision, frozen=True, kw_only=True, tag="session.rewound"):
    """The visible history is an earlier one. What was spent, approved or done stays spent, approved and done."""

    CATEGORY: ClassVar[Category] = "mm"
    to_seq: Nat
    items_before: Nat
    items_after: Nat
    history: tuple[ItemRef, ...] = ()


class InstructionsBody(Value, frozen=True, kw_only=True):
    """The instructions as rendered."""

    text: str
    variables: dict[str, str] = {}


class InstructionsRendered(Fact, frozen=True, kw_only=True, tag="instructions.rendered"):
    """The instructions a model gets from here on; recorded once per change."""

    CATEGORY: ClassVar[Category] = "mm"
    role: Literal["system", "developer"] = "system"
    name: str = ""
    digest: str
    template_version: str = ""
    tokens: Nat = 0
    sources: tuple[str, ...] = ()
    body: InstructionsBody | None = None


class NoticeGiven(Fact, frozen=True, kw_only=True, tag="notice.given?"):
    """The host has something to say that changes nothing: for people and for the record."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    code: str
    message: str
    call_id: str | None = None
    data: JsonObject = {}
    """What belongs to it, as a tool's audit note gave it."""


class ContentErased(Fact, frozen=True, kw_only=True, tag="content.erased"):
    """The body of an earlier event was erased from the store."""

    CATEGORY: ClassVar[Category] = "mm"
    seq: Nat
    by: str
    why: str
