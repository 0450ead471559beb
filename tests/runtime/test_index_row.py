"""What the index of sessions says of one: always what others look for it by; its sums, exactly when it rests."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dev.histories import FOLDER

import windlass
from windlass.events.base import Event
from windlass.events.errors import Damaged
from windlass.events.stored import codec
from windlass.events.stored.record import Sealed
from windlass.events.tools.calls import ToolPrepared
from windlass.kernel import log
from windlass.kernel.owed import overview
from windlass.kernel.state import State
from windlass.runtime.host.ports import SystemPorts
from windlass.runtime.owner import index_row
from windlass.runtime.owner.index_row import SUMS_EVERY_MS, Listing
from windlass.store.base import IndexRow, Key
from windlass.store.memory import Memory, MemoryLog, MemoryStore
from windlass.testing.scripted import call

from .support import agent_of

RUNS = Path(__file__).parents[1] / "runs"


class StillPorts(SystemPorts):
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


class Noting(MemoryLog):
    """A log that notes which appends came with an index row."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.rows: list[IndexRow | None] = []

    async def append(self, key: Key, sealed: Sealed, **more: Any) -> None:
        await super().append(key, sealed, **more)
        self.rows.append(more["index"])


@windlass.tool(contract="pure")
async def gate(number: int = 0) -> str:
    "Passes."
    return "passed"


async def test_row_is_exact_at_rest_and_not_told_again_while_nothing_searched_for_changes():
    store = MemoryStore()
    store.log = log = Noting(store.memory)
    agent = agent_of(call("gate"), call("gate"), call("gate"), "done", tools=[gate])
    async with windlass.Runtime(store, agents=[agent], ports=StillPorts()) as runtime:
        session = await runtime.session(agent, "s", title="T")
        await session.prompt("go")
        result = await session.result()
        row = await store.index.get(session.key)
        view = overview(await session.state())
    assert row is not None
    assert (row.state, row.owed, row.title, row.cost_nanos) == ("idle", False, "T", result.cost_nanos)
    assert (row.input_tokens, row.output_tokens) == (view.input_tokens, view.output_tokens)
    assert row.updated_ms == view.updated_ms
    told = [row.state if row is not None else "" for row in log.rows]
    assert told[-1] == "idle"
    assert told.count("running") == 1  # with the prompt; replies and results in between change only sums
    assert told.count("") >= 5


async def test_sums_are_never_older_than_a_second_while_it_works():
    store, ports = MemoryStore(), StillPorts()
    store.log = log = Noting(store.memory)

    @windlass.tool(contract="pure")
    async def later() -> str:
        "Takes a while."
        ports.at_ms += SUMS_EVERY_MS
        return "done"

    agent = agent_of(call("gate"), call("later"), call("gate"), "done", tools=[gate, later])
    async with windlass.Runtime(store, agents=[agent], ports=ports) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
    running = [row for row in log.rows if row is not None and row.state == "running"]
    assert len(running) == 2
    assert running[1].updated_ms - running[0].updated_ms >= SUMS_EVERY_MS
    assert running[1].input_tokens > running[0].input_tokens == 0


async def test_row_says_at_once_what_a_session_waits_for():
    policy = windlass.Policy(rules=(windlass.ask("gate"),))
    agent = agent_of(call("gate"), "done", tools=[gate], policy=policy)
    async with windlass.Runtime(MemoryStore(), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")

        async def waiting() -> bool:
            (row,) = await runtime.sessions()
            return bool(row.state == "asked" and row.waiting_for and not row.owed)

        while not await waiting():
            await asyncio.sleep(0)


def test_row_is_told_again_when_nobody_knows_what_the_store_has():
    listing, state = Listing(Key("default", "s")), State()
    first = listing.due(state, ())
    listing.kept(first)
    listing.forget()
    assert first is not None
    assert listing.due(state, ()) is not None


LOGS = sorted(path for folder in (FOLDER, RUNS) for path in folder.glob("*.jsonl") if ".live" not in path.name)


def searched_for(row: IndexRow) -> dict[str, Any]:
    """What a row says, without the sums that may be a second old."""
    return {name: getattr(row, name) for name in row.__struct_fields__ if name not in SUMS}


APPEND = re.compile(rb"{\"seq\":")
SPENT = {f"{whose}{what}" for whose in ("", "own_") for what in ("input_tokens", "output_tokens", "cost_nanos")}
SUMS = {"seq", "updated_ms", "clock_ms", *SPENT}


def test_row_that_is_not_told_again_is_still_true_in_every_recorded_log(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_row, "SUMS_EVERY_MS", 1 << 60)  # however much time passes between two appends
    left_out: Counter[type] = Counter()
    for path in LOGS:
        key, state = Key("default", path.stem), State()
        listing, kept = Listing(key), None
        for line in filter(APPEND.match, path.read_bytes().splitlines()):
            append = codec.decode(line, bodies=False)
            try:
                log.fold_append(state, append)
            except Damaged:
                break  # the log of a fork, which begins with another one
            events = [event for event in append.events if isinstance(event, Event)]
            row = listing.due(state, events)
            listing.kept(row)
            kept = row or kept
            assert kept is not None
            assert searched_for(kept) == searched_for(index_row.row_of(key, state)), (path.name, append.first_seq)
            if row is None:
                left_out.update(map(type, events))
    assert left_out.keys() >= index_row.UNLISTED - {ToolPrepared}, "the logs do not reach what is left out"
