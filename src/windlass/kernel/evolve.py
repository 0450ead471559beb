"""The fold: how each event changes the state. Decides nothing, reads no content, and needs no policy code.

`EVOLVE` is a table by event type; an event that is not in it cannot be folded. The state is changed in place and is
private to its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from windlass.events import calls, context, hooks, permissions, questions, runs, sessions, turns
from windlass.events.base import Event
from windlass.events.codec import Unknown
from windlass.events.errors import NeedsNewer, NotLegal

from .fold import calls as fold_calls
from .fold import context as fold_context
from .fold import runs as fold_runs
from .fold import sessions as fold_sessions
from .fold import tools as fold_tools
from .fold import turns as fold_turns
from .fold.accounts import tick
from .fold.history import ELIDED_TOKENS
from .fold.turns import OVERFLOW
from .state import State

Arm = Callable[[State, Any], None]
MISFITS = (KeyError, AttributeError, AssertionError, ValueError, IndexError)
"""What an arm raises for an event that cannot stand where it is."""


def evolve(state: State, event: Event | Unknown) -> None:
    """Folds one event into the state. Raises `NotLegal` for an event that cannot stand here; an unknown one is passed
    over where it may be, else `NeedsNewer` is raised."""
    state.seq += 1
    arm = EVOLVE.get(type(event))  # type: ignore[arg-type]
    try:
        if arm is not None:
            arm(state, event)
        else:
            pass_over(state, event)
    except MISFITS as error:
        raise misfit(state, event, error) from error


def evolve_all(state: State, events: Iterable[Event | Unknown]) -> None:
    """Folds events one after the other."""
    for event in events:
        evolve(state, event)


def misfit(state: State, event: Any, error: Exception) -> NotLegal:
    """What is said of an event that the state has no place for."""
    return NotLegal(
        f"event {state.seq}: {event.__struct_config__.tag} is not legal in {type(state.phase).__name__}: {error!r}"
    )


def pass_over(state: State, event: Event | Unknown) -> None:
    """An event without an arm: one of a later version, or none of a log."""
    if not isinstance(event, Unknown):
        raise NotLegal(f"event {state.seq}: {type(event).__name__} is not an event of a log")
    if not event.skippable:
        state.seq -= 1
        raise NeedsNewer(event.tag, state.seq + 1)


EVOLVE: dict[type[Event], Arm] = {
    sessions.SessionStarted: fold_sessions.session_started,
    sessions.SessionResumed: fold_sessions.session_resumed,
    sessions.SessionForked: fold_sessions.session_forked,
    sessions.SessionShutDown: fold_sessions.nothing,
    sessions.SessionTotalled: fold_sessions.nothing,
    sessions.ChangeReceived: fold_sessions.nothing,
    sessions.RewindReceived: fold_sessions.nothing,
    sessions.WorkspaceChanged: fold_sessions.workspace_changed,
    sessions.InstructionsRendered: fold_sessions.instructions_rendered,
    sessions.NoticeGiven: fold_sessions.nothing,
    sessions.ContentErased: fold_sessions.content_erased,
    sessions.AgentChanged: fold_sessions.agent_changed,
    sessions.FilesChanged: fold_sessions.files_changed,
    sessions.ModelChanged: fold_sessions.model_changed,
    sessions.ModeChanged: fold_sessions.mode_changed,
    sessions.TitleChanged: fold_sessions.title_changed,
    sessions.MetadataChanged: fold_sessions.metadata_changed,
    sessions.SettingsChanged: fold_sessions.settings_changed,
    sessions.PolicyChanged: fold_sessions.policy_changed,
    sessions.LimitsChanged: fold_sessions.limits_changed,
    sessions.TaskChanged: fold_sessions.task_changed,
    sessions.PlanChanged: fold_sessions.nothing,
    sessions.PinsChanged: fold_sessions.pins_changed,
    sessions.TaskCompleted: fold_sessions.task_completed,
    sessions.SessionRewound: fold_sessions.session_rewound,
    runs.PromptReceived: fold_runs.prompt_received,
    runs.WakeReceived: fold_sessions.nothing,
    runs.InterruptReceived: fold_runs.interrupt_received,
    runs.CancelReceived: fold_runs.interrupt_received,
    runs.QueueEdited: fold_runs.queue_edited,
    runs.SignalReceived: fold_runs.signal_received,
    runs.SignalDisposed: fold_runs.signal_disposed,
    runs.CommandRefused: fold_sessions.nothing,
    runs.CommandCompleted: fold_sessions.nothing,
    runs.QueueChanged: fold_runs.queue_changed,
    runs.RunStarted: fold_runs.run_started,
    runs.RunCompleted: fold_runs.run_ended,
    runs.RunFailed: fold_runs.run_stopped,
    runs.RunCancelled: fold_runs.run_ended,
    runs.RunInterrupted: fold_runs.run_stopped,
    runs.RunAsked: fold_runs.run_asked,
    runs.RunSlept: fold_runs.run_slept,
    runs.TurnStarted: fold_runs.turn_started,
    runs.TurnFinished: fold_runs.turn_finished,
    runs.TimerSet: fold_runs.timer_set,
    runs.TimerFired: fold_runs.timer_fired,
    runs.TimerCancelled: fold_runs.timer_cancelled,
    runs.BudgetWarned: fold_runs.budget_warned,
    runs.BudgetStopped: fold_runs.budget_stopped,
    turns.ModelRequested: fold_turns.model_requested,
    turns.ModelAsked: fold_sessions.nothing,
    turns.ModelReplied: fold_turns.model_replied,
    turns.ModelFailed: fold_turns.model_failed,
    turns.RetryPlanned: fold_turns.retry_planned,
    turns.PrefixChanged: fold_turns.prefix_changed,
    turns.OutputExtracted: fold_turns.output_extracted,
    turns.OutputRejected: fold_turns.output_rejected,
    turns.OutputFailed: fold_turns.output_failed,
    calls.ToolRequested: fold_calls.tool_requested,
    calls.ToolPrepared: fold_calls.tool_prepared,
    calls.ToolAllowed: fold_calls.tool_allowed,
    calls.ToolDenied: fold_calls.tool_denied,
    calls.ToolStarted: fold_calls.tool_started,
    calls.ToolDelegated: fold_calls.tool_delegated,
    calls.ToolFinished: fold_calls.tool_finished,
    calls.ToolTimedOut: fold_calls.tool_timed_out,
    calls.ToolSuspended: fold_calls.tool_suspended,
    calls.ToolAsked: fold_sessions.nothing,
    calls.ToolResolved: fold_calls.tool_resolved,
    calls.ToolCancelled: fold_calls.tool_cancelled,
    calls.ToolOutcomeUnknown: fold_calls.tool_outcome_unknown,
    calls.ToolSettled: fold_calls.tool_settled,
    calls.ResultReceived: fold_calls.result_received,
    calls.CallReceived: fold_calls.call_received,
    calls.RepeatWarned: fold_calls.repeat_warned,
    calls.MountReceived: fold_tools.mount_received,
    calls.UnmountReceived: fold_tools.unmount_received,
    calls.ToolsetChanged: fold_tools.toolset_changed,
    permissions.PermissionRequested: fold_calls.permission_requested,
    permissions.PermissionApproved: fold_calls.permission_approved,
    permissions.PermissionDenied: fold_calls.permission_denied,
    permissions.PermissionWithdrawn: fold_calls.permission_withdrawn,
    permissions.ApproverMissed: fold_calls.approver_missed,
    permissions.GrantsChanged: fold_calls.grants_changed,
    questions.QuestionRequested: fold_calls.question_requested,
    questions.AnswerReceived: fold_calls.answer_received,
    questions.QuestionWithdrawn: fold_calls.question_withdrawn,
    context.CompactReceived: fold_context.compact_received,
    context.UndoReceived: fold_sessions.nothing,
    context.CompactionStarted: fold_context.compaction_started,
    context.CompactionFinished: fold_context.compaction_finished,
    context.CompactionFailed: fold_context.compaction_failed,
    context.CompactionUndone: fold_context.compaction_undone,
    context.ContextElided: fold_context.context_elided,
    context.ContextTruncated: fold_context.context_truncated,
    context.ContextPagedOut: fold_context.context_paged_out,
    context.ContextArchived: fold_context.context_archived,
    context.ContextPagedIn: fold_context.context_paged_in,
    hooks.HookRuled: fold_runs.hook_ruled,
}

__all__ = ["ELIDED_TOKENS", "EVOLVE", "OVERFLOW", "evolve", "evolve_all", "tick"]
