"""What the index of sessions says of one: always what others look for it by; its sums, exactly when it rests."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass
from windlass.events.stored.record import Sealed
from windlass.kernel.owed import overview
from windlass.kernel.state import State
from windlass.runtime.host.ports import SystemPorts
from windlass.runtime.owner.index_row import SUMS_EVERY_MS, Listing
from windlass.store.base import IndexRow, Key
from windlass.store.memory import Memory, MemoryLog, MemoryStore
from windlass.testing.scripted import call

from .support import agent_of


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
    first = listing.due(state)
    listing.kept(first)
    listing.forget()
    assert first is not None
    assert listing.due(state) is not None
