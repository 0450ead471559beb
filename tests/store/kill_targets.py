"""What the killed process does: several sessions that append, send and take commands, and keep blobs, as fast as the
store goes; each acknowledgement goes to the oracle file first thing."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import json
import os
import pathlib
import time
from collections.abc import Awaitable
from typing import Any

from tests.store.faults import PointDisk, PointHooks, hooked
from tests.store.stores import JSONL_NAME, SQLITE_NAME, opener
from windlass.events.stored import record
from windlass.store.base import InboxCommand, IndexRow, Key, Message, Store, blob_digest
from windlass.store.jsonl.store import JsonlStore
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.kill_rig import Acks, Child

PRELOADED = (concurrent.futures.thread,)
"""What a child would import on first use: the fork server pays for it once."""
LEASE_MS = 1
"""Leases run out at once: every life takes over from a dead one."""
APPENDING = 1
RECEIVER = "receiver"


class Busy:
    """Keeps the mark: how many appends are called and not acknowledged."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.open = 0

    def __enter__(self) -> None:
        self.open += 1
        self.child.mark(APPENDING)

    def __exit__(self, *_: object) -> None:
        self.open -= 1
        if not self.open:
            self.child.mark(0)


def write(child: Child, arguments: dict[str, Any]) -> None:
    """The target. `rounds` bounds the work of a life that is not killed by the clock."""
    asyncio.run(_write(child, arguments))


def write_through_points(child: Child, arguments: dict[str, Any]) -> None:
    """The target with a crash point at, and in the middle of, everything that the store does to its disk."""
    place = pathlib.Path(arguments["place"])
    if arguments["store"] == "jsonl":
        asyncio.run(_write(child, arguments, JsonlStore.open(place / JSONL_NAME, disk=PointDisk(child.point))))
        return
    with hooked(PointHooks(child.point)) as vfs:
        asyncio.run(_write(child, arguments, SqliteStore.open(place / SQLITE_NAME, vfs=vfs)))


async def _write(child: Child, arguments: dict[str, Any], opening: Awaitable[Store] | None = None) -> None:
    place = pathlib.Path(arguments["place"])
    store = await (opening or opener(arguments["store"])(place))
    acks = Acks(str(place / "acks.txt"))
    busy = Busy(child)
    rounds = arguments.get("rounds", 1_000_000)
    sessions = [
        await Session(store, f"s{i}", acks, busy).take_over() for i in range(arguments.get("sessions", 1))
    ]  # fmt: skip
    child.ready()
    await asyncio.gather(*(session.work(rounds) for session in sessions))
    await store.close()


class Session:
    """One session's work in one life."""

    def __init__(self, store: Store, name: str, acks: Acks, busy: Busy) -> None:
        self.store = store
        self.key = Key("default", name)
        self.acks = acks
        self.busy = busy
        self.seq, self.hash, self.epoch = 0, record.GENESIS, 0

    async def take_over(self) -> Session:
        await self.store.log.create(self.key)
        now_ms = time.monotonic_ns() // 1_000_000
        claim = await self.store.leases.claim(
            self.key, runner=f"r{os.getpid()}-{now_ms}", ttl_ms=LEASE_MS, now_ms=now_ms
        )
        self.seq, self.hash, self.epoch = claim.head.seq, claim.head.hash, claim.epoch
        return self

    async def work(self, rounds: int) -> None:
        for number in range(rounds):
            takes = (
                [command.command_id for command in await self.store.inbox.waiting(self.key)] if number % 8 == 5 else []
            )
            append = self.append(takes, events=1 + number % 3, with_blob=number % 5 == 0)
            if number % 8 == 3:
                await asyncio.gather(append, self.send(f"{self.epoch}-{number}"))
            else:
                await append

    async def send(self, command_id: str) -> None:
        await self.store.inbox.send(
            self.key, InboxCommand(command_id=command_id, at_ms=0, data=b'"%s"' % command_id.encode())
        )
        self.acks.say(f"command {self.key.session} {command_id}")

    def messages(self, seq: int) -> list[Message]:
        """What the append that ends at this seq sends: some to a session that all of them write to."""
        if seq % 3:
            return []
        command = InboxCommand(command_id=f"{self.key.session}-{seq}", at_ms=seq, data=b"{}")
        return [Message(session=RECEIVER, command=command, creates=True)]

    async def append(self, takes: list[str], events: int, with_blob: bool) -> None:
        blob = f"{self.key.session}-{self.seq}-{self.epoch}".encode() * 20
        bodies = [json.dumps({"n": self.seq + i + 1, "takes": takes if i == 0 else []}) for i in range(events)]
        entries = [(b'{"type":"t"}', body.encode(), "c2FsdA==") for body in bodies]
        sealed = record.seal(self.hash, self.seq + 1, 0, self.epoch, entries)
        row = IndexRow(session=self.key.session, seq=sealed.last_seq, updated_ms=sealed.last_seq, owed=True)
        blobs = {blob_digest(blob): blob} if with_blob else None
        with self.busy:
            await self.store.log.append(
                self.key, sealed, takes=takes, index=row, blobs=blobs, sends=self.messages(sealed.last_seq)
            )
            self.acks.say(f"append {self.key.session} {sealed.last_seq} {sealed.hash}")
        if blobs:
            self.acks.say(f"blob {self.key.session} {blob_digest(blob)}")
        self.seq, self.hash = sealed.last_seq, sealed.hash
