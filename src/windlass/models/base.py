"""The seam between the runtime and every language model.

`Model.stream` yields deltas while the answer grows and ends with exactly one `Reply` or one `Failure`. It never
raises for what the world does; it raises only for mistakes of ours. Closing the iterator cancels the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

import msgspec

from windlass.events.values.blocks import BlobRef, JsonObject, ReplyBlock, Value
from windlass.events.values.failures import Failure, FinishReason
from windlass.events.values.items import (
    HistoryItem,
    ModelSettings,
    OutputSchema,
    ProposedCall,
    ServerToolSchema,
    ToolSchema,
)
from windlass.events.values.usage import Lane, Price, Quota, Usage


class CredentialUse(Value, frozen=True, kw_only=True):
    """Which credential a request is about to be sent with: where it goes and what the credential is called. Never its
    value."""

    endpoint: str
    origin: str
    model: str
    name: str


CredentialGuard = Callable[[CredentialUse], Awaitable[Failure | None]]
"""Asked before a credential is looked up for a request; a failure keeps it from being used."""

BlobReader = Callable[[BlobRef], Awaitable[bytes | None]]
"""Fetches the bytes of a blob; none if they were erased."""


class Request(msgspec.Struct, kw_only=True):
    """One model request. `instructions` and `knowledge` come first and are stable; `items` is the history, which only
    ever grows at its end between compactions; `task_state` is rendered after it and is never kept.

    `session` and `lane` name the stream of requests whose earlier bytes are a prefix of the later ones, so that
    a wire format may keep what it encoded. `attempt` differs for each request that is really sent.
    `blobs` fetches what the items hold by reference, once for each item; the model id that is sent is the one that
    the model was connected with, `model` is the name under which the caller knows it."""

    model: str
    instructions: str = ""
    knowledge: tuple[str, ...] = ()
    items: list[HistoryItem] = []
    task_state: str = ""
    tools: tuple[ToolSchema, ...] = ()
    server_tools: tuple[ServerToolSchema, ...] = ()
    output: OutputSchema | None = None
    settings: ModelSettings = ModelSettings()
    session: str = ""
    lane: Lane = "main"
    attempt: str = ""
    stream: bool = True
    blobs: BlobReader | None = None
    credential_guard: CredentialGuard | None = None
    traceparent: str = ""
    """The trace context of this request, sent along if somebody brought a trace for the run."""


class Reply(Value, frozen=True, kw_only=True):
    """A complete answer. `blocks` hold a `CallSlot` for each entry of `calls`."""

    blocks: tuple[ReplyBlock, ...]
    calls: tuple[ProposedCall, ...] = ()
    finish: FinishReason
    usage: Usage
    model: str
    provider: str
    request_id: str | None = None
    response_id: str | None = None
    quotas: tuple[Quota, ...] = ()
    duration_ms: int = 0
    first_output_ms: int | None = None
    provider_data: JsonObject | None = None
    warnings: tuple[str, ...] = ()
    generated: dict[str, bytes] = {}
    """Bytes of generated images by digest, for the caller to keep as blobs; never encoded with the reply."""


class TextPart(Value, frozen=True, kw_only=True, tag="text"):
    """More text of the answer."""

    text: str


class ReasoningPart(Value, frozen=True, kw_only=True, tag="reasoning"):
    """More reasoning."""

    text: str


class RefusalPart(Value, frozen=True, kw_only=True, tag="refusal"):
    """More of a refusal."""

    text: str


class CallPartDelta(Value, frozen=True, kw_only=True, tag="call"):
    """More of a tool call: its name first, then pieces of its arguments. For display only, never executed."""

    ordinal: int
    tool: str | None = None
    fragment: str = ""


Delta = TextPart | ReasoningPart | RefusalPart | CallPartDelta


class ModelInfo(Value, frozen=True, kw_only=True):
    """What is known about a model: where its name leads, how much it holds, what it costs, what it can do."""

    name: str
    provider: str
    model: str
    window_tokens: int = 128_000
    max_output_tokens: int | None = None
    price: Price | None = None
    tools: bool = True
    images: bool = True
    documents: bool = False
    native_output: bool = True
    thinking: bool = False
    why: str = ""


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests."""

    @property
    def info(self) -> ModelInfo: ...

    def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        """Deltas, alone or in a list per network chunk, then exactly one `Reply` or `Failure`, then nothing."""
        ...

    async def close(self) -> None: ...


ARGUMENT_DEPTH_MAX = 64
TOO_DEEP = f"arguments must not be nested deeper than {ARGUMENT_DEPTH_MAX} levels"


def complete_args(raw: str) -> tuple[JsonObject | None, str | None]:
    """Parses the arguments of a call: an object, or the reason why it is none. Never repairs anything."""
    text = raw.strip() or "{}"
    try:
        value: Any = msgspec.json.decode(text)
    except RecursionError:
        return None, TOO_DEEP
    except (msgspec.DecodeError, UnicodeError) as error:
        return None, f"arguments must be valid JSON: {error}"
    if not isinstance(value, dict):
        return None, f"arguments must be a JSON object, got {json_kind(value)}"
    if is_deep(value):
        return None, TOO_DEEP
    if text.count('":') != _names_in(value) and (twice := _named_twice(text)) is not None:
        return None, f"arguments must not name anything twice, and {twice!r} is"
    return value, None


def is_deep(value: Any) -> bool:
    """Whether a value is nested deeper than arguments may be. Everything behind this may go into it by recursion."""
    level = [value]
    for _ in range(ARGUMENT_DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _names_in(value: Any) -> int:
    """How many names the objects in a value have, all levels together."""
    count, waiting = 0, [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            count += len(inner)
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner
    return count


def _named_twice(text: str) -> str | None:
    """A name that one object has twice. Who judges a call and who runs it might each take another of the two."""
    import json

    twice: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice.append(next(name for name in names if names.count(name) > 1))

    json.loads(text, object_pairs_hook=note)
    return twice[0] if twice else None


def json_kind(value: object) -> str:
    """What JSON calls this value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"
