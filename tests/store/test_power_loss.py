"""Power loss: in every legal state of the disk, `full` has lost nothing that was acknowledged, and `normal` has a prefix
of each log, with all that was asked to be synced. No broken log is ever taken for a whole one."""

from __future__ import annotations

import asyncio
import os
import pathlib
import random
import shutil
from collections.abc import Awaitable, Callable

import pytest

from tests.store.power_loss import Crash, Recording, RecordingDisk, RecordingVFS
from windlass.events.errors import Damaged
from windlass.events.stored.record import Sealed
from windlass.store.base import Durability, InboxCommand, Key, Snapshot, Store
from windlass.store.chain import verify_chain
from windlass.store.jsonl.store import JsonlStore
from windlass.store.sqlite import committer
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_kit import Writer
from windlass.testing.store_kit.case import lines_of

ROUNDS = 14
SESSIONS = ("s0", "s1")
Lines = dict[str, list[Sealed]]


async def work(store: Store, recording: Recording) -> Lines:
    """Two sessions that write, ask for syncs, get commands and keep blobs; each acknowledgement is written down."""
    writers = {name: Writer(store, name) for name in SESSIONS}
    for name, writer in writers.items():
        await writer.claim()
        recording.said("claimed", name)
    for number in range(ROUNDS):
        for name, writer in writers.items():
            await _step(store, recording, writer, name, number)
    return {name: writer.lines for name, writer in writers.items()}


async def _step(store: Store, recording: Recording, writer: Writer, name: str, number: int) -> None:
    takes: list[str] = []
    if number % 4 == 1:
        await store.inbox.send(writer.key, InboxCommand(command_id=f"c{number}", at_ms=0, data=b"{}" * 40))
        recording.said("command", name, f"c{number}")
        takes = [command.command_id for command in await store.inbox.waiting(writer.key)] if number % 8 == 5 else []
    if number % 5 == 3:
        digest = await store.blobs.put("default", f"{name}-{number}".encode() * 300)
        recording.said("blob", name, digest)
    barrier = number % 3 == 2
    bodies = [b'{"text":"%s"}' % (b"x" * 700), b'{"n":%d}' % number]
    await writer.append(*bodies, takes=takes, index=writer.row(), barrier=barrier)
    recording.said("barrier" if barrier else "append", name, str(len(writer.lines)))
    if number == ROUNDS // 2:
        made = Snapshot(seq=writer.seq, hash=writer.hash, state_version=1, data=b"state" * 400)
        await store.log.put_snapshot(writer.key, made)
        await store.index.put(writer.row(title="middle"))


async def recorded_sqlite(
    place: pathlib.Path, durability: Durability, patch: pytest.MonkeyPatch
) -> tuple[Recording, Lines]:
    await (await SqliteStore.open(place / "store.db")).close()
    recording = Recording(place)
    vfs = RecordingVFS("windlass-recording", recording)
    patch.setattr(committer, "CHECKPOINT_PAGES", 25)  # so that a few happen
    try:
        store = await SqliteStore.open(place / "store.db", durability=durability, vfs="windlass-recording")
        if durability == "normal":
            _sync_apart(store, recording, patch)
        lines = await work(store, recording)
        assert store.stats["checkpoints"], "a checkpoint is the delicate part"
        await store.close()
    finally:
        vfs.unregister()
    return recording, lines


def _sync_apart(store: SqliteStore, recording: Recording, patch: pytest.MonkeyPatch) -> None:
    """Has the log file synced beside SQLite, as it is where no other file system stands between."""
    writing = store.database._committer
    assert writing is not None
    writing.sync_apart = writing._sync_wal
    real = os.fdatasync

    def fdatasync(handle: int) -> None:
        real(handle)
        recording.ops.append(type(recording.ops[0])("sync", file=os.fstat(handle).st_ino))

    def sync_folder(path: pathlib.Path) -> None:
        recording.ops.append(type(recording.ops[0])("sync folder", folder="."))

    patch.setattr(os, "fdatasync", fdatasync)
    patch.setattr(committer, "sync_directory", sync_folder)


async def recorded_jsonl(
    place: pathlib.Path, durability: Durability, patch: pytest.MonkeyPatch
) -> tuple[Recording, Lines]:
    recording = Recording(place)
    store = await JsonlStore.open(place / "store.jsonl.d", durability=durability, disk=RecordingDisk(recording))
    lines = await work(store, recording)
    await store.close()
    return recording, lines


async def open_sqlite(place: pathlib.Path) -> Store:
    return await SqliteStore.open(place / "store.db")


async def open_jsonl(place: pathlib.Path) -> Store:
    return await JsonlStore.open(place / "store.jsonl.d")


Recorder = Callable[[pathlib.Path, Durability, pytest.MonkeyPatch], Awaitable[tuple[Recording, Lines]]]
STORES: dict[str, tuple[Recorder, Callable[[pathlib.Path], Awaitable[Store]]]] = {
    "sqlite": (recorded_sqlite, open_sqlite),
    "jsonl": (recorded_jsonl, open_jsonl),
}


async def check(store: Store, durability: Durability, said: list[tuple[str, ...]], lines: Lines) -> None:
    for name in SESSIONS:
        key = Key("default", name)
        kept = {kind: [words[2] for words in said if words[:2] == (kind, name)] for kind in WORDS}
        needed = max([0, *map(int, kept["barrier"]), *(map(int, kept["append"]) if durability == "full" else ())])
        head = await store.log.head(key)
        if head is None:
            assert not needed, f"{name} is gone, with {needed} appends that were to stay"
            continue
        found = await _found(store, key, durability, needed)
        assert [line.hash for line in found] == [line.hash for line in lines[name][: len(found)]], "no prefix"
        assert len(found) >= needed, f"{name} has {len(found)} appends of {needed} that were to stay"
        await _check_commands(store, key, set(kept["command"]), head.damage)
        for digest in kept["blob"] if durability == "full" else ():
            assert await store.blobs.get("default", digest), f"blob {digest} is gone"


WORDS = ("append", "barrier", "command", "blob")


async def _found(store: Store, key: Key, durability: Durability, needed: int) -> list[Sealed]:
    """What the log has, verified. In `normal`, JSON lines may name damage behind what was synced, and then it may only
    be read up to there; it is never repaired as if it were a torn end."""
    try:
        found = await lines_of(store, key)
        await verify_chain(store, key)
        return found
    except Damaged:
        assert durability == "normal", "what was synced is never damaged"
        found = []
        try:
            async for sealed in store.log.read(key):
                found.append(sealed)
        except Damaged:
            pass
        assert len(found) >= needed
        return found


async def _check_commands(store: Store, key: Key, acknowledged: set[str], damage: str) -> None:
    if damage:
        return
    waiting = {command.command_id for command in await store.inbox.waiting(key)}
    taken = {take.command_id for take in await store.inbox.taken(key)}
    assert acknowledged <= waiting | taken, "a command was acknowledged and is lost"
    assert not waiting & taken


async def crash_everywhere(
    name: str, durability: Durability, room: pathlib.Path, images: int, patch: pytest.MonkeyPatch
) -> None:
    recorder, opened = STORES[name]
    (room / "work").mkdir()
    with patch.context() as patched:
        recording, lines = await recorder(room / "work", durability, patched)
    ends = len(recording.ops)
    for seed in range(images):
        chance = random.Random(f"{name} {durability} {seed}")
        at = ends * seed // images + chance.randrange(1 + ends // images)
        crash = Crash(recording, min(at, ends), chance)
        image = room / f"image-{seed}"
        image.mkdir()
        await asyncio.to_thread(crash.build, image)
        try:
            store = await opened(image)
            try:
                await check(store, durability, crash.said(), lines)
            finally:
                await store.close()
        except BaseException as error:
            error.add_note(f"image {seed}: the power failed before op {at} of {ends} ({image})")
            raise
        await asyncio.to_thread(shutil.rmtree, image)


CASES = [(name, durability) for name in STORES for durability in ("full", "normal")]


@pytest.mark.parametrize(("name", "durability"), CASES)
async def test_a_power_loss_takes_nothing_that_was_to_stay(
    name: str, durability: Durability, memory_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    await crash_everywhere(name, durability, memory_path, 150, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize(("name", "durability"), CASES)
async def test_thousands_of_power_losses_take_nothing_that_was_to_stay(
    name: str, durability: Durability, memory_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    await crash_everywhere(name, durability, memory_path, 5_000, monkeypatch)
