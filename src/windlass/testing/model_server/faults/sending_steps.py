"""Faults of sending: a stream of frames becomes a list of steps, with waits, cuts and floods among them.

Pure: it says what to send, how long to wait and how to end. The server does it.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from windlass.testing.model_server.wires.wire import Frame, Wire, WireRefused

from .fault import Fault

CONTENT = frozenset({"text", "reasoning", "call", "image"})
FLOOD_MARK = "@@windlass flood@@"
FLOOD_PIECE = 65_536
GZIP_WINDOW = 31
"""What zlib calls the largest window with a gzip header."""

BODY_PIECES = 4
"""In how many pieces a whole body is sent when a fault must strike in the middle of it."""


class Send(msgspec.Struct, frozen=True):
    """Write these bytes."""

    data: bytes


class Wait(msgspec.Struct, frozen=True):
    """Write nothing for a while; None: until the client leaves or the server stops."""

    ms: float | None


class End(msgspec.Struct, frozen=True):
    """Stop here: `clean`, `close` or `reset`."""

    how: str


Step = Send | Wait | End


def body_frames(body: bytes) -> list[Frame]:
    """A whole body as content frames and an end, so that the same faults apply to it."""
    size = max(1, -(-len(body) // BODY_PIECES))
    frames = [Frame("text", body[at : at + size]) for at in range(0, len(body), size)]
    return [*frames[:-1], Frame("end", frames[-1].data)]


def plain(frames: Iterable[Frame], pace_ms: float) -> Iterator[Step]:
    """No fault: frame after frame."""
    for frame in frames:
        yield Send(frame.data)
        if pace_ms and frame.kind in CONTENT:
            yield Wait(pace_ms)
    yield End("clean")


def disturbed(frames: Iterable[Frame], fault: Fault, wire: Wire, ping: bytes) -> Iterator[Step]:
    """The steps of a reply under a fault. `ping` is what keeps a connection alive and means nothing."""
    match fault.how:
        case "first_late":
            return first_late(frames, fault)
        case "stall":
            return stalled(frames, fault)
        case "drip":
            return dripped(frames, fault)
        case "pings":
            return pinged(frames, fault, ping)
        case "cut":
            return cut(frames, fault)
        case "error_event":
            return broken_off(frames, fault, wire)
        case "flood":
            return flooded(frames, fault)
    return plain(frames, 0.0)


def first_late(frames: Iterable[Frame], fault: Fault) -> Iterator[Step]:
    waited = False
    for frame in frames:
        if frame.kind in CONTENT and not waited:
            waited = True
            yield Wait(fault.delay_ms)
        yield Send(frame.data)
    yield End("clean")


def stalled(frames: Iterable[Frame], fault: Fault) -> Iterator[Step]:
    """An answer that is shorter than `after` stalls before its end."""
    left = fault.after
    for frame in frames:
        if left == 0 or (left > 0 and frame.kind in ("stop", "end")):
            left = -1
            yield Wait(fault.delay_ms)
        yield Send(frame.data)
        left -= frame.kind in CONTENT and left > 0
    yield End("clean")


def dripped(frames: Iterable[Frame], fault: Fault) -> Iterator[Step]:
    for frame in frames:
        for at in range(0, len(frame.data), fault.size):
            yield Send(frame.data[at : at + fault.size])
            yield Wait(fault.delay_ms)
    yield End("clean")


def pinged(frames: Iterable[Frame], fault: Fault, ping: bytes) -> Iterator[Step]:
    """The opening frames, then nothing but pings, then the connection closes."""
    for frame in frames:
        if frame.kind not in ("start", "ping"):
            break
        yield Send(frame.data)
    for _ in range(fault.count):
        yield Send(ping)
        yield Wait(fault.delay_ms)
    yield End("close")


def cut(frames: Iterable[Frame], fault: Fault) -> Iterator[Step]:
    if fault.at == "frame":
        yield from cut_between(frames, fault)
        return
    whole = b"".join(frame.data for frame in frames)
    yield Send(whole[: cut_place(whole, fault)])
    yield End(fault.end)


def cut_between(frames: Iterable[Frame], fault: Fault) -> Iterator[Step]:
    """After so many content frames, in any case before the end marker."""
    left = fault.after
    for frame in frames:
        if left == 0 or frame.kind == "end":
            break
        yield Send(frame.data)
        left -= frame.kind in CONTENT
    yield End(fault.end)


def cut_place(whole: bytes, fault: Fault) -> int:
    """The byte to stop at."""
    if fault.at == "byte":
        return min(fault.at_byte, len(whole))
    if fault.at == "utf8":
        return next(at + 1 for at, byte in enumerate(whole) if byte >= 0xC0)
    # The last content stands between the middle and the end, so this is inside the JSON of some frame.
    middle = whole.rfind(b'":', 0, max(2, len(whole) * 2 // 3))
    return middle + 2 if middle > 0 else len(whole) // 2


def broken_off(frames: Iterable[Frame], fault: Fault, wire: Wire) -> Iterator[Step]:
    left = fault.after
    for frame in frames:
        if left == 0 or frame.kind in ("stop", "end"):
            break
        yield Send(frame.data)
        left -= frame.kind in CONTENT
    refused = WireRefused(fault.message, status=fault.status, kind=fault.error_type, code=fault.code)
    yield Send(wire.error_frame(refused).data)
    yield End("clean")


def flooded(frames: Iterable[Frame], fault: Fault) -> Iterator[Step]:
    """The frames that carry the mark grow to `size` bytes: as one frame, or as many like the first."""
    left = fault.size
    for frame in frames:
        if FLOOD_MARK.encode() not in frame.data:
            yield Send(frame.data)
            continue
        head, tail = frame.data.split(FLOOD_MARK.encode(), 1)
        if fault.one_line or left == 0:
            yield from (Send(piece) for piece in chain([head], filler(left), [tail]))
        else:
            for piece in filler(left):
                yield Send(head + piece + tail)
        left = 0
    yield End("clean")


def filler(size: int) -> Iterator[bytes]:
    while size > 0:
        yield b"x" * min(size, FLOOD_PIECE)
        size -= FLOOD_PIECE


@functools.lru_cache(maxsize=4)
def bomb(size: int) -> bytes:
    """A gzip body that unpacks to `size` bytes of one JSON string."""
    packer = zlib.compressobj(9, zlib.DEFLATED, GZIP_WINDOW)
    packed = [packer.compress(b'{"padding": "')]
    packed.extend(packer.compress(piece) for piece in filler(size))
    return b"".join(packed) + packer.compress(b'"}') + packer.flush()
