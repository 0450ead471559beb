"""OpenAI Responses: how answers are read, streamed or whole.

Deltas are shown as they come; what counts is the finished items, which a stream repeats at its end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import ServerTool
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Delta, ReasoningPart, RefusalPart, TextPart
from windlass.models.wires.partial_reply import Draft

CALL_TYPES = ("function_call", "custom_tool_call")
ARGUMENT_EVENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
REASONING_EVENTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


class InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class Content(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    refusal: str = ""


class Output(msgspec.Struct, gc=False):
    """One item of an answer, as far as we read it."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    content: Any = None
    summary: list[Content] | None = None
    encrypted_content: str | None = None
    phase: str | None = None
    result: Any = None
    output_format: str | None = None
    revised_prompt: str | None = None
    size: str | None = None
    quality: str | None = None
    background: str | None = None


class Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class Response(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[msgspec.Raw] = []
    usage: Counts | None = None
    error: Any = None
    incomplete_details: Incomplete | None = None
    service_tier: str | None = None
    billing: Any = None


class Event(msgspec.Struct, gc=False):
    type: str = ""
    output_index: int = 0
    delta: Any = None
    item: msgspec.Raw = msgspec.Raw()
    response: Response | None = None
    error: Any = None
    code: Any = None
    message: str | None = None


decode_event = msgspec.json.Decoder(Event).decode
decode_output = msgspec.json.Decoder(Output).decode
decode_response = msgspec.json.Decoder(Response).decode


class ResponsesReader:
    """Reads the events of a streamed response, or a whole one."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.ended = False
        self.error: Any = None
        self.moved = False
        self._items: dict[int, bytes] = {}
        self._ordinals: dict[int, int] = {}

    def feed(self, events: list[bytes]) -> list[Delta]:
        out: list[Delta] = []
        for data in events:
            event = decode_event(data)
            kind = event.type
            piece = event.delta
            if not isinstance(piece, str):
                self._step(event, out)
                if self.ended or self.error is not None:
                    break
            elif kind == "response.output_text.delta":
                out.append(TextPart(text=piece))
            elif kind in ARGUMENT_EVENTS:
                ordinal = self._ordinals.setdefault(event.output_index, len(self._ordinals))
                out.append(CallPartDelta(ordinal=ordinal, fragment=piece))
            elif kind in REASONING_EVENTS:
                out.append(ReasoningPart(text=piece))
            elif kind == "response.refusal.delta":
                out.append(RefusalPart(text=piece))
            else:
                self.moved = True
        return out

    def eof(self) -> None:
        """The end of the body says nothing that the last event did not."""

    def whole(self, body: bytes) -> None:
        self._close(decode_response(body))

    def _step(self, event: Event, out: list[Delta]) -> None:
        kind = event.type
        self.moved = self.moved or "_call." in kind  # a tool on the provider's side is at work
        if kind == "response.output_item.added":
            item = decode_output(event.item)
            if item.type in CALL_TYPES:
                ordinal = self._ordinals.setdefault(event.output_index, len(self._ordinals))
                out.append(CallPartDelta(ordinal=ordinal, tool=item.name))
        elif kind == "response.output_item.done":
            self._items[event.output_index] = bytes(event.item)
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            if event.response is None:
                raise msgspec.DecodeError(f"{kind} without its response")
            self._close(event.response)
        elif kind == "error":
            self.error = event.error or {"code": event.code, "message": event.message}

    def _close(self, response: Response) -> None:
        draft = self.draft
        draft.response_id, draft.model = response.id, response.model or ""
        counts = response.usage
        if counts is not None and counts.input_tokens is not None:
            draft.usage = usage_of(counts)
        if response.error is not None or response.status == "failed":
            self.error = response.error or {"message": "the response failed without saying why"}
            return
        if response.status not in ("completed", "incomplete"):
            return
        items = [bytes(item) for item in response.output] or [self._items[index] for index in sorted(self._items)]
        for raw in items:
            self._item(decode_output(raw), raw)
        self._finish(response)
        draft.beside({"service_tier": response.service_tier, "billing": response.billing}, frozenset())
        self.ended = True

    def _finish(self, response: Response) -> None:
        draft = self.draft
        if response.status == "completed":
            refused = any(getattr(entry, "kind", "") == "refusal" for entry in draft.entries)
            draft.finish = "tool_calls" if draft.calls else "refusal" if refused else "stop"
            return
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if reason == "max_output_tokens":
            draft.finish = "length"
        elif reason == "content_filter":
            draft.finish = "content_filter"
        else:
            draft.warn(f"unknown finish reason {reason!r}")
            draft.finish = "other"

    def _item(self, item: Output, raw: bytes) -> None:
        draft = self.draft
        if item.type == "message":
            draft.beside({"phase": item.phase}, frozenset())
            for content in msgspec.convert(item.content or [], list[Content]):
                kind = "refusal" if content.type == "refusal" else "text"
                draft.span(kind).parts.append(content.refusal if kind == "refusal" else content.text)
        elif item.type in CALL_TYPES:
            call = draft.new_call()
            call.tool, call.call_id = item.name or "", item.call_id
            call.custom = item.type == "custom_tool_call"
            call.cut = item.status == "incomplete"
            call.add((item.input if call.custom else item.arguments) or "")
            call.data = {"item_id": item.id} if item.id else None
        elif item.type == "reasoning":
            span = draft.new_span("reasoning")
            texts = item.summary or msgspec.convert(item.content or [], list[Content])
            span.parts.append("\n\n".join(part.text for part in texts))
            span.opaque, span.reasoning_id = item.encrypted_content, item.id
        elif item.type == "image_generation_call" and isinstance(item.result, str) and item.result:
            media_type = f"image/{item.output_format or 'png'}"
            width, height = pixels(item.size)
            about = {"quality": item.quality, "background": item.background}
            draft.image(
                item.result,
                media_type,
                revised_prompt=item.revised_prompt,
                image_id=item.id,
                width=width,
                height=height,
                provider_data={name: value for name, value in about.items() if value} or None,
            )
        else:
            content = msgspec.json.decode(raw)
            draft.entries.append(
                ServerTool(name=item.type, provider=draft.provider, content=content, server_call_id=item.id)
            )


def pixels(size: str | None) -> tuple[int | None, int | None]:
    """The width and height of `1024x1536`; none of `auto`."""
    width, _, height = (size or "").partition("x")
    both = width.isascii() and width.isdigit() and height.isascii() and height.isdigit()
    return (int(width), int(height)) if both else (None, None)


def usage_of(counts: Counts) -> Usage:
    sent, made = counts.input_tokens_details, counts.output_tokens_details
    return Usage(
        input_tokens=counts.input_tokens or 0,
        output_tokens=counts.output_tokens or 0,
        cache_read_tokens=(sent.cached_tokens if sent else None) or 0,
        cache_write_tokens=(sent.cache_write_tokens if sent else None) or 0,
        reasoning_tokens=(made.reasoning_tokens if made else None) or 0,
    )
