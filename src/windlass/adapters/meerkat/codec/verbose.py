"""Events as lines for people; most have none."""

from __future__ import annotations

import msgspec

from . import agent_events as events
from .agent_events import AgentEvent
from .closed_words import Wire

CUT = "..."


class VerboseConfig(Wire, frozen=True, kw_only=True):
    """How many bytes of a text are shown."""

    args_bytes: int = 100
    result_bytes: int = 200
    text_bytes: int = 500


DEFAULT = VerboseConfig()


def preview(text: str, bytes_max: int) -> str:
    """A text, cut behind the character that reaches the limit. No character is split."""
    if len(text.encode()) <= bytes_max:
        return text
    kept = size = 0
    for letter in text:
        if size >= bytes_max:
            break
        kept, size = kept + 1, size + len(letter.encode())
    return text[:kept] + CUT


def compact(value: object) -> str:
    """A value as JSON without spaces."""
    return msgspec.json.encode(value).decode()


def named(word: str) -> str:
    """A word of the wire as the name of its variant: `end_turn` is `EndTurn`."""
    return "".join(part.capitalize() for part in word.split("_"))


def verbose(event: AgentEvent, config: VerboseConfig = DEFAULT) -> str | None:
    """The line of an event; None if people need none."""
    match event:
        case events.TurnStarted():
            return f"\n━━━ Turn {event.turn_number + 1} ━━━"
        case events.ToolCallRequested():
            return f"  → {event.name} {preview(compact(event.args), config.args_bytes)}"
        case events.ToolExecutionCompleted():
            mark = "✗" if event.is_error else "✓"
            return f"  {mark} {event.name} ({event.duration_ms}ms): {preview(event.result, config.result_bytes)}"
        case events.TurnCompleted():
            used = f"{event.usage.input_tokens} tokens in, {event.usage.output_tokens} out"
            return f"  ── Turn ended: {named(event.stop_reason)} ({used})"
        case events.TextComplete(content=content) if content:
            return f"  💬 {preview(content, config.text_bytes)}"
        case events.ReasoningComplete(content=content) if content:
            return f"  💭 {preview(content, config.text_bytes)}"
        case events.InteractionCallbackPending():
            return f"  ⧖ waits outside: {event.tool_name} {preview(compact(event.args), config.args_bytes)}"
        case _:
            return _of_the_runtime(event)


def _of_the_runtime(event: AgentEvent) -> str | None:
    match event:
        case events.Retrying():
            return f"  ⟳ attempt {event.attempt}/{event.max_attempts} in {event.delay_ms}ms: {event.error}"
        case events.BudgetWarning():
            share = f"{event.percent * 100:.0f}% ({event.used}/{event.limit})"
            return f"  ⚠ budget: {named(event.budget_type)} at {share}"
        case events.CompactionStarted():
            size = f"{event.input_tokens} tokens in, about {event.estimated_history_tokens} of history"
            return f"  ⟳ compacting {event.message_count} messages: {size}"
        case events.CompactionCompleted():
            size = f"{event.messages_before} → {event.messages_after} messages"
            return f"  ✓ compacted: {size}, {event.summary_tokens} tokens of summary"
        case events.CompactionFailed():
            return f"  ✗ not compacted, going on: {event.error}"
        case events.BackgroundJobCompleted():
            return f"  job {event.job_id} ({event.display_name}) {event.terminal_status}: {event.detail}"
        case _:
            return None
