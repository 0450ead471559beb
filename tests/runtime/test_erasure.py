"""Erasing content: gone from the store, from memory and from requests; the log still verifies and says who did it."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest

import windlass
from windlass.events.commands import PromptReceived
from windlass.events.errors import NotFound
from windlass.events.sessions import ContentErased
from windlass.events.tools.calls import ToolFinished
from windlass.events.turns import PrefixChanged
from windlass.testing.scripted import ScriptedModel, call

from .support import agent_of, events_of, only, sound, until


def place_of(events: list[Any], kind: type[Any]) -> int:
    return next(number for number, event in enumerate(events, start=1) if isinstance(event, kind))


def left_in(folder: pathlib.Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_what_was_said_is_gone_from_the_file_and_from_the_next_request(tmp_path):
    agent = agent_of("noted", "what number?")
    store = tmp_path / "work.db"
    async with windlass.open(str(store), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("my card is 4111-1111")
        await session.result()
        seq = place_of(await events_of(session), PromptReceived)
        await session.erase(seq, "a card number", actor="ada")
        await session.erase(seq, "a card number", actor="ada")
        await session.prompt("what is my card?")
        await session.result()
        model: Any = agent.model
        assert "4111" not in str(model.requests[1].items)
        events = await events_of(session)
        assert events[seq - 1].erased is not None
        assert [(e.seq, e.by, e.why) for e in only(events, ContentErased)] == [(seq, "ada", "a card number")] * 2
        assert [event.reasons for event in only(events, PrefixChanged)] == [("erasure",)]
        await sound(session)
    assert b"4111-1111" not in left_in(tmp_path)


async def test_a_large_result_goes_with_its_blob(tmp_path):
    @windlass.tool
    def dump() -> str:
        "Gives much."
        return "secret " * 20_000

    agent = agent_of(call("dump"), "done", tools=[dump])
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent)
        await session.prompt("go")
        await session.result()
        events: list[Any] = await events_of(session)
        seq = place_of(events, ToolFinished)
        whole = events[seq - 1].body.whole
        await session.erase(seq, "secrets")
        with pytest.raises(NotFound):
            await rt.store.blobs.get("default", whole.digest)
        await sound(session)


async def test_a_session_at_work_is_not_touched(tmp_path):
    reached = asyncio.Event()

    async def hangs(request: Any) -> Any:
        reached.set()
        await asyncio.get_running_loop().create_future()

    agent = windlass.Agent("worker", model=ScriptedModel(hangs))
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent)
        await session.prompt("go")
        await until(reached.is_set)
        with pytest.raises(windlass.UsageError, match="is at work: wait until it rests, or interrupt it first"):
            await session.erase(3, "no")
        await session.interrupt()
        await session.wait_idle()
        with pytest.raises(NotFound):
            await session.erase(999, "no")
        for seq in (0, -1):
            with pytest.raises(NotFound, match=f"has no event {seq}: they are numbered from 1"):
                await session.erase(seq, "no")
