"""Whether the bytes of a blob are those that its name says. A part of one cannot be told from its name."""

from __future__ import annotations

import asyncio

from windlass.events.errors import Damaged
from windlass.store.base import blob_digest

INLINE_BYTES = 256 * 1024
"""Blobs above this size are hashed off the loop."""


async def whole_blob(digest: str, data: bytes) -> bytes:
    """The bytes, if they are what was kept. Raises `Damaged`."""
    actual_digest = blob_digest(data) if len(data) <= INLINE_BYTES else await asyncio.to_thread(blob_digest, data)
    if actual_digest != digest:
        raise Damaged(f"blob {digest!r} is not what was kept: put back a copy of the store")
    return data
