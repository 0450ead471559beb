"""A log that was written anew verifies by itself; against what was noted elsewhere it does not."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import msgspec
import pytest

from windlass.cli.main import main
from windlass.events.errors import Damaged, UsageError
from windlass.events.stored import record
from windlass.runtime.operate.anchors import Anchor, anchor_of, judged, judged_by_hash, read_anchors, written
from windlass.runtime.operate.verification import verify_session
from windlass.store import MemoryStore, Store, open_store
from windlass.store.base import Key
from windlass.store.chain import verify_chain
from windlass.testing.store_kit import Writer

from .support import DONE, sessions

SECRET = b"sixteen bytes and more"


async def rewritten(store: Store, key: Key) -> Store:
    """The same session with one word changed and every hash made anew: its chain holds."""
    forged, chain, lines = MemoryStore(), record.GENESIS, []
    async for sealed in store.log.read(key):
        line = record.parse(sealed.data)
        entries = [
            (bytes(entry.skeleton), bytes(entry.body).replace(b"Pay it.", b"Pay 900"), entry.salt)
            for entry in line.events
        ]
        lines.append(record.seal(chain, line.seq, line.at, line.epoch, entries))
        chain = lines[-1].hash
    await forged.log.adopt(key, lines)
    await verify_chain(forged, key)
    return forged


async def test_a_log_that_was_written_anew_is_found_by_its_anchor():
    async with sessions() as store:
        anchor = await anchor_of(store, DONE, now_ms=1)
        assert await judged(store, [], [anchor]) == []
        forged = await rewritten(store, DONE)
        alone = await verify_session(forged, DONE)
        assert alone.sound, "the chain has no key"
        (verdict,) = await judged(forged, [alone], [anchor])
        assert not verdict.sound
        assert "the log is not the one that was noted: it was written anew" in verdict.problems[-1]
        assert not (await judged_by_hash(forged, "default", alone, anchor.hash)).sound
        assert (await judged_by_hash(store, "default", await verify_session(store, DONE), anchor.hash)).sound


async def test_a_log_that_went_on_still_holds_what_was_noted_and_one_that_was_cut_does_not():
    store = MemoryStore()
    writer = await Writer(store, DONE).claim()
    await writer.append(events=3)
    early = await anchor_of(store, DONE, now_ms=1)
    await writer.append(events=2)
    late = await anchor_of(store, DONE, now_ms=2)
    assert await judged(store, [], [early, late]) == []
    cut = MemoryStore()
    await cut.log.adopt(DONE, writer.lines[:1])
    (verdict,) = await judged(cut, [], [early, late])
    assert verdict.problems == ("anchor: the log ends at record 3, and had 5: it was cut off or written anew",)
    (gone,) = await judged(MemoryStore(), [], [late])
    assert gone.problems == ("anchor: the session is gone, and had 5 records",)


async def test_a_signed_anchor_cannot_be_changed_without_the_key():
    async with sessions() as store:
        signed = await anchor_of(store, DONE, now_ms=1, secret=SECRET)
    line = written(signed)
    assert read_anchors([line, b""], SECRET) == [signed]
    for changed in (
        msgspec.structs.replace(signed, hash="x" * 32),
        msgspec.structs.replace(signed, seq=1),
        msgspec.structs.replace(signed, session="another"),
        msgspec.structs.replace(signed, mac=""),
    ):
        with pytest.raises(UsageError, match="was not noted with this key, or is changed"):
            read_anchors([written(changed)], SECRET)
    with pytest.raises(UsageError, match="line 2 is no anchor"):
        read_anchors([line, b'{"seq":"x"}'], SECRET)
    assert read_anchors([line]) == [signed], "whoever has no key still reads what was noted"


async def test_a_damaged_log_is_not_noted(tmp_path):
    store = await open_store(tmp_path / "a.db")
    await (await Writer(store, DONE).claim()).append()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as database:
        database.execute("UPDATE appends SET data = CAST(replace(data, 'n', 'm') AS BLOB)")
    database.close()
    store = await open_store(tmp_path / "a.db")
    with pytest.raises(Damaged):
        await anchor_of(store, DONE, now_ms=1)
    await store.close()


def test_the_command_line_notes_and_verifies(tmp_path, capfdbinary, monkeypatch):
    async def grow(*, forged: bool) -> None:
        async with sessions() as source:
            kept = await rewritten(source, DONE) if forged else source
            store = await open_store(tmp_path / ("forged.db" if forged else "a.db"))
            await store.log.adopt(
                DONE, [line async for line in kept.log.read(DONE)], index=await source.index.get(DONE)
            )
            await store.close()

    asyncio.run(grow(forged=False))
    asyncio.run(grow(forged=True))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_bytes(SECRET)
    assert main(["anchor", "--store", "a.db", "--key", "key"]) == 0
    noted = capfdbinary.readouterr().out
    (tmp_path / "notes").write_bytes(noted)
    digest = msgspec.json.decode(noted, type=Anchor).hash
    for words, code in (
        (["--store", "a.db", "--anchor", "notes", "--key", "key"], 0),
        (["done", "--store", "a.db", "--anchor", digest], 0),
        (["--store", "forged.db"], 0),
        (["--store", "forged.db", "--anchor", "notes"], 1),
        (["done", "--store", "forged.db", "--anchor", digest], 1),
        (["--store", "a.db", "--anchor", digest], 2),
        (["--store", "a.db", "--anchor", "nowhere"], 2),
    ):
        assert main(["verify", *words]) == code, words
