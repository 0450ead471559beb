"""Which places open as which store, which are refused, and what a store keeps to itself."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import apsw
import pytest

from tests.store.stores import opener
from windlass.events.errors import Damaged, StorageFull, UsageError
from windlass.store import MemoryStore, open_store
from windlass.store.base import Key, Query, Store
from windlass.store.chain import verify_chain
from windlass.store.jsonl.store import JsonlStore
from windlass.store.rules.ids import file_name
from windlass.store.sqlite.schema import refuse_broken_sqlite
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_kit import Writer
from windlass.testing.store_kit.case import NOW_MS, lines_of, raises
from windlass.testing.store_kit.store_checks import HARD_IDS


async def test_a_place_says_which_store_it_is(tmp_path: pathlib.Path):
    (tmp_path / "folder").mkdir()
    for place, kind in (
        (":memory:", MemoryStore),
        (tmp_path / "a.db", SqliteStore),
        (str(tmp_path / "a.sqlite3"), SqliteStore),
        (f"sqlite:{tmp_path}/odd.name", SqliteStore),
        (tmp_path / "a.jsonl.d", JsonlStore),
        (tmp_path / "folder", JsonlStore),
        (f"jsonl:{tmp_path}/plain", JsonlStore),
        (tmp_path / "odd.name", SqliteStore),  # by now it is a file
    ):
        store = await open_store(place)
        assert type(store) is kind, place
        assert isinstance(store, Store)
        await store.close()
    await raises(UsageError, open_store(tmp_path / "what.txt"))
    await raises(UsageError, open_store(":memory:", durability="hopeful"))  # type: ignore[arg-type]


async def test_what_is_not_ours_is_left_alone(tmp_path: pathlib.Path):
    foreign = apsw.Connection(str(tmp_path / "foreign.db"))
    foreign.execute("CREATE TABLE theirs(x)")
    foreign.close()
    before = (tmp_path / "foreign.db").read_bytes()
    await raises(UsageError, open_store(tmp_path / "foreign.db"))
    (tmp_path / "text.db").write_text("not a database, but long enough to be read as the header of one: " * 20)
    said = str(await raises(Damaged, open_store(tmp_path / "text.db")))
    assert said.endswith("text.db' is damaged (file is not a database): put back a copy of it, or give another path")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("precious")
    await raises(UsageError, open_store(tmp_path / "folder"))
    assert (tmp_path / "folder" / "thesis.tex").read_text() == "precious"
    assert [child.name for child in (tmp_path / "folder").iterdir()] == ["thesis.tex"]
    await raises(UsageError, open_store(tmp_path / "missing" / "a.db"))
    assert before == (tmp_path / "foreign.db").read_bytes()


async def test_no_room_for_a_file_beside_the_database_is_said_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    await (await open_store(tmp_path / "a.db")).close()

    def no_room(connection: apsw.Connection, path: pathlib.Path) -> int:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr("windlass.store.sqlite.connections.check_identity", no_room)
    said = await raises(StorageFull, open_store(tmp_path / "a.db"))
    told = f"no room on the disk of {str(tmp_path / 'a.db')!r} (database or disk is full): make some, and try again"
    assert str(said) == told


async def test_a_newer_format_is_refused_with_the_way_out(tmp_path: pathlib.Path):
    await (await open_store(tmp_path / "a.db")).close()
    connection = apsw.Connection(str(tmp_path / "a.db"))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "upgrade" in str(await raises(UsageError, open_store(tmp_path / "a.db")))
    await (await open_store(tmp_path / "a.jsonl.d")).close()
    (tmp_path / "a.jsonl.d" / "windlass.json").write_text('{"windlass":"jsonl store","format":99}')
    assert "upgrade" in str(await raises(UsageError, open_store(tmp_path / "a.jsonl.d")))


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_an_sqlite_that_loses_data_is_refused(version: str):
    with pytest.raises(UsageError, match=r"3\.51\.3"):
        refuse_broken_sqlite(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0", "3.6.23"])
def test_other_versions_are_welcome(version: str):
    refuse_broken_sqlite(version)


@pytest.mark.parametrize("name", ["sqlite", "sqlite-normal", "jsonl", "jsonl-normal"])
async def test_a_closed_store_says_so(name: str, tmp_path: pathlib.Path):
    store = await opener(name)(tmp_path)
    writer = await Writer(store).claim()
    await store.close()
    for call in (
        store.log.append(writer.key, writer.seal()),
        store.log.head(writer.key),
        store.index.find(Query()),
        store.changed(),
    ):
        await raises(UsageError, call)


@pytest.mark.parametrize("name", ["sqlite", "sqlite-normal"])
async def test_erased_bytes_leave_the_sqlite_files(name: str, tmp_path: pathlib.Path):
    store = await opener(name)(tmp_path)
    writer = await Writer(store).claim()
    await writer.append(b'"topsecret-in-event"')
    await writer.append(b'"%s"' % (b"topsecret-large " * 2_000))
    blob = await store.blobs.put("default", b"topsecret-in-blob " * 3_000)
    other = await Writer(store, "other").claim()
    await other.append(b'"topsecret-in-deleted"')

    def found() -> list[str]:
        return [path.name for path in tmp_path.iterdir() if b"topsecret" in path.read_bytes()]

    assert found()
    await store.log.erase(writer.key, 1, by="ana", why="asked", at_ms=NOW_MS)
    await store.log.erase(writer.key, 2, by="ana", why="asked", at_ms=NOW_MS)
    await store.blobs.erase("default", blob)
    await store.log.delete(other.key)
    assert found() == []
    await verify_chain(store, writer.key)
    await store.close()


async def test_erased_bytes_leave_the_log_file(tmp_path: pathlib.Path):
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    writer = await Writer(store).claim()
    await writer.append(b'"topsecret"', takes=["c"])
    await store.log.erase(writer.key, 1, by="ana", why="asked", at_ms=NOW_MS)
    room = tmp_path / "s.jsonl.d" / "tenants" / "default" / "sessions" / "s1"
    assert b"topsecret" not in b"".join([path.read_bytes() for path in room.iterdir() if path.is_file()])
    assert [take.command_id for take in await store.inbox.taken(writer.key)] == ["c"]
    await store.close()


def test_file_names_are_distinct_where_case_does_not_count():
    names = [file_name(text) for text in {*HARD_IDS, "a=", "=61", "A", "a", "Ä", "ä"}]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert name.isascii()
        assert "/" not in name
        assert len(name) <= 120
        assert not name.startswith(".")


RIVAL = """
import asyncio, json, pathlib, sys
from tests.store.stores import opener
from windlass.events.errors import LeaseHeld, StaleEpoch, SeqConflict
from windlass.store.base import InboxCommand, Key
from windlass.testing.store_kit import Writer

async def main():
    store = await opener(sys.argv[1])(pathlib.Path(sys.argv[2]))
    me = sys.argv[3]
    new = kept = 0
    for i in range(40):
        new += (await store.inbox.send(Key("default", "s1"), InboxCommand(command_id=f"c{i}", at_ms=0, data=b"x"))).new
    clock = 0
    while kept < 25:
        clock += 1
        try:  # leases of no length: whoever comes last owns it
            writer = await Writer(store, runner=me).claim(now_ms=10**12, create=False)
            for _ in range(5):
                await writer.append(b'"%s"' % me.encode())
                kept += 1
            await store.leases.release(writer.key, runner=me, epoch=writer.epoch)
        except LeaseHeld:
            await asyncio.sleep(0.001)
        except (StaleEpoch, SeqConflict):
            pass
    print(json.dumps({"new": new, "kept": kept}))
    await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["sqlite", "jsonl"])
async def test_processes_share_a_store(name: str, tmp_path: pathlib.Path):
    """Three processes send the same commands and take turns at one log: each command once, each append kept."""
    store = await opener(name)(tmp_path)
    await store.log.create(Key("default", "s1"))
    rivals = [
        subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", RIVAL, name, str(tmp_path), f"r{i}"],
            env={"PYTHONPATH": ":".join(sys.path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for i in range(3)
    ]  # fmt: skip
    stories = []
    for rival in rivals:
        out, error = rival.communicate(timeout=300)
        assert rival.returncode == 0, error
        stories.append(json.loads(out))
    assert sum(story["new"] for story in stories) == 40
    assert len(await store.inbox.waiting(Key("default", "s1"))) == 40
    lines = await lines_of(store, Key("default", "s1"))
    assert len(lines) == sum(story["kept"] for story in stories)
    assert [line.first_seq for line in lines] == list(range(1, len(lines) + 1))
    await verify_chain(store, Key("default", "s1"))
    await store.close()
