"""How lines are framed in the JSON-lines store, and how a file of them is read back with suspicion.

A line of a log is the sealed append itself with a few more fields before its closing brace: the last seq, the commands
it takes, the index row, the length of the sealed part, and a checksum over all before it. So one line is one
transaction, it is plain JSON for every tool, and the sealed bytes come back exactly.
"""

from __future__ import annotations

import pathlib
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from windlass.events.record import Sealed

from .base import InboxCommand, IndexRow

SALVAGE_TRIES_MAX = 10_000
"""How many places of a damaged region are tried for a whole record behind the damage."""

_LOG_TAIL = re.compile(rb',"size":([0-9]{1,8}),"crc":"([0-9a-f]{8})"\}\Z')
_CRC_TAIL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\Z')
_ANY_TAIL = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_LOG_HEAD = re.compile(rb'\{"seq":([0-9]+),"at":(-?[0-9]+),"epoch":([0-9]+),"events":\[')
_TAIL_BYTES = 64

Parsed = TypeVar("Parsed")


class Extras(msgspec.Struct, frozen=True):
    """What a log line holds beside the sealed append."""

    last: int
    takes: tuple[str, ...] = ()
    index: IndexRow | None = None


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

    @classmethod
    def of(cls, sealed: Sealed, takes: Sequence[str], index: IndexRow | None) -> LogLine:
        return cls(
            first_seq=sealed.first_seq,
            last_seq=sealed.last_seq,
            at_ms=sealed.at_ms,
            epoch=sealed.epoch,
            hash=sealed.hash,
            data=sealed.data,
            takes=tuple(takes),
            index=index,
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


def frame_append(sealed: Sealed, takes: Sequence[str], index: IndexRow | None) -> bytes:
    """The line of an append, with its line break."""
    parts = [sealed.data[:-1], b',"last":%d' % sealed.last_seq]
    if takes:
        parts.append(b',"takes":%s' % _encode(list(takes)))
    if index is not None:
        parts.append(b',"index":%s' % _encode(index))
    parts.append(b',"size":%d' % len(sealed.data))
    return _summed(b"".join(parts))


def frame_command(command: InboxCommand) -> bytes:
    """The line of a command in an inbox; readable where its data is text."""
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


class Scan(msgspec.Struct, Generic[Parsed]):
    """What a file holds from some offset on: whole lines, then perhaps something else.

    `torn` bytes behind `end` are the beginning of a record that was never finished. `damaged` says that whole records
    follow behind bytes that are none: those were whole once, and cutting would lose more than a tail.
    """

    lines: list[tuple[int, Parsed]]
    end: int
    torn: int = 0
    damaged: bool = False
    bare: bool = False
    """The last line has lost its line break, and nothing else."""


def scan(path: pathlib.Path, start: int, kind: Kind[Parsed]) -> Scan[Parsed]:
    """Reads all lines from `start` on and judges what stops it."""
    result: Scan[Parsed] = Scan(lines=[], end=start)
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            whole = line.endswith(b"\n")
            parsed = kind.parse(line[:-1] if whole else line)
            if parsed is None:
                _judge_rest(result, line + file.read(), kind)
                break
            result.lines.append((result.end, parsed))
            result.end += len(line)
            result.bare = not whole
    return result


def _judge_rest(result: Scan[Parsed], rest: bytes, kind: Kind[Parsed]) -> None:
    """The bytes at `end` are no line. A record may still be whole there that only lost its line break."""
    fused = _record_at(rest, 0, kind)
    if fused is not None:
        parsed, length = fused
        result.lines.append((result.end, parsed))
        result.end += length
        result.bare = True
        rest = rest[length:]
    result.damaged = _holds_record(rest, kind)
    result.torn = len(rest)


def _record_at(rest: bytes, start: int, kind: Kind[Parsed]) -> tuple[Parsed, int] | None:
    """The record that begins at `start`, wherever it ends before the next line break."""
    if not rest.startswith(kind.head, start):
        return None
    line_end = rest.find(b"\n", start)
    for tries, tail in enumerate(_ANY_TAIL.finditer(rest, start, len(rest) if line_end < 0 else line_end)):
        parsed = kind.parse(rest[start : tail.end()])
        if parsed is not None:
            return parsed, tail.end() - start
        if tries >= SALVAGE_TRIES_MAX:
            break
    return None


def _holds_record(rest: bytes, kind: Kind[Parsed]) -> bool:
    start = rest.find(kind.head)
    tries = 0
    while start >= 0 and tries < SALVAGE_TRIES_MAX:
        if _record_at(rest, start, kind) is not None:
            return True
        start = rest.find(kind.head, start + 1)
        tries += 1
    return False
