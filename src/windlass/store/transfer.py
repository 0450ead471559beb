"""Moving a session between stores: its log byte for byte, the commands it has taken and those that wait, its index row
and the blobs that it names, as one stream of JSON lines that ends in its own checksum."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import msgspec

from windlass.events.errors import Damaged, NotFound, UsageError
from windlass.events.record import GENESIS, Sealed, resealed

from .base import BLOB_BYTES_MAX, InboxCommand, IndexRow, Key, Origin, Store, TakenCommand
from .chain import history

FORMAT = 1
PART_BYTES = 384 * 1024
"""How much of a blob one line of an export holds."""
BATCH_LINES = 200
BATCH_BYTES = 4 * 1024 * 1024
LINE_BYTES_MAX = 16 * 1024 * 1024
INBOX_PAGE = 10_000
RUNNER = "import"

_BLOB_NAME = re.compile(rb"sha256:[0-9a-f]{64}")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    windlass: str
    format: int
    tenant: str
    session: str
    origin: Origin | None = None


class BlobHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A blob that follows in parts."""

    digest: str
    size: int
    media_type: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A command that no append has taken."""

    command_id: str
    at_ms: int
    data: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line: an export without it is cut off."""

    seq: int
    hash: str
    sha256: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Any other line that is not an append: exactly one field is there."""

    header: Header | None = None
    takes: tuple[str, ...] = ()
    waiting: Waiting | None = None
    index: dict[str, Any] | None = None
    blob: BlobHeader | None = None
    part: str | None = None
    end: End | None = None


_entries = msgspec.json.Decoder(Entry)
_encode = msgspec.json.Encoder().encode


async def export_session(store: Store, key: Key, *, whole: bool = False) -> AsyncIterator[bytes]:
    """The session as lines. A fork's export names its origin and holds only its own records; with `whole` it holds all
    of its history and needs no origin. Equal sessions give equal bytes."""
    digest = hashlib.sha256()
    async for line in _lines(store, key, whole):
        digest.update(line)
        yield line
    head = await store.head(key)
    assert head is not None
    yield _encode(Entry(end=End(seq=head.seq, hash=head.hash, sha256=digest.hexdigest()))) + b"\n"


async def _lines(store: Store, key: Key, whole: bool) -> AsyncIterator[bytes]:
    head = await store.head(key)
    if head is None:
        raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
    origin = None if whole else head.origin
    header = Header(windlass="session", format=FORMAT, tenant=key.tenant, session=key.session, origin=origin)
    yield _encode(Entry(header=header)) + b"\n"
    takes = await _taken_by_seq(store, key)
    names: set[str] = set()
    source = history(store, key, until=head.seq) if whole else store.read(key, until=head.seq)
    async for sealed in source:
        if sealed.first_seq in takes:
            yield _encode(Entry(takes=tuple(takes[sealed.first_seq]))) + b"\n"
        yield sealed.data + b"\n"
        names.update(name.decode() for name in _BLOB_NAME.findall(sealed.data))
    for command in await store.inbox(key, limit=INBOX_PAGE):
        waiting = Waiting(command_id=command.command_id, at_ms=command.at_ms, data=b64encode(command.data).decode())
        yield _encode(Entry(waiting=waiting)) + b"\n"
    for name in sorted(names):
        async for line in _blob_lines(store, key.tenant, name):
            yield line
    row = await store.get_index(key)
    if row is not None:
        yield _encode(Entry(index=_set_fields(row))) + b"\n"


async def _taken_by_seq(store: Store, key: Key) -> dict[int, list[str]]:
    takes: dict[int, list[str]] = {}
    after = ""
    while page := await store.taken(key, after=after):
        for take in page:
            takes.setdefault(take.seq, []).append(take.command_id)
        after = page[-1].command_id
    return takes


async def _blob_lines(store: Store, tenant: str, digest: str) -> AsyncIterator[bytes]:
    info = await store.blob_info(tenant, digest)
    if info is None:
        return  # erased, or a text that only looks like a digest
    header = BlobHeader(digest=digest, size=info.size, media_type=info.media_type)
    yield _encode(Entry(blob=header)) + b"\n"
    for start in range(0, info.size, PART_BYTES):
        part = await store.get_blob(tenant, digest, start=start, length=PART_BYTES)
        yield _encode(Entry(part=b64encode(part).decode())) + b"\n"


async def import_session(store: Store, source: AsyncIterable[bytes], *, key: Key | None = None) -> Key:
    """Writes an exported session into a store, under its own key or another, and returns that key. Every line is
    verified. An import that was cut off by a crash may be done again: what is there already is compared and kept. One
    that fails removes what it made. Raises `Damaged` for a stream that is not whole, `UsageError` where the session
    exists with other contents."""
    importer = _Importer(store, key)
    try:
        async for line in _split(source):
            await importer.take(line)
        return await importer.finish()
    except Exception:
        await importer.undo()
        raise


async def _split(source: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Lines out of chunks of any size."""
    rest: list[bytes] = []
    size = 0
    async for chunk in source:
        *lines, tail = chunk.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line])
            rest, size = [], 0
        rest.append(tail)
        size += len(tail)
        if size > LINE_BYTES_MAX:
            raise Damaged(f"a line of the export is longer than {LINE_BYTES_MAX} bytes")
    if size:
        raise Damaged("the export ends in the middle of a line")


class _Importer:
    """Takes the lines of an export in order."""

    def __init__(self, store: Store, key: Key | None) -> None:
        self.store = store
        self.wanted = key
        self.key: Key | None = None
        self.made = False
        self.there = 0
        self.there_hash = GENESIS
        self.epoch = 0
        self.chain = GENESIS
        self.seq = 0
        self.takes: tuple[str, ...] = ()
        self.batch: list[Sealed] = []
        self.batch_takes: list[TakenCommand] = []
        self.batch_bytes = 0
        self.blob: BlobHeader | None = None
        self.parts: list[bytes] = []
        self.row: IndexRow | None = None
        self.end: End | None = None
        self.digest = hashlib.sha256()

    async def take(self, line: bytes) -> None:
        if self.end is not None:
            raise Damaged("the export goes on behind its end")
        if line.startswith(b'{"seq":'):
            await self._take_append(line)
        else:
            await self._take_entry(line)
        self.digest.update(line + b"\n")

    async def _take_entry(self, line: bytes) -> None:
        try:
            entry = _entries.decode(line)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise Damaged(f"not a line of an export: {error}") from error
        if entry.header is not None:
            await self._begin(entry.header)
            return
        if entry.takes:
            self.takes = entry.takes
            return
        await self._flush()
        if entry.waiting is not None:
            await self._take_waiting(entry.waiting)
        elif entry.blob is not None:
            self.blob, self.parts = entry.blob, []
            await self._blob_if_whole()
        elif entry.part is not None:
            self.parts.append(b64decode(entry.part))
            await self._blob_if_whole()
        elif entry.index is not None:
            self.row = _decoded_row(entry.index)
        elif entry.end is not None:
            self._check_end(entry.end)

    async def _begin(self, header: Header) -> None:
        if self.key is not None or header.windlass != "session":
            raise Damaged("not the export of one session")
        if header.format > FORMAT:
            raise UsageError(f"the export has format {header.format}, this windlass knows {FORMAT}: upgrade windlass")
        key = self.wanted or Key(header.tenant, header.session)
        self.made = await self.store.create(key, origin=header.origin)
        self.key = key
        claim = await self.store.claim(key, runner=RUNNER, ttl_ms=0, now_ms=0)
        self.epoch = claim.epoch
        self.there, self.there_hash = claim.head.seq, claim.head.hash
        if header.origin is not None:
            self.seq, self.chain = header.origin.seq, header.origin.hash

    async def _take_append(self, line: bytes) -> None:
        sealed = resealed(line, prev_hash=self.chain)
        if sealed.first_seq != self.seq + 1:
            raise Damaged(f"the export has append {sealed.first_seq} behind {self.seq}", seq=sealed.first_seq)
        takes, self.takes = self.takes, ()
        self.seq, self.chain = sealed.last_seq, sealed.hash
        if sealed.last_seq <= self.there:
            if sealed.last_seq == self.there and sealed.hash != self.there_hash:
                raise UsageError(
                    f"session {self._key().session!r} exists with another history: import it under another id"
                )
            return
        self.batch.append(sealed)
        self.batch_takes.extend(TakenCommand(command_id, sealed.first_seq) for command_id in takes)
        self.batch_bytes += len(line)
        if len(self.batch) >= BATCH_LINES or self.batch_bytes >= BATCH_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        if self.batch:
            await self.store.adopt(self._key(), self.batch, epoch=self.epoch, takes=self.batch_takes)
            self.epoch = max(self.epoch, max(sealed.epoch for sealed in self.batch))
        self.batch, self.batch_takes, self.batch_bytes = [], [], 0

    async def _take_waiting(self, waiting: Waiting) -> None:
        data = b64decode(waiting.data)
        command = InboxCommand(command_id=waiting.command_id, at_ms=waiting.at_ms, data=data)
        await self.store.send(self._key(), command)

    async def _blob_if_whole(self) -> None:
        if self.blob is None:
            raise Damaged("a part of a blob without its header")
        size = sum(map(len, self.parts))
        if size > min(self.blob.size, BLOB_BYTES_MAX):
            raise Damaged(f"blob {self.blob.digest!r} is longer than it says")
        if size < self.blob.size:
            return
        digest = await self.store.put_blob(self._key().tenant, b"".join(self.parts), media_type=self.blob.media_type)
        if digest != self.blob.digest:
            raise Damaged(f"blob {self.blob.digest!r} has other bytes than its name says")
        self.blob = None

    def _check_end(self, end: End) -> None:
        if end.sha256 != self.digest.hexdigest():
            raise Damaged("the export does not match its checksum")
        if (end.seq, end.hash) != (self.seq, self.chain):
            raise Damaged(f"the export ends at {self.seq}, its last line says {end.seq}", seq=self.seq)
        self.end = end

    async def finish(self) -> Key:
        if self.end is None or self.blob is not None:
            raise Damaged("the export is cut off")
        key = self._key()
        if self.there > self.seq:
            raise UsageError(f"session {key.session!r} exists and is longer: import it under another id")
        if self.row is not None:
            await self.store.put_index(_renamed(self.row, key))
        await self.store.release(key, runner=RUNNER, epoch=self.epoch)
        return key

    async def undo(self) -> None:
        if self.made and self.key is not None:
            await self.store.delete(self.key)

    def _key(self) -> Key:
        if self.key is None:
            raise Damaged("the export does not begin with its header")
        return self.key


def _set_fields(row: IndexRow) -> dict[str, Any]:
    """The fields that differ from their defaults, by value: `omit_defaults` goes by identity where a default is text,
    so that equal rows could give different bytes."""
    defaults = IndexRow(session="")
    fields = msgspec.structs.asdict(row)
    return {name: value for name, value in fields.items() if value != getattr(defaults, name)}


def _decoded_row(fields: dict[str, Any]) -> IndexRow:
    try:
        return msgspec.convert(fields, IndexRow)
    except msgspec.ValidationError as error:
        raise Damaged(f"the index row of the export is none: {error}") from error


def _renamed(row: IndexRow, key: Key) -> IndexRow:
    root = key.session if row.root == row.session else row.root
    return msgspec.structs.replace(row, tenant=key.tenant, session=key.session, root=root)
