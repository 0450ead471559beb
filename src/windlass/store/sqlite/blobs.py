"""Blobs in the SQLite file."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw

from windlass.events.errors import NotFound
from windlass.store.base import MEDIA_TYPE, BlobInfo, blob_digest
from windlass.store.rules.blob_bytes import whole_blob
from windlass.store.rules.ids import check_digest, check_id
from windlass.store.rules.limits import check_blob

from .database import INLINE_BYTES, Database

PIECE_BYTES = 1024 * 1024


class SqliteBlobs:
    """The blobs of the store over one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, tenant: str, data: bytes, *, media_type: str = MEDIA_TYPE) -> str:
        check_id("tenant", tenant)
        large = len(data) > INLINE_BYTES
        digest = await asyncio.to_thread(blob_digest, data) if large else blob_digest(data)
        check_blob(digest, data)
        await self._database.write(lambda cursor: put(cursor, tenant, digest, data, media_type), heavy=large)
        return digest

    async def get(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        check_id("tenant", tenant)
        check_digest(digest)
        data = await self._database.read_long(lambda cursor: _get(cursor, tenant, digest, start, length))
        return await whole_blob(digest, data) if start == 0 and length is None else data

    async def info(self, tenant: str, digest: str) -> BlobInfo | None:
        check_id("tenant", tenant)
        check_digest(digest)
        return self._database.read(lambda cursor: _info(cursor, tenant, digest))

    async def erase(self, tenant: str, digest: str) -> bool:
        check_id("tenant", tenant)
        check_digest(digest)
        return await self._database.write_scrubbed(lambda cursor: _erase(cursor, tenant, digest))


def put(cursor: apsw.Cursor, tenant: str, digest: str, data: bytes, media_type: str) -> None:
    """Keeps a blob within a transaction, also that of an append. A large one is written piece by piece: SQLite would
    make a copy of all of it."""
    pieces = len(data) > PIECE_BYTES
    made: Any = cursor.execute(
        "INSERT INTO blobs(tenant, digest, media_type, size, data) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING "
        "RETURNING blob",
        (tenant, digest, media_type, len(data), apsw.zeroblob(len(data)) if pieces else data),
    ).fetchall()
    if not pieces or not made:
        return
    view = memoryview(data)
    with cursor.connection.blob_open("main", "blobs", "data", made[0][0], True) as blob:
        for start in range(0, len(view), PIECE_BYTES):
            blob.write(view[start : start + PIECE_BYTES])


def _get(cursor: apsw.Cursor, tenant: str, digest: str, start: int, length: int | None) -> bytes:
    row: Any = cursor.execute(
        "SELECT blob, size FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest)
    ).fetchone()
    if row is None:
        raise NotFound(f"tenant {tenant!r} has no blob {digest!r}")
    start = min(start, row[1])
    length = row[1] - start if length is None else min(length, row[1] - start)
    blob = cursor.connection.blob_open("main", "blobs", "data", row[0], False)
    try:
        blob.seek(start)
        return blob.read(length)
    finally:
        blob.close()


def _info(cursor: apsw.Cursor, tenant: str, digest: str) -> BlobInfo | None:
    row: Any = cursor.execute(
        "SELECT size, media_type FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest)
    ).fetchone()
    return BlobInfo(size=row[0], media_type=row[1]) if row else None


def _erase(cursor: apsw.Cursor, tenant: str, digest: str) -> bool:
    gone = cursor.execute("DELETE FROM blobs WHERE tenant = ? AND digest = ? RETURNING blob", (tenant, digest))
    return bool(gone.fetchall())
