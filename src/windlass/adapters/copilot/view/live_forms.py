"""What is being written, as events: they come early, and whoever misses them is told all of it later."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.live import Live, ReasoningDelta, TextDelta, ToolProgressed, UsageReported
from windlass.events.values.blocks import plain_text

from .fold import Fold, Said
from .turn_forms import message_id, reasoning_id


def live_forms(fold: Fold, live: Live) -> Iterator[Said]:
    """The events of one live event."""
    match live:
        case TextDelta():
            data = {"messageId": message_id(fold, live.request_id), "deltaContent": live.text}
            yield Said("assistant.message_delta", data)
            fold.streamed_bytes += len(live.text.encode())
            yield Said("assistant.streaming_delta", {"totalResponseSizeBytes": fold.streamed_bytes})
        case ReasoningDelta():
            data = {"reasoningId": reasoning_id(fold, live.request_id), "deltaContent": live.text}
            yield Said("assistant.reasoning_delta", data)
        case ToolProgressed():
            if live.message:
                data = {"toolCallId": live.call_id, "progressMessage": live.message}
                yield Said("tool.execution_progress", data)
            if live.content:
                data = {"toolCallId": live.call_id, "partialOutput": plain_text(live.content)}
                yield Said("tool.execution_partial_result", data)
        case UsageReported():
            used = {"tokenLimit": live.window_tokens, "currentTokens": live.context_tokens}
            yield Said("session.usage_info", {**used, "messagesLength": live.items})
        case _:
            return
