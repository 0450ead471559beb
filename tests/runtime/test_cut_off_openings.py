"""Sessions whose opening is cut off: whoever asked is cancelled, or the runtime is closed. The lease is given back then,
wherever the opening was, so that nobody waits for it to run out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass
from windlass.runtime.api.session import Session
from windlass.runtime.host import host
from windlass.runtime.workspace.session_instructions import SessionInstructions
from windlass.store.base import Key
from windlass.store.jsonl.leases import JsonlLeases
from windlass.store.jsonl.log import JsonlLog
from windlass.store.sqlite.leases import SqliteLeases
from windlass.store.sqlite.log import SqliteLog

from .support import WAIT_S, agent_of

KEY = Key("default", "s")
STORES = {"s.db": (SqliteLeases, SqliteLog), "s.jsonl.d": (JsonlLeases, JsonlLog)}


class Gate:
    """Stops whoever comes through a method for the first time, once it has done its work: what it did is done, and its
    caller has not heard of it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    def put(self, monkeypatch: pytest.MonkeyPatch, owner: type[Any], method: str) -> None:
        real = getattr(owner, method)

        async def gated(*given: Any, **more: Any) -> Any:
            result = await real(*given, **more)
            if not self.reached.is_set():
                self.reached.set()
                await self.open.wait()
            return result

        monkeypatch.setattr(owner, method, gated)


def _place(leases: type[Any], log: type[Any], place: str) -> tuple[type[Any], str]:
    places: dict[str, tuple[type[Any], str]] = {
        "claim": (leases, "claim"),
        "append": (log, "append"),
        "bind": (SessionInstructions, "begin"),
    }
    return places[place]


async def _opened(runtime: windlass.Runtime, agent: windlass.Agent, found: Session | None, verb: str) -> None:
    if found is None:
        await runtime.session(agent, "s")
    elif verb == "fork":
        await found.fork("branch")
    else:
        await found.prompt("y")


@pytest.fixture(params=STORES)
def kept(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("place", ["claim", "append", "bind"])
@pytest.mark.parametrize("verb", ["begin", "resume", "fork"])
async def test_an_opening_whose_caller_is_cancelled_gives_the_lease_back(tmp_path, monkeypatch, kept, verb, place):
    store, agent = tmp_path / kept, agent_of("one", "two", "three", "four")
    key = Key("default", "branch") if verb == "fork" else KEY
    if verb != "begin":
        await agent.run("x", store=store, session="s")
    async with windlass.open(store, agents=[agent]) as runtime:
        found = await runtime.session(agent, "s") if verb != "begin" else None
        gate = Gate()
        gate.put(monkeypatch, *_place(*STORES[kept], place))
        opening = asyncio.ensure_future(_opened(runtime, agent, found, verb))
        await gate.reached.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert runtime.slots.driven_at(key) is None
        assert await runtime.store.leases.holder(key, now_ms=0) is None, "nobody has it"
    async with windlass.open(store, agents=[agent]) as again:
        session = await again.session(agent, key.session)
        await session.prompt("z")
        assert (await session.result()).status == "completed"


async def test_a_runtime_that_is_closed_while_a_session_is_opened_gives_its_lease_back(tmp_path, monkeypatch, kept):
    agent = agent_of("one")
    gate = Gate()
    gate.put(monkeypatch, SessionInstructions, "begin")
    monkeypatch.setattr(host, "ENDING_S", WAIT_S)
    runtime = await windlass.open(tmp_path / kept, agents=[agent]).start()
    opening = asyncio.ensure_future(runtime.session(agent, "s"))
    await gate.reached.wait()
    closing = asyncio.ensure_future(runtime.close())
    await asyncio.wait([closing], timeout=0.3)  # as far as it comes: it waits for whoever opens a session
    gate.open.set()
    await closing
    with pytest.raises(windlass.UsageError, match="closed"):
        await opening
    async with windlass.open(tmp_path / kept) as looker:
        assert await looker.store.leases.holder(KEY, now_ms=0) is None


async def test_a_runtime_that_is_closed_while_it_resumes_what_is_owed_gives_the_lease_back(tmp_path, monkeypatch, kept):
    agent = agent_of("one")
    async with windlass.open(tmp_path / kept, agents=[agent]) as runtime:
        await runtime.session(agent, "s")
    async with windlass.open(tmp_path / kept) as sender:
        await (await sender.get("s")).prompt("go")
    gate = Gate()
    gate.put(monkeypatch, STORES[kept][0], "claim")
    runtime = windlass.open(tmp_path / kept, agents=[agent])
    opening = asyncio.ensure_future(runtime.start())
    await gate.reached.wait()
    opening.cancel()
    await asyncio.wait([opening])
    await runtime.close()
    async with windlass.open(tmp_path / kept) as looker:
        assert await looker.store.leases.holder(KEY, now_ms=0) is None


async def test_whoever_waits_for_a_session_that_another_is_about_to_begin_learns_that_the_runtime_was_closed(
    tmp_path, monkeypatch, kept
):
    agent = agent_of("one")
    monkeypatch.setattr(host, "ENDING_S", WAIT_S)
    runtime = await windlass.open(tmp_path / kept, agents=[agent], poll_ms=10).start()
    await runtime.store.log.create(KEY)
    await runtime.store.leases.claim(KEY, runner="another", ttl_ms=600_000, now_ms=runtime.ports.now_ms())
    gate = Gate()
    gate.put(monkeypatch, STORES[kept][1], "head")
    opening = asyncio.ensure_future(runtime.session(agent, "s"))
    await gate.reached.wait()
    gate.open.set()
    closing = asyncio.ensure_future(runtime.close())
    with pytest.raises(windlass.UsageError, match="this runtime is closed"):
        await opening
    await closing
