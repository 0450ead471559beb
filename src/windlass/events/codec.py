"""The one codec of the log: strict where meaning is at stake, tolerant where it is not.

Unknown fields are ignored; unknown enum values, wrong types and missing fields are rejected with their path. An event
whose tag is not known is kept byte for byte: skipped where its tag ends in `?`, else the log may only be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Union, cast, get_args, get_type_hints

import msgspec

from . import record
from .base import Command, Erased, Event, ignorable, tag_of
from .calls import CallBody, CallReceived, ToolRequested
from .errors import CodecError, Damaged, NeedsNewer
from .record import EVENT_BYTES_MAX, Sealed
from .registry import BY_TAG, COMMANDS, EVENTS, UPCASTERS
from .turns import ModelReplied

AnyEvent = Union[EVENTS]  # type: ignore[valid-type]  # noqa: UP007
AnyCommand = Union[COMMANDS]  # type: ignore[valid-type]  # noqa: UP007


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a newer version, kept as it is."""

    tag: str
    skeleton: bytes
    body: bytes = b""
    salt: str = ""

    @property
    def skippable(self) -> bool:
        return ignorable(self.tag)


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """One append, decoded: the fact, then the decisions it caused."""

    first_seq: int
    at_ms: int
    epoch: int
    hash: str
    events: list[Event | Unknown]

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.events) - 1


class _TypedEntry(msgspec.Struct, array_like=True):
    event: AnyEvent
    body: msgspec.Raw = msgspec.Raw()
    salt: str = ""


class _TypedLine(msgspec.Struct):
    seq: int
    at: int
    epoch: int
    events: list[_TypedEntry]
    hash: str


class _TagOnly(msgspec.Struct):
    type: str


_encoder = msgspec.json.Encoder()
_fast = msgspec.json.Decoder(_TypedLine)
_one = msgspec.json.Decoder(AnyEvent)
_tag = msgspec.json.Decoder(_TagOnly)
_commands = msgspec.json.Decoder(AnyCommand)


def _body_type(cls: type[Event]) -> Any:
    hint = get_type_hints(cls)["body"]
    return next(arg for arg in get_args(hint) if arg is not type(None))


_bodies: dict[type[Event], msgspec.json.Decoder[Any]] = {}


def _body_decoder(cls: type[Event]) -> msgspec.json.Decoder[Any]:
    found = _bodies.get(cls)
    if found is None:
        found = _bodies[cls] = msgspec.json.Decoder(_body_type(cls))
    return found


def encode_entry(event: Event | Unknown, salt: Callable[[], str]) -> tuple[bytes, bytes, str]:
    """An event as (skeleton, body or empty, salt or empty). Raises `CodecError` where it is too large."""
    if isinstance(event, Unknown):
        return event.skeleton, event.body, event.salt
    if event.erased is not None:
        raise CodecError(f"{tag_of(event)}: an erased event cannot be written again")
    body = getattr(event, "body", None)
    if body is None:
        return _encoder.encode(event), b"", ""
    skeleton = _encoder.encode(msgspec.structs.replace(event, body=None))
    if event.ECHO:
        return skeleton, b"", ""
    data = _encoder.encode(body)
    if len(data) + len(skeleton) > EVENT_BYTES_MAX:
        raise CodecError(
            f"{tag_of(event)}: {len(data) + len(skeleton)} bytes, more than {EVENT_BYTES_MAX}: "
            "put large content in a blob and refer to it"
        )
    return skeleton, data, salt()


def encode(
    events: Sequence[Event | Unknown], *, prev_hash: str, seq: int, at_ms: int, epoch: int, salt: Callable[[], str]
) -> Sealed:
    """Seals a fact and its decisions into the append that begins at `seq`."""
    return record.seal(prev_hash, seq, at_ms, epoch, [encode_entry(event, salt) for event in events])


def decode(data: bytes, *, bodies: bool = True) -> Appended:
    """An append from its stored line. Without `bodies` the content is left out, which is all that a fold needs.
    Raises `Damaged` for what is not a line of ours and `CodecError` for events that break the rules."""
    try:
        line = _fast.decode(data)
    except msgspec.DecodeError:
        return _decode_slowly(data, bodies=bodies)
    events: list[Event | Unknown] = []
    for entry in line.events:
        if bodies and bytes(entry.body):
            set_body(entry.event, bytes(entry.body), entry.salt)
        events.append(entry.event)
    if bodies:
        _echo(events)
    return Appended(first_seq=line.seq, at_ms=line.at, epoch=line.epoch, hash=line.hash, events=events)


def _decode_slowly(data: bytes, *, bodies: bool) -> Appended:
    """Event by event: finds unknown and older events, and says exactly what is wrong with a bad one."""
    line = record.parse(data)
    events: list[Event | Unknown] = []
    for offset, entry in enumerate(line.events):
        seq = line.seq + offset
        skeleton, body = bytes(entry.skeleton), bytes(entry.body)
        event = decode_skeleton(skeleton, seq=seq, body=body, salt=entry.salt)
        if bodies and body and isinstance(event, Event):
            set_body(event, body, entry.salt)
        events.append(event)
    if bodies:
        _echo(events)
    return Appended(first_seq=line.seq, at_ms=line.at, epoch=line.epoch, hash=line.hash, events=events)


def decode_skeleton(skeleton: bytes, *, seq: int = 0, body: bytes = b"", salt: str = "") -> Event | Unknown:
    """One event from its skeleton, brought up to the current version; an unknown one as `Unknown`."""
    try:
        tag = _tag.decode(skeleton).type
    except msgspec.DecodeError as error:
        raise CodecError(f"event {seq}: {explain(error)}") from error
    if tag not in BY_TAG:
        if tag not in UPCASTERS:
            return Unknown(tag=tag, skeleton=skeleton, body=body, salt=salt)
        skeleton = upcast(skeleton, tag)
    try:
        return cast(Event, _one.decode(skeleton))
    except msgspec.DecodeError as error:
        raise CodecError(f"event {seq}: {tag}: {explain(error)}") from error


def upcast(skeleton: bytes, tag: str) -> bytes:
    """Applies upcasters until the tag is a current one."""
    value: dict[str, Any] = msgspec.json.decode(skeleton)
    for _ in range(len(UPCASTERS)):
        if tag not in UPCASTERS:
            break
        value = UPCASTERS[tag](value)
        tag = value["type"]
    return _encoder.encode(value)


def set_body(event: Event, body: bytes, salt: str) -> None:
    """Puts a stored body, or the tombstone of an erased one, into a freshly decoded event."""
    cls = type(event)
    if "body" not in cls.__struct_fields__:
        raise CodecError(f"{tag_of(cls)} has no body, but one is stored")
    if not salt:
        stone = record.tombstone_of(record.Entry(msgspec.Raw(b"{}"), msgspec.Raw(body), ""))
        if stone is None:
            raise Damaged("body without salt is not a tombstone")
        erased = Erased(digest=stone.digest, by=stone.by, why=stone.why, at_ms=stone.at_ms)
        msgspec.structs.force_setattr(event, "erased", erased)
        return
    try:
        value = _body_decoder(cls).decode(body)
    except msgspec.DecodeError as error:
        raise CodecError(f"{tag_of(cls)}: body: {explain(error)}") from error
    msgspec.structs.force_setattr(event, "body", value)


def _echo(events: list[Event | Unknown]) -> None:
    """Gives each requested call the arguments that its fact carries: they are stored once, with the fact."""
    for event in events[1:]:
        if isinstance(event, ToolRequested):
            msgspec.structs.force_setattr(event, "body", echoed(events[0], event.ordinal))
            msgspec.structs.force_setattr(event, "erased", getattr(events[0], "erased", None))


def echoed(fact: Event | Unknown, ordinal: int) -> CallBody | None:
    """The arguments of call number `ordinal` in a fact; None where they were erased."""
    if isinstance(fact, ModelReplied) and fact.body is not None and ordinal < len(fact.body.calls):
        call = fact.body.calls[ordinal].call
        return CallBody(args=call.args, text=call.text, malformed=call.malformed)
    if isinstance(fact, CallReceived) and fact.body is not None:
        return CallBody(args=fact.body.args)
    return None


def encode_command(command: Command) -> bytes:
    """A command on its way to an inbox, body included."""
    return _encoder.encode(command)


def decode_command(data: bytes | str) -> Command:
    """A command from a client. Only commands decode: nothing that the runtime alone may say can come this way."""
    try:
        return cast(Command, _commands.decode(data))
    except msgspec.DecodeError as error:
        raise CodecError(f"command: {explain(error)}") from error


def encode_view(event: Event) -> bytes:
    """An event as readers get it: one object, body included."""
    return _encoder.encode(event)


def require_known(event: Event | Unknown, seq: int) -> Event | None:
    """The event, or None where it may be skipped. Raises `NeedsNewer` where it may not."""
    if isinstance(event, Unknown):
        if event.skippable:
            return None
        raise NeedsNewer(event.tag, seq)
    return event


_KINDS = {
    "str": "string",
    "int": "number",
    "float": "number",
    "bool": "boolean",
    "array": "array",
    "object": "object",
    "null": "null",
}
_EXPECTED = re.compile(r"^Expected `(?P<want>.+?)`, got `(?P<got>\w+)`(?: - at `(?P<path>.+)`)?$")


def explain(error: Exception) -> str:
    """A decoding error with its path first; arguments that are not an object are named as such."""
    text = str(error)
    found = _EXPECTED.match(text)
    if found is None:
        message, _, path = text.partition(" - at ")
        return f"{path.strip('`')}: {message}" if path else message
    path = found["path"] or "$"
    got = _KINDS.get(found["got"], found["got"])
    if path.endswith(".args"):
        return f"{path}: arguments must be a JSON object, got {got}"
    return f"{path}: expected {found['want']}, got {got}"
