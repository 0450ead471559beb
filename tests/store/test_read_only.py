"""Stores that cannot be written: looked at as they are, and nothing is made where there is none."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.store.test_openers import NOBODY, _open_to_all
from windlass.events.errors import UsageError, WindlassError
from windlass.store import open_store
from windlass.store.base import InboxCommand, Key, Query, Store
from windlass.store.sqlite.database import Database
from windlass.store.sqlite.log import SqliteLog
from windlass.testing.store_kit import Writer
from windlass.testing.store_kit.case import lines_of

KEY = Key("default", "s1")


@pytest.fixture
def media() -> Iterator[pathlib.Path]:
    """A folder with one store of each kind that this user may read and not write, as on read-only media."""
    with tempfile.TemporaryDirectory(dir=_open_to_all()) as name:
        room = pathlib.Path(name)
        room.chmod(0o755)
        for place in ("a.db", "b.jsonl.d"):
            asyncio.run(_filled(room / place))
        paths = [room, *room.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield room
        finally:
            if root:
                os.seteuid(0)
            for path in paths:
                path.chmod(0o755)


async def _filled(place: pathlib.Path) -> None:
    store = await open_store(place)
    writer = await Writer(store, KEY).claim()
    await writer.append(events=3)
    await writer.append(index=writer.row(title="kept"))
    await store.close()


def tree(folder: pathlib.Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


async def looked_at(store: Store) -> None:
    assert [line.last_seq for line in await lines_of(store, KEY)] == [3, 4]
    (row,) = await store.index.find(Query())
    assert row.title == "kept"
    assert await store.inbox.waiting(KEY) == []
    assert await store.leases.holder(KEY, now_ms=10**15) is None
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: store.log.create(Key("default", "new")),
        lambda: store.leases.claim(KEY, runner="r", ttl_ms=0, now_ms=10**15),
        lambda: store.inbox.send(KEY, InboxCommand(command_id="c", at_ms=0, data=b"")),
    ]
    for write in writes:
        with pytest.raises(UsageError, match="can only be read: copy it to where it can be written"):
            await write()


@pytest.mark.parametrize("name", ["a.db", "b.jsonl.d"])
def test_a_store_on_read_only_media_can_be_looked_at(name: str, media: pathlib.Path):
    async def look() -> None:
        store = await open_store(media / name, look=True)
        try:
            await looked_at(store)
        finally:
            await store.close()

    before = tree(media)
    asyncio.run(look())
    assert tree(media) == before, "looking leaves nothing behind"
    with pytest.raises(WindlassError, match=r"may not|Permission denied"):
        asyncio.run(open_store(media / name))


def test_what_a_killed_process_left_on_read_only_media_is_all_there(tmp_path: pathlib.Path):
    killed = tmp_path / "killed"
    killed.mkdir()
    asyncio.run(_killed(tmp_path / "a.db", killed))

    async def look() -> None:
        database = Database(killed / "a.db", "full", None, look=True)
        log = SqliteLog(database)
        assert [line.last_seq async for line in log.read(KEY)] == [3, 4, 5]
        await database.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("windlass.store.sqlite.database.is_writable", lambda path: False)
        asyncio.run(look())
    assert {path.name for path in killed.iterdir()} == {"a.db", "a.db-wal"}


async def _killed(place: pathlib.Path, killed: pathlib.Path) -> None:
    await _filled(place)
    store = await open_store(place)
    await (await Writer(store, KEY, runner="next").claim(now_ms=10**15)).append()
    for name in ("a.db", "a.db-wal"):
        await asyncio.to_thread(shutil.copy, place.with_name(name), killed / name)
    await store.close()


@pytest.mark.parametrize("name", ["new.db", "new.jsonl.d", "jsonl:plain", "sqlite:plain.file", "empty"])
async def test_looking_makes_no_store(name: str, tmp_path: pathlib.Path):
    await asyncio.to_thread((tmp_path / "empty").mkdir)
    scheme, _, rest = name.rpartition(":")
    place = f"{scheme}:{tmp_path / rest}" if scheme else str(tmp_path / rest)
    with pytest.raises(UsageError, match="there is no store at"):
        await open_store(place, look=True)
    assert await asyncio.to_thread(tree, tmp_path) == {str(tmp_path / "empty")}
