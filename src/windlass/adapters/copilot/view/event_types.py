"""The event types of the Copilot SDK that a session can be told in, and which of them are kept."""

from __future__ import annotations

EVENT_TYPES = (
    *("session.start", "session.resume", "session.error", "session.idle", "session.title_changed", "session.info"),
    *("session.warning", "session.model_change", "session.mode_changed", "session.plan_changed"),
    *("session.workspace_file_changed", "session.handoff", "session.truncation", "session.snapshot_rewind"),
    *("session.shutdown", "session.context_changed", "session.usage_info", "session.compaction_start"),
    *("session.compaction_complete", "session.task_complete", "user.message", "pending_messages.modified"),
    *("assistant.turn_start", "assistant.intent", "assistant.reasoning", "assistant.reasoning_delta"),
    *("assistant.streaming_delta", "assistant.message", "assistant.message_delta", "assistant.turn_end"),
    *("assistant.usage", "abort", "tool.user_requested", "tool.execution_start", "tool.execution_partial_result"),
    *("tool.execution_progress", "tool.execution_complete", "skill.invoked", "subagent.started"),
    *("subagent.completed", "subagent.failed", "subagent.selected", "subagent.deselected", "hook.start", "hook.end"),
    *("system.message", "permission.requested", "permission.completed", "user_input.requested"),
    *("user_input.completed", "elicitation.requested", "elicitation.completed", "external_tool.requested"),
    *("external_tool.completed", "command.queued", "command.completed", "exit_plan_mode.requested"),
    "exit_plan_mode.completed",
)
"""The 58 types of the schema that this adapter was written against."""

EPHEMERAL = frozenset(
    {
        *("session.idle", "session.title_changed", "session.snapshot_rewind", "session.usage_info"),
        *("pending_messages.modified", "assistant.intent", "assistant.reasoning_delta", "assistant.streaming_delta"),
        *("assistant.message_delta", "assistant.usage", "tool.execution_partial_result", "tool.execution_progress"),
        *("user_input.requested", "user_input.completed", "elicitation.requested", "elicitation.completed"),
        *("command.queued", "command.execute", "command.completed"),
        *("exit_plan_mode.requested", "exit_plan_mode.completed"),
    }
)
"""Told to whoever listens and not part of a session's history. Requests for permissions and for tools of clients are
kept: the published clients take them so, and whoever resumes a session finds them."""

STREAMED = frozenset({"assistant.message_delta", "assistant.reasoning_delta", "assistant.streaming_delta"})
"""Told only to clients that asked for streaming."""
