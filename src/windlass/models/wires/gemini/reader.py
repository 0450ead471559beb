"""Gemini generateContent: how answers are read, streamed or whole.

The format has no end marker of its own: an answer is whole when a finish reason has come and the body has ended.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import ServerTool
from windlass.events.values.failures import FinishReason
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Delta, ReasoningPart, TextPart
from windlass.models.wires.partial_reply import Draft, Span, encoded

FINISHES: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "LANGUAGE": "other",
    "OTHER": "other",
}
UNUSABLE = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE"}
)
"""Finish reasons by which the provider itself takes its answer back."""


class Called(msgspec.Struct, gc=False):
    name: str = ""
    args: Any = None
    id: str | None = None


class Inline(msgspec.Struct, gc=False):
    mimeType: str = "image/png"
    data: str = ""


class Part(msgspec.Struct, gc=False):
    text: str | None = None
    thought: bool = False
    thoughtSignature: str | None = None
    functionCall: Called | None = None
    inlineData: Inline | None = None
    executableCode: dict[str, Any] | None = None
    codeExecutionResult: dict[str, Any] | None = None


class Content(msgspec.Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(msgspec.Struct, gc=False):
    content: Content | None = None
    finishReason: str | None = None
    finishMessage: str | None = None


class Counts(msgspec.Struct, gc=False):
    promptTokenCount: int | None = None
    candidatesTokenCount: int | None = None
    thoughtsTokenCount: int | None = None
    cachedContentTokenCount: int | None = None
    toolUsePromptTokenCount: int | None = None


class Feedback(msgspec.Struct, gc=False):
    blockReason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    candidates: list[Candidate] | None = None
    usageMetadata: Counts | None = None
    modelVersion: str | None = None
    responseId: str | None = None
    promptFeedback: Feedback | None = None
    error: Any = None


READ = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId", "promptFeedback", "error"})
READ_OF_CANDIDATE = frozenset({"content", "finishReason", "finishMessage", "index"})
COUNTED = frozenset({"totalTokenCount", *Counts.__struct_fields__})
decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class GeminiReader:
    """Reads the chunks of a streamed answer, or a whole one."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.ended = False
        self.error: Any = None
        self.moved = False

    def feed(self, events: list[bytes]) -> list[Delta]:
        out: list[Delta] = []
        for data in events:
            self._chunk(decode_chunk(data), out, data)
            if self.error is not None:
                break
        return out

    def eof(self) -> None:
        self.ended = self.draft.finish is not None

    def whole(self, body: bytes) -> None:
        self._chunk(decode_chunk(body), [], body)
        self.eof()

    def _chunk(self, chunk: Chunk, out: list[Delta], data: bytes) -> None:
        draft = self.draft
        if chunk.error is not None:
            self.error = chunk.error
            return
        draft.model = chunk.modelVersion or draft.model
        draft.response_id = chunk.responseId or draft.response_id
        if chunk.usageMetadata is not None and chunk.usageMetadata.promptTokenCount is not None:
            draft.usage = usage_of(chunk.usageMetadata)
        if chunk.promptFeedback is not None and chunk.promptFeedback.blockReason:
            draft.finish = "content_filter"
            draft.failure = ("content_filtered", f"the prompt was blocked: {chunk.promptFeedback.blockReason}")
        if not chunk.candidates:
            return
        candidate = chunk.candidates[0]
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._part(part, out)
        if candidate.finishReason is not None:
            self._finish(candidate.finishReason, candidate.finishMessage)
            self._beside(decode_object(data))

    def _beside(self, said: dict[str, Any]) -> None:
        self.draft.beside(said, READ)
        self.draft.beside(said["candidates"][0], READ_OF_CANDIDATE)
        self.draft.beside_counts(said.get("usageMetadata"), COUNTED)

    def _part(self, part: Part, out: list[Delta]) -> None:
        draft = self.draft
        if part.functionCall is not None:
            self._call(part.functionCall, part.thoughtSignature, out)
            return
        if part.text and part.thought:
            draft.span("reasoning").parts.append(part.text)
            out.append(ReasoningPart(text=part.text))
        elif part.text:
            draft.span("text").parts.append(part.text)
            out.append(TextPart(text=part.text))
        if part.inlineData is not None:
            draft.image(part.inlineData.data, part.inlineData.mimeType)
            self.moved = True
        code = part.executableCode or part.codeExecutionResult
        if code is not None:
            name = "executableCode" if part.executableCode is not None else "codeExecutionResult"
            draft.entries.append(ServerTool(name=name, provider=draft.provider, content={name: code}))
            self.moved = True
        if part.thoughtSignature:
            self._sign(part.thoughtSignature)

    def _sign(self, signature: str) -> None:
        """A signature belongs to the thought that it came with, or else stands behind the text before it."""
        last = self.draft.entries[-1] if self.draft.entries else None
        thought = isinstance(last, Span) and last.kind == "reasoning" and last.opaque is None
        span = last if thought and isinstance(last, Span) else self.draft.new_span("reasoning")
        span.opaque = signature

    def _call(self, called: Called, signature: str | None, out: list[Delta]) -> None:
        call = self.draft.new_call()
        call.tool, call.call_id = called.name, called.id
        call.args = {} if called.args is None else called.args
        call.size = len(encoded(call.args))
        call.data = {"thoughtSignature": signature} if signature else None
        out.append(CallPartDelta(ordinal=call.ordinal, tool=called.name, fragment=encoded(call.args)))

    def _finish(self, reason: str, message: str | None) -> None:
        draft = self.draft
        known = FINISHES.get(reason)
        if reason in UNUSABLE:
            draft.failure = ("malformed_reply", f"the provider took its answer back: {reason} {message or ''}".strip())
        elif known is None:
            draft.warn(f"unknown finish reason {reason!r}")
        draft.finish = known or "other"
        if draft.finish == "stop" and draft.calls:
            draft.finish = "tool_calls"


def usage_of(counts: Counts) -> Usage:
    thoughts = counts.thoughtsTokenCount or 0
    return Usage(
        input_tokens=(counts.promptTokenCount or 0) + (counts.toolUsePromptTokenCount or 0),
        output_tokens=(counts.candidatesTokenCount or 0) + thoughts,
        cache_read_tokens=counts.cachedContentTokenCount or 0,
        reasoning_tokens=thoughts,
    )
