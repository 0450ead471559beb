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

from windlass.events.errors import UsageError
from windlass.store import open_store
from windlass.store.base import Key, Query
from windlass.store.sqlite_opening import _looked_at, open_for_writing
from windlass.testing.store_kit.case import raises

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
        await store.create(Key("default", f"s{number}"))
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


def test_a_file_that_becomes_a_store_while_it_is_looked_at_is_not_taken_for_anothers(tmp_path: pathlib.Path):
    path = tmp_path / "fresh.db"
    slow = apsw.Connection(str(path))
    slow.pragma("journal_mode", "WAL")
    made: list[apsw.Connection] = []

    def make(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if "sqlite_schema" in sql and not made:
            made.append(open_for_writing(path, None))
        return True

    slow.exec_trace = make
    assert _looked_at(slow, path)  # one moment: before it was made
    assert made
    assert not _looked_at(slow, path)
    made[0].close()
    slow.close()


async def test_whoever_comes_while_another_begins_the_file_waits_for_it(tmp_path: pathlib.Path):
    path = tmp_path / "fresh.db"
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")  # SQLite does not wait for this one to switch to WAL
    opening = asyncio.create_task(open_store(path))
    await asyncio.sleep(0.05)
    assert not opening.done()
    other.execute("ROLLBACK")
    other.close()
    await (await opening).close()


async def test_a_store_that_is_there_is_opened_without_a_write_and_while_another_writes(tmp_path: pathlib.Path):
    path = tmp_path / "a.db"
    keeper = await open_store(path)
    await keeper.create(Key("default", "s1"))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    before = _bytes_in(tmp_path)
    store = await open_store(path)  # would wait for the other's end, were there anything to write
    assert await store.find(Query()) == []
    assert _bytes_in(tmp_path) == before
    other.execute("ROLLBACK")
    other.close()
    await store.close()
    await keeper.close()


def _bytes_in(folder: pathlib.Path) -> dict[str, bytes]:
    """The files but for the one that readers of SQLite share."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


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
