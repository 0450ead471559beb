"""Hooks, context, budgets, skills, changes of tools and jobs, as events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.adapters.meerkat.codec import agent_events as told
from windlass.adapters.meerkat.codec import skills
from windlass.adapters.meerkat.codec.agent_events import AgentEvent
from windlass.adapters.meerkat.codec.closed_words import BudgetType, HookPoint, HookReasonCode, JobStatus
from windlass.adapters.meerkat.codec.tool_config import external_delta
from windlass.adapters.meerkat.codec.wire import read_as
from windlass.events.base import Event
from windlass.events.budgets import BudgetWarned
from windlass.events.context import CompactionFailed, CompactionFinished, CompactionStarted
from windlass.events.errors import CodecError
from windlass.events.hooks import HookRuled
from windlass.events.skills import AnySkillFailure, SkillFailed, SkillKey, SkillResolved
from windlass.events.tools.jobs import JobFinished
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.values.blocks import plain_text
from windlass.runtime.streams.record import Record

from .fold import Fold, Form

POINTS: dict[str, HookPoint] = {
    "run_start": "run_started",
    "prompt": "run_started",
    "run_end": "run_completed",
    "error": "run_failed",
    "before_model": "pre_llm_request",
    "after_model": "post_llm_response",
    "before_tool": "pre_tool_execution",
    "permission": "pre_tool_execution",
    "after_tool": "post_tool_execution",
    "turn_start": "turn_boundary",
    "turn_end": "turn_boundary",
    "steer": "turn_boundary",
    "before_compaction": "turn_boundary",
    "after_compaction": "turn_boundary",
}
"""Where hooks stand there; rulings at other points are not told."""
REASONS: dict[str | None, HookReasonCode] = {
    None: "policy_violation",
    "policy": "policy_violation",
    "safety": "safety_violation",
    "schema": "schema_violation",
    "timeout": "timeout",
    "runtime": "runtime_error",
}
BUDGETS: dict[str, BudgetType] = {"tokens": "tokens", "time": "time", "calls": "tool_calls"}
"""The budgets that are known there; money and turns are not."""
JOBS: dict[str, JobStatus] = {
    "completed": "completed",
    "failed": "failed",
    "aborted": "aborted",
    "cancelled": "cancelled",
    "retired": "retired",
    "terminated": "terminated",
    "lost": "terminated",
}


def ruled(fold: Fold, record: Record, event: HookRuled) -> Iterator[AgentEvent]:
    ruling, point = event.ruling, POINTS.get(event.ruling.point)
    if point is None:
        return
    yield told.HookStarted(hook_id=ruling.hook_id, point=point)
    if ruling.outcome in ("failed", "timed_out"):
        yield told.HookFailed(hook_id=ruling.hook_id, point=point, error=ruling.message or ruling.outcome)
    elif ruling.outcome == "denied":
        yield told.HookDenied(
            hook_id=ruling.hook_id, point=point, reason_code=REASONS[ruling.reason], message=ruling.message
        )
    else:
        yield told.HookCompleted(hook_id=ruling.hook_id, point=point, duration_ms=ruling.duration_ms)


def compacting(fold: Fold, record: Record, event: CompactionStarted) -> Iterator[AgentEvent]:
    yield told.CompactionStarted(
        input_tokens=fold.usage.input_tokens, estimated_history_tokens=event.tokens, message_count=event.items
    )


def compacted(fold: Fold, record: Record, event: CompactionFinished) -> Iterator[AgentEvent]:
    yield told.CompactionCompleted(
        summary_tokens=event.summary_tokens, messages_before=event.items_before, messages_after=event.items_after
    )


def not_compacted(fold: Fold, record: Record, event: CompactionFailed) -> Iterator[AgentEvent]:
    yield told.CompactionFailed(error=event.failure.message if event.failure is not None else event.reason)


def warned(fold: Fold, record: Record, event: BudgetWarned) -> Iterator[AgentEvent]:
    if event.limit in BUDGETS:
        yield told.BudgetWarning(
            budget_type=BUDGETS[event.limit], used=event.used, limit=event.allowed, percent=event.fraction
        )


def skills_resolved(fold: Fold, record: Record, event: SkillResolved) -> Iterator[AgentEvent]:
    keys = [key_of(one.key) for one in event.skills]
    yield told.SkillsResolved(
        skills=tuple(key for key in keys if key is not None), injection_bytes=event.injection_bytes
    )
    for one in event.failed:
        yield unresolved(one.key, one.reason, one.reference)


def skill_failed(fold: Fold, record: Record, event: SkillFailed) -> Iterator[AgentEvent]:
    yield unresolved(event.key, event.reason, event.reference)


def key_of(key: SkillKey | None) -> skills.SkillKey | None:
    """A key; None if its name is none that is allowed there."""
    try:
        return None if key is None else read_as(msgspec.to_builtins(key), skills.SkillKey)
    except CodecError:
        return None


def unresolved(key: SkillKey | None, reason: AnySkillFailure, reference: str) -> AgentEvent:
    """A skill that could not be had; a reason that is not allowed there is told in words."""
    kind: Any = skills.AnyReason
    try:
        told_reason = read_as(msgspec.to_builtins(reason), kind)
    except CodecError:
        told_reason = skills.Unknown(message=str(reason))
    return told.SkillResolutionFailed(
        skill_key=key_of(key), reason=told_reason, reference=reference, error=str(told_reason)
    )


def toolset_changed(fold: Fold, record: Record, event: ToolsetChanged) -> Iterator[AgentEvent]:
    operation = "add" if event.operation == "load" else event.operation
    target = event.target or ", ".join(event.names or [spec.name for spec in event.tools])
    turn = fold.turn if event.phase in ("applied", "forced") else None
    delta = external_delta(target, operation, event.phase, applied_at_turn=turn, detail=event.error or None)
    yield told.ToolConfigChanged(payload=delta.as_payload())


def job_finished(fold: Fold, record: Record, event: JobFinished) -> Iterator[AgentEvent]:
    said = plain_text(event.body.content) if event.body is not None else ""
    code = "nobody knows how it ended" if event.status == "lost" else f"exit_code: {event.exit_code}"
    name = fold.jobs.pop(event.job_id, event.job_id)
    yield told.job_completed(event.job_id, name, JOBS[event.status], f"{code}\n{said}" if said else code)


FORMS: dict[type[Event], Form] = {
    HookRuled: ruled,
    CompactionStarted: compacting,
    CompactionFinished: compacted,
    CompactionFailed: not_compacted,
    BudgetWarned: warned,
    SkillResolved: skills_resolved,
    SkillFailed: skill_failed,
    ToolsetChanged: toolset_changed,
    JobFinished: job_finished,
}
