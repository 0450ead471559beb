"""What a log keeps beside itself, read by its digest: pictures, documents, large results."""

from __future__ import annotations

from windlass.events.errors import NotFound
from windlass.events.values.blocks import BlobRef
from windlass.models.base import BlobReader
from windlass.store.base import Store


def blob_reader(store: Store, tenant: str) -> BlobReader:
    """A reader of the blobs of one tenant. It gives None for one that was erased."""

    async def read(ref: BlobRef) -> bytes | None:
        try:
            return await store.blobs.get(tenant, ref.digest)
        except NotFound:
            return None

    return read
