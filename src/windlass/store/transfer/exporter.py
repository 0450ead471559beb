"""Exporting a session: its log byte for byte, the commands it has taken and those that wait, its index row and the
blobs that it names."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator

from windlass.events.errors import NotFound
from windlass.store.base import Key, Store
from windlass.store.chain import history

from .format import FORMAT, PART_BYTES, BlobHeader, End, Entry, Header, Waiting, encoded, row_fields

INBOX_PAGE = 10_000

_BLOB_NAME = re.compile(rb"sha256:[0-9a-f]{64}")


async def export_session(store: Store, key: Key, *, whole: bool = False) -> AsyncIterator[bytes]:
    """The session as lines. A fork's export names its origin and holds only its own records; with `whole` it holds all
    of its history and needs no origin. Equal sessions give equal bytes."""
    digest = hashlib.sha256()
    async for line in _lines(store, key, whole):
        digest.update(line)
        yield line
    head = await store.log.head(key)
    assert head is not None
    yield encoded(Entry(end=End(seq=head.seq, hash=head.hash, sha256=digest.hexdigest())))


async def _lines(store: Store, key: Key, whole: bool) -> AsyncIterator[bytes]:
    head = await store.log.head(key)
    if head is None:
        raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
    origin = None if whole else head.origin
    header = Header(windlass="session", format=FORMAT, tenant=key.tenant, session=key.session, origin=origin)
    yield encoded(Entry(header=header))
    takes = await _taken_by_seq(store, key)
    names: set[str] = set()
    source = history(store, key, until=head.seq) if whole else store.log.read(key, until=head.seq)
    async for sealed in source:
        if sealed.first_seq in takes:
            yield encoded(Entry(takes=tuple(takes[sealed.first_seq])))
        yield sealed.data + b"\n"
        names.update(name.decode() for name in _BLOB_NAME.findall(sealed.data))
    for command in await store.inbox.waiting(key, limit=INBOX_PAGE):
        waiting = Waiting(command_id=command.command_id, at_ms=command.at_ms, data=b64encode(command.data).decode())
        yield encoded(Entry(waiting=waiting))
    for name in sorted(names):
        async for line in _blob_lines(store, key.tenant, name):
            yield line
    row = await store.index.get(key)
    if row is not None:
        yield encoded(Entry(index=row_fields(row)))


async def _taken_by_seq(store: Store, key: Key) -> dict[int, list[str]]:
    takes: dict[int, list[str]] = {}
    after = ""
    while page := await store.inbox.taken(key, after=after):
        for take in page:
            takes.setdefault(take.seq, []).append(take.command_id)
        after = page[-1].command_id
    return takes


async def _blob_lines(store: Store, tenant: str, digest: str) -> AsyncIterator[bytes]:
    info = await store.blobs.info(tenant, digest)
    if info is None:
        return  # erased, or a text that only looks like a digest
    header = BlobHeader(digest=digest, size=info.size, media_type=info.media_type)
    yield encoded(Entry(blob=header))
    for start in range(0, info.size, PART_BYTES):
        part = await store.blobs.get(tenant, digest, start=start, length=PART_BYTES)
        yield encoded(Entry(part=b64encode(part).decode()))
