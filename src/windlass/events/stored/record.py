"""The stored form of a log: one append is one JSON line, sealed by a hash chain.

An append holds one fact and the decisions it caused; one that begins a session may hold further facts, each with its
decisions behind it. Each event is an array: its skeleton and, if it has content, the body and a salt. The chain covers
the skeleton and a salted digest of the body, so a body can be replaced by a tombstone and the log still verifies.
Nothing here knows what the events mean.
"""

from __future__ import annotations

import hashlib
import json
from binascii import b2a_base64
from collections.abc import Iterable

import msgspec

from windlass.events.errors import Damaged, UsageError
from windlass.events.values.blocks import Value

from .json_depth import NESTING_MAX, is_too_deep

GENESIS = ""
"""The hash before the first append of a log."""

URL_SAFE = bytes.maketrans(b"+/", b"-_")
DIGEST_BYTES = 24
SALT_BYTES = 12
SALT_CHARS_MAX = 64
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What decoding raises for bytes that are not what they should be."""

APPEND_BYTES_MAX = 4 * 1024 * 1024
EVENT_BYTES_MAX = 1024 * 1024


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One event as stored: skeleton, then body and salt, or the tombstone of an erased body and no salt."""

    skeleton: msgspec.Raw
    body: msgspec.Raw = msgspec.Raw()
    salt: str = ""


class Line(msgspec.Struct, frozen=True):
    """An append as stored."""

    seq: int
    at: int
    epoch: int
    events: list[Entry]
    hash: str


class Tombstone(Value, frozen=True, kw_only=True):
    """What stands in the place of an erased body."""

    digest: str
    by: str
    why: str
    at_ms: int


class TombstoneSlot(Value, frozen=True, kw_only=True):
    """The wrapper that tells a tombstone from a body."""

    erased: Tombstone


class Sealed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An append ready for a store: `data` is the line, the rest is read off it for the store's own checks."""

    first_seq: int
    last_seq: int
    at_ms: int
    epoch: int
    prev_hash: str
    hash: str
    data: bytes


_lines = msgspec.json.Decoder(Line)
_slots = msgspec.json.Decoder(TombstoneSlot)


def digest_text(data: bytes, *, key: bytes = b"") -> str:
    """The digest used everywhere in the chain, as URL-safe text."""
    return stored_text(hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=key).digest())


def stored_text(raw: bytes) -> str:
    """A salt or a digest as stored: URL-safe base64."""
    return b2a_base64(raw, newline=False).translate(URL_SAFE).decode("ascii")


def chain_hash(prev: str, seq: int, at_ms: int, epoch: int, parts: Iterable[tuple[bytes, str]]) -> str:
    """The hash of an append from its header and, per event, the skeleton bytes and the body's digest (or nothing)."""
    pieces = [b"%s\n%d,%d,%d" % (prev.encode("ascii"), seq, at_ms, epoch)]
    for skeleton, body_digest in parts:
        # Lengths keep two different splits of the same bytes apart.
        if body_digest:
            pieces.append(b"\n%d,%s,%s" % (len(skeleton), body_digest.encode("ascii"), skeleton))
        else:
            pieces += (b"\n%d,," % len(skeleton), skeleton)
    return digest_text(b"".join(pieces))


def seal(prev_hash: str, seq: int, at_ms: int, epoch: int, entries: list[tuple[bytes, bytes, str]]) -> Sealed:
    """Seals encoded events, each (skeleton, body or empty, salt or empty), into an append that begins at `seq`."""
    parts: list[tuple[bytes, str]] = []
    arrays: list[bytes] = []
    """What stands between the brackets of each entry: mostly its skeleton alone, which is not copied then."""
    for skeleton, body, salt in entries:
        if not body:
            parts.append((skeleton, ""))
            arrays.append(skeleton)
        elif salt:
            key = salt.encode("ascii")
            parts.append((skeleton, digest_text(body, key=key)))
            arrays.append(b'%s,%s,"%s"' % (skeleton, body, key))
        else:
            # The tombstone of a body that was erased before.
            parts.append((skeleton, body_digest(Entry(msgspec.Raw(skeleton), msgspec.Raw(body)))))
            arrays.append(b"%s,%s" % (skeleton, body))
    digest = chain_hash(prev_hash, seq, at_ms, epoch, parts)
    data = b'{"seq":%d,"at":%d,"epoch":%d,"events":[[%s]],"hash":"%s"}' % (
        seq,
        at_ms,
        epoch,
        b"],[".join(arrays),
        digest.encode("ascii"),
    )
    return Sealed(
        first_seq=seq,
        last_seq=seq + len(entries) - 1,
        at_ms=at_ms,
        epoch=epoch,
        prev_hash=prev_hash,
        hash=digest,
        data=data,
    )


def parse(data: bytes) -> Line:
    """The line, its events still raw. Raises `Damaged` if it is not an append of ours."""
    try:
        line = _lines.decode(data)
    except UNREADABLE as error:
        raise Damaged(f"not a readable append: {error}") from error
    if line.seq < 1 or not line.events:
        raise Damaged(f"append at {line.seq} is empty or misnumbered", seq=line.seq)
    return line


def tombstone_of(entry: Entry) -> Tombstone | None:
    """The tombstone, if this entry's body was erased."""
    if entry.salt or not bytes(entry.body):
        return None
    try:
        return _slots.decode(bytes(entry.body)).erased
    except UNREADABLE as error:
        raise Damaged(f"body without salt is not a tombstone: {error}") from error


def body_digest(entry: Entry) -> str:
    """The salted digest of an entry's body, also when the body is erased; empty if there is none."""
    if not bytes(entry.body):
        return ""
    if not entry.salt:
        erased = tombstone_of(entry)
        assert erased is not None
        return erased.digest
    if not entry.salt.isascii() or len(entry.salt) > SALT_CHARS_MAX:
        raise Damaged("a salt is none of ours")
    return digest_text(bytes(entry.body), key=entry.salt.encode("ascii"))


def check(data: bytes, *, prev_hash: str, expected_seq: int) -> Line:
    """Verifies one line against the chain. Raises `Damaged` and names the place otherwise."""
    line = parse(data)
    if line.seq != expected_seq:
        raise Damaged(f"append begins at {line.seq}, expected {expected_seq}", seq=expected_seq)
    parts = [(bytes(entry.skeleton), body_digest(entry)) for entry in line.events]
    if chain_hash(prev_hash, line.seq, line.at, line.epoch, parts) != line.hash:
        raise Damaged(f"append {line.seq} does not match its hash", seq=line.seq)
    if _envelope(line) != data:
        raise Damaged(f"append {line.seq} is not written as windlass writes: keys are doubled or added", seq=line.seq)
    for entry in line.events:
        refuse_doubled_keys(bytes(entry.skeleton))
        refuse_doubled_keys(bytes(entry.body))
    return line


def _envelope(line: Line) -> bytes:
    """The bytes of a line as we write them; none if we could not have."""
    try:
        events = b",".join(map(_entry_bytes, line.events))
        digest = line.hash.encode("ascii")
    except UnicodeError:
        return b""
    return b'{"seq":%d,"at":%d,"epoch":%d,"events":[%s],"hash":"%s"}' % (
        line.seq,
        line.at,
        line.epoch,
        events,
        digest,
    )


def refuse_doubled_keys(data: bytes) -> None:
    """Raises `Damaged` for JSON in which a key comes twice in one object: two readers could read two things."""
    if not data:
        return
    if is_too_deep(data):
        raise Damaged(f"nested deeper than {NESTING_MAX} levels")
    try:
        json.loads(data, object_pairs_hook=_single)
    except _Doubled as doubled:
        raise Damaged(f"the key {doubled.args[0]!r} comes twice in one object") from None
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not readable as JSON: {error}") from error


class _Doubled(Exception):
    """A key that comes twice."""


def _single(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _Doubled(key)
        seen.add(key)


def resealed(data: bytes, *, prev_hash: str) -> Sealed:
    """The store's view of a line that was written before (for import and copy). Verifies it."""
    line = parse(data)
    check(data, prev_hash=prev_hash, expected_seq=line.seq)
    return Sealed(
        first_seq=line.seq,
        last_seq=line.seq + len(line.events) - 1,
        at_ms=line.at,
        epoch=line.epoch,
        prev_hash=prev_hash,
        hash=line.hash,
        data=data,
    )


def erase(data: bytes, seq: int, *, by: str, why: str, at_ms: int) -> bytes:
    """The same line with the body of event `seq` replaced by a tombstone. The chain hash stays valid.
    Erasing twice changes nothing. Raises `UsageError` if the event has no body."""
    line = parse(data)
    index = seq - line.seq
    if not 0 <= index < len(line.events):
        raise UsageError(f"event {seq} is not in the append {line.seq}..{line.seq + len(line.events) - 1}")
    chunks: list[bytes] = []
    for position, entry in enumerate(line.events):
        chunks.append(_tombstoned(entry, seq, by, why, at_ms) if position == index else _entry_bytes(entry))
    return b'{"seq":%d,"at":%d,"epoch":%d,"events":[%s],"hash":"%s"}' % (
        line.seq,
        line.at,
        line.epoch,
        b",".join(chunks),
        line.hash.encode("ascii"),
    )


def _entry_bytes(entry: Entry) -> bytes:
    skeleton = bytes(entry.skeleton)
    if not bytes(entry.body):
        return b"[%s]" % skeleton
    if not entry.salt:
        return b"[%s,%s]" % (skeleton, bytes(entry.body))
    return b'[%s,%s,"%s"]' % (skeleton, bytes(entry.body), entry.salt.encode("ascii"))


def _tombstoned(entry: Entry, seq: int, by: str, why: str, at_ms: int) -> bytes:
    if not bytes(entry.body):
        raise UsageError(f"event {seq} has no content to erase")
    if not entry.salt:
        return _entry_bytes(entry)
    slot = TombstoneSlot(erased=Tombstone(digest=body_digest(entry), by=by, why=why, at_ms=at_ms))
    return b"[%s,%s]" % (bytes(entry.skeleton), msgspec.json.encode(slot))
