"""The 33 tests that Meerkat's event module states of itself, by their names, against our codec."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

import pytest

from windlass.adapters.meerkat.codec import agent_errors as errors
from windlass.adapters.meerkat.codec import agent_events as events
from windlass.adapters.meerkat.codec import content, error_reports, scopes, skills, tool_config
from windlass.adapters.meerkat.codec.envelope import compared, from_outside, from_session
from windlass.adapters.meerkat.codec.job_status import Operation, status_of_operation, status_of_outcome
from windlass.adapters.meerkat.codec.tool_arguments import arguments
from windlass.adapters.meerkat.codec.wire import builtins, read_envelope, read_event, read_scoped
from windlass.events.errors import CodecError

from .samples import KEY, OTHER, PICTURE, SAMPLES, SCHEDULE, SESSION

PNG = content.ImageBlock(media_type="image/png", source="inline", data="AAAA")
PNG_JSON = {"type": "image", "media_type": "image/png", "source": "inline", "data": "AAAA"}
JOB = {"type": "background_job_completed", "job_id": "j_123", "display_name": "sleep 2", "detail": "exit_code: 1"}
HELLO = {"type": "text_delta", "delta": "hello"}


def results(*blocks: content.ContentBlock) -> list[dict[str, Any]]:
    """Both events that carry a result, as JSON."""
    text = content.text_of(blocks)
    done = events.ToolExecutionCompleted(
        id="tc", name="tool", result=text, content=blocks, is_error=False, duration_ms=12
    )
    received = events.ToolResultReceived(id="tc", name="tool", content=blocks, is_error=False)
    return [builtins(done), builtins(received)]


def reload(status: tool_config.AnyStatus) -> events.ToolConfigChanged:
    payload = tool_config.ToolConfigPayload(
        operation="reload",
        target="tool_scope",
        status_info=status,
        persisted=False,
        applied_at_turn=3,
        domain="tool_scope",
    )
    return events.ToolConfigChanged(payload=payload)


def reload_json(**status: Any) -> dict[str, Any]:
    payload = {"operation": "reload", "target": "tool_scope", "persisted": False, "domain": "tool_scope", **status}
    return {"type": "tool_config_changed", "payload": payload}


def boundary(base: bool, visible: bool, revision: int) -> tool_config.BoundaryApplied:
    return tool_config.BoundaryApplied(base_changed=base, visible_changed=visible, revision=revision)


def test_tool_call_arguments_reject_string_projection():
    with pytest.raises(CodecError, match="JSON object, got string"):
        arguments('{"path":')


def test_tool_call_requested_rejects_string_args_on_deserialize():
    with pytest.raises(CodecError, match="JSON object, got string"):
        read_event({"type": "tool_call_requested", "id": "tc_1", "name": "search", "args": '{"query":'})


def test_tool_config_change_status_mirrors_legacy_status_text():
    assert boundary(True, False, 7).text == "boundary_applied(base_changed=true,visible_changed=false,revision=7)"
    counts = tool_config.CatalogCounts(added_hidden_count=2, removed_hidden_count=1, pending_source_count=3)
    assert counts.text == "deferred_catalog_delta(added_hidden=2,removed_hidden=1,pending_sources=3)"
    assert tool_config.WarningFailedClosed(error="injected").text == "warning_failed_closed(injected)"
    assert tool_config.ExternalToolStatus(phase="failed", detail="exit 1").text == "failed: exit 1"


def test_tool_result_events_carry_text_only_content_blocks():
    for told in results(content.TextBlock(text="plain output")):
        assert told["content"] == [{"type": "text", "text": "plain output"}]
        assert "has_images" not in told


def test_tool_result_events_carry_image_only_content_blocks():
    for told in results(PNG):
        assert told["content"] == [PNG_JSON]
        assert "has_images" not in told


def test_tool_result_events_carry_mixed_content_blocks_in_order():
    blocks = (content.TextBlock(text="before"), PNG, content.TextBlock(text="after"))
    before, after = {"type": "text", "text": "before"}, {"type": "text", "text": "after"}
    for told in results(*blocks):
        assert told["content"] == [before, PNG_JSON, after]
        assert "has_images" not in told
        assert read_event(told).content == blocks  # type: ignore[union-attr]


def test_legacy_tool_result_event_payloads_deserialize_without_typed_content():
    old = {"id": "tc", "name": "legacy_tool", "is_error": False}
    done = read_event(
        {"type": "tool_execution_completed", "result": "legacy output", "duration_ms": 3, "has_images": True, **old}
    )
    assert done == events.ToolExecutionCompleted(
        id="tc", name="legacy_tool", result="legacy output", is_error=False, duration_ms=3
    )
    received = read_event({"type": "tool_result_received", **old})
    assert received == events.ToolResultReceived(id="tc", name="legacy_tool", content=(), is_error=False)


def test_tool_config_changed_payload_carries_structured_status_with_legacy_mirror():
    told = builtins(reload(boundary(True, True, 42)))["payload"]
    assert told["status"] == "boundary_applied(base_changed=true,visible_changed=true,revision=42)"
    typed = {"kind": "boundary_applied", "base_changed": True, "visible_changed": True, "revision": 42}
    assert told["status_info"] == typed


def test_tool_config_changed_payload_derives_legacy_status_from_typed_status():
    event = reload(boundary(True, False, 9))
    told = builtins(event)
    assert told["payload"]["status"] == "boundary_applied(base_changed=true,visible_changed=false,revision=9)"
    assert read_event(told) == event


def test_tool_config_changed_payload_deserializes_legacy_status_without_typed_data():
    text = "boundary_applied(base_changed=true,visible_changed=true,revision=42)"
    event = read_event(reload_json(status=text, applied_at_turn=3))
    assert isinstance(event, events.ToolConfigChanged)
    assert event.payload.status == text
    assert event.payload.status_info == tool_config.LegacyStatus(status=text)


def test_tool_config_changed_payload_prefers_typed_status_over_legacy_mirror():
    typed = {"kind": "boundary_applied", "base_changed": True, "visible_changed": False, "revision": 9}
    event = read_event(reload_json(status="legacy stale status", status_info=typed))
    assert isinstance(event, events.ToolConfigChanged)
    assert event.payload.status_info == boundary(True, False, 9)
    assert event.payload.status == "boundary_applied(base_changed=true,visible_changed=false,revision=9)"


def test_tool_config_changed_payload_schema_allows_legacy_status_only_replays():
    schema = tool_config.payload_schema()["$defs"]["ToolConfigPayload"]
    assert "status" in schema["required"]
    assert "status_info" not in schema["required"]
    assert isinstance(schema["properties"]["status_info"], dict)


@pytest.mark.parametrize("event", SAMPLES, ids=events.type_of)
def test_agent_event_json_schema(event):
    told = builtins(event)
    assert told["type"] == events.type_of(event)
    assert builtins(read_event(told)) == told
    assert read_event(told) == event


def test_background_job_completed_carries_typed_terminal_status():
    event = events.job_completed("j_123", "sleep 2", "failed", "exit_code: 1")
    told = builtins(event)
    assert told == {**JOB, "status": "failed", "terminal_status": "failed"}
    assert read_event(told) == event


def test_background_job_completed_requires_typed_terminal_status():
    for bad in ({"status": "completed"}, {"status": "success"}, {"status": "completed", "terminal_status": "success"}):
        with pytest.raises(CodecError, match="terminal_status"):
            read_event({**JOB, **bad})
    for status, kept in (({}, None), ({"status": "completed"}, "completed"), ({"status": 0}, None)):
        event = read_event({**JOB, **status, "terminal_status": "failed"})
        assert event == events.BackgroundJobCompleted(
            job_id="j_123", display_name="sleep 2", status=kept, terminal_status="failed", detail="exit_code: 1"
        )


def test_background_job_terminal_status_maps_operation_truth():
    ended = ("completed", "failed", "aborted", "cancelled", "retired", "terminated")
    assert [status_of_outcome(Operation(outcome=one)) for one in ended] == list(ended)  # type: ignore[arg-type]
    assert [status_of_operation(one) for one in ended] == list(ended)  # type: ignore[arg-type]
    open_still = ("running", "absent", "provisioning", "retiring")
    assert [status_of_operation(one) for one in open_still] == [None] * 4  # type: ignore[arg-type]


def test_retry_event_carries_typed_schedule():
    told = builtins(events.Retrying(attempt=1, max_attempts=3, error="rate limited", delay_ms=30_000, retry=SCHEDULE))[
        "retry"
    ]
    assert told["failure"]["kind"] == "rate_limited"
    assert (told["plan"]["attempt"], told["plan"]["selected_delay_ms"]) == (1, 30_000)


def test_skill_resolution_failed_carries_typed_key_and_reason_with_legacy_mirrors():
    reason = skills.NotFound(key=KEY)
    event = events.SkillResolutionFailed(skill_key=KEY, reason=reason, reference=str(KEY), error=str(reason))
    told = builtins(event)
    key = {"source_uuid": str(skills.BUILTIN_SOURCE), "skill_name": "test-skill"}
    assert told["skill_key"] == key
    assert told["reason"] == {"reason_type": "not_found", "key": key}
    assert told["reference"] == f"{skills.BUILTIN_SOURCE}/test-skill"
    assert told["error"] == str(reason)
    assert read_event(told) == event


def test_legacy_skill_resolution_failed_payload_deserializes():
    event = read_event({"type": "skill_resolution_failed", "reference": "legacy/ref", "error": "missing"})
    assert event == events.SkillResolutionFailed(
        skill_key=None, reason=skills.Unknown(), reference="legacy/ref", error="missing"
    )


def test_unknown_skill_resolution_failed_reason_type_deserializes_as_unknown():
    reason = {"reason_type": "future_reason", "message": "future reason details"}
    event = read_event({"type": "skill_resolution_failed", "reason": reason})
    assert isinstance(event, events.SkillResolutionFailed)
    assert event.reason == skills.Unknown(message="future reason details")
    assert str(event.reason) == "future reason details"


def test_agent_error_report_carries_typed_hook_reason():
    denied = {"hook_id": "guard-pre-tool", "point": "run_started", "reason_code": "policy_violation"}
    error = errors.HookDenied(message="blocked", **denied)  # type: ignore[arg-type]
    reason = error_reports.DeniedByHook(**denied)  # type: ignore[arg-type]
    report = error_reports.AgentErrorReport(error_class="hook", reason=reason, message=str(error))
    assert error_reports.report_of(error) == report


def test_agent_error_report_carries_typed_provider_error_reason():
    said = {"message": "provider overloaded"}
    cause = errors.ProviderError(kind="server_overloaded", retryability="retryable", details=said)
    report = error_reports.report_of(errors.LlmError(provider="anthropic", reason=cause, message="provider overloaded"))
    assert report.error_class == "llm"
    assert report.reason == error_reports.LlmProviderError(
        provider_error_kind="server_overloaded", provider_error_retryability="retryable", provider_error=said
    )


def test_agent_error_report_fails_closed_for_unknown_terminal_cause():
    error = errors.TerminalFailure(outcome="failed", cause_kind="unknown", message="words say nothing of a cause")
    report = error_reports.AgentErrorReport(error_class="internal", reason=None, message=str(error))
    assert error_reports.report_of(error) == report


def test_agent_event_type_mapping_is_total_for_all_variants():
    assert tuple(type(one) for one in SAMPLES) == events.EVENTS
    kinds = {events.type_of(one) for one in SAMPLES}
    assert len(kinds) == 35
    assert "" not in kinds


def test_assistant_image_appended_event_serializes_typed_image_fact():
    event = events.AssistantImageAppended(image=PICTURE)
    told = builtins(event)
    assert told["type"] == "assistant_image_appended"
    assert told["image"]["blob_ref"]["blob_id"] == "generated-image"
    assert told["image"]["media_type"] == "image/png"
    assert read_event(told) == event


@pytest.mark.parametrize("word", ["tokens", "time", "tool_calls"])
def test_budget_type_serialization(word):
    event = events.BudgetWarning(budget_type=word, used=1, limit=2, percent=0.5)
    assert builtins(event)["budget_type"] == word
    assert read_event(builtins(event)) == event


def test_scoped_agent_event_roundtrip():
    frame = {"scope": "mob_member", "flow_run_id": "run_123", "agent_identity": "writer"}
    private = {"agent_runtime_id": "writer:0", "fence_token": 1, "generation": 0}
    event = read_scoped({"scope_id": "mob:writer", "scope_path": [{**frame, **private}], "event": HELLO})
    told = builtins(event)
    assert told == {"scope_id": "mob:writer", "scope_path": [frame], "event": HELLO}
    assert read_scoped(told) == event


def test_scope_id_from_path_formats():
    primary = scopes.PrimaryFrame(session_id="sid_x")
    planner = scopes.MemberFrame(flow_run_id="run_1", agent_identity="planner")
    assert scopes.scope_of((primary,)) == scopes.scope_of(()) == "primary"
    assert scopes.scope_of((planner,)) == "mob:planner"
    event = scopes.deeper(scopes.at_top("sid_x", events.TextDelta(delta="hello")), planner)
    assert event.scope_id == "primary/mob:planner"


def test_event_envelope_roundtrip():
    payload = events.TextDelta(delta="hello")
    envelope = from_session(SESSION, payload, event_id=OTHER, seq=7, at_ms=5, mob_id="mob_1")
    told = builtins(envelope)
    assert told["source"] == {"type": "session", "session_id": str(SESSION)}
    assert told["source_id"] == f"session:{SESSION}"
    assert (told["seq"], told["mob_id"], told["timestamp_ms"]) == (7, "mob_1", 5)
    assert read_envelope(told) == envelope
    assert read_envelope(told).session_id == SESSION


def test_event_envelope_requires_typed_source_identity():
    told = {"event_id": str(OTHER), "source_id": f"session:{SESSION}", "seq": 7, "timestamp_ms": 1, "payload": HELLO}
    with pytest.raises(CodecError, match="source"):
        read_envelope(told)


def test_malformed_legacy_source_id_does_not_override_typed_source():
    source = {"type": "session", "session_id": str(SESSION)}
    told = {"source": source, "source_id": "session:not-a-uuid", "seq": 7, "timestamp_ms": 1, "payload": HELLO}
    envelope = read_envelope({"event_id": str(OTHER), **told})
    assert envelope.session_id == SESSION
    assert envelope.source_id == "session:not-a-uuid"


def test_legacy_session_source_id_string_does_not_classify_envelope():
    payload = events.TurnStarted(turn_number=1)
    envelope = from_outside(f"session:{SESSION}", payload, event_id=OTHER, seq=1, at_ms=1)
    assert envelope.session_id is None
    assert envelope.source_id == f"session:{SESSION}"


def test_compare_event_envelopes_total_order():
    payload = events.TurnStarted(turn_number=1)
    one = from_outside("a", payload, event_id=SESSION, seq=1, at_ms=10)
    other = from_outside("a", payload, event_id=OTHER, seq=2, at_ms=10)
    assert (compared(one, other), compared(other, one), compared(one, one)) == (-1, 1, 0)


def test_all_33_are_here():
    tree = ast.parse(pathlib.Path(__file__).read_text(encoding="utf-8"))
    named = {part.name for part in tree.body if isinstance(part, ast.FunctionDef) and part.name.startswith("test_")}
    assert len(named - {"test_all_33_are_here"}) == 33
