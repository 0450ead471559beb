"""A row of the appends table: written with a checksum over all that it says and the hash that it continues, and read
back with suspicion. Cheap enough to be looked at whenever a row is read; `verify_chain` walks the hashes themselves."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import apsw

from windlass.events.errors import Damaged
from windlass.events.stored.record import Sealed
from windlass.store.base import Key

from .schema import SEQ_BITS, SEQ_MASK

COLUMNS = "place, last_seq, at_ms, epoch, hash, data, crc"
"""What `sealed_of` reads."""
INSERT = f"INSERT INTO appends({COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?)"
UNREADABLE = (TypeError, ValueError, AttributeError)
"""What comes of a row whose columns are not of their kinds any more."""


def checksum(sealed: Sealed) -> int:
    """What a row must have, so that neither it nor its place in the chain can have changed unseen."""
    return _sum(
        sealed.first_seq, sealed.last_seq, sealed.at_ms, sealed.epoch, sealed.prev_hash, sealed.hash, sealed.data
    )


def _sum(first_seq: int, last_seq: int, at_ms: int, epoch: int, prev_hash: str, digest: str, data: bytes) -> int:
    # The numbers are where the sum begins, and not bytes of their own: this is done for every row that is read.
    numbers = first_seq + 31 * last_seq + at_ms + 7 * epoch
    return crc32(data, crc32((prev_hash + digest).encode(), numbers & 0xFFFFFFFF))


def insert(cursor: apsw.Cursor, sid: int, sealed: Sealed) -> None:
    """Puts an append behind the others of its session."""
    first_seq, last_seq, at_ms, epoch = sealed.first_seq, sealed.last_seq, sealed.at_ms, sealed.epoch
    digest, data = sealed.hash, sealed.data
    crc = _sum(first_seq, last_seq, at_ms, epoch, sealed.prev_hash, digest, data)
    cursor.execute(INSERT, (sid << SEQ_BITS | first_seq, last_seq, at_ms, epoch, digest, data, crc))


def sealed_of(key: Key, row: Any, seq: int, chain: str) -> Sealed:
    """The append in a row that must continue a log which ends at (seq, chain). Raises `Damaged`."""
    try:
        place, last_seq, at_ms, epoch, digest, data, crc = row
        first_seq = place & SEQ_MASK
        whole = _sum(first_seq, last_seq, at_ms, epoch, chain, digest, data) == crc
    except UNREADABLE:
        whole = False
    if not whole:
        raise changed(key, seq + 1)
    if first_seq != seq + 1:
        raise missing(key, seq, first_seq - 1)
    return Sealed(first_seq=first_seq, last_seq=last_seq, at_ms=at_ms, epoch=epoch,
                  prev_hash=chain, hash=digest, data=data)  # fmt: skip


def changed(key: Key, seq: int) -> Damaged:
    """Says that an append is not what was written."""
    return Damaged(
        f"session {key.session!r} may only be read up to event {seq - 1}: the append behind it is not what was "
        "written. Put back a copy of the store, or fork the session before it",
        seq=seq,
    )


def missing(key: Key, seq: int, until: int) -> Damaged:
    """Says that appends are gone."""
    return Damaged(
        f"session {key.session!r} may only be read up to event {seq}: events {seq + 1} to {until} are missing from the "
        "store. Put back a copy of it, or fork the session before them",
        seq=seq + 1,
    )
