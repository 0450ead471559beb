"""A reply while it grows. Collects what the stream brings and closes it into one `Reply` or one `Failure`.

Never repairs anything: a call that is not whole is handed on as text marked malformed, or not at all.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import msgspec

from windlass.events.values.blocks import (
    BlobRef,
    CallSlot,
    GeneratedImage,
    JsonObject,
    Reasoning,
    Refusal,
    ReplyBlock,
    ServerTool,
    Text,
)
from windlass.events.values.failures import Failure, FailureKind, FinishReason
from windlass.events.values.items import ProposedCall
from windlass.events.values.usage import Quota, Usage
from windlass.models.base import TOO_DEEP, Reply, complete_args, is_deep
from windlass.models.transport.failures import Context, failed

CALLS_MAX = 512
ARGUMENT_CHARS_MAX = 1_000_000
MALFORMED_CHARS_MAX = 64_000
PROVIDER_DATA_BYTES_MAX = 4_000
"""More than this beside an answer is left out: it is for the record, and no part of the conversation."""
CHARS_PER_TOKEN = 4
TOKENS_MAX = 20_000_000
"""More input than any window holds; a count above it is a mistake of the provider."""
WHOLE_FINISHES: frozenset[str] = frozenset({"stop", "tool_calls", "stop_sequence", "pause"})
"""Finishes after which the last call was written to its end."""


class Span:
    """Text of one kind that is still growing."""

    __slots__ = ("kind", "opaque", "parts", "reasoning_id", "redacted")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.opaque: str | None = None
        self.reasoning_id: str | None = None
        self.redacted = False


class CallDraft:
    """A call that is still growing. `args` is set where a provider sends them parsed."""

    __slots__ = ("args", "call_id", "custom", "cut", "data", "ordinal", "parts", "size", "tool")

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.tool = ""
        self.parts: list[str] = []
        self.size = 0
        self.call_id: str | None = None
        self.custom = False
        self.cut = False
        self.args: Any = None
        self.data: JsonObject | None = None

    def add(self, fragment: str) -> None:
        """More of the arguments. Past the bound nothing is kept: such a call is refused as a whole."""
        self.size += len(fragment)
        if self.size <= ARGUMENT_CHARS_MAX:
            self.parts.append(fragment)


class Draft:
    """The growing reply of one exchange."""

    def __init__(self, provider: str, *, text_tools: frozenset[str] = frozenset(), output_tool: str = "") -> None:
        self.provider = provider
        self.text_tools = text_tools
        self.output_tool = output_tool
        self.entries: list[Span | CallDraft | ServerTool | GeneratedImage] = []
        self.calls: list[CallDraft] = []
        self.finish: FinishReason | None = None
        self.usage: Usage | None = None
        self.model = ""
        self.response_id: str | None = None
        self.warnings: list[str] = []
        self.generated: dict[str, bytes] = {}
        self.provider_data: JsonObject = {}
        """What the provider said beside the answer and what we read of it, as it was sent."""
        self.failure: tuple[FailureKind, str] | None = None
        """Set where the provider says that its own answer is unusable."""

    def span(self, kind: str) -> Span:
        """The span that text of this kind belongs to now: the last entry, or a new one."""
        entries = self.entries
        if entries:
            last = entries[-1]
            if type(last) is Span and last.kind == kind:
                return last
        return self.new_span(kind)

    def new_span(self, kind: str) -> Span:
        made = Span(kind)
        self.entries.append(made)
        return made

    def new_call(self) -> CallDraft:
        made = CallDraft(len(self.calls))
        self.calls.append(made)
        self.entries.append(made)
        return made

    def image(self, data: str, media_type: str, **more: Any) -> None:
        """A generated image. Its bytes go to the caller under their digest."""
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.warn("a generated image was not valid base64 and is left out")
            return
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        self.generated[digest] = raw
        blob = BlobRef(digest=digest, size=len(raw), media_type=media_type)
        self.entries.append(GeneratedImage(blob=blob, **more))

    def warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < 32:
            self.warnings.append(text)

    def beside(self, said: Any, read: frozenset[str]) -> None:
        """Keeps what stands beside the fields that are read; what says nothing is left out."""
        if isinstance(said, dict):
            self.provider_data |= {key: value for key, value in said.items() if key not in read and _says(value)}

    def beside_counts(self, counts: Any, read: frozenset[str]) -> None:
        """The same for what stands beside the counts of tokens."""
        if isinstance(counts, dict):
            rest = {key: value for key, value in counts.items() if key not in read and _says(value)}
            if rest:
                self.provider_data["usage"] = self.provider_data.get("usage", {}) | rest

    def _beside(self) -> JsonObject | None:
        said = self.provider_data
        if said and len(msgspec.json.encode(said)) > PROVIDER_DATA_BYTES_MAX:
            self.warn("what the provider said beside its answer is too long and is left out")
            return None
        return said or None

    def text_chars(self) -> int:
        spans = [sum(map(len, entry.parts)) for entry in self.entries if isinstance(entry, Span)]
        return sum(spans) + sum([call.size for call in self.calls])

    def close(
        self, context: Context, *, sent_bytes: int, quotas: tuple[Quota, ...], first_output_ms: int | None
    ) -> Reply | Failure:
        """The complete reply, or the failure that it amounts to."""
        finish: FinishReason = self.finish or "other"
        if self.failure is not None:
            return failed(*self.failure, context)
        if len(self.calls) > CALLS_MAX:
            return failed("malformed_reply", f"{len(self.calls)} calls in one reply, at most {CALLS_MAX}", context)
        calls = self._closed_calls(finish)
        blocks, proposed = self._blocks(calls)
        visible = any(not isinstance(block, Reasoning) for block in blocks)
        if not visible and finish == "content_filter":
            return failed("content_filtered", "the provider's filter left nothing of the answer", context)
        if not visible and finish in ("stop", "stop_sequence", "tool_calls", "other", "error"):
            return failed("empty_reply", f"the reply has neither text nor calls (finish {finish!r})", context)
        if proposed and finish == "stop":
            finish = "tool_calls"
        elif not proposed and finish == "tool_calls":
            finish = "stop"
        return Reply(
            blocks=blocks,
            calls=proposed,
            finish=finish,
            usage=self._usage(sent_bytes),
            model=self.model or context.model,
            provider=self.provider,
            request_id=context.request_id,
            response_id=self.response_id,
            quotas=quotas,
            duration_ms=context.duration_ms or 0,
            first_output_ms=first_output_ms,
            provider_data=self._beside(),
            warnings=tuple(self.warnings),
            generated=self.generated,
        )

    def _closed_calls(self, finish: str) -> list[ProposedCall]:
        seen: set[str] = set()
        closed: list[ProposedCall] = []
        last = self.entries[-1] if self.entries else None
        for draft in self.calls:
            cut = draft.cut or (draft is last and finish not in WHOLE_FINISHES)
            closed.append(self._closed(draft, cut=cut, finish=finish))
            if draft.call_id:
                if draft.call_id in seen:
                    self.warn(f"two calls of one reply have the id {draft.call_id!r}; ours are unique")
                seen.add(draft.call_id)
        return closed

    def _closed(self, draft: CallDraft, *, cut: bool, finish: str) -> ProposedCall:
        raw = "".join(draft.parts)
        args: JsonObject | None = None
        text: str | None = None
        error: str | None = None
        if cut:
            error = f"the reply ended ({finish}) before this call was complete"
        elif draft.size > ARGUMENT_CHARS_MAX:
            error = f"arguments of {draft.size} characters, at most {ARGUMENT_CHARS_MAX}"
        elif not draft.tool:
            error = "the call names no tool"
        elif draft.custom:
            text = raw
        elif draft.args is not None:
            args, error = whole_object(draft.args)
        else:
            args, error = complete_args(raw)
        if error is None and args is not None and draft.tool in self.text_tools:
            text, args, error = text_input(args)
        malformed = None
        if error is not None:
            args = text = None
            malformed = (raw or encoded(draft.args))[:MALFORMED_CHARS_MAX]
        return ProposedCall(
            ordinal=draft.ordinal,
            tool=draft.tool,
            args=args,
            text=text,
            malformed=malformed,
            error=error,
            provider_call_id=draft.call_id or None,
            provider_data=draft.data,
        )

    def _blocks(self, calls: list[ProposedCall]) -> tuple[tuple[ReplyBlock, ...], tuple[ProposedCall, ...]]:
        blocks: list[ReplyBlock] = []
        kept: list[ProposedCall] = []
        for entry in self.entries:
            if isinstance(entry, Span):
                block = self._closed_span(entry)
                if block is not None:
                    blocks.append(block)
            elif isinstance(entry, CallDraft):
                call = calls[entry.ordinal]
                if self.output_tool and call.tool == self.output_tool:
                    blocks.append(Text(text=call.malformed or encoded(call.args)))
                else:
                    blocks.append(CallSlot(ordinal=len(kept)))
                    kept.append(msgspec.structs.replace(call, ordinal=len(kept)))
            else:
                blocks.append(entry)
        return tuple(blocks), tuple(kept)

    def _closed_span(self, span: Span) -> ReplyBlock | None:
        text = "".join(span.parts)
        if span.kind == "reasoning":
            if not text and span.opaque is None:
                return None
            return Reasoning(
                text=text,
                opaque=span.opaque,
                provider=self.provider,
                reasoning_id=span.reasoning_id,
                redacted=span.redacted,
            )
        if not text:
            return None
        return Refusal(text=text) if span.kind == "refusal" else Text(text=text)

    def _usage(self, sent_bytes: int) -> Usage:
        """What the provider counted, or an estimate marked so where it said nothing or nonsense."""
        said = self.usage
        guess_in = sent_bytes // CHARS_PER_TOKEN
        guess_out = self.text_chars() // CHARS_PER_TOKEN + 1
        if said is None:
            self.warn("the provider reported no usage; the counts are estimates")
            return Usage(input_tokens=guess_in, output_tokens=guess_out, estimated=True)
        counts = (said.input_tokens, said.output_tokens, said.cache_read_tokens, said.cache_write_tokens)
        if min(*counts, said.reasoning_tokens) < 0:
            self.warn("the provider reported negative usage; the counts are estimates")
            return Usage(input_tokens=guess_in, output_tokens=guess_out, estimated=True)
        if said.input_tokens > TOKENS_MAX or (said.output_tokens == 0 and guess_out > 1):
            self.warn("the provider reported implausible usage; the counts are estimates")
            sent = guess_in if said.input_tokens > TOKENS_MAX else said.input_tokens
            return Usage(input_tokens=sent, output_tokens=said.output_tokens or guess_out, estimated=True)
        return said


def whole_object(value: Any) -> tuple[JsonObject | None, str | None]:
    """Arguments that came parsed: an object, or the reason why they are none."""
    if isinstance(value, dict):
        return (None, TOO_DEEP) if is_deep(value) else (value, None)
    return complete_args(encoded(value))


def text_input(args: JsonObject) -> tuple[str | None, JsonObject | None, str | None]:
    """The text for a tool that takes text, where the format could only ask for an object with one field."""
    value = args.get("input")
    if isinstance(value, str) and len(args) == 1:
        return value, None, None
    return None, None, "this tool takes an object with the one string field 'input'"


def _says(value: Any) -> bool:
    """Whether a field that a provider sent says anything."""
    return value is not None and value != "" and value != [] and value != {}


def encoded(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()
