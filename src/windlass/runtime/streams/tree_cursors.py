"""Cursors over a tree of sessions: one opaque text for how far a reader has come in each of them.

It holds, for every session that the reader knows of, what a cursor of that session holds: the last seq and the
beginning of its hash. So it fits the same logs and no others; and what it does not name was started behind it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError

from . import cursors

VERSION = "t1"
BYTES_MAX = 4_000_000
"""How much a cursor may hold once it is unpacked: some hundred thousand sessions."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """How far a reader has come in one session of a tree."""

    scope: str
    seq: int
    hash: str = ""
    """The beginning of the hash of the append that holds that record."""

    @property
    def cursor(self) -> str:
        """The same as a cursor of the session alone."""
        return cursors.made(self.seq, self.hash)


class TreePlaces(msgspec.Struct, frozen=True, array_like=True):
    """What a cursor holds."""

    depth: int | None
    """How deep its reader reads; None for all of it."""
    places: tuple[Place, ...]


BEGINNING = TreePlaces(depth=None, places=(Place(scope="", seq=0),))


def made(depth: int | None, places: Iterable[Place]) -> str:
    """The cursor of a reader."""
    short = [Place(one.scope, one.seq, one.hash[: cursors.PREFIX_CHARS]) for one in places]
    packed = zlib.compress(msgspec.json.encode(TreePlaces(depth=depth, places=tuple(short))))
    return f"{VERSION}.{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def read(cursor: str) -> TreePlaces:
    """What a cursor holds. Raises `UsageError` for what is none."""
    version, _, packed = cursor.partition(".")
    try:
        if version != VERSION:
            raise ValueError(version)
        data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, BYTES_MAX)
        tree_places = known_types.decode(text, TreePlaces)
    except (ValueError, binascii.Error, zlib.error, msgspec.DecodeError):
        raise UsageError(f"{cursor[:40]!r} is no cursor of a tree: give one that a tree stream told, or None") from None
    scopes = [place.scope for place in tree_places.places]
    if "" not in scopes or len(set(scopes)) != len(scopes) or min(place.seq for place in tree_places.places) < 0:
        raise UsageError(f"{cursor[:40]!r} is no cursor of a tree: it does not say where its root stands")
    return tree_places
