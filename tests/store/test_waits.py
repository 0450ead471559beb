"""Nobody waits for a store without an end: what is waited for is named, and what is held is let go."""

from __future__ import annotations

import asyncio
import errno
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from windlass.events.errors import StoreError, WindlassError
from windlass.store import group_commit
from windlass.store.base import IndexRow, Key
from windlass.store.group_commit import GroupWriter, Job
from windlass.store.jsonl import store_lock
from windlass.store.jsonl.store import JsonlStore
from windlass.store.sqlite import committer, connections
from windlass.store.sqlite.store import SqliteStore

from .faults import FaultyDisk

HOLDER = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""
WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
KEY = Key("t", "s")


class Committed:
    """A target that has nothing to do but commit."""

    sync_apart: Callable[[], WindlassError | None] | None = None

    def commit(self, jobs: list[Job[None]], *, wait: bool) -> bool:
        return True

    def rest_is_due(self) -> bool:
        return False

    def rest(self) -> None: ...

    def end(self) -> None: ...


@contextmanager
def held_by_another(lock: pathlib.Path, holder: str = HOLDER) -> Iterator[int]:
    """Another process that has the lock and does nothing; its number."""
    command = [sys.executable, "-c", holder, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.kill()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lock, "LOCK_WAIT_S", 0.1)
    for module in (committer, connections):
        monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", 100)


async def test_a_lock_that_another_process_keeps_is_given_up_and_the_process_named(tmp_path: pathlib.Path):
    root = tmp_path / "work.jsonl.d"
    store = await JsonlStore.open(root)
    try:
        with held_by_another(root / "lock") as pid:
            with pytest.raises(StoreError, match=rf"process {pid} has had the lock of the store '.*' for 0 s"):
                await JsonlStore.open(root)
            with pytest.raises(StoreError, match=f"process {pid} has had the lock"):
                await store.log.create(KEY)
        assert await store.log.create(KEY), "and it goes on when the lock is free"
    finally:
        await store.close()


async def test_a_database_that_another_process_writes_to_for_ever_is_given_up_and_that_is_said(tmp_path: pathlib.Path):
    file = tmp_path / "work.db"
    store = await SqliteStore.open(file)
    try:
        with held_by_another(file, WRITER):
            with pytest.raises(StoreError, match="another process has been writing for"):
                await store.log.create(KEY)
            beside = await SqliteStore.open(file)
            assert await beside.log.head(KEY) is None, "it can be opened and read meanwhile"
            await beside.close()
        assert await store.log.create(KEY), "and it goes on when the other one has ended"
    finally:
        await store.close()


async def test_a_store_that_is_closed_on_a_full_disk_lets_its_lock_go(tmp_path: pathlib.Path):
    root, disk = tmp_path / "work.jsonl.d", FaultyDisk()
    store = await JsonlStore.open(root, disk=disk)
    await store.log.create(KEY)
    await store.index.put(IndexRow(session="s", tenant="t", title="before"))
    view = store.writer._directory.view(KEY)
    view._index_kept = False
    disk.write_errno = errno.ENOSPC
    await store.close()
    again = await JsonlStore.open(root)
    assert await again.log.create(Key("t", "other"))
    await again.close()


async def test_closing_a_store_whose_disk_does_not_answer_ends_and_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_commit, "CLOSE_WAIT_S", 0.1)
    answers = threading.Event()

    class Hanging(Committed):
        def commit(self, jobs: list[Job[None]], *, wait: bool) -> bool:
            answers.wait(10)
            return True

    writer: GroupWriter[None] = GroupWriter(Hanging(), inline=False)
    writer.submit(lambda target: None)
    with pytest.raises(StoreError, match="not closed within"):
        await writer.close()
    answers.set()
    await writer.close()


async def test_a_later_commit_never_overtakes_an_earlier_one():
    """However each is committed: on the loop at once, at the end of its pass, or in the writer's thread."""
    may_go_on, order = threading.Event(), list[int]()

    class Slow(Committed):
        def commit(self, jobs: list[Job[None]], *, wait: bool) -> bool:
            if wait:
                may_go_on.wait(10)
            for job in jobs:
                job.result = job.work(None, *job.args)
            return True

    def note(_: None, number: int) -> None:
        order.append(number)

    writer: GroupWriter[None] = GroupWriter(Slow(), inline=True)
    jobs = [writer.submit(note, 0), writer.submit(note, 1, heavy=True)]
    jobs += [writer.submit(note, number) for number in (2, 3)]
    await asyncio.sleep(0)
    jobs += [writer.submit(note, 4), writer.submit(note, 5, heavy=True), writer.submit(note, 6)]
    await asyncio.sleep(0.01)
    assert order == [], "all of them are behind the one that waits"
    may_go_on.set()
    await asyncio.gather(*jobs)
    assert order == [0, 1, 2, 3, 4, 5, 6]
    await writer.close()
