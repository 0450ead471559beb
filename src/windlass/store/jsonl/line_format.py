"""How lines are framed in the JSON-lines store.

A line of a log is the sealed append itself with a few more fields before its closing brace: the last seq, the commands
it takes, the index row, the length of the sealed part, and a checksum over all before it. So one line is one
transaction, it is plain JSON for every tool, and the sealed bytes come back exactly.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from windlass.events.stored.record import Sealed
from windlass.store.base import InboxCommand, IndexRow, Message

_LOG_TAIL = re.compile(rb',"size":([0-9]{1,8}),"crc":"([0-9a-f]{8})"\}\Z')
_CRC_TAIL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\Z')
CRC_ANYWHERE = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_LOG_HEAD = re.compile(rb'\{"seq":([0-9]+),"at":(-?[0-9]+),"epoch":([0-9]+),"events":\[')
_TAIL_BYTES = 64

Parsed = TypeVar("Parsed")


class Sending(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to another session, as its sender's line holds it until it is delivered."""

    to: str
    id: str
    at: int
    data: str
    creates: bool = False


class Extras(msgspec.Struct, frozen=True):
    """What a log line holds beside the sealed append."""

    last: int
    takes: tuple[str, ...] = ()
    index: IndexRow | None = None
    sends: tuple[Sending, ...] = ()


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A log line read back. `data` is the sealed append, byte for byte."""

    first_seq: int
    last_seq: int
    at_ms: int
    epoch: int
    hash: str
    data: bytes
    takes: tuple[str, ...]
    index: IndexRow | None
    sends: tuple[Message, ...] = ()

    @classmethod
    def of(cls, sealed: Sealed, takes: Sequence[str], index: IndexRow | None, sends: Sequence[Message] = ()) -> LogLine:
        return cls(
            first_seq=sealed.first_seq,
            last_seq=sealed.last_seq,
            at_ms=sealed.at_ms,
            epoch=sealed.epoch,
            hash=sealed.hash,
            data=sealed.data,
            takes=tuple(takes),
            index=index,
            sends=tuple(sends),
        )

    def sealed(self, prev_hash: str) -> Sealed:
        return Sealed(
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            at_ms=self.at_ms,
            epoch=self.epoch,
            prev_hash=prev_hash,
            hash=self.hash,
            data=self.data,
        )


class _Command(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    at: int
    data: str | None = None
    b64: str | None = None


_extras = msgspec.json.Decoder(Extras)
_commands = msgspec.json.Decoder(_Command)
_encode = msgspec.json.Encoder().encode


def frame_append(sealed: Sealed, takes: Sequence[str], index: IndexRow | None, sends: Sequence[Message] = ()) -> bytes:
    """The line of an append, with its line break."""
    parts = [sealed.data[:-1], b',"last":%d' % sealed.last_seq]
    if takes:
        parts.append(b',"takes":%s' % _encode(list(takes)))
    if index is not None:
        parts.append(b',"index":%s' % _encode(index))
    if sends:
        parts.append(b',"sends":%s' % _encode([_sending(message) for message in sends]))
    parts.append(b',"size":%d' % len(sealed.data))
    return _summed(b"".join(parts))


def _sending(message: Message) -> Sending:
    command = message.command
    data = b64encode(command.data).decode()
    return Sending(message.session, command.command_id, command.at_ms, data, message.creates)


def _message(sending: Sending) -> Message:
    command = InboxCommand(command_id=sending.id, at_ms=sending.at, data=b64decode(sending.data))
    return Message(session=sending.to, command=command, creates=sending.creates)


def frame_command(command: InboxCommand) -> bytes:
    """The line of a command in an inbox; readable if its data is text."""
    try:
        line = _Command(id=command.command_id, at=command.at_ms, data=command.data.decode())
    except UnicodeDecodeError:
        line = _Command(id=command.command_id, at=command.at_ms, b64=b64encode(command.data).decode())
    return _summed(_encode(line)[:-1])


def _summed(body: bytes) -> bytes:
    return b'%s,"crc":"%08x"}\n' % (body, crc32(body))


def parse_append(line: bytes) -> LogLine | None:
    """The append in a line without its line break; None if it is not whole."""
    tail = _LOG_TAIL.search(line, max(0, len(line) - _TAIL_BYTES))
    head = _LOG_HEAD.match(line)
    if tail is None or head is None:
        return None
    size = int(tail[1])
    body_end = tail.end(1)
    if int(tail[2], 16) != crc32(line[:body_end]) or not 0 < size <= tail.start():
        return None
    data = line[: size - 1] + b"}"
    mark = data.rfind(b'"hash":"')
    try:
        extras = _extras.decode(b"{%s}" % line[size : tail.start()])
    except (msgspec.DecodeError, UnicodeError):
        return None
    return LogLine(
        first_seq=int(head[1]),
        last_seq=extras.last,
        at_ms=int(head[2]),
        epoch=int(head[3]),
        hash=data[mark + 8 : -2].decode("ascii", "replace"),
        data=data,
        takes=extras.takes,
        index=extras.index,
        sends=tuple(map(_message, extras.sends)),
    )


def parse_command(line: bytes) -> InboxCommand | None:
    """The command in a line without its line break; None if it is not whole."""
    tail = _CRC_TAIL.search(line, max(0, len(line) - _TAIL_BYTES))
    if tail is None or int(tail[1], 16) != crc32(line[: tail.start()]):
        return None
    try:
        command = _commands.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
    data = b64decode(command.b64) if command.b64 is not None else (command.data or "").encode()
    return InboxCommand(command_id=command.id, at_ms=command.at, data=data)


class Kind(msgspec.Struct, Generic[Parsed], frozen=True):
    """A kind of file: how its lines begin, and how they are read."""

    head: bytes
    parse: Callable[[bytes], Parsed | None]


LOG: Kind[LogLine] = Kind(b'{"seq":', parse_append)
INBOX: Kind[InboxCommand] = Kind(b'{"id":', parse_command)
