"""How effects begin and end: what may run once begins only behind a commit that a power cut cannot take back, and when a
driver has ended nothing that it began is still under way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass
from windlass.events.stored import codec
from windlass.events.tools.calls import ToolStarted
from windlass.testing.scripted import call, turn

from .support import agent_of, sound, until


@pytest.mark.guard(60)
@pytest.mark.parametrize(
    ("contract", "barrier"),
    [("pure", False), ("idempotent", False), ("at_most_once", True)],
    ids=lambda given: str(given),
)
async def test_what_may_run_once_begins_behind_a_commit_that_lasts(
    contract: Any, barrier: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []

    @windlass.tool(contract=contract)
    async def act() -> str:
        """Acts."""
        return f"behind {kept[-1]}"

    agent = agent_of(call("act"), "the end", tools=[act])
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        appends = runtime.store.log.append

        async def append(key: Any, sealed: Any, **more: Any) -> None:
            if any(isinstance(event, ToolStarted) for event in codec.decode(sealed.data).events):
                kept.append(more["barrier"])
            await appends(key, sealed, **more)

        monkeypatch.setattr(runtime.store.log, "append", append)
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "the end"
        assert kept == [barrier]
        await sound(session)


@pytest.mark.guard(60)
@pytest.mark.parametrize("count", [1, 3], ids=["alone", "side by side"])
async def test_a_runtime_that_is_closed_has_let_its_tools_clean_up(count: int) -> None:
    begun: list[int] = []
    cleaned: list[int] = []

    @windlass.tool
    async def act(n: int) -> str:
        """Acts, and cleans up when it is stopped."""
        begun.append(n)
        try:
            await asyncio.sleep(1_000)
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(n)
        return "never"

    agent = agent_of(turn(*(call("act", n=n) for n in range(count))), tools=[act])
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until(lambda: len(begun) == count)
    assert sorted(cleaned) == list(range(count))
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith(("windlass:drive", "s:"))] == []


@pytest.mark.guard(60)
async def test_a_session_is_not_taken_up_again_before_the_tools_of_its_last_driver_have_ended() -> None:
    """A driver that dies waits for what it began beside the loop, so that its successor meets none of it."""
    under_way: list[str] = []

    @windlass.tool(contract="idempotent")
    async def act() -> str:
        """Acts, alone."""
        under_way.append("act")
        assert under_way.count("act") == 1, "two at once"
        try:
            await goes_on.wait()
        finally:
            await asyncio.sleep(0.2)
            under_way.remove("act")
        return "acted"

    @windlass.tool(contract="pure")
    async def look() -> str:
        """Looks."""
        return "seen"

    goes_on = asyncio.Event()
    agent = agent_of(turn(call("act"), call("look")), "the end", tools=[act, look])
    async with windlass.open(":memory:", agents=[agent], poll_ms=5) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until(lambda: under_way)
        driven = runtime.slots.driven_at(session.key)
        assert driven is not None
        driven.driver._lose(LookupError("a bug of ours"))
        await until(lambda: runtime.slots.driven_at(session.key) not in (None, driven))
        goes_on.set()
        assert (await session.result()).text == "the end"
        await sound(session)
