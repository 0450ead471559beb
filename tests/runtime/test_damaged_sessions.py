"""A session whose log was changed, cut or written by others: what the runtime makes of it."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import msgspec
import pytest

import windlass
from windlass.events.errors import Damaged
from windlass.events.sessions import SessionResumed
from windlass.events.stored import record
from windlass.kernel import log
from windlass.kernel.state import STATE_VERSION, State
from windlass.runtime.operate.verification import verify_session
from windlass.runtime.streams.log_reader import LogReader
from windlass.store import open_store
from windlass.store.base import Key, Snapshot
from windlass.store.memory import MemoryStore

from .support import agent_of, events_of

KEY = Key("default", "march")


async def talked(place: pathlib.Path, *, snapshot_every: int = 1_000) -> None:
    agent = agent_of("it costs 100", "fine", "good")
    async with windlass.open(place, agents=[agent], snapshot_every=snapshot_every) as runtime:
        for name in ("march", "april"):
            session = await runtime.session(agent, name)
            await session.result(await session.prompt(f"what is the price of {name}?"))


@pytest.mark.parametrize("snapshot_every", [1_000, 1])
async def test_what_was_changed_in_the_file_is_never_shown_to_a_model(snapshot_every: int, tmp_path: pathlib.Path):
    place = tmp_path / "work.db"
    await talked(place, snapshot_every=snapshot_every)
    with closing(sqlite3.connect(place, isolation_level=None)) as database:
        changed = database.execute(
            "UPDATE appends SET data = CAST(replace(data, 'price of march', 'price of  900 ') AS BLOB)"
        )
    assert changed.rowcount
    database.close()
    agent = agent_of("to april")
    async with windlass.open(place, agents=[agent]) as runtime:
        session = await runtime.session(agent, "march")
        with pytest.raises(Damaged, match="'march' may only be read up to event"):
            await session.result(await session.prompt("and now?"))
        other = await runtime.session(agent, "april")
        said = await other.result(await other.prompt("and now?"))
        assert said.text == "to april", "the first thing that this model says is to the other session"


async def test_a_torn_end_is_told_in_the_log(tmp_path: pathlib.Path):
    place = tmp_path / "work.jsonl.d"
    await talked(place)
    file = place / "tenants/default/sessions/march/log.jsonl"
    with file.open("ab") as torn:
        torn.write(b'{"seq":17,"at":')
    agent = agent_of("fine")
    async with windlass.open(place, agents=[agent]) as runtime:
        session = await runtime.session(agent, "march")
        await session.result(await session.prompt("go on"))
        said = [event.recovered for event in await events_of(session) if isinstance(event, SessionResumed)]
    assert len(said) == 1
    assert said[0] is not None
    assert said[0].startswith("15 bytes behind event ")
    assert str(place / "tenants/default/sessions/march/torn") in said[0]


# --- snapshots


async def folded_with(snapshot: Snapshot) -> int:
    """From which seq on a log is folded that has this snapshot."""
    agent = agent_of("one")
    store = MemoryStore()
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "march")
        await session.result(await session.prompt("go"))
        reader = LogReader(store)
        whole = await reader.fold(KEY)
        middle = [sealed async for sealed in reader.appends(KEY)][1]
        state = await reader.state_at(KEY, middle.last_seq)
        made = Snapshot(seq=middle.last_seq, hash=middle.hash, state_version=STATE_VERSION, data=log.dump(state))
        fields = {name: value for name, value in msgspec.structs.asdict(snapshot).items() if value}
        await store.log.put_snapshot(KEY, msgspec.structs.replace(made, **fields))
        again = await reader.fold(KEY)
        assert log.state_hash(again.state) == log.state_hash(whole.state), "a snapshot never changes what is folded"
        return again.snapshot_seq


USABLE = Snapshot(seq=0, hash="", state_version=0, data=b"")


async def test_a_snapshot_shortens_the_fold():
    assert await folded_with(USABLE) > 0


async def test_a_snapshot_of_another_version_is_passed_over():
    for version in (STATE_VERSION - 1, STATE_VERSION + 1):
        assert await folded_with(msgspec.structs.replace(USABLE, state_version=version)) == 0


async def test_a_snapshot_of_another_history_is_passed_over():
    assert await folded_with(msgspec.structs.replace(USABLE, hash="another")) == 0


async def test_a_snapshot_with_a_changed_byte_is_passed_over():
    data = bytearray(log.dump(State()))
    data[-1] ^= 1
    assert await folded_with(msgspec.structs.replace(USABLE, data=bytes(data))) == 0


# --- newer versions


@pytest.mark.parametrize(
    ("skeleton", "said"),
    [
        (b'{"type":"session.teleported"}', "'session.teleported' is not known to this version"),
        (b'{"type":"session.shut_down","kind":"graceful"}', "Invalid enum value 'graceful'"),
    ],
)
async def test_the_log_of_a_newer_version_is_not_called_damaged(skeleton: bytes, said: str, tmp_path: pathlib.Path):
    place = tmp_path / "work.db"
    await talked(place)
    store = await open_store(place)
    claim = await store.leases.claim(KEY, runner="newer", ttl_ms=0, now_ms=10**15)
    newer = record.seal(claim.head.hash, claim.head.seq + 1, 10**15, claim.epoch, [(skeleton, b"", "")])
    await store.log.append(KEY, newer)
    verdict = await verify_session(store, KEY)
    assert (verdict.sound, verdict.newer) == (True, True)
    assert f"record {newer.first_seq}: written by a newer version of windlass" in verdict.problems[0]
    assert said in verdict.problems[0]
    assert (await verify_session(store, Key("default", "april"))).problems == ()
    await store.close()
