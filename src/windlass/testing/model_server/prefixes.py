"""What the server keeps of the requests it met, and the check that earlier bytes stay a prefix of later ones."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import msgspec

from windlass.testing.model_server.wires.parsed import Recorded

HISTORY_FIELD = {"anthropic": "messages", "openai": "messages", "responses": "input", "gemini": "contents"}
"""Where each wire format keeps the history."""

MARKER = re.compile(rb',\s*"cache_control"\s*:\s*(\{[^{}]*\}|null)')
MARKER_FIRST = re.compile(rb'\{\s*"cache_control"\s*:\s*(\{[^{}]*\}|null)\s*,\s*')


class PrefixViolation(msgspec.Struct, frozen=True, kw_only=True):
    """Two requests of one lane whose bytes part company before the end of the earlier one's history."""

    earlier: int
    later: int
    at_byte: int
    before: str
    after: str


def prefix_violations(
    requests: Sequence[Recorded], *, history_end: int | None = None, kept: int | None = None
) -> list[PrefixViolation]:
    """Every pair of consecutive requests of a lane where the earlier one's bytes, up to the end of its last kept
    history message, are not a prefix of the later one's.

    Requests belong to the same lane when they name it in the lane header, else when path and model agree. `kept` says
    how many messages of each history are kept (all by default; a client that sends a passing task state as its last
    message keeps one less: pass -1). `history_end` gives the byte position itself, for callers that know it. Cache
    markers move with the end of the history and are left out of the comparison."""
    violations: list[PrefixViolation] = []
    for lane in lanes(requests):
        for earlier, later in itertools.pairwise(lane):
            end = history_end if history_end is not None else history_end_of(earlier.raw, field_of(earlier), kept)
            before, after = without_markers(earlier.raw[:end]), without_markers(later.raw)
            at = parting(before, after)
            if at is not None:
                numbers = {"earlier": earlier.number, "later": later.number, "at_byte": at}
                violations.append(PrefixViolation(before=shown(before, at), after=shown(after, at), **numbers))
    return violations


def without_markers(raw: bytes) -> bytes:
    """A body without its cache markers, wherever they stand in their block."""
    return MARKER_FIRST.sub(b"{", MARKER.sub(b"", raw)) if b'"cache_control"' in raw else raw


def lanes(requests: Iterable[Recorded]) -> list[list[Recorded]]:
    """The answered requests, by lane, each in order."""
    requests_by_lane: dict[tuple[str, ...], list[Recorded]] = {}
    for request in requests:
        if request.parsed is not None:
            key = (request.lane, request.path, request.parsed.model)
            requests_by_lane.setdefault(key, []).append(request)
    return list(requests_by_lane.values())


def field_of(request: Recorded) -> str:
    return HISTORY_FIELD.get(request.format, "messages")


def history_end_of(raw: bytes, field: str, kept: int | None = None) -> int:
    """The byte behind the last kept element of the history array at the top level of a body."""
    start = field_start(raw, field)
    if start is None or raw[start : start + 1] != b"[":
        return len(raw)
    ends = element_ends(raw, start)
    if kept is not None:
        ends = ends[:kept]
    return ends[-1] if ends else start + 1


def field_start(raw: bytes, field: str) -> int | None:
    """Where the value of a top-level field begins."""
    depth, at, name_at = 0, 0, -1
    while at < len(raw):
        byte = raw[at]
        if byte == 0x22:
            close = string_end(raw, at)
            if depth == 1 and raw[at + 1 : close - 1] == field.encode():
                name_at = skip_space(raw, close)
                if raw[name_at : name_at + 1] == b":":
                    return skip_space(raw, name_at + 1)
            at = close
            continue
        depth += byte in b"{["
        depth -= byte in b"}]"
        at += 1
    return None


def element_ends(raw: bytes, start: int) -> list[int]:
    """The byte behind each element of the array of objects that begins at `start`."""
    ends: list[int] = []
    depth, at = 0, start
    while at < len(raw):
        byte = raw[at]
        if byte == 0x22:
            at = string_end(raw, at)
            continue
        if byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if depth == 1:
                ends.append(at + 1)
            elif depth == 0:
                break
        at += 1
    return ends


def string_end(raw: bytes, at: int) -> int:
    """The byte behind the string that opens at `at`."""
    at += 1
    while at < len(raw) and raw[at] != 0x22:
        at += 2 if raw[at] == 0x5C else 1
    return at + 1


def skip_space(raw: bytes, at: int) -> int:
    while raw[at : at + 1].isspace():
        at += 1
    return at


def parting(prefix: bytes, later: bytes) -> int | None:
    """The first byte where `later` does not begin with `prefix`, or None."""
    if later.startswith(prefix):
        return None
    for at, (left, right) in enumerate(zip(prefix, later, strict=False)):
        if left != right:
            return at
    return min(len(prefix), len(later))


def shown(raw: bytes, at: int) -> str:
    return raw[max(0, at - 30) : at + 50].decode("utf-8", "replace")
