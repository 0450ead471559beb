"""Anthropic Messages: how answers are read, streamed or whole."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.blocks import ServerTool
from windlass.events.failures import FinishReason
from windlass.events.usage import Usage

from .base import CallPartDelta, Delta, ReasoningPart, TextPart
from .draft import CallDraft, Draft, Span

FINISHES: dict[str, FinishReason] = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause",
    "refusal": "refusal",
}


class Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: dict[str, Any] | None = None


class Part(msgspec.Struct):
    """The delta of a block, or of the message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class Head(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: Counts | None = None


class Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: Part | None = None
    content_block: dict[str, Any] | None = None
    message: Head | None = None
    usage: Counts | None = None
    error: Any = None


class Whole(msgspec.Struct):
    type: str = ""
    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] = []
    stop_reason: str | None = None
    usage: Counts | None = None
    error: Any = None


decode_event = msgspec.json.Decoder(Event).decode
decode_whole = msgspec.json.Decoder(Whole).decode


class ServerDraft:
    """A provider-side tool block whose input is still coming."""

    __slots__ = ("block", "entry", "parts")

    def __init__(self, block: dict[str, Any], entry: int) -> None:
        self.block = block
        self.entry = entry
        self.parts: list[str] = []


class MessagesReader:
    """Reads the events of a streamed message, or a whole one."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.ended = False
        self.error: Any = None
        self.moved = False
        self._open: dict[int, Span | CallDraft | ServerDraft] = {}
        self._counts = Counts()

    def feed(self, events: list[bytes]) -> list[Delta]:
        out: list[Delta] = []
        for data in events:
            event = decode_event(data)
            kind = event.type
            if kind == "content_block_delta":
                if event.delta is not None:
                    self._delta(event.index, event.delta, out)
            elif kind == "content_block_start":
                if event.content_block is not None:
                    self._begin(event.index, event.content_block, out)
            elif kind == "content_block_stop":
                self._close_server_tool(self._open.get(event.index))
            elif kind == "message_start":
                if event.message is not None:
                    self._about(event.message.id, event.message.model, event.message.usage)
            elif kind == "message_delta":
                self._about(None, None, event.usage)
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._finish(event.delta.stop_reason)
            elif kind == "message_stop":
                self.ended = self.draft.finish is not None
                break
            elif kind == "error":
                self.error = event.error or {"message": "error event without an error"}
                break
        return out

    def eof(self) -> None:
        """The end of the body says nothing: the format has its own end marker."""

    def whole(self, body: bytes) -> None:
        message = decode_whole(body)
        if message.type == "error" or message.error is not None:
            self.error = message.error or {"message": "error without a message"}
            return
        self._about(message.id, message.model, message.usage)
        for index, block in enumerate(message.content):
            self._begin(index, block, [])
            opened = self._open.get(index)
            if isinstance(opened, CallDraft):
                opened.args = block.get("input")
        if message.stop_reason is not None:
            self._finish(message.stop_reason)
            self.ended = True

    def _begin(self, index: int, block: dict[str, Any], out: list[Delta]) -> None:
        kind = block.get("type")
        draft = self.draft
        if kind == "text":
            span = draft.new_span("text")
            self._open[index] = span
            if block.get("text"):
                span.parts.append(block["text"])
                out.append(TextPart(text=block["text"]))
        elif kind in ("thinking", "redacted_thinking"):
            span = draft.new_span("reasoning")
            self._open[index] = span
            span.redacted = kind == "redacted_thinking"
            span.opaque = block.get("data") if span.redacted else block.get("signature") or None
            if block.get("thinking"):
                span.parts.append(block["thinking"])
                out.append(ReasoningPart(text=block["thinking"]))
        elif kind == "tool_use":
            call = draft.new_call()
            self._open[index] = call
            call.tool, call.call_id = str(block.get("name") or ""), block.get("id")
            out.append(CallPartDelta(ordinal=call.ordinal, tool=call.tool))
        else:
            self._server_tool(index, block)

    def _server_tool(self, index: int, block: dict[str, Any]) -> None:
        """Whatever else a reply holds was done on the provider's side and is kept as it came."""
        self.moved = True
        call_id = block.get("id") or block.get("tool_use_id")
        name = str(block.get("name") or block.get("type") or "")
        made = ServerTool(name=name, provider=self.draft.provider, content=block, server_call_id=call_id)
        self.draft.entries.append(made)
        self._open[index] = ServerDraft(block, len(self.draft.entries) - 1)

    def _close_server_tool(self, opened: Span | CallDraft | ServerDraft | None) -> None:
        if isinstance(opened, ServerDraft) and opened.parts:
            try:
                opened.block["input"] = msgspec.json.decode("".join(opened.parts))
            except msgspec.DecodeError:
                self.draft.warn("the input of a provider-side tool did not parse")

    def _delta(self, index: int, delta: Part, out: list[Delta]) -> None:
        opened = self._open.get(index)
        if opened is None:
            raise msgspec.DecodeError(f"delta for block {index}, which was not opened")
        if isinstance(opened, Span):
            if delta.text:
                opened.parts.append(delta.text)
                out.append(TextPart(text=delta.text))
            elif delta.thinking:
                opened.parts.append(delta.thinking)
                out.append(ReasoningPart(text=delta.thinking))
            elif delta.signature:
                opened.opaque = (opened.opaque or "") + delta.signature
        elif delta.partial_json:
            if isinstance(opened, CallDraft):
                opened.add(delta.partial_json)
                out.append(CallPartDelta(ordinal=opened.ordinal, fragment=delta.partial_json))
            else:
                opened.parts.append(delta.partial_json)
                self.moved = True

    def _about(self, message_id: str | None, model: str | None, counts: Counts | None) -> None:
        """Counts are running totals: a later one replaces an earlier one."""
        draft = self.draft
        draft.response_id = message_id or draft.response_id
        draft.model = model or draft.model
        if counts is None:
            return
        for field in Counts.__struct_fields__:
            value = getattr(counts, field)
            if value is not None:
                setattr(self._counts, field, value)
        if self._counts.input_tokens is not None and self._counts.output_tokens is not None:
            draft.usage = usage_of(self._counts)

    def _finish(self, reason: str) -> None:
        known = FINISHES.get(reason)
        if known is None:
            self.draft.warn(f"unknown finish reason {reason!r}")
        self.draft.finish = known or "other"


def usage_of(counts: Counts) -> Usage:
    """Anthropic counts cached input beside the rest; we count it within."""
    read, write = counts.cache_read_input_tokens or 0, counts.cache_creation_input_tokens or 0
    fresh = counts.input_tokens or 0
    thought = (counts.output_tokens_details or {}).get("reasoning_tokens")
    return Usage(
        input_tokens=fresh + read + write if fresh >= 0 else fresh,
        output_tokens=counts.output_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=thought if isinstance(thought, int) else 0,
    )
