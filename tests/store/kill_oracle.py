"""What must hold after a kill: all that was acknowledged is there, nothing is doubled, nothing is missing between."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

from tests.store.kill_targets import RECEIVER
from tests.store.stores import opener
from windlass.events.stored import record
from windlass.store.base import Key, Store
from windlass.store.chain import verify_chain
from windlass.testing.kill_rig import Acks


def check_after_kill(arguments: dict[str, Any]) -> None:
    """Raises `AssertionError` (or `Damaged`) where the store at `place` is not what its acknowledgements say."""
    asyncio.run(_check(arguments))


async def _check(arguments: dict[str, Any]) -> None:
    place = pathlib.Path(arguments["place"])
    acks = [line.split() for line in Acks.read(str(place / "acks.txt"))]
    store = await opener(arguments["store"])(place)
    try:
        for name in {f"s{i}" for i in range(arguments.get("sessions", 1))} | {ack[1] for ack in acks}:
            mine = [ack for ack in acks if ack[1] == name]
            await _check_session(store, Key("default", name), mine)
        await _check_messages(store, {f"s{i}" for i in range(arguments.get("sessions", 1))})
    finally:
        await store.close()


async def _check_session(store: Store, key: Key, acks: list[list[str]]) -> None:
    head = await store.log.head(key)
    if head is None:
        assert not acks, f"{key.session} is gone, with {len(acks)} acknowledgements"
        return
    await verify_chain(store, key)
    ends, numbers, takes = {0: record.GENESIS}, [], []
    async for sealed in store.log.read(key):
        ends[sealed.last_seq] = sealed.hash
        for entry in record.parse(sealed.data).events:
            body = json.loads(bytes(entry.body))
            numbers.append(body["n"])
            takes.extend(body["takes"])
    assert numbers == list(range(1, head.seq + 1)), "the log has a gap or a double"
    for kind, _, *what in acks:
        if kind == "append":
            assert ends.get(int(what[0])) == what[1], f"append up to {what[0]} was acknowledged and is not in the log"
        elif kind == "blob":
            assert await store.blobs.info("default", what[0]), f"blob {what[0]} was acknowledged and is gone"
    await _check_commands(store, key, takes, {ack[2] for ack in acks if ack[0] == "command"})
    row = await store.index.get(key)
    assert (row.seq if row else 0) == head.seq, f"the index row is of {row and row.seq}, the log ends at {head.seq}"


async def _check_messages(store: Store, senders: set[str]) -> None:
    """What appends sent waits in the other inbox, once each, and nothing else does."""
    sent = set()
    for name in senders:
        if await store.log.head(Key("default", name)) is not None:
            ends = [sealed.last_seq async for sealed in store.log.read(Key("default", name))]
            sent |= {f"{name}-{seq}" for seq in ends if seq % 3 == 0}
    receiver = Key("default", RECEIVER)
    there = await store.log.head(receiver) is not None
    found = [command.command_id for command in await store.inbox.waiting(receiver, limit=1_000_000)] if there else []
    assert len(found) == len(set(found)), "a message waits twice"
    assert set(found) == sent, f"lost: {sorted(sent - set(found))[:5]}, of no append: {sorted(set(found) - sent)[:5]}"


async def _check_commands(store: Store, key: Key, in_log: list[str], acknowledged: set[str]) -> None:
    assert len(in_log) == len(set(in_log)), "a command is in the log twice"
    taken = {take.command_id for take in await store.inbox.taken(key, limit=1_000_000)}
    assert taken == set(in_log), "the taken ids are not those of the log"
    waiting = [command.command_id for command in await store.inbox.waiting(key, limit=1_000_000)]
    assert len(waiting) == len(set(waiting)), "a command waits twice"
    assert not taken & set(waiting), "a taken command still waits"
    lost = acknowledged - taken - set(waiting)
    assert not lost, f"commands were acknowledged and are lost: {sorted(lost)[:5]}"
