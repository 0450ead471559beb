"""OpenAI Chat Completions: how answers are read, streamed or whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events.values.failures import FinishReason
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Delta, ReasoningPart, RefusalPart, TextPart
from windlass.models.wires.encoded_history import plain_json
from windlass.models.wires.partial_reply import CallDraft, Draft, Span

FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "error": "error",
    "eos": "stop",
}


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class Custom(msgspec.Struct, gc=False):
    name: str | None = None
    input: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None


class ImageUrl(msgspec.Struct, frozen=True, gc=False):
    url: str = ""


class MadeImage(msgspec.Struct, gc=False):
    image_url: ImageUrl = ImageUrl()


class Message(msgspec.Struct, gc=False):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[ToolCall] | None = None
    images: list[MadeImage] | None = None


class Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class Chunk(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Counts | None = None
    error: Any = None


READ = frozenset({"id", "object", "created", "model", "choices", "error", "usage"})
COUNTED = frozenset({"total_tokens", *Counts.__struct_fields__})
decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_chunks = msgspec.json.Decoder(list[Chunk]).decode
decode_object = msgspec.json.Decoder(dict[str, Any]).decode


END = b"[DONE]"


def _chunks(events: list[bytes]) -> Iterable[Chunk]:
    """The chunks before the end marker: read in one go, or one after the other if one of them cannot be read."""
    whole = events[:-1] if events and events[-1][:6] == END else events
    try:
        chunks = decode_chunks(b"[%b]" % b",".join(whole))
    except (ValueError, RecursionError):
        chunks = []
    if len(chunks) == len(whole):
        return chunks
    return map(decode_chunk, itertools.takewhile(lambda data: data[:6] != END, events))


class ChatReader:
    """Reads the chunks of a streamed completion, or a whole one."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.ended = False
        self.error: Any = None
        self.moved = False
        self._calls: dict[int | str, CallDraft] = {}
        self._details: list[dict[str, Any]] = []
        self._named = False
        self._text: Span | None = None
        """Where text goes as long as nothing else comes between."""
        self._last = b""
        """The chunk that says most about the answer as a whole: the one with the counts, else the one with its end."""

    def feed(self, events: list[bytes]) -> list[Delta]:
        out: list[Delta] = []
        entries, span, place = self.draft.entries, self._text, -1
        for place, chunk in enumerate(_chunks(events)):
            if not self._named or chunk.error is not None or chunk.usage is not None:
                self._about(chunk)
                if self.error is not None:
                    return out
                if chunk.usage is not None:
                    self._last = events[place]
            choices = chunk.choices
            if choices:
                choice = choices[0]
                delta = choice.delta
                if delta is not None:
                    text = delta.content
                    more = delta.tool_calls or delta.reasoning_content or delta.reasoning or delta.reasoning_details
                    if text and span and entries[-1] is span and not (more or delta.refusal or delta.images):
                        span.parts.append(text)  # what most of a stream consists of
                        out.append(TextPart(text=text))
                    else:
                        self._message(delta, out)
                        span = self._text
                if choice.finish_reason is not None:
                    self._finish(choice.finish_reason)
                    self._last = events[place]
        if place + 1 < len(events):
            self._end()
        return out

    def eof(self) -> None:
        """The end of the body says nothing: the format has its own end marker."""

    def whole(self, body: bytes) -> None:
        completion = decode_chunk(body)
        self._about(completion)
        if self.error is not None or not completion.choices:
            return
        choice = completion.choices[0]
        if choice.message is not None:
            for index, call in enumerate(choice.message.tool_calls or ()):
                call.index = index
            self._message(choice.message, [])
        if choice.finish_reason is not None:
            self._finish(choice.finish_reason)
            self._last = body
            self._end()

    def _end(self) -> None:
        """The end marker alone is not enough: without a finish reason nothing says that the answer is whole."""
        if self._details:
            self.draft.span("reasoning").opaque = plain_json(self._details).decode()
            self._details = []
        if self._last:
            said = decode_object(self._last)
            self.draft.beside(said, READ)
            self.draft.beside_counts(said.get("usage"), COUNTED)
        self.ended = self.draft.finish is not None

    def _about(self, chunk: Chunk) -> None:
        draft = self.draft
        self.error = chunk.error
        if chunk.id:
            draft.response_id = chunk.id
        if chunk.model:
            draft.model = chunk.model
        self._named = bool(draft.response_id and draft.model)
        if chunk.usage is not None and chunk.usage.prompt_tokens is not None:
            draft.usage = usage_of(chunk.usage)

    def _message(self, message: Message, out: list[Delta]) -> None:
        thought = message.reasoning_content or message.reasoning
        if thought:
            self.draft.span("reasoning").parts.append(thought)
            out.append(ReasoningPart(text=thought))
        if message.reasoning_details:
            self._add_details(message.reasoning_details, thought is None, out)
        text = message.content
        if text:
            if self._text is None or self.draft.entries[-1] is not self._text:
                self._text = self.draft.span("text")
            self._text.parts.append(text)
            out.append(TextPart(text=text))
        if message.refusal:
            self.draft.span("refusal").parts.append(message.refusal)
            out.append(RefusalPart(text=message.refusal))
        if message.tool_calls:
            for call in message.tool_calls:
                self._call(call, out)
        for image in message.images or ():
            media, _, data = image.image_url.url.partition(";base64,")
            self.draft.image(data, media.removeprefix("data:"))
            self.moved = True

    def _add_details(self, details: list[dict[str, Any]], show: bool, out: list[Delta]) -> None:
        """Reasoning in pieces that must go back as one list: pieces of one index are one entry."""
        for detail in details:
            last = self._details[-1] if self._details else None
            same = last is not None and all(last.get(key) == detail.get(key) for key in ("type", "index"))
            for field in ("text", "summary", "data"):
                piece = detail.get(field)
                if same and last is not None and isinstance(piece, str):
                    last[field] = str(last.get(field) or "") + piece
            if same and last is not None:
                last.update({key: value for key, value in detail.items() if key in ("signature", "id") and value})
            else:
                self._details.append(dict(detail))
            text = detail.get("text") or detail.get("summary")
            span = self.draft.span("reasoning")
            if show and isinstance(text, str) and text:
                span.parts.append(text)
                out.append(ReasoningPart(text=text))

    def _call(self, call: ToolCall, out: list[Delta]) -> None:
        """A piece of a call. Pieces belong together by index; where an endpoint sends none, a new id begins a call."""
        key: int | str = call.index if call.index is not None else call.id or len(self._calls) - 1
        draft = self._calls.get(key)
        if draft is not None and call.id and draft.call_id and call.id != draft.call_id:
            draft = None  # the same index with another id is another call
        if draft is None:
            draft = self._calls[key] = self.draft.new_call()
            draft.custom = call.type == "custom" or call.custom is not None
        if call.id:
            draft.call_id = call.id
        name = (call.function.name if call.function else None) or (call.custom.name if call.custom else None)
        fragment = (call.function.arguments if call.function else None) or (call.custom.input if call.custom else None)
        if name and not draft.tool:
            draft.tool = name
        if fragment:
            draft.add(fragment)
        out.append(CallPartDelta(ordinal=draft.ordinal, tool=name or None, fragment=fragment or ""))

    def _finish(self, reason: str) -> None:
        known = FINISHES.get(reason)
        if known is None:
            self.draft.warn(f"unknown finish reason {reason!r}")
        self.draft.finish = known or "other"
        if self.draft.finish == "stop" and any(getattr(e, "kind", "") == "refusal" for e in self.draft.entries):
            self.draft.finish = "refusal"


def usage_of(counts: Counts) -> Usage:
    prompt, output = counts.prompt_tokens_details, counts.completion_tokens_details
    cached = (prompt.cached_tokens if prompt else None) or counts.prompt_cache_hit_tokens or 0
    return Usage(
        input_tokens=counts.prompt_tokens or 0,
        output_tokens=counts.completion_tokens or 0,
        cache_read_tokens=cached,
        cache_write_tokens=(prompt.cache_write_tokens if prompt else None) or 0,
        reasoning_tokens=(output.reasoning_tokens if output else None) or 0,
    )
