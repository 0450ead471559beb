"""Ids and times of events. They are derived from the log, so that every telling of a session gives the same ones."""

from __future__ import annotations

import datetime
import hashlib
import uuid


def event_id(*named: object) -> str:
    """An id in the form of a UUID, the same for the same names."""
    digest = hashlib.blake2b("\0".join(map(str, named)).encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4))


def iso_time(at_ms: int) -> str:
    """A time in ISO 8601."""
    at = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
