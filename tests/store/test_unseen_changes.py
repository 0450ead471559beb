"""What was changed, lost or torn behind a store's back is named, and the rest goes on: nobody reads on as if nothing
were missing."""

from __future__ import annotations

import pathlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.store.faults import harm_at_random
from tests.store.stores import JSONL_NAME, SQLITE_NAME, opener
from windlass.events.errors import Damaged, WindlassError
from windlass.events.stored.record import Sealed
from windlass.runtime.operate.verification import verify_store
from windlass.store.base import Key, Query, Snapshot, Store
from windlass.testing.store_kit import Writer
from windlass.testing.store_kit.case import lines_of, raises

SESSIONS = 5
APPENDS = 12


async def grown(place: pathlib.Path, name: str) -> dict[str, list[Sealed]]:
    """A store with a few sessions, closed; what each of them holds."""
    store = await opener(name)(place)
    writers = [await Writer(store, f"s{number}").claim() for number in range(SESSIONS)]
    for number in range(APPENDS):
        for writer in writers:
            await writer.append(b'{"price":100,"to":"%s"}' % writer.key.session.encode(), index=writer.row())
            if number == APPENDS // 2:
                made = Snapshot(seq=writer.seq, hash=writer.hash, state_version=1, data=b"state" * 20)
                await store.log.put_snapshot(writer.key, made)
    await store.close()
    return {writer.key.session: writer.lines for writer in writers}


def key(number: int) -> Key:
    return Key("default", f"s{number}")


async def damage_of(store: Store, session: Key) -> Damaged:
    async def read() -> None:
        await lines_of(store, session)

    return await raises(Damaged, read())


# --- SQLite: rows that were changed


async def test_a_changed_byte_in_the_file_is_found_when_it_is_read(tmp_path: pathlib.Path):
    lines = await grown(tmp_path, "sqlite")
    file = tmp_path / SQLITE_NAME
    data = bytearray(file.read_bytes())
    at = data.index(lines["s2"][5].data) + lines["s2"][5].data.index(b'"price":100') + 8
    data[at : at + 3] = b"900"
    file.write_bytes(data)
    store = await opener("sqlite")(tmp_path)
    reading = store.log.read(key(2))
    assert [await anext(reading) for _ in range(5)] == lines["s2"][:5], "what is whole before it can still be read"
    assert (await raises(Damaged, anext(reading))).seq == lines["s2"][5].first_seq
    for other in (0, 1, 3, 4):
        assert await lines_of(store, key(other)) == lines[f"s{other}"]
    await store.close()


ROWS = "(SELECT place FROM appends WHERE place >> 36 = (SELECT sid FROM sessions WHERE session = 's2'))"
NTH = f"(SELECT place FROM appends WHERE place IN {ROWS} ORDER BY place LIMIT 1 OFFSET 6)"
LAST = f"(SELECT max(place) FROM appends WHERE place IN {ROWS})"


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE appends SET data = CAST(replace(data, '100', '900') AS BLOB) WHERE place = {NTH}",
        f"UPDATE appends SET hash = replace(hash, substr(hash, 1, 1), '_') WHERE place = {NTH}",
        f"UPDATE appends SET last_seq = last_seq + 1 WHERE place = {NTH}",
        f"UPDATE appends SET epoch = 7 WHERE place = {NTH}",
        f"UPDATE appends SET at_ms = at_ms + 1 WHERE place = {NTH}",
        f"DELETE FROM appends WHERE place = {NTH}",
        f"DELETE FROM appends WHERE place = {LAST}",
        f"DELETE FROM appends WHERE place IN {ROWS}",
        "UPDATE sessions SET hash = substr(hash, 2) || '_' WHERE session = 's2'",
        "UPDATE sessions SET seq = seq + 3 WHERE session = 's2'",
    ],
)
async def test_a_row_that_is_not_what_was_written_is_refused(change: str, tmp_path: pathlib.Path):
    lines = await grown(tmp_path, "sqlite")
    with closing(sqlite3.connect(tmp_path / SQLITE_NAME, isolation_level=None)) as database:
        database.execute(change)
    database.close()
    store = await opener("sqlite")(tmp_path)
    await damage_of(store, key(2))
    assert await lines_of(store, key(1)) == lines["s1"]
    verdicts = {verdict.session: verdict.sound async for verdict in verify_store(store, "default")}
    assert not verdicts["s2"]
    await store.close()


async def test_a_part_of_a_log_is_checked_as_the_whole_is(tmp_path: pathlib.Path):
    lines = await grown(tmp_path, "sqlite")
    with closing(sqlite3.connect(tmp_path / SQLITE_NAME, isolation_level=None)) as database:
        database.execute(f"UPDATE appends SET data = CAST(replace(data, '100', '900') AS BLOB) WHERE place = {NTH}")
    database.close()
    store = await opener("sqlite")(tmp_path)
    before = lines["s2"][5].last_seq
    assert [line async for line in store.log.read(key(2), until=before)] == lines["s2"][:6]
    assert [line async for line in store.log.read(key(2), after=before + 1)] == lines["s2"][7:]
    await raises(Damaged, anext(store.log.read(key(2), after=before)))
    await store.close()


# --- both: what is missing


def cut_log(place: pathlib.Path) -> None:
    log = place / JSONL_NAME / "tenants/default/sessions/s2/log.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-3]))


def empty_log(place: pathlib.Path) -> None:
    (place / JSONL_NAME / "tenants/default/sessions/s2/log.jsonl").write_bytes(b"")


def remove(name: str) -> Callable[[pathlib.Path], None]:
    return lambda place: (place / JSONL_NAME / "tenants/default/sessions/s2" / name).unlink()


def scramble(name: str) -> Callable[[pathlib.Path], None]:
    def write(place: pathlib.Path) -> None:
        (place / JSONL_NAME / "tenants/default/sessions/s2" / name).write_bytes(b"\xff\x00{" * 30)

    return write


@pytest.mark.parametrize(
    "harm",
    [cut_log, empty_log, remove("log.jsonl"), remove("session.json"), remove("inbox.jsonl"), scramble("session.json")],
    ids=["cut", "emptied", "no log", "no description", "no inbox", "scrambled description"],
)
async def test_a_log_that_is_shorter_than_it_was_is_named_and_the_others_go_on(
    harm: Callable[[pathlib.Path], None], tmp_path: pathlib.Path
):
    lines = await grown(tmp_path, "jsonl")
    harm(tmp_path)
    store = await opener("jsonl")(tmp_path)
    rows = {row.session: row for row in await store.index.find(Query())}
    assert rows.keys() == set(lines)
    await raises(Damaged, store.leases.claim(key(2), runner="r", ttl_ms=0, now_ms=10**15))
    await damage_of(store, key(2))
    await (await Writer(store, "s1", runner="next").claim(now_ms=10**15)).append()
    verdicts = {verdict.session: verdict.sound async for verdict in verify_store(store, "default")}
    assert [name for name, sound in verdicts.items() if not sound] == ["s2"]
    await store.close()


async def test_an_empty_file_is_no_new_store(tmp_path: pathlib.Path):
    (tmp_path / SQLITE_NAME).touch()
    said = str(await raises(Damaged, opener("sqlite")(tmp_path)))
    assert "is empty, which no store is: put back a copy of it, or remove it to begin a new one" in said


async def test_a_store_whose_log_file_was_removed_is_not_opened_as_if_nothing_were_missing(tmp_path: pathlib.Path):
    await grown(tmp_path, "sqlite")
    store = await opener("sqlite")(tmp_path)
    await (await Writer(store, "s1", runner="next").claim(now_ms=10**15)).append()
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in (SQLITE_NAME, f"{SQLITE_NAME}-shm"):  # what is left of a process that died, but for the log file
        shutil.copy(tmp_path / name, killed / name)
    await store.close()
    said = str(await raises(Damaged, opener("sqlite")(killed)))
    assert "store.db-wal' is missing, and with it the newest records of this store" in said
    (killed / f"{SQLITE_NAME}-shm").unlink()
    await (await opener("sqlite")(killed)).close()


async def test_a_damaged_page_of_the_table_of_sessions_hides_no_other_session(tmp_path: pathlib.Path):
    store = await opener("sqlite")(tmp_path)
    names = [f"session-{number:03d}" for number in range(60)]
    for name in names:
        writer = await Writer(store, name).claim()
        await writer.append(index=writer.row(title="x" * 400))
    await store.close()
    file = tmp_path / SQLITE_NAME
    data = bytearray(file.read_bytes())
    page = data.index(b'"session":"session-030"') // 4096 * 4096
    data[page : page + 8] = b"\xff" * 8
    file.write_bytes(data)
    store = await opener("sqlite")(tmp_path)
    verdicts = {verdict.session: verdict.sound async for verdict in verify_store(store, "default")}
    sound = [name for name in names if verdicts.get(name)]
    damaged = [name for name, whole in verdicts.items() if not whole]
    assert len(sound) > len(names) / 2
    assert len(sound) + len(damaged) == len(names), "each session is told of, by its name or by its number"
    await store.close()


# --- anything


async def judged(store: Store, session: Key, written: list[Sealed]) -> str:
    """What became of a session: it is whole and works, was repaired and says so, or is refused."""
    try:
        claim = await store.leases.claim(session, runner="next", ttl_ms=0, now_ms=10**15)
        read = await lines_of(store, session)
        writer = Writer(store, session, runner="next")
        writer.seq, writer.hash, writer.epoch = claim.head.seq, claim.head.hash, claim.epoch
        await writer.append()
    except WindlassError:
        return "refused"
    assert read == written[: len(read)], "what is read is not what was written"
    if len(read) == len(written):
        return "whole"
    assert claim.recovered, f"{len(written) - len(read)} appends are gone, and nobody says so"
    return "repaired"


async def damaged_at_random(name: str, place: pathlib.Path, seeds: range) -> dict[str, int]:
    seen = {"whole": 0, "repaired": 0, "refused": 0, "store refused": 0}
    (place / "model").mkdir()
    lines = await grown(place / "model", name)
    for seed in seeds:
        copy = place / str(seed)
        shutil.copytree(place / "model", copy)
        harm_at_random(copy, random.Random(seed))
        try:
            store = await opener(name)(copy)
        except WindlassError:
            seen["store refused"] += 1
            continue
        try:
            found = [await judged(store, Key("default", session), written) for session, written in lines.items()]
            if name == "jsonl":
                assert sum(each != "whole" for each in found) <= 1, "one damaged file reaches one session"
            for each in found:
                seen[each] += 1
            try:
                assert len([verdict async for verdict in verify_store(store, "default")]) <= SESSIONS
            except WindlassError:
                assert name == "sqlite", "a listing of plain files survives any bytes"
        finally:
            await store.close()
        shutil.rmtree(copy)
    return seen


@pytest.mark.parametrize(("name", "seeds"), [("sqlite", range(60)), ("jsonl", range(60))])
async def test_random_damage_is_refused_or_repaired_and_said(name: str, seeds: range, memory_path: pathlib.Path):
    seen = await damaged_at_random(name, memory_path, seeds)
    assert seen["whole"] > SESSIONS
    assert seen["refused"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["sqlite", "jsonl"])
async def test_much_random_damage_is_refused_or_repaired_and_said(name: str, memory_path: pathlib.Path):
    await damaged_at_random(name, memory_path, range(1_000, 3_000))
