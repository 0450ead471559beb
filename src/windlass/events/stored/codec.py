"""The one codec of the log: strict where meaning is at stake, tolerant where it is not.

Unknown fields are ignored; unknown enum values, wrong types and missing fields are rejected with their path. An event
whose tag is not known is kept byte for byte: skipped where its tag ends in `?`, else the log may only be read.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, TypeVar, Union, cast, get_args, get_type_hints

import msgspec

from windlass.events import known_types
from windlass.events.base import Command, Erased, Event, ignorable, tag_of
from windlass.events.errors import CodecError, Damaged, NeedsNewer
from windlass.events.tools.calls import CallBody, CallReceived, ToolRequested
from windlass.events.trees.flows import NodeComputed
from windlass.events.trees.machines import MachineComputed
from windlass.events.turns import ModelReplied

from . import record
from .json_depth import NESTING_MAX, is_too_deep
from .record import EVENT_BYTES_MAX, UNREADABLE, Sealed
from .registry import BY_TAG, COMMANDS, EVENTS, UPCASTERS

T = TypeVar("T")

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


class _TypedEntry(msgspec.Struct, array_like=True, gc=False):
    event: AnyEvent
    body: msgspec.Raw = msgspec.Raw()
    salt: str = ""


class _TypedLine(msgspec.Struct, gc=False):
    seq: int
    at: int
    epoch: int
    events: list[_TypedEntry]
    hash: str


class _BareEntry(msgspec.Struct, array_like=True, gc=False):
    """The skeleton alone: what follows it in the array is passed over without being looked at."""

    event: AnyEvent


class _BareLine(msgspec.Struct, gc=False):
    seq: int
    at: int
    epoch: int
    events: list[_BareEntry]
    hash: str


class _TagOnly(msgspec.Struct, gc=False):
    type: str


class _Decoders:
    """The decoders of many types, each built when it is first used: that takes as long as all other imports of the
    kernel, and a process that begins a session reads nothing."""

    @functools.cached_property
    def lines(self) -> msgspec.json.Decoder[_TypedLine]:
        return known_types.decoder(_TypedLine)

    @functools.cached_property
    def bare_lines(self) -> msgspec.json.Decoder[_BareLine]:
        return known_types.decoder(_BareLine)

    @functools.cached_property
    def events(self) -> msgspec.json.Decoder[Any]:
        return known_types.decoder(AnyEvent)

    @functools.cached_property
    def commands(self) -> msgspec.json.Decoder[Any]:
        return known_types.decoder(AnyCommand)


decoders = _Decoders()
_encoder = msgspec.json.Encoder()
_tag = msgspec.json.Decoder(_TagOnly)


def _body_type(cls: type[Event]) -> Any:
    hint = get_type_hints(cls)["body"]
    return next(arg for arg in get_args(hint) if arg is not type(None))


_BODIED = frozenset(cls for cls in EVENTS if "body" in cls.__struct_fields__)


@functools.cache
def _body_decoder(cls: type[Event]) -> msgspec.json.Decoder[Any]:
    return known_types.decoder(_body_type(cls))


@functools.cache
def _skeleton_decoder(cls: type[Event]) -> msgspec.json.Decoder[Any]:
    return known_types.decoder(cls)


def encode_entry(event: Event | Unknown, salt: Callable[[], str]) -> tuple[bytes, bytes, str]:
    """An event as (skeleton, body or empty, salt or empty). Raises `CodecError` if it is too large."""
    if not isinstance(event, Unknown):
        return encode_event(event, salt)
    size = len(event.skeleton) + len(event.body)
    if size > EVENT_BYTES_MAX:
        raise too_large(event.tag, size)
    return event.skeleton, event.body, event.salt


def encode_event(event: Event, salt: Callable[[], str]) -> tuple[bytes, bytes, str]:
    """The same for an event of ours."""
    if event.erased is not None:
        raise CodecError(f"{tag_of(event)}: an erased event cannot be written again")
    content: Any = event.body if type(event) in _BODIED else None  # type: ignore[attr-defined]
    try:
        if content is None:
            skeleton, body = _encoder.encode(event), b""
        else:
            skeleton = _encoder.encode(msgspec.structs.replace(event, body=None))
            body = b"" if event.ECHO else _encoder.encode(content)
    except UnicodeEncodeError:
        return encode_event(scrubbed(event), salt)
    size = len(skeleton) + len(body)
    if size > EVENT_BYTES_MAX:
        raise too_large(tag_of(event), size)
    return skeleton, body, salt() if body else ""


def too_large(tag: str, size: int) -> CodecError:
    """What is said of an event that no log takes."""
    return CodecError(f"{tag}: {size} bytes, more than {EVENT_BYTES_MAX}: put large content in a blob, refer to it")


def scrubbed(value: T) -> T:
    """The same event or plain data with lone surrogates, which no log can hold, shown as replacement characters."""
    plain = _scrub(msgspec.to_builtins(value))
    made: T = known_types.convert(plain, type(value), strict=False) if isinstance(value, msgspec.Struct) else plain
    return made


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_scrub(key): _scrub(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(inner) for inner in value]
    return value


def encode(
    events: Sequence[Event | Unknown], *, prev_hash: str, seq: int, at_ms: int, epoch: int, salt: Callable[[], str]
) -> Sealed:
    """Seals a fact and its decisions into the append that begins at `seq`."""
    return record.seal(prev_hash, seq, at_ms, epoch, [encode_entry(event, salt) for event in events])


def decode(data: bytes, *, bodies: bool = True) -> Appended:
    """An append from its stored line. Without `bodies` the content is left out, which is all that a fold needs.
    Raises `Damaged` for what is not a line of ours and `CodecError` for events that break the rules."""
    try:
        line = decoders.lines.decode(data) if bodies else decoders.bare_lines.decode(data)
    except UNREADABLE:
        return _decode_slowly(data, bodies=bodies)
    events = _checked(line)
    if isinstance(line, _TypedLine):
        for entry in line.events:
            if bytes(entry.body):
                set_body(entry.event, bytes(entry.body), entry.salt)
        _echo(events)
    return Appended(first_seq=line.seq, at_ms=line.at, epoch=line.epoch, hash=line.hash, events=events)


def skeletons(data: bytes) -> tuple[int, int, list[Event | Unknown]]:
    """The first seq, the time and the events of a stored line, without their content: the quickest way to a fold."""
    try:
        line = decoders.bare_lines.decode(data)
    except UNREADABLE:
        append = _decode_slowly(data, bodies=False)
        return append.first_seq, append.at_ms, append.events
    return line.seq, line.at, _checked(line)


def _checked(line: _TypedLine | _BareLine) -> list[Event | Unknown]:
    """The events of a line, where each is what a skeleton may be."""
    if line.seq < 1 or not line.events:
        raise Damaged(f"append at {line.seq} is empty or misnumbered", seq=line.seq)
    events: list[Any] = [entry.event for entry in line.events]
    for event in events:
        if event.erased is not None or (type(event) in _BODIED and event.body is not None):
            raise Damaged(f"append {line.seq}: content inside a skeleton", seq=line.seq)
    return events


def _decode_slowly(data: bytes, *, bodies: bool) -> Appended:
    """Event by event: finds unknown and older events, and says exactly what is wrong with a bad one."""
    line = record.parse(data)
    events: list[Event | Unknown] = []
    for offset, entry in enumerate(line.events):
        seq = line.seq + offset
        skeleton, body = bytes(entry.skeleton), bytes(entry.body)
        event, body = decode_known(skeleton, body, seq=seq, salt=entry.salt)
        if bodies and body and isinstance(event, Event):
            set_body(event, body, entry.salt)
        events.append(event)
    if bodies:
        _echo(events)
    return Appended(first_seq=line.seq, at_ms=line.at, epoch=line.epoch, hash=line.hash, events=events)


def decode_known(skeleton: bytes, body: bytes, *, seq: int = 0, salt: str = "") -> tuple[Event | Unknown, bytes]:
    """One event from its skeleton, brought up to the current version with its body; an unknown one as `Unknown`."""
    try:
        tag = _tag.decode(skeleton).type
    except UNREADABLE as error:
        raise CodecError(f"event {seq}: {explain(error)}") from error
    if tag not in BY_TAG:
        if tag not in UPCASTERS:
            return Unknown(tag=tag, skeleton=skeleton, body=body, salt=salt), b""
        try:
            skeleton, body = upcast(skeleton, body, tag, erased=not salt)
        except Exception as error:  # an upcaster is code of ours that met data it did not foresee
            raise CodecError(f"event {seq}: {tag}: cannot be brought up to date: {error!r}") from error
    try:
        event = cast(Event, decoders.events.decode(skeleton))
    except UNREADABLE as error:
        raise CodecError(f"event {seq}: {tag}: {explain(error)}") from error
    if event.erased is not None or getattr(event, "body", None) is not None:
        raise Damaged(f"event {seq}: content inside a skeleton", seq=seq)
    return event, body


def require_readable(cls: type[Event], skeleton: bytes, body: bytes) -> None:
    """Raises `CodecError`, with the path, for an encoded event of ours that no reader would take."""
    if is_too_deep(skeleton + body):  # side by side they are as deep as the deeper one
        raise CodecError(f"{tag_of(cls)}: nested deeper than {NESTING_MAX} levels")
    try:
        _skeleton_decoder(cls).decode(skeleton)
    except UNREADABLE as error:
        raise CodecError(f"{tag_of(cls)}: {explain(error)}") from error
    if body:
        _decoded_body(cls, body)


def upcast(skeleton: bytes, body: bytes, tag: str, *, erased: bool = False) -> tuple[bytes, bytes]:
    """Applies upcasters until the tag is a current one. An erased body stays the tombstone it is."""
    value: dict[str, Any] = msgspec.json.decode(skeleton)
    content: Any = msgspec.json.decode(body) if body and not erased else None
    for _ in range(len(UPCASTERS)):
        if tag not in UPCASTERS:
            break
        value, content = UPCASTERS[tag](value, content)
        tag = value["type"]
    return _encoder.encode(value), body if content is None else _encoder.encode(content)


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
    msgspec.structs.force_setattr(event, "body", _decoded_body(cls, body))


def _decoded_body(cls: type[Event], body: bytes) -> Any:
    try:
        return _body_decoder(cls).decode(body)
    except UNREADABLE as error:
        raise CodecError(f"{tag_of(cls)}: body: {explain(error)}") from error


def _echo(events: list[Event | Unknown]) -> None:
    """Gives each requested call the arguments that its fact carries: they are stored once, with the fact."""
    for event in events[1:]:
        if isinstance(event, ToolRequested):
            msgspec.structs.force_setattr(event, "body", echoed(events[0], event.ordinal))
            msgspec.structs.force_setattr(event, "erased", getattr(events[0], "erased", None))


def echoed(fact: Event | Unknown, ordinal: int) -> CallBody | None:
    """The arguments of call number `ordinal` in a fact; None if they were erased."""
    if isinstance(fact, ModelReplied) and fact.body is not None and ordinal < len(fact.body.calls):
        call = fact.body.calls[ordinal].call
        return CallBody(args=call.args, text=call.text, malformed=call.malformed)
    if isinstance(fact, CallReceived) and fact.body is not None:
        return CallBody(args=fact.body.args)
    if isinstance(fact, NodeComputed) and fact.body is not None and ordinal < len(fact.body.calls):
        return CallBody(args=fact.body.calls[ordinal].args)
    if isinstance(fact, MachineComputed) and fact.body is not None and fact.body.call is not None:
        return CallBody(args=fact.body.call.args)
    return None


def encode_command(command: Command) -> bytes:
    """A command on its way to an inbox, body included. Refuses numbers that JSON does not have: they would arrive as
    something else."""
    data = _encoder.encode(command)
    if b"null" in data:  # which is what such a number would be
        require_finite(msgspec.to_builtins(command), "$")
    return data


def require_finite(value: Any, path: str) -> None:
    """Raises `CodecError` for a NaN or an infinity anywhere in a plain value."""
    if isinstance(value, float) and not isfinite(value):
        raise CodecError(f"command: {path}: {value!r} has no form in JSON")
    if isinstance(value, dict):
        for key, inner in value.items():
            require_finite(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            require_finite(inner, f"{path}[{index}]")


def decode_command(data: bytes | str) -> Command:
    """A command from a client. Only commands decode: nothing that the runtime alone may say can come this way."""
    if is_too_deep(data.encode("utf-8", "replace") if isinstance(data, str) else data):
        raise CodecError(f"command: nested deeper than {NESTING_MAX} levels")
    try:
        command = cast(Command, decoders.commands.decode(data))
    except UNREADABLE as error:
        raise CodecError(f"command: {explain(error)}") from error
    if command.erased is not None:
        raise CodecError("command: $.erased: only a store may say that content was erased")
    if _encoder.encode(command) != data:  # what we wrote ourselves says nothing twice
        check_single_keys(data)
    return command


def check_single_keys(data: bytes | str) -> None:
    """Raises `CodecError` for an object that says the same thing twice: two readers would take two things from it."""

    def single(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) < len(pairs):
            raise CodecError("command: an object has the same key twice")

    try:
        json.loads(data, object_pairs_hook=single)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"command: {type(error).__name__}") from error


def encode_view(event: Event) -> bytes:
    """An event as readers get it: one object, body included."""
    return _encoder.encode(event)


def decode_view(data: bytes) -> Event:
    """The event that `encode_view` wrote. Raises `CodecError`, also for an event that this version does not know."""
    try:
        return cast(Event, decoders.events.decode(data))
    except UNREADABLE as error:
        raise CodecError(f"event: {explain(error)}") from error


def require_known(event: Event | Unknown, seq: int) -> Event | None:
    """The event, or None if it may be skipped. Raises `NeedsNewer` if it may not."""
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
    match = _EXPECTED.match(text)
    if match is None:
        message, _, path = text.partition(" - at ")
        return f"{path.strip('`')}: {message}" if path else message
    path = match["path"] or "$"
    got = _KINDS.get(match["got"], match["got"])
    if path.endswith(".args"):
        return f"{path}: arguments must be a JSON object, got {got}"
    return f"{path}: expected {match['want']}, got {got}"
