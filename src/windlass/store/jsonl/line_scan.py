"""How a file of lines is read back with suspicion: whole lines first, then what stopped the reading is judged to be a
torn end, which may be cut off, or damage, which may not."""

from __future__ import annotations

import os
import pathlib
from typing import Generic, TypeVar

import msgspec

from .disk import PLAIN
from .line_format import CRC_ANYWHERE, Kind

SALVAGE_TRIES_MAX = 10_000
"""How many places of a damaged region are tried for a whole record behind the damage."""

Parsed = TypeVar("Parsed")


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
    with open(path, "rb", opener=_plainly) as file:
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


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | PLAIN)


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
    for tries, tail in enumerate(CRC_ANYWHERE.finditer(rest, start, len(rest) if line_end < 0 else line_end)):
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
