"""Logs, forks and snapshots in the directory. An append is one line with all that belongs to it: the commands it takes,
the index row; its blobs are files that were synced before."""

from __future__ import annotations

import asyncio
import pathlib
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence

from windlass.events.errors import UsageError
from windlass.events.stored import record
from windlass.events.stored.record import Sealed
from windlass.store.base import MEDIA_TYPE, Head, IndexRow, Key, Message, Origin, Snapshot, TakenCommand
from windlass.store.rules.ids import check_key, check_origin, file_name, other_origin
from windlass.store.rules.limits import check_blob, check_messages, check_sealed
from windlass.store.rules.session_ledger import exists, judge_adopted

from .blobs import put as put_blob
from .directory import Directory
from .forks import detach, epoch_at, forks
from .line_format import frame_append
from .small_files import About
from .snapshots import drop_snapshots, get_snapshot, put_snapshot
from .writer import DirectoryWriter


class JsonlLog:
    """The logs of the store over a directory."""

    def __init__(self, writer: DirectoryWriter) -> None:
        self._writer = writer

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        check_key(key)
        if origin is not None:
            check_origin(key, origin)
        return await self._writer.do(_create, key, origin)

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
        sends: Sequence[Message] = (),
    ) -> None:
        check_key(key)
        check_sealed(key, sealed, index)
        check_messages(key, sends)
        for digest, data in (blobs or {}).items():
            await asyncio.to_thread(check_blob, digest, data)
        work = (key, sealed, takes, index, blobs or {}, sends)
        await self._writer.do(_append, *work, barrier=barrier, heavy=bool(blobs))
        self._writer.stats["appends"] += 1

    async def adopt(
        self,
        key: Key,
        lines: Sequence[Sealed],
        *,
        origin: Origin | None = None,
        takes: Sequence[TakenCommand] = (),
        index: IndexRow | None = None,
    ) -> None:
        check_key(key)
        if origin is not None:
            check_origin(key, origin)
        await self._writer.do(_adopt, key, lines, origin, takes, index, heavy=True)

    async def head(self, key: Key) -> Head | None:
        check_key(key)
        return await self._writer.do(_head, key)

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        check_key(key)
        more = True
        while more:
            page, more = await self._writer.do(_page, key, after, until)
            for sealed in page:
                yield sealed
            after = page[-1].last_seq if page else after

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        check_key(key)
        await self._writer.do(_erase, key, seq, by, why, at_ms, heavy=True)

    async def forks(self, key: Key) -> list[str]:
        check_key(key)
        return await self._writer.do(forks, key)

    async def detach(self, key: Key) -> None:
        check_key(key)
        await self._writer.do(detach, key, heavy=True)

    async def delete(self, key: Key) -> None:
        check_key(key)
        await self._writer.do(_delete, key, heavy=True)

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        check_key(key)
        await self._writer.do(
            lambda directory: put_snapshot(directory.disk, directory.view(key).path, snapshot), heavy=True
        )

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        check_key(key)
        return await self._writer.do(lambda directory: get_snapshot(directory.view(key).path, at_most))

    async def drop_snapshots(self, key: Key) -> int:
        check_key(key)
        return await self._writer.do(lambda directory: drop_snapshots(directory.disk, directory.view(key).path))


def _head(directory: Directory, key: Key) -> Head | None:
    view = directory.lookup(key)
    return view.head() if view else None


def _page(directory: Directory, key: Key, after: int, until: int | None) -> tuple[list[Sealed], bool]:
    return directory.view(key).log.page(after, until)


def _create(directory: Directory, key: Key, origin: Origin | None) -> bool:
    view = directory.lookup(key)
    if view is not None:
        if view.ledger.origin != origin:
            raise other_origin(key, view.ledger.origin)
        return False
    _put_session(directory, directory.session_path(key), key, origin, b"")
    return True


def _put_session(directory: Directory, path: pathlib.Path, key: Key, origin: Origin | None, log: bytes) -> None:
    """Writes the files of a new session into a folder, and the mark of it into its origin's."""
    epoch = 0
    if origin is not None:
        epoch = epoch_at(directory, key.tenant, origin)
        marks = directory.session_path(Key(key.tenant, origin.session)) / "forks"
        directory.make_folder(marks)
        directory.disk.put(marks / file_name(key.session), key.session.encode(), sync=True)
    directory.put_session(path, About(key.tenant, key.session, origin, epoch), log)


def _append(
    directory: Directory,
    key: Key,
    sealed: Sealed,
    takes: Sequence[str],
    index: IndexRow | None,
    blobs: Mapping[str, bytes],
    sends: Sequence[Message],
) -> None:
    view = directory.view(key)
    view.writable()
    view.ledger.judge(sealed, takes)
    for digest, data in blobs.items():
        put_blob(directory, key.tenant, digest, data, MEDIA_TYPE)
    view.append(sealed, takes, index, sends)
    if sends:
        directory.deliver(key, view)


def _adopt(
    directory: Directory,
    key: Key,
    lines: Sequence[Sealed],
    origin: Origin | None,
    takes: Sequence[TakenCommand],
    index: IndexRow | None,
) -> None:
    if directory.lookup(key) is not None:
        raise exists(key)
    judge_adopted(key, lines, takes, origin)
    by_seq: dict[int, list[str]] = {}
    for take in takes:
        by_seq.setdefault(take.seq, []).append(take.command_id)
    last = lines[-1] if lines else None
    frames = [
        frame_append(sealed, by_seq.get(sealed.first_seq, []), index if sealed is last else None) for sealed in lines
    ]
    path = directory.session_path(key)
    # A name that begins with a dot is no session's: it is there, and whole, with the rename.
    draft = path.with_name(f".new-{path.name}")
    shutil.rmtree(draft, ignore_errors=True)
    _put_session(directory, draft, key, origin, b"".join(frames))
    shutil.rmtree(path, ignore_errors=True)  # of a session whose making was cut off
    directory.disk.replace(draft, path)


def _erase(directory: Directory, key: Key, seq: int, by: str, why: str, at_ms: int) -> None:
    view = directory.view(key)
    line = view.log.line_with(seq)
    view.rewrite([], {line.first_seq: record.erase(line.data, seq, by=by, why=why, at_ms=at_ms)})
    directory.forget(key)
    _drop_snapshots_of_tree(directory, key)


def _drop_snapshots_of_tree(directory: Directory, key: Key) -> None:
    drop_snapshots(directory.disk, directory.view(key).path)
    for fork in forks(directory, key):
        _drop_snapshots_of_tree(directory, Key(key.tenant, fork))


def _delete(directory: Directory, key: Key) -> None:
    path = directory.view(key).path
    if names := forks(directory, key):
        raise UsageError(f"session {key.session!r} has forks {names!r}: delete or detach them first")
    directory.forget(key)
    # A name that begins with a dot is no session's: after the rename it is gone, whatever happens to the files.
    gone = path.with_name(f".gone-{path.name}")
    shutil.rmtree(gone, ignore_errors=True)
    directory.disk.replace(path, gone)
    directory.disk.sync_directory(path.parent)
    shutil.rmtree(gone)
    directory.files.wrote = True
