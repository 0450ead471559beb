"""Promises about blobs: bytes by their digest, once per tenant, gone when they are erased."""

from __future__ import annotations

from windlass.events.errors import NotFound
from windlass.store.base import (
    BlobInfo,
    blob_digest,
)

from .case import StoreCase, raises


async def blobs_are_kept_by_digest(case: StoreCase) -> None:
    async with case.open() as store:
        data = bytes(range(256)) * 5_000
        digest = await store.blobs.put("default", data, media_type="image/png")
        assert digest == blob_digest(data) == await store.blobs.put("default", data)
        assert await store.blobs.info("default", digest) == BlobInfo(size=len(data), media_type="image/png")
        assert await store.blobs.get("default", digest) == data
        assert await store.blobs.get("default", digest, start=1_000, length=10) == data[1_000:1_010]
        assert await store.blobs.get("default", digest, start=len(data) - 1) == data[-1:]
        assert await store.blobs.get("default", digest, start=len(data) + 5, length=3) == b""
        assert await store.blobs.get("default", await store.blobs.put("default", b"")) == b""
        assert await store.blobs.erase("default", digest) is True
        assert await store.blobs.erase("default", digest) is False
        assert await store.blobs.info("default", digest) is None
        await raises(NotFound, store.blobs.get("default", digest))


CHECKS = (blobs_are_kept_by_digest,)
