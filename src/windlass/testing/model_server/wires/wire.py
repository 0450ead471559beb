"""What the four wire formats share: an answer with its ids and counts filled in, frames, refusals.

A wire turns a request body into a `ParsedRequest` and a `Made` into bytes. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.answers import Answer, AnyPart, Call, Decline, Say, Think, tokens_of

from .parsed import Format, ParsedRequest


class WireRefused(Exception):
    """A request that the vendor would refuse. `kind` is the vendor's error type, empty for the usual one of the
    status; `retry_delay_s` is told in the body by the vendors that do so; `rule` is the id of the rule that refuses, as
    in `citations`, and empty if a fault or a script does."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "",
        code: str | None = None,
        param: str | None = None,
        retry_delay_s: float | None = None,
        rule: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.code = code
        self.param = param
        self.retry_delay_s = retry_delay_s
        self.rule = rule


class Frame(msgspec.Struct, frozen=True):
    """Some bytes of a stream that belong together. `kind` tells content apart from framing: start, text, reasoning,
    call, image, ping, block (opens or closes something), stop (the last content-free frames), end (the marker that says
    that the stream is whole)."""

    kind: str
    data: bytes


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Usage with nothing left open."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int

    @property
    def total(self) -> int:
        return self.input + self.output


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is ready to be written: every call has its id, every count is known. `number` is the request's
    and makes ids unique; `reasoning_field` is where Chat Completions endpoints put reasoning."""

    answer: Answer
    parts: tuple[AnyPart, ...]
    request: ParsedRequest
    counts: Counts
    number: int
    model: str
    reasoning_field: str = "reasoning_content"

    def name(self, prefix: str, ordinal: int = 0) -> str:
        """A made-up id, unique in the life of a server."""
        return f"{prefix}{self.number:06d}{ordinal:04d}" + "x" * 10


class Wire(Protocol):
    """One wire format."""

    @property
    def format(self) -> Format: ...

    def parse(self, body: JsonObject, *, model: str, stream: bool) -> ParsedRequest:
        """The request, as far as it can be understood; never refuses, reads what is there."""
        ...

    def reply(self, made: Made) -> JsonObject:
        """The whole answer as one body."""
        ...

    def frames(self, made: Made) -> Iterator[Frame]:
        """The answer as a stream, the end marker last."""
        ...

    def error(self, refused: WireRefused, request_id: str) -> JsonObject:
        """The vendor's error body."""
        ...

    def error_frame(self, refused: WireRefused) -> Frame:
        """The vendor's error inside a stream that began with 200."""
        ...

    def ping(self) -> Frame: ...


def make(
    answer: Answer, request: ParsedRequest, *, number: int, call_ids: str, reasoning_field: str = "reasoning_content"
) -> Made:
    """Fills in what a script left open. `call_ids` is the pattern of made-up call ids, such as `call_{}`."""
    parts: list[AnyPart] = []
    for ordinal, part in enumerate(answer.parts):
        if isinstance(part, Call) and part.call_id is None:
            part = msgspec.structs.replace(part, call_id=call_ids.format(f"{number % 100_000:05d}{ordinal:04d}"))
        parts.append(part)
    return Made(
        answer=answer,
        parts=tuple(parts),
        request=request,
        counts=counted(answer, request),
        number=number,
        model=answer.model or request.model,
        reasoning_field=reasoning_field,
    )


def counted(answer: Answer, request: ParsedRequest) -> Counts:
    """The usage to report: what the script says, else characters over four."""
    said = answer.tokens
    reasoning = sum(tokens_of(part.text) for part in answer.parts if isinstance(part, Think))
    output = reasoning + sum(tokens_of(visible(part)) for part in answer.parts)
    base = request.input_chars // 4 + 1
    return Counts(
        input=said.input if said.input is not None else base + said.cache_read + said.cache_write,
        output=said.output if said.output is not None else output,
        cache_read=said.cache_read,
        cache_write=said.cache_write,
        reasoning=said.reasoning if said.reasoning is not None else reasoning,
    )


def visible(part: AnyPart) -> str:
    """The text of a part that is not reasoning."""
    if isinstance(part, Say | Decline):
        return part.text
    if isinstance(part, Call):
        return part.name + args_text(part)
    return ""


def args_text(part: Call) -> str:
    """The arguments as they go on the wire where the format carries text."""
    return part.args if isinstance(part.args, str) else encode(part.args).decode()


def args_value(part: Call) -> Any:
    """The arguments where the format carries JSON: text that is no JSON stays a string."""
    if not isinstance(part.args, str):
        return part.args
    try:
        return msgspec.json.decode(part.args)
    except msgspec.DecodeError:
        return part.args


def encode(value: Any) -> bytes:
    """JSON, compact, keys in the order given."""
    return msgspec.json.encode(value)


def sse(value: Any, event: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + encode(value) + b"\n\n"


def text_of(content: Any) -> str:
    """The text inside a content value: a string, or a list of blocks with `text`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def objects(value: Any) -> list[JsonObject]:
    """The objects in a list, nothing for anything else: parsing is tolerant, the rules are not."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def count_kind(content: Any, *kinds: str) -> int:
    """How many blocks of these types a content holds."""
    return sum(block.get("type") in kinds for block in objects(content))
