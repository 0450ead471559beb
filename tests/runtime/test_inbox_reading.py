"""When the inbox of a session is read: at its opening, and again whenever something came, whatever runs meanwhile."""

from __future__ import annotations

import asyncio
import itertools

import windlass
from windlass.events.changes import ChangeReceived
from windlass.events.commands import PromptReceived
from windlass.events.tools.calls import ToolStarted
from windlass.runtime.hooks.hook import Moment
from windlass.store.base import InboxCommand, Key
from windlass.store.sqlite.inbox import SqliteInbox
from windlass.testing.scripted import call

from .support import agent_of, events_of, only, sound, started

NEVER_MS = 3_600_000


async def test_what_was_posted_before_anybody_owned_a_session_is_taken_when_it_is_opened(tmp_path):
    store = str(tmp_path / "work.db")
    agent = agent_of("one")
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "one"
    async with windlass.open(store) as other:
        await (await other.get("s")).prompt("more")
    again = agent_of("two")
    async with windlass.open(store, agents=[again], poll_ms=NEVER_MS) as runtime:
        await runtime.drive("s")
        session = await runtime.get("s")
        assert (await session.result()).text == "two"
        await sound(session)


async def test_what_was_posted_before_comes_before_what_the_one_who_opened_the_session_says(tmp_path, monkeypatch):
    store = str(tmp_path / "work.db")
    async with windlass.open(store, agents=[agent := agent_of("one")]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
    async with windlass.open(store) as other:
        for number in range(3):
            await (await other.get("s")).prompt(f"earlier {number}")
    waiting, free, first = SqliteInbox.waiting, asyncio.Event(), itertools.count()

    async def slow(inbox: SqliteInbox, key: Key, *, limit: int) -> list[InboxCommand]:
        if next(first) == 0:
            await free.wait()  # whoever looks first is late, on a machine that is busy
        free.set()
        return await waiting(inbox, key, limit=limit)

    monkeypatch.setattr(SqliteInbox, "waiting", slow)
    agent = agent_of(lambda request: "again")
    async with windlass.open(store, agents=[agent], poll_ms=NEVER_MS) as runtime:
        session = await runtime.get("s")
        await runtime.host.opener.ensure_driven(session.key)
        await session.prompt("later")
        free.set()
        texts = [event.body.content[0].text for event in only(await events_of(session), PromptReceived)]
        assert texts == ["go", *(f"earlier {number}" for number in range(3)), "later"]


async def test_a_hook_that_looks_at_what_was_posted_may_say_something_itself(tmp_path):
    store = str(tmp_path / "work.db")
    agent = agent_of("one")
    async with windlass.open(store, agents=[agent]) as runtime:
        await (await runtime.session(agent, "s")).prompt("go")
        await (await runtime.get("s")).result()
    async with windlass.open(store) as other:
        await (await other.get("s")).prompt("posted")

    async def rename(moment: Moment) -> None:
        await (await runtime.get("s")).set_title("named by the hook")

    again = agent_of("two", hooks=[windlass.Hook(point="prompt", kind="guard", run=rename)])
    async with windlass.open(store, agents=[again], poll_ms=NEVER_MS) as runtime:
        await runtime.drive("s")
        session = await runtime.get("s")
        assert (await session.result()).text == "two"
        assert only(await events_of(session), ChangeReceived)[-1].change.title == "named by the hook"
        await sound(session)


async def test_each_command_from_elsewhere_is_taken_while_one_tool_runs(tmp_path):
    store, free = str(tmp_path / "work.db"), asyncio.Event()

    async def slow() -> str:
        await free.wait()
        return "done"

    agent = agent_of(call("slow"), "one", "two", "three", tools=[slow])
    async with windlass.open(store, agents=[agent], poll_ms=10) as runtime, windlass.open(store, poll_ms=10) as other:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await started(session, ToolStarted)
        remote = await other.get("s")
        for number in (2, 3, 4):
            await remote.prompt(f"prompt {number}")
            await started(session, PromptReceived, count=number)
        free.set()
        await session.wait_idle()
        assert len(only(await events_of(session), PromptReceived)) == 4
        await sound(session)
