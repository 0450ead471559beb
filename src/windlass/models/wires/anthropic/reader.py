"""Anthropic Messages: how answers are read, streamed or whole."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import ServerTool
from windlass.events.values.failures import FinishReason
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Delta, ReasoningPart, TextPart
from windlass.models.wires.partial_reply import CallDraft, Draft, Span

FINISHES: dict[str, FinishReason] = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause",
    "refusal": "refusal",
}


class Counts(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: dict[str, Any] | None = None


class Part(msgspec.Struct, gc=False):
    """The delta of a block, or of the message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class Head(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: Counts | None = None


class Block(msgspec.Struct, gc=False):
    """A content block as far as we read it; `input` is whatever the model wrote."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None
    input: Any = None


class Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: Part | None = None
    content_block: msgspec.Raw = msgspec.Raw()
    message: Head | None = None
    usage: Counts | None = None
    error: Any = None


class Whole(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    model: str | None = None
    content: list[msgspec.Raw] = []
    stop_reason: str | None = None
    usage: Counts | None = None
    error: Any = None


READ = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage", "error"})
COUNTED = frozenset(Counts.__struct_fields__)
decode_event = msgspec.json.Decoder(Event).decode
decode_whole = msgspec.json.Decoder(Whole).decode
decode_block = msgspec.json.Decoder(Block).decode
decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class ServerDraft:
    """A provider-side tool block whose input is still coming."""

    __slots__ = ("content", "parts")

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
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
                self._begin(event.index, event.content_block, out)
            elif kind == "content_block_stop":
                self._close_server_tool(self._open.get(event.index))
            elif kind == "message_start":
                if event.message is not None:
                    self._about(event.message.id, event.message.model, event.message.usage)
                    self._beside(decode_object(data).get("message"))
            elif kind == "message_delta":
                self._about(None, None, event.usage)
                said = decode_object(data)
                self._beside({**(said.get("delta") or {}), "usage": said.get("usage")})
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
        self._beside(decode_object(body))
        for index, raw in enumerate(message.content):
            block = self._begin(index, raw, [])
            opened = self._open.get(index)
            if isinstance(opened, CallDraft):
                opened.args = block.input
        if message.stop_reason is not None:
            self._finish(message.stop_reason)
            self.ended = True

    def _begin(self, index: int, raw: msgspec.Raw, out: list[Delta]) -> Block:
        block = decode_block(raw)
        draft = self.draft
        if block.type == "text":
            span = self._open[index] = draft.new_span("text")
            if block.text:
                span.parts.append(block.text)
                out.append(TextPart(text=block.text))
        elif block.type in ("thinking", "redacted_thinking"):
            span = self._open[index] = draft.new_span("reasoning")
            span.redacted = block.type == "redacted_thinking"
            span.opaque = (block.data if span.redacted else block.signature) or None
            if block.thinking:
                span.parts.append(block.thinking)
                out.append(ReasoningPart(text=block.thinking))
        elif block.type == "tool_use":
            call = self._open[index] = draft.new_call()
            call.tool, call.call_id = block.name or "", block.id
            out.append(CallPartDelta(ordinal=call.ordinal, tool=call.tool))
        else:
            self._server_tool(index, block, decode_object(raw))
        return block

    def _server_tool(self, index: int, block: Block, content: dict[str, Any]) -> None:
        """Whatever else a reply holds was done on the provider's side and is kept as it came."""
        self.moved = True
        call_id = block.id or block.tool_use_id
        name = block.name or block.type
        made = ServerTool(name=name, provider=self.draft.provider, content=content, server_call_id=call_id)
        self.draft.entries.append(made)
        self._open[index] = ServerDraft(content)

    def _close_server_tool(self, opened: Span | CallDraft | ServerDraft | None) -> None:
        if isinstance(opened, ServerDraft) and opened.parts:
            try:
                opened.content["input"] = msgspec.json.decode("".join(opened.parts))
            except (msgspec.DecodeError, RecursionError):
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

    def _beside(self, message: Any) -> None:
        if isinstance(message, dict):
            self.draft.beside(message, READ)
            self.draft.beside_counts(message.get("usage"), COUNTED)

    def _finish(self, reason: str) -> None:
        known = FINISHES.get(reason)
        if known is None:
            self.draft.warn(f"unknown finish reason {reason!r}")
        self.draft.finish = known or "other"


def usage_of(counts: Counts) -> Usage:
    """Anthropic counts cached input beside the rest; we count it within."""
    read, write = counts.cache_read_input_tokens or 0, counts.cache_creation_input_tokens or 0
    fresh = counts.input_tokens or 0
    details = counts.output_tokens_details or {}
    thought = details.get("thinking_tokens") or details.get("reasoning_tokens")
    return Usage(
        input_tokens=fresh + read + write if fresh >= 0 else fresh,
        output_tokens=counts.output_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=thought if type(thought) is int else 0,
    )
