"""A full disk pauses a store and a failed sync ends it; neither loses or doubles anything."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable

import apsw
import pytest

from tests.store.faults import NO_ROOM, FailingHooks, FaultyDisk, Hooks, hooked
from windlass.events.errors import StorageFull, StorePoisoned
from windlass.store.base import InboxCommand, Store, store_stats
from windlass.store.chain import verify_chain
from windlass.store.jsonl.store import JsonlStore
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_kit import Writer
from windlass.testing.store_kit.case import lines_of, raises


async def refuses_and_goes_on(store: Store, fill: object, free: object) -> None:
    """The same story for each store: `fill` takes the room away, `free` gives it back."""
    assert callable(fill)
    assert callable(free)
    writers = [await Writer(store, f"s{i}").claim() for i in range(3)]
    for writer in writers:
        await writer.append(takes=["before"])
    fill()
    for _ in range(2):
        results = await asyncio.gather(
            *(store.log.append(w.key, w.seal(), takes=["later"]) for w in writers), return_exceptions=True
        )
        assert [type(result) for result in results] == [StorageFull] * 3
        await raises(StorageFull, store.inbox.send(writers[0].key, InboxCommand(command_id="c", at_ms=0, data=b"x")))
    for writer in writers:
        assert await lines_of(store, writer.key) == writer.lines
    free()
    for writer in writers:
        await writer.append(takes=["later"])
        assert await lines_of(store, writer.key) == writer.lines
        await verify_chain(store, writer.key)
    assert await store.inbox.waiting(writers[0].key) == []


@pytest.mark.parametrize("code", NO_ROOM)
async def test_jsonl_pauses_on_a_full_disk(tmp_path: pathlib.Path, code: int):
    disk = FaultyDisk()
    store = await JsonlStore.open(tmp_path / "s.jsonl.d", disk=disk)
    await refuses_and_goes_on(
        store, lambda: setattr(disk, "write_errno", code), lambda: setattr(disk, "write_errno", 0)
    )
    await store.close()


async def test_sqlite_pauses_on_a_full_disk(tmp_path: pathlib.Path):
    hooks = FailingHooks()
    with hooked(hooks) as vfs:
        store = await SqliteStore.open(tmp_path / "s.db", vfs=vfs)
        await refuses_and_goes_on(store, lambda: setattr(hooks, "full", True), lambda: setattr(hooks, "full", False))
        await store.close()


async def test_one_append_that_does_not_fit_fails_alone(tmp_path: pathlib.Path):
    hooks = FailingHooks()

    def only_small(file: object, data: bytes, offset: int) -> None:
        if b"x" * 1_000 in data:
            hooks.full = True
        if hooks.full:
            hooks.full = False
            raise apsw.FullError("no room for that")

    with hooked(hooks) as vfs:
        store = await SqliteStore.open(tmp_path / "s.db", vfs=vfs)
        writers = [await Writer(store, f"s{i}").claim() for i in range(10)]
        hooks.before_write = only_small  # type: ignore[method-assign]
        seals = [w.seal(b'"%s"' % (b"x" * 20_000)) if i == 4 else w.seal() for i, w in enumerate(writers)]
        results = await asyncio.gather(
            *(store.log.append(w.key, sealed) for w, sealed in zip(writers, seals, strict=True)), return_exceptions=True
        )
        assert [type(r) for r in results] == [type(None)] * 4 + [StorageFull] + [type(None)] * 5
        del hooks.before_write
        await store.close()


async def is_poisoned(store: Store, heal: object) -> None:
    """After one failed sync nothing is acknowledged any more, also when the disk seems well again."""
    assert callable(heal)
    writer = Writer(store)
    writer.epoch, writer.seq, writer.hash = 1, *await _end(store)
    await raises(StorePoisoned, store.log.append(writer.key, writer.seal()))
    heal()
    await raises(StorePoisoned, store.log.append(writer.key, writer.seal()))
    await raises(StorePoisoned, store.inbox.send(writer.key, InboxCommand(command_id="c", at_ms=0, data=b"x")))
    await raises(StorePoisoned, store.leases.claim(writer.key, runner="r", ttl_ms=1, now_ms=10**15))
    await store.close()


async def _end(store: Store) -> tuple[int, str]:
    head = await store.log.head(Writer(store).key)
    assert head is not None
    return head.seq, head.hash


async def test_sqlite_never_writes_again_after_a_failed_sync(tmp_path: pathlib.Path):
    hooks = FailingHooks()
    with hooked(hooks) as vfs:
        store = await SqliteStore.open(tmp_path / "s.db", vfs=vfs)
        writer = await Writer(store).claim()
        await writer.append()
        hooks.sync_fails = True
        await is_poisoned(store, lambda: setattr(hooks, "sync_fails", False))
    store = await SqliteStore.open(tmp_path / "s.db")
    assert (await lines_of(store, writer.key))[:1] == writer.lines
    await verify_chain(store, writer.key)
    await store.close()


@pytest.mark.parametrize("fault", ["sync_errno", "write_errno"])
async def test_jsonl_never_writes_again_after_an_error_of_the_disk(tmp_path: pathlib.Path, fault: str):
    disk = FaultyDisk()
    store = await JsonlStore.open(tmp_path / "s.jsonl.d", disk=disk)
    writer = await Writer(store).claim()
    await writer.append()
    setattr(disk, fault, errno.EIO)
    await is_poisoned(store, lambda: setattr(disk, fault, 0))
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    assert (await lines_of(store, writer.key))[:1] == writer.lines
    await verify_chain(store, writer.key)
    await store.close()


async def test_jsonl_stops_when_a_half_written_line_cannot_be_cut(tmp_path: pathlib.Path):
    disk = FaultyDisk()
    store = await JsonlStore.open(tmp_path / "s.jsonl.d", disk=disk)
    writer = await Writer(store).claim()
    await writer.append()
    disk.write_errno, disk.truncate_errno = errno.ENOSPC, errno.EIO
    await raises(StorePoisoned, store.log.append(writer.key, writer.seal()))
    await store.close()
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    again = await Writer(store).claim()
    assert again.seq == writer.seq
    await again.append()
    assert await lines_of(store, writer.key) == writer.lines + again.lines
    await store.close()


async def test_jsonl_finishes_short_writes(tmp_path: pathlib.Path):
    disk = FaultyDisk()
    disk.short = True
    store = await JsonlStore.open(tmp_path / "s.jsonl.d", disk=disk)
    writer = await Writer(store).claim()
    for _ in range(5):
        await writer.append()
    assert await lines_of(store, writer.key) == writer.lines
    await store.close()


LIMITED = """
import asyncio, json, pathlib, resource, sys
from tests.store.stores import opener
from windlass.events.errors import StorageFull
from windlass.testing.store_kit import Writer

async def main():
    store = await opener(sys.argv[1])(pathlib.Path(sys.argv[2]))
    writer = await Writer(store).claim()
    await writer.append()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    kept = 1
    try:
        while kept < 2_000:
            await writer.append(b'"%s"' % (b"y" * 5_000))
            kept += 1
    except StorageFull:
        full = True
    for _ in range(3):
        try:
            await store.log.append(writer.key, writer.seal(b'"%s"' % (b"z" * 200_000)))
        except StorageFull:
            full = True
    read = len([1 async for _ in store.log.read(writer.key)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await writer.append(b'"%s"' % (b"z" * 200_000))
    print(json.dumps({"full": full, "kept": kept, "read": read, "after": len([1 async for _ in store.log.read(writer.key)])}))
    await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("store", ["sqlite", "sqlite-normal", "jsonl", "jsonl-normal"])
def test_a_file_size_limit_pauses_and_lifting_it_goes_on(store: str, tmp_path: pathlib.Path):
    """A real limit of the kernel, in a process of its own, without being root."""
    path = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, store, str(tmp_path)],
        capture_output=True, text=True, env={"PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert story["full"] is True
    assert story["read"] == story["kept"]
    assert story["after"] == story["kept"] + 1


async def test_the_counted_syncs_are_those_of_the_disk(tmp_path: pathlib.Path):
    hooks = Hooks()
    with hooked(hooks) as vfs:
        store = await SqliteStore.open(tmp_path / "s.db", vfs=vfs)
        writer = await Writer(store).claim()
        before, counted = hooks.syncs, store_stats(store)["syncs"]
        for _ in range(50):
            await writer.append()
        assert hooks.syncs - before == store_stats(store)["syncs"] - counted == 50
        await store.close()


async def test_normal_syncs_only_at_barriers(tmp_path: pathlib.Path):
    hooks = Hooks()
    with hooked(hooks) as vfs:
        store = await SqliteStore.open(tmp_path / "s.db", durability="normal", vfs=vfs)
        writer = await Writer(store).claim()
        before = hooks.syncs
        for _ in range(20):
            await writer.append()
        assert hooks.syncs == before
        await writer.append(barrier=True)
        assert hooks.syncs > before
        before = hooks.syncs
        await store.inbox.send(writer.key, InboxCommand(command_id="c", at_ms=0, data=b"x"))
        assert hooks.syncs > before
        await store.close()


async def test_others_do_not_wait_while_a_barrier_is_synced(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    entered, let, synced = threading.Event(), threading.Event(), os.fdatasync

    def slow(handle: int) -> None:
        entered.set()
        assert let.wait(20)
        synced(handle)

    store = await SqliteStore.open(tmp_path / "s.db", durability="normal")
    first, second = await Writer(store, "a").claim(), await Writer(store, "b").claim()
    monkeypatch.setattr(os, "fdatasync", slow)
    barrier = asyncio.ensure_future(first.append(barrier=True))
    await asyncio.to_thread(entered.wait, 20)
    for _ in range(3):
        await second.append()
    counted = store_stats(store)["syncs"]
    sent = asyncio.ensure_future(store.inbox.send(second.key, InboxCommand(command_id="c", at_ms=0, data=b"x")))
    await second.append()
    assert not barrier.done()
    assert not sent.done()
    let.set()
    await asyncio.gather(barrier, sent)
    assert store_stats(store)["syncs"] > counted
    await store.close()


async def test_what_is_synced_apart_is_the_log_file_and_at_first_its_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    found: list[str] = []

    def noting(sync: Callable[[int], None]) -> Callable[[int], None]:
        def noted(handle: int) -> None:
            found.append(os.readlink(f"/proc/self/fd/{handle}"))
            sync(handle)

        return noted

    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, noting(getattr(os, name)))
    store = await SqliteStore.open(tmp_path / "s.db", durability="normal")
    writer = await Writer(store).claim()
    found.clear()
    await writer.append()
    assert found == []
    await writer.append(barrier=True)
    await writer.append(barrier=True)
    assert found == [str(tmp_path), str(tmp_path / "s.db-wal"), str(tmp_path / "s.db-wal")]
    await store.close()


async def test_sync_apart_that_fails_poisons_the_store(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    def broken(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = await SqliteStore.open(tmp_path / "s.db", durability="normal")
    writer = await Writer(store).claim()
    await writer.append(barrier=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(StorePoisoned, match="a sync to disk failed"):
            await writer.append(barrier=True)
    with pytest.raises(StorePoisoned):  # never again, also where the disk would answer now
        await writer.append()
    await store.close()


async def test_jsonl_normal_syncs_only_at_barriers(tmp_path: pathlib.Path):
    store = await JsonlStore.open(tmp_path / "s.jsonl.d", durability="normal")
    writer = await Writer(store).claim()
    before = store_stats(store)["syncs"]
    for _ in range(20):
        await writer.append()
    assert store_stats(store)["syncs"] == before
    await writer.append(barrier=True)
    assert store_stats(store)["syncs"] > before
    await store.close()


async def test_each_counted_sync_of_jsonl_is_asked_of_the_system(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    real = os.fdatasync
    asked: list[int] = []

    def sync(handle: int) -> None:
        asked.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fdatasync", sync)
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    writer = await Writer(store).claim()
    before, counted = len(asked), store_stats(store)["syncs"]
    for _ in range(5):
        await writer.append()
    assert len(asked) - before == store_stats(store)["syncs"] - counted >= 5
    await store.close()
