"""The closed list of durable events: every tag that may stand in a log, and the upcasters for older ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import calls, context, hooks, permissions, questions, runs, sessions, turns
from .base import Command, Event, tag_of

FACTS: tuple[type[Event], ...] = (
    sessions.SessionStarted,
    sessions.SessionResumed,
    sessions.SessionForked,
    sessions.SessionShutDown,
    sessions.ChangeReceived,
    sessions.RewindReceived,
    sessions.WorkspaceChanged,
    sessions.InstructionsRendered,
    sessions.NoticeGiven,
    sessions.ContentErased,
    runs.PromptReceived,
    runs.WakeReceived,
    runs.InterruptReceived,
    runs.CancelReceived,
    runs.QueueEdited,
    runs.SignalReceived,
    runs.CommandRefused,
    runs.TimerFired,
    turns.ModelAsked,
    turns.ModelReplied,
    turns.ModelFailed,
    calls.ToolPrepared,
    calls.ToolFinished,
    calls.ToolTimedOut,
    calls.ToolSuspended,
    calls.ToolAsked,
    calls.ToolSettled,
    calls.ResultReceived,
    calls.CallReceived,
    calls.MountReceived,
    calls.UnmountReceived,
    permissions.PermissionApproved,
    permissions.PermissionDenied,
    permissions.ApproverMissed,
    questions.AnswerReceived,
    context.CompactReceived,
    context.UndoReceived,
    context.ContextArchived,
    context.ContextPagedIn,
)

DECISIONS: tuple[type[Event], ...] = (
    sessions.AgentChanged,
    sessions.SessionTotalled,
    sessions.FilesChanged,
    sessions.ModelChanged,
    sessions.ModeChanged,
    sessions.TitleChanged,
    sessions.MetadataChanged,
    sessions.SettingsChanged,
    sessions.PolicyChanged,
    sessions.LimitsChanged,
    sessions.TaskChanged,
    sessions.PlanChanged,
    sessions.PinsChanged,
    sessions.TaskCompleted,
    sessions.SessionRewound,
    runs.SignalDisposed,
    runs.CommandCompleted,
    runs.QueueChanged,
    runs.RunStarted,
    runs.RunCompleted,
    runs.RunFailed,
    runs.RunCancelled,
    runs.RunInterrupted,
    runs.RunAsked,
    runs.RunSlept,
    runs.TurnStarted,
    runs.TurnFinished,
    runs.TimerSet,
    runs.TimerCancelled,
    runs.BudgetWarned,
    runs.BudgetStopped,
    turns.ModelRequested,
    turns.RetryPlanned,
    turns.PrefixChanged,
    turns.OutputExtracted,
    turns.OutputRejected,
    turns.OutputFailed,
    calls.ToolRequested,
    calls.ToolAllowed,
    calls.ToolDenied,
    calls.ToolStarted,
    calls.ToolDelegated,
    calls.ToolResolved,
    calls.ToolCancelled,
    calls.ToolOutcomeUnknown,
    calls.RepeatWarned,
    calls.ToolsetChanged,
    permissions.PermissionRequested,
    permissions.PermissionWithdrawn,
    permissions.GrantsChanged,
    questions.QuestionRequested,
    questions.QuestionWithdrawn,
    context.CompactionStarted,
    context.CompactionFinished,
    context.CompactionFailed,
    context.CompactionUndone,
    context.ContextElided,
    context.ContextTruncated,
    context.ContextPagedOut,
    hooks.HookRuled,
)

EVENTS: tuple[type[Event], ...] = FACTS + DECISIONS
BY_TAG: dict[str, type[Event]] = {tag_of(cls): cls for cls in EVENTS}
COMMANDS: tuple[type[Command], ...] = tuple(cls for cls in FACTS if issubclass(cls, Command))

PLANNED: dict[str, str] = {
    "skill.resolved": "skills: a skill was found and its instructions are available",
    "skill.failed": "skills: a skill could not be found, read or parsed",
    "skill.activated": "skills: a skill's instructions entered the context",
    "skill.deactivated": "skills: a skill left the context",
    "memory.written": "memory: a fact was remembered beyond the session",
    "memory.queried": "memory: remembered facts were looked up",
    "memory.rejected": "memory: a write did not pass validation or policy",
    "job.finished": "background jobs: work that outlived its call ended",
    "session.handed_off": "trees: the session went on elsewhere or came from elsewhere",
    "child.started": "trees: a sub-agent or workflow node began",
    "child.finished": "trees: a child's end reached its parent",
    "milestone.advanced": "workflows: a phase of a milestone contract passed its check",
    "milestone.blocked": "workflows: a phase did not pass its check",
    "machine.moved": "state machines: another state is current",
    "mcp.connected": "MCP: a server was connected, lost or closed",
    "credential.rotated": "models: a credential was refreshed",
}
"""Events that later parts will produce. They are documented as planned and not declared."""

Upcaster = Callable[[dict[str, Any], Any], tuple[dict[str, Any], Any]]

UPCASTERS: dict[str, Upcaster] = {}
"""By full tag of an older version: turns its skeleton (`type` included) and its body, None where there is none, into
the next version's."""
