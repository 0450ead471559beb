"""What the model server says: one `Answer`, rendered to every wire format.

Values only; nothing here knows a wire format or a socket.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.events.values.failures import FinishReason

CHUNK_CHARS = 12
"""How many characters of text one streamed delta carries unless an answer says otherwise."""

CHARS_PER_TOKEN = 4
"""The rule of thumb behind every count that a script does not give."""

ECHO_LIMIT = 4_000
"""The longest prompt that the default answer repeats."""


class Part(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of what an answer is made of."""


class Say(Part, frozen=True, kw_only=True, tag="text"):
    """Text of the answer."""

    text: str


class Think(Part, frozen=True, kw_only=True, tag="reasoning"):
    """Reasoning. `opaque` is the signature or encrypted content that the client must return; made up when not given.
    `redacted` hides the text, where the format can."""

    text: str = ""
    opaque: str | None = None
    redacted: bool = False


class Call(Part, frozen=True, kw_only=True, tag="call"):
    """A tool call. `args` is an object, or raw text to put on the wire as it is (malformed arguments).
    `call_id` is made up when not given. `custom` makes it a call of a grammar tool, whose input is plain text."""

    name: str
    args: JsonObject | str = {}
    call_id: str | None = None
    custom: bool = False
    opaque: str | None = None


class Decline(Part, frozen=True, kw_only=True, tag="refusal"):
    """A refusal in the model's own words."""

    text: str


class Picture(Part, frozen=True, kw_only=True, tag="image"):
    """A generated image, base64 in `data`."""

    media_type: str = "image/png"
    data: str


class ServerCall(Part, frozen=True, kw_only=True, tag="server_call"):
    """A tool that the provider ran on its side (a web search), with its result in plain words."""

    name: str = "web_search"
    query: str = ""
    result: str = ""


AnyPart = Say | Think | Call | Decline | Picture | ServerCall


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The usage that an answer reports. `None` means: count characters. `input` includes the cached tokens."""

    input: int | None = None
    output: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reply of the model. `finish` follows from the parts unless given; `model` is the id that claims to have
    answered (the requested one by default); `usage` says whether usage is reported once at the end, never, or in every
    frame with growing counts."""

    parts: tuple[AnyPart, ...] = ()
    finish: FinishReason | None = None
    tokens: Tokens = Tokens()
    usage: Literal["once", "never", "every_frame"] = "once"
    model: str | None = None
    headers: dict[str, str] = {}
    beside: JsonObject = {}
    """What an endpoint says beside its answer, such as a bill of its own: further fields of the body."""
    chunk_chars: int = CHUNK_CHARS
    pace_ms: float = 0.0
    """How long to wait between two streamed frames."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Say))

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(part for part in self.parts if isinstance(part, Call))

    @property
    def reason(self) -> FinishReason:
        if self.finish is not None:
            return self.finish
        if self.calls:
            return "tool_calls"
        return "refusal" if any(isinstance(part, Decline) for part in self.parts) else "stop"


Turn = str | AnyPart | Answer | Sequence[AnyPart] | Mapping[str, Any]
"""One entry of a script: text, a part, some parts, a whole answer, or the JSON form of an answer."""


def say(text: str, **more: Any) -> Answer:
    """An answer of plain text."""
    return Answer(parts=(Say(text=text),), **more)


def call(name: str, args: JsonObject | str | None = None, *, call_id: str | None = None, text: str = "") -> Answer:
    """An answer that calls one tool, after some text if given."""
    part = Call(name=name, args={} if args is None else args, call_id=call_id)
    return Answer(parts=(Say(text=text), part) if text else (part,))


def calls(*wanted: tuple[str, JsonObject]) -> Answer:
    """An answer that calls several tools at once."""
    return Answer(parts=tuple(Call(name=name, args=args) for name, args in wanted))


def answer_of(turn: Turn) -> Answer:
    """The answer that an entry of a script stands for. Raises `msgspec.ValidationError` for a bad JSON form."""
    if isinstance(turn, Answer):
        return turn
    if isinstance(turn, str):
        return say(turn)
    if isinstance(turn, Part):
        return Answer(parts=(turn,))
    if isinstance(turn, Mapping):
        return msgspec.convert(dict(turn), Answer)
    return Answer(parts=tuple(turn))


def seal(text: str, kind: Literal["thinking", "redacted", "reasoning", "thought"] = "thinking") -> str:
    """The signature that this server puts on `text` and expects back with it. The same on every machine and in every
    process, so that hand-written histories can carry it."""
    digest = hashlib.sha256(f"windlass model server:{kind}:{text}".encode()).digest()
    packed = zlib.compress(text.encode("utf-8", "surrogatepass"))
    return base64.b64encode(digest + packed).decode()


def sealed(opaque: str, kind: Literal["thinking", "redacted", "reasoning", "thought"]) -> str | None:
    """The text under a seal, or None when this server never made it."""
    try:
        raw = base64.b64decode(opaque, validate=True)
        text = zlib.decompress(raw[32:]).decode("utf-8", "surrogatepass")
    except (ValueError, zlib.error):
        return None
    return text if seal(text, kind) == opaque else None


def tokens_of(text: str) -> int:
    """A plausible count of tokens."""
    return -(-len(text) // CHARS_PER_TOKEN)


def pieces(text: str, size: int) -> list[str]:
    """The text cut into deltas."""
    step = max(1, size)
    return [text[at : at + step] for at in range(0, len(text), step)]
