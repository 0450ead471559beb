"""Blobs in the directory: a file for each, named by its digest."""

from __future__ import annotations

import asyncio
import pathlib

from windlass.events.errors import NotFound
from windlass.store.base import MEDIA_TYPE, BlobInfo, blob_digest
from windlass.store.rules.blob_bytes import whole_blob
from windlass.store.rules.ids import check_digest, check_id
from windlass.store.rules.limits import check_blob

from .directory import Directory
from .plain_files import refuse_links
from .writer import DirectoryWriter


class JsonlBlobs:
    """The blobs of the store over a directory."""

    def __init__(self, writer: DirectoryWriter) -> None:
        self._writer = writer

    async def put(self, tenant: str, data: bytes, *, media_type: str = MEDIA_TYPE) -> str:
        check_id("tenant", tenant)
        digest = await asyncio.to_thread(blob_digest, data)
        check_blob(digest, data)
        await self._writer.do(put, tenant, digest, data, media_type, heavy=True)
        return digest

    async def get(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        path = self._writer.blob_path(check_id("tenant", tenant), digest)
        refuse_links(self._writer.root, path)
        try:
            data = await asyncio.to_thread(_slice, path, start, length)
            return await whole_blob(digest, data) if start == 0 and length is None else data
        except FileNotFoundError:
            raise NotFound(f"tenant {tenant!r} has no blob {digest!r}") from None

    async def info(self, tenant: str, digest: str) -> BlobInfo | None:
        path = self._writer.blob_path(check_id("tenant", tenant), digest)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return None
        kind = path.with_suffix(".type")
        return BlobInfo(size=size, media_type=kind.read_text() if kind.exists() else MEDIA_TYPE)

    async def erase(self, tenant: str, digest: str) -> bool:
        check_id("tenant", tenant)
        check_digest(digest)
        return await self._writer.do(_erase, tenant, digest, heavy=True)


def put(directory: Directory, tenant: str, digest: str, data: bytes, media_type: str) -> None:
    """Keeps a blob, also for the append that names it."""
    path = directory.blob_path(tenant, digest)
    refuse_links(directory.root, path)
    if path.exists():
        return
    directory.make_folder(path.parent)
    if media_type != MEDIA_TYPE:
        directory.disk.put(path.with_suffix(".type"), media_type.encode(), sync=True)
    directory.disk.put(path, data, sync=True)
    directory.files.unsynced_directories.add(path.parent)
    directory.files.wrote = True


def _erase(directory: Directory, tenant: str, digest: str) -> bool:
    path = directory.blob_path(tenant, digest)
    if not path.exists():
        return False
    directory.disk.remove(path)
    directory.disk.remove(path.with_suffix(".type"))
    directory.files.unsynced_directories.add(path.parent)
    directory.files.wrote = True
    return True


def _slice(path: pathlib.Path, start: int, length: int | None) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read() if length is None else file.read(length)
