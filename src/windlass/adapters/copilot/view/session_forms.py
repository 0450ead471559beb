"""The life of a session as events: begun, resumed, changed, compacted, rewound, ended."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.budgets import BudgetStopped, BudgetWarned
from windlass.events.changes import AgentDeselected, AgentSelected, ModeChanged, ModelChanged, TitleChanged
from windlass.events.commands import QueueChanged
from windlass.events.context import CompactionFailed, CompactionFinished, CompactionStarted, ContextTruncated
from windlass.events.sessions import (
    NoticeGiven,
    SessionImported,
    SessionRewound,
    SessionShutDown,
    SessionStarted,
    SessionTotalled,
)
from windlass.events.tasks import PlanChanged, TaskChanged, TaskCompleted
from windlass.events.values.blocks import JsonObject
from windlass.events.values.setup import Workspace
from windlass.events.values.usage import Usage
from windlass.events.workspace import FilesChanged, InstructionsRendered, WorkspaceChanged
from windlass.runtime.streams.record import Record

from .event_ids import iso_time
from .fold import Fold, Form, Said, without_none

SCHEMA = 1
"""The version of the history's form that `session.start` names."""
RESUMED = "copilot.resumed"
"""The code of the notice that a client has resumed a session."""
LOGGED = "copilot.log"
"""The code of the notice that is a client's own entry in the log."""
UNQUEUED = frozenset({"steering", "held", "released"})


def context_of(place: Workspace | None) -> JsonObject | None:
    """Where the work happens."""
    if place is None:
        return None
    return without_none(cwd=place.cwd, gitRoot=place.git_root, repository=place.repository, branch=place.branch)


def started(fold: Fold, record: Record, event: SessionStarted) -> Iterator[Said]:
    setup = event.setup
    fold.model, fold.window_tokens, fold.mode = setup.model.name, setup.model.window_tokens, setup.mode
    fold.workspace = event.workspace
    for text in event.body.tools if event.body is not None else ():
        fold.descriptions[text.name] = text.description
    from windlass import __version__

    yield Said(
        "session.start",
        without_none(
            sessionId=fold.session_id,
            version=SCHEMA,
            producer="windlass",
            copilotVersion=__version__,
            startTime=iso_time(record.at_ms),
            selectedModel=setup.model.name,
            context=context_of(event.workspace),
        ),
    )


def noticed(fold: Fold, record: Record, event: NoticeGiven) -> Iterator[Said]:
    if event.code == RESUMED:
        data = without_none(
            resumeTime=iso_time(record.at_ms),
            eventCount=len(fold.kept),
            selectedModel=fold.model,
            context=context_of(fold.workspace),
        )
        yield Said("session.resume", data)
    elif event.level == "info":
        yield Said("session.info", {"infoType": "notification", "message": event.message})
    elif event.level == "error" and event.code == LOGGED:
        yield Said("session.error", {"errorType": "notification", "message": event.message})
    else:
        yield Said("session.warning", {"warningType": event.code, "message": event.message})


def warned(fold: Fold, record: Record, event: BudgetWarned | BudgetStopped) -> Iterator[Said]:
    how = "is used up" if isinstance(event, BudgetStopped) else "is nearly used up"
    message = f"the limit on {event.limit} of this {event.scope} {how}: {event.used:,} of {event.allowed:,}"
    yield Said("session.warning", {"warningType": "budget", "message": message})


def another_model(fold: Fold, record: Record, event: ModelChanged) -> Iterator[Said]:
    fold.model, fold.window_tokens = event.model.name, event.model.window_tokens
    yield Said("session.model_change", {"previousModel": event.previous, "newModel": event.model.name})


def another_mode(fold: Fold, record: Record, event: ModeChanged) -> Iterator[Said]:
    fold.mode = event.mode
    yield Said("session.mode_changed", {"previousMode": event.previous, "newMode": event.mode})


def selected(fold: Fold, record: Record, event: AgentSelected) -> Iterator[Said]:
    shown = event.display_name or event.agent
    yield Said("subagent.selected", {"agentName": event.agent, "agentDisplayName": shown, "tools": list(event.tools)})


def deselected(fold: Fold, record: Record, event: AgentDeselected) -> Iterator[Said]:
    yield Said("subagent.deselected", {})


def titled(fold: Fold, record: Record, event: TitleChanged) -> Iterator[Said]:
    yield Said("session.title_changed", {"title": event.title})


def planned(fold: Fold, record: Record, event: PlanChanged) -> Iterator[Said]:
    yield Said("session.plan_changed", {"operation": event.operation})


def task_changed(fold: Fold, record: Record, event: TaskChanged) -> Iterator[Said]:
    before, fold.plan = fold.plan, event.task.plan
    if "task" in event.fields and before != fold.plan:  # a client's own change; the agent's is on record beside it
        operation = "create" if not before else "update" if fold.plan else "delete"
        yield Said("session.plan_changed", {"operation": operation})
    if "current_step" in event.fields and event.task.current_step:
        yield Said("assistant.intent", {"intent": event.task.current_step})


def task_completed(fold: Fold, record: Record, event: TaskCompleted) -> Iterator[Said]:
    yield Said("session.task_complete", {"summary": event.summary, "success": event.success})


def queue_changed(fold: Fold, record: Record, event: QueueChanged) -> Iterator[Said]:
    if event.operation not in UNQUEUED:
        yield Said("pending_messages.modified", {})


def files_changed(fold: Fold, record: Record, event: FilesChanged) -> Iterator[Said]:
    for change in event.changes:
        if change.operation != "delete":
            yield Said("session.workspace_file_changed", {"path": change.path, "operation": change.operation})


def moved(fold: Fold, record: Record, event: WorkspaceChanged) -> Iterator[Said]:
    fold.workspace = event.workspace
    yield Said("session.context_changed", context_of(event.workspace) or {})


def instructed(fold: Fold, record: Record, event: InstructionsRendered) -> Iterator[Said]:
    if event.body is not None:
        yield Said("system.message", {"content": event.body.text, "role": "system"})


def imported(fold: Fold, record: Record, event: SessionImported) -> Iterator[Said]:
    data = without_none(handoffTime=iso_time(record.at_ms), sourceType="local", summary=event.source or None)
    yield Said("session.handoff", data)


# --- the history --------------------------------------------------------------------------------------------------


def compacting(fold: Fold, record: Record, event: CompactionStarted) -> Iterator[Said]:
    fold.summary = ""
    yield Said("session.compaction_start", {"conversationTokens": event.tokens})


def compacted(fold: Fold, record: Record, event: CompactionFinished) -> Iterator[Said]:
    data = {
        "success": True,
        "preCompactionTokens": event.tokens_before,
        "postCompactionTokens": event.tokens_after,
        "preCompactionMessagesLength": event.items_before,
        "messagesRemoved": max(0, event.items_before - event.items_after),
        "tokensRemoved": max(0, event.tokens_before - event.tokens_after),
        "summaryContent": fold.summary,
    }
    yield Said("session.compaction_complete", data)


def not_compacted(fold: Fold, record: Record, event: CompactionFailed) -> Iterator[Said]:
    why = event.failure.message if event.failure is not None else event.reason
    yield Said("session.compaction_complete", {"success": False, "error": why})


def truncated(fold: Fold, record: Record, event: ContextTruncated) -> Iterator[Said]:
    data = {
        "tokenLimit": fold.window_tokens,
        "preTruncationTokensInMessages": event.tokens_before,
        "preTruncationMessagesLength": event.items_before,
        "postTruncationTokensInMessages": event.tokens_after,
        "postTruncationMessagesLength": event.items_after,
        "tokensRemovedDuringTruncation": max(0, event.tokens_before - event.tokens_after),
        "messagesRemovedDuringTruncation": max(0, event.items_before - event.items_after),
        "performedBy": "windlass",
    }
    yield Said("session.truncation", data)


def rewound(fold: Fold, record: Record, event: SessionRewound) -> Iterator[Said]:
    removed = [name for seq, name in fold.kept if seq > event.to_seq]
    if removed:
        yield Said("session.snapshot_rewind", {"upToEventId": removed[0], "eventsRemoved": len(removed)})


# --- its end ------------------------------------------------------------------------------------------------------


def shut_down(fold: Fold, record: Record, event: SessionShutDown) -> Iterator[Said]:
    fold.ending = (event.kind, event.reason)
    yield from ()


def totalled(fold: Fold, record: Record, event: SessionTotalled) -> Iterator[Said]:
    kind, reason = fold.ending
    metrics = {
        total.model: {"requests": {"count": total.requests, "cost": 0}, "usage": usage_of(total.usage)}
        for total in event.models
    }
    data = without_none(
        shutdownType=kind,
        errorReason=reason or None if kind == "error" else None,
        totalPremiumRequests=0,
        totalApiDurationMs=sum(total.duration_ms for total in event.models),
        sessionStartTime=event.started_ms,
        codeChanges={
            "linesAdded": event.code.lines_added,
            "linesRemoved": event.code.lines_removed,
            "filesModified": list(event.code.files),
        },
        modelMetrics=metrics,
        currentModel=event.current_model or None,
    )
    yield Said("session.shutdown", data)


def usage_of(usage: Usage) -> JsonObject:
    """What requests have used."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    }


FORMS: dict[type[Event], Form] = {
    SessionStarted: started,
    NoticeGiven: noticed,
    BudgetWarned: warned,
    BudgetStopped: warned,
    ModelChanged: another_model,
    ModeChanged: another_mode,
    AgentSelected: selected,
    AgentDeselected: deselected,
    TitleChanged: titled,
    PlanChanged: planned,
    TaskChanged: task_changed,
    TaskCompleted: task_completed,
    QueueChanged: queue_changed,
    FilesChanged: files_changed,
    WorkspaceChanged: moved,
    InstructionsRendered: instructed,
    SessionImported: imported,
    CompactionStarted: compacting,
    CompactionFinished: compacted,
    CompactionFailed: not_compacted,
    ContextTruncated: truncated,
    SessionRewound: rewound,
    SessionShutDown: shut_down,
    SessionTotalled: totalled,
}
