"""A value of each of the 35 events."""

from __future__ import annotations

from windlass.adapters.meerkat.codec import agent_events as events
from windlass.adapters.meerkat.codec import content, skills, tool_config
from windlass.adapters.meerkat.codec.closed_words import Uuid
from windlass.adapters.meerkat.codec.error_reports import AgentErrorReport

SESSION = Uuid("0190a5c0-0000-7000-8000-000000000001")
OTHER = Uuid("0190a5c0-0000-7000-8000-000000000002")
KEY = skills.SkillKey(source_uuid=skills.BUILTIN_SOURCE, skill_name="test-skill")
TEXT = content.TextBlock(text="ok")
USAGE = content.Usage(input_tokens=100, output_tokens=50)
PICTURE = content.AssistantImage(
    image_id=Uuid(int=42),
    blob_ref=content.BlobRef(blob_id="generated-image", media_type="image/png"),
    media_type="image/png",
    width=1024,
    height=1024,
    revised_prompt=content.NotRequested(),
    meta=content.NoImageMetadata(),
)
SCHEDULE = content.RetrySchedule(
    failure=content.RetryFailure(provider="test", kind="rate_limited", retry_after_ms=30_000, message="rate limited"),
    plan=content.RetryPlan(
        attempt=1,
        max_retries=3,
        computed_delay_ms=500,
        selected_delay_ms=30_000,
        retry_after_hint_ms=30_000,
        rate_limit_floor_applied=True,
        budget_capped=False,
    ),
)
CHANGE = tool_config.external_delta("external", "reload", "applied", applied_at_turn=1).as_payload()

SAMPLES: tuple[events.AgentEvent, ...] = (
    events.RunStarted(session_id=SESSION, prompt="Hello"),
    events.RunCompleted(session_id=SESSION, result="Done", usage=USAGE),
    events.ExtractionSucceeded(session_id=SESSION, structured_output={"a": 1}),
    events.ExtractionFailed(session_id=SESSION, last_output="{", attempts=3, reason="no object"),
    events.RunFailed(
        session_id=SESSION,
        error_class="budget",
        error="Budget exceeded",
        error_report=AgentErrorReport(error_class="budget", message="Budget exceeded"),
    ),
    events.HookStarted(hook_id="hook-1", point="run_started"),
    events.HookCompleted(hook_id="hook-1", point="run_started", duration_ms=1),
    events.HookFailed(hook_id="hook-1", point="run_started", error="failed"),
    events.HookDenied(hook_id="hook-1", point="run_started", reason_code="policy_violation", message="nope"),
    events.TurnStarted(turn_number=1),
    events.ReasoningDelta(delta="think"),
    events.ReasoningComplete(content="done"),
    events.TextDelta(delta="chunk"),
    events.TextComplete(content="done"),
    events.ServerToolContent(name="web_search", content=[{"url": "u"}]),
    events.AssistantImageAppended(image=PICTURE),
    events.ToolCallRequested(id="tc_1", name="read_file", args={"path": "/tmp/test"}),
    events.ToolResultReceived(id="tc_1", name="read_file", content=(TEXT,), is_error=False),
    events.TurnCompleted(stop_reason="end_turn", usage=content.Usage()),
    events.ToolExecutionStarted(id="tc_1", name="read_file"),
    events.ToolExecutionCompleted(
        id="tc_1", name="read_file", result="ok", content=(TEXT,), is_error=False, duration_ms=1
    ),
    events.ToolExecutionTimedOut(id="tc_1", name="read_file", timeout_ms=1000),
    events.CompactionStarted(input_tokens=120_000, estimated_history_tokens=150_000, message_count=42),
    events.CompactionCompleted(summary_tokens=2048, messages_before=42, messages_after=8),
    events.CompactionFailed(error="the model did not answer"),
    events.BudgetWarning(budget_type="tokens", used=8000, limit=10_000, percent=0.8),
    events.Retrying(attempt=1, max_attempts=3, error="rate limited", delay_ms=30_000, retry=SCHEDULE),
    events.SkillsResolved(skills=(KEY,), injection_bytes=12),
    events.SkillResolutionFailed(reason=skills.Unknown(message="missing"), reference="skill", error="missing"),
    events.InteractionComplete(interaction_id=OTHER, result="an answer"),
    events.InteractionCallbackPending(interaction_id=OTHER, tool_name="external_mock", args={"value": "browser"}),
    events.InteractionFailed(interaction_id=OTHER, error="no answer"),
    events.StreamTruncated(reason="channel full"),
    events.ToolConfigChanged(payload=CHANGE),
    events.BackgroundJobCompleted(
        job_id="j_123", display_name="sleep 2", status="completed", terminal_status="completed", detail="exit_code: 0"
    ),
)
