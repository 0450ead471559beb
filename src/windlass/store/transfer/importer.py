"""Importing a session from an export. The file is read and verified to its end before a store hears of it, and is then
there as a whole or not at all. Who may do what is never believed: see `windlass.runtime.operate.session_import`."""

from __future__ import annotations

import binascii
import hashlib
import re
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import IO

import msgspec

from windlass.events.errors import Damaged, UsageError
from windlass.events.stored import record
from windlass.events.stored.record import GENESIS, UNREADABLE, Sealed
from windlass.store.base import BLOB_BYTES_MAX, IndexRow, Key, Origin, Store, TakenCommand
from windlass.store.rules.session_ledger import exists

from .format import FORMAT, LINE_BYTES_MAX, BlobHeader, End, Header, decode_entry

TIME_MS_MAX = 253_402_300_800_000
"""The year 10000: no clock shows it, and no calendar of ours."""
EPOCH_MAX = 1 << 53
SPOOL_BYTES = 4 * 1024 * 1024
"""How much of its blobs an import holds in memory."""
BLOB_NAME = re.compile(rb"sha256:[0-9a-f]{64}")


class KeptBlob(msgspec.Struct, frozen=True, kw_only=True):
    """A blob of an export, and where it lies in the file that holds them."""

    digest: str
    media_type: str
    start: int
    size: int


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """An export that was read to its end: every line, every blob and the whole are what they say."""

    session: str
    origin: Origin | None
    lines: list[Sealed]
    takes: list[TakenCommand]
    blobs: list[KeptBlob]
    room: IO[bytes]

    @property
    def end(self) -> tuple[int, str]:
        """The seq and the hash with which its log ends."""
        if self.lines:
            return self.lines[-1].last_seq, self.lines[-1].hash
        return (self.origin.seq, self.origin.hash) if self.origin else (0, GENESIS)


def spool() -> tempfile.SpooledTemporaryFile[bytes]:
    """Where the blobs of an export lie until all of it was read."""
    return tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)


async def read_export(source: AsyncIterable[bytes], room: IO[bytes]) -> Exported:
    """Reads and verifies an export; its blobs are put into `room`. Raises `Damaged` for a stream that is not whole,
    `UsageError` for one of another version."""
    reader = _Reader(room)
    async for line in _split(source):
        reader.take(line)
    return reader.whole()


async def adopt_export(
    store: Store, exported: Exported, key: Key, *, behind: Sequence[Sealed] = (), index: IndexRow | None = None
) -> None:
    """Makes a session of an export, with more lines behind it. Raises `UsageError` if there is one of this name; if
    anything fails, nothing of it stays."""
    if await store.log.head(key) is not None:
        raise exists(key)
    new: list[str] = []
    try:
        for blob in exported.blobs:
            if await store.blobs.info(key.tenant, blob.digest) is None:
                new.append(blob.digest)
                exported.room.seek(blob.start)
                await store.blobs.put(key.tenant, exported.room.read(blob.size), media_type=blob.media_type)
        lines = [*exported.lines, *behind]
        await store.log.adopt(key, lines, origin=exported.origin, takes=exported.takes, index=index)
    except BaseException:
        for digest in new:
            await store.blobs.erase(key.tenant, digest)
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


class _Reader:
    """Takes the lines of an export in order."""

    def __init__(self, room: IO[bytes]) -> None:
        self._room = room
        self._header: Header | None = None
        self._chain = GENESIS
        self._seq = 0
        self._lines: list[Sealed] = []
        self._names: set[bytes] = set()
        self._next_takes: tuple[str, ...] = ()
        self._takes: list[TakenCommand] = []
        self._blobs: list[KeptBlob] = []
        self._blob: BlobHeader | None = None
        self._blob_start = 0
        self._blob_digest = hashlib.sha256()
        self._end: End | None = None
        self._digest = hashlib.sha256()

    def take(self, line: bytes) -> None:
        if self._end is not None:
            raise Damaged("the export has more lines behind its end")
        if line.startswith(b'{"seq":'):
            self._take_append(line)
        else:
            self._take_entry(line)
        self._digest.update(line + b"\n")

    def whole(self) -> Exported:
        """All of it, if the end was there."""
        if self._header is None or self._end is None or self._blob is not None:
            raise Damaged("the export is cut off")
        return Exported(
            session=self._header.session,
            origin=self._header.origin,
            lines=self._lines,
            takes=self._takes,
            blobs=self._blobs,
            room=self._room,
        )

    def _take_entry(self, line: bytes) -> None:
        try:
            entry = decode_entry(line)
        except UNREADABLE as error:
            raise Damaged(f"not a line of an export: {error}") from error
        record.refuse_doubled_keys(line)
        if entry.header is not None:
            self._begin(entry.header)
        elif self._header is None:
            raise Damaged("the export does not begin with its header")
        elif entry.takes:
            self._next_takes = entry.takes
        elif entry.blob is not None:
            self._begin_blob(entry.blob)
        elif entry.part is not None:
            self._take_part(entry.part)
        elif entry.end is not None:
            self._check_end(entry.end)
        # What waited in an inbox and what an index said are for whoever reads the file: nobody here believes them.

    def _begin(self, header: Header) -> None:
        if self._header is not None or header.windlass != "session":
            raise Damaged("not the export of one session")
        if header.format != FORMAT:
            older = header.format < FORMAT
            raise UsageError(
                f"the export has format {header.format}, this windlass reads {FORMAT}: "
                f"{'export it again' if older else 'upgrade windlass'}"
            )
        self._header = header
        if header.origin is not None:
            self._seq, self._chain = header.origin.seq, header.origin.hash

    def _take_append(self, line: bytes) -> None:
        if self._header is None:
            raise Damaged("the export does not begin with its header")
        sealed = record.resealed(line, prev_hash=self._chain)
        if sealed.first_seq != self._seq + 1:
            raise Damaged(f"the export has append {sealed.first_seq} behind {self._seq}", seq=sealed.first_seq)
        if not 0 <= sealed.at_ms < TIME_MS_MAX or not 0 <= sealed.epoch < EPOCH_MAX:
            raise Damaged(f"append {sealed.first_seq} is of a time or an epoch that cannot be", seq=sealed.first_seq)
        self._lines.append(sealed)
        self._takes.extend(TakenCommand(command_id, sealed.first_seq) for command_id in self._next_takes)
        self._next_takes = ()
        self._names.update(BLOB_NAME.findall(line))
        self._seq, self._chain = sealed.last_seq, sealed.hash

    def _begin_blob(self, blob: BlobHeader) -> None:
        if self._blob is not None:
            raise Damaged(f"blob {self._blob.digest!r} is cut off")
        if blob.digest.encode() not in self._names:
            raise Damaged(f"the log names no blob {blob.digest!r}")
        if not 0 <= blob.size <= BLOB_BYTES_MAX:
            raise Damaged(f"blob {blob.digest!r} has {blob.size} bytes, the most is {BLOB_BYTES_MAX}")
        self._blob, self._blob_start = blob, self._room.tell()
        self._blob_digest = hashlib.sha256()
        self._end_blob_if_whole()

    def _take_part(self, part: str) -> None:
        if self._blob is None:
            raise Damaged("a part of a blob without its header")
        try:
            data = b64decode(part, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Damaged(f"a part of blob {self._blob.digest!r} is no base64: {error}") from error
        self._room.write(data)
        self._blob_digest.update(data)
        self._end_blob_if_whole()

    def _end_blob_if_whole(self) -> None:
        blob = self._blob
        assert blob is not None
        size = self._room.tell() - self._blob_start
        if size > blob.size:
            raise Damaged(f"blob {blob.digest!r} is longer than it says")
        if size < blob.size:
            return
        if blob.digest != "sha256:" + self._blob_digest.hexdigest():
            raise Damaged(f"blob {blob.digest!r} has other bytes than its name says")
        kept = KeptBlob(digest=blob.digest, media_type=blob.media_type, start=self._blob_start, size=blob.size)
        self._blobs.append(kept)
        self._blob = None

    def _check_end(self, end: End) -> None:
        if end.sha256 != self._digest.hexdigest():
            raise Damaged("the export does not match its checksum")
        if (end.seq, end.hash) != (self._seq, self._chain):
            raise Damaged(f"the export ends at {self._seq}, its last line says {end.seq}", seq=self._seq)
        self._end = end
