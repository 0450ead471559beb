"""Several that open one SQLite file at once, and paths at which there can be no store."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import apsw
import pytest

from windlass.events.errors import Damaged, UsageError
from windlass.events.stored.record import Sealed
from windlass.store import open_store
from windlass.store.base import InboxCommand, Key, Origin, Query
from windlass.store.chain import verify_chain
from windlass.store.sqlite.connections import open_for_writing
from windlass.testing.store_kit import Writer
from windlass.testing.store_kit.case import lines_of, raises

OPENERS = 8
FRESH_FILES = 15
NOBODY = 65534

OPENER = """
import asyncio, sys
from windlass.store import open_store

async def main():
    await (await open_store(sys.argv[1])).close()
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            await (await open_store(line.strip())).close()
            print("opened", flush=True)
        except Exception as error:
            print(repr(error), flush=True)

asyncio.run(main())
"""


def test_processes_that_open_a_fresh_file_at_once_all_get_it(tmp_path: pathlib.Path):
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(tmp_path / f"own{number}.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for number in range(OPENERS)
    ]
    said = set()
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for number in range(FRESH_FILES):
        for opener in openers:
            assert opener.stdin is not None
            opener.stdin.write(f"{tmp_path}/fresh{number}.db\n")
        said |= {opener.stdout.readline() for opener in openers if opener.stdout is not None}
    for opener in openers:
        opener.communicate()
    assert said == {"opened\n"}


def test_threads_that_open_a_fresh_file_at_once_all_get_it(tmp_path: pathlib.Path):
    together = threading.Barrier(OPENERS)
    failed: list[BaseException] = []

    async def use(number: int) -> None:
        store = await open_store(tmp_path / "fresh.db")
        await store.log.create(Key("default", f"s{number}"))
        await store.close()

    def run(number: int) -> None:
        together.wait()
        try:
            asyncio.run(use(number))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(OPENERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


async def test_a_new_file_appears_whole_and_for_its_owner_alone(tmp_path: pathlib.Path):
    store = await open_store(tmp_path / "fresh.db")
    await store.log.create(Key("default", "s1"))
    assert _modes_in(tmp_path) == dict.fromkeys(("fresh.db", "fresh.db-shm", "fresh.db-wal"), 0o600)
    await store.close()


def _modes_in(folder: pathlib.Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


def test_a_file_whose_making_was_cut_off_is_not_there(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr("windlass.store.sqlite.new_file._name", _die)
        with pytest.raises(SystemExit):
            open_for_writing(tmp_path / "fresh.db", None)
    assert not (tmp_path / "fresh.db").exists()
    open_for_writing(tmp_path / "fresh.db", None).close()


def _die(*_: object) -> None:
    raise SystemExit


async def test_a_store_that_is_there_is_opened_without_a_write_and_while_another_writes(tmp_path: pathlib.Path):
    path = tmp_path / "a.db"
    keeper = await open_store(path)
    await keeper.log.create(Key("default", "s1"))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    before = _bytes_in(tmp_path)
    store = await open_store(path)  # would wait for the other's end, were there anything to write
    assert await store.index.find(Query()) == []
    assert _bytes_in(tmp_path) == before
    other.execute("ROLLBACK")
    other.close()
    await store.close()
    await keeper.close()


def _bytes_in(folder: pathlib.Path) -> dict[str, bytes]:
    """The files but for the one that readers of SQLite share."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


async def _as_version_one(path: pathlib.Path, change: str = "") -> list[Sealed]:
    """A file as the first version wrote it: no row had a checksum."""
    store = await open_store(path)
    writer = await Writer(store, "s1").claim()
    await writer.append(events=2)
    await writer.append()
    fork = Writer(store, "s2")
    await store.log.create(fork.key, origin=Origin(session="s1", seq=2, hash=writer.lines[0].hash))
    await (await fork.claim(create=False)).append()
    await store.inbox.send(writer.key, InboxCommand(command_id="c", at_ms=3, data=b"{}"))
    await store.close()
    old = apsw.Connection(str(path))
    old.execute("ALTER TABLE appends DROP COLUMN crc; ALTER TABLE commands DROP COLUMN crc; PRAGMA user_version = 1")
    old.execute(change)
    old.close()
    return [*writer.lines, *fork.lines]


async def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path: pathlib.Path):
    lines = await _as_version_one(tmp_path / "a.db")
    store = await open_store(tmp_path / "a.db")
    for name in ("s1", "s2"):
        await verify_chain(store, Key("default", name))
    assert [*await lines_of(store, Key("default", "s1")), *await lines_of(store, Key("default", "s2"))] == lines
    assert [command.command_id for command in await store.inbox.waiting(Key("default", "s1"))] == ["c"]
    await store.close()


async def test_damage_in_a_file_of_the_first_version_is_not_made_to_look_whole(tmp_path: pathlib.Path):
    change = "UPDATE appends SET data = CAST(replace(data, 'n', 'm') AS BLOB) WHERE place >> 36 = 2"
    lines = await _as_version_one(tmp_path / "a.db", change)
    store = await open_store(tmp_path / "a.db")
    assert await lines_of(store, Key("default", "s1")) == lines[:2]
    await raises(Damaged, anext(store.log.read(Key("default", "s2"))))
    await store.close()


# --- where no store can be


async def test_a_path_without_its_folder_or_of_a_folder_is_refused_with_the_way_out(tmp_path: pathlib.Path):
    missing = str(await raises(UsageError, open_store(tmp_path / "missing" / "a.db")))
    assert (
        missing
        == f"there is no folder {str(tmp_path / 'missing')!r} for the store 'a.db': make it, or give another path"
    )
    (tmp_path / "file").write_text("x")
    behind = str(await raises(UsageError, open_store(tmp_path / "file" / "a.db")))
    assert behind == f"{str(tmp_path / 'file')!r} is no folder, so the store 'a.db' cannot be in it: give another path"
    (tmp_path / "folder.db").mkdir()
    folder = str(await raises(UsageError, open_store(f"sqlite:{tmp_path / 'folder.db'}")))
    assert f"{str(tmp_path / 'folder.db')!r} is a folder" in folder
    assert list((tmp_path / "folder.db").iterdir()) == []


@pytest.fixture
def shared() -> Iterator[pathlib.Path]:
    """A folder that an ordinary user reaches, and the rights of one while the test runs."""
    with tempfile.TemporaryDirectory(dir=_open_to_all()) as name:
        os.chmod(name, 0o755)
        asyncio.run(_make(pathlib.Path(name) / "a.db"))
        os.chmod(pathlib.Path(name) / "a.db", 0o444)
        os.chmod(name, 0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield pathlib.Path(name)
        finally:
            if root:
                os.seteuid(0)
            os.chmod(name, 0o755)


def _open_to_all() -> str:
    """A folder for temporary files that every user reaches; the usual one may lie beneath a private one."""
    for place in (tempfile.gettempdir(), "/dev/shm", "/var/tmp"):
        folder = pathlib.Path(place).resolve()
        if folder.is_dir() and all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents)):
            return str(folder)
    raise AssertionError("there is no folder for temporary files that every user reaches")


async def _make(path: pathlib.Path) -> None:
    await (await open_store(path)).close()


def test_a_file_or_folder_without_the_right_to_write_is_refused_by_name(shared: pathlib.Path):
    file = str(asyncio.run(raises(UsageError, open_store(shared / "a.db"))))
    assert file.startswith(f"this user may not read and write {str(shared / 'a.db')!r}: change its permissions")
    folder = str(asyncio.run(raises(UsageError, open_store(shared / "new.db"))))
    assert folder.startswith(f"this user may not make files in {str(shared)!r}: change its permissions")


def test_a_file_system_that_can_only_be_read_is_named(shared: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    real = os.statvfs(shared)
    read_only = os.statvfs_result((*real[:8], real.f_flag | os.ST_RDONLY, real.f_namemax))
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    for name in ("a.db", "new.db"):
        said = str(asyncio.run(raises(UsageError, open_store(shared / name))))
        assert said.startswith(f"{str(shared / name)!r} is on a file system that can only be read")
