"""What a runtime notices of a store that others write to, and what it leaves alone."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass
from windlass.events.runs import RunCancelled
from windlass.events.sessions import TitleChanged
from windlass.runtime.driver import INBOX_AT_ONCE
from windlass.runtime.runtime import POLL_MS
from windlass.store.base import Claim, IndexRow, Key, Query
from windlass.store.sqlite import SqliteStore
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import events_of, only, started, until

NEVER_MS = 10_000_000


class Counted(SqliteStore):
    """Counts what it is asked."""

    claims = 0
    finds = 0
    news = 0

    async def claim(self, key: Key, **more: Any) -> Claim:
        self.claims += 1
        return await super().claim(key, **more)

    async def find(self, query: Query) -> list[IndexRow]:
        self.finds += 1
        return await super().find(query)

    async def changed(self) -> bool:
        changed = await super().changed()
        self.news += changed
        return changed


class Broken(SqliteStore):
    """Breaks at its first looks in a way that no store should, and at keeping leases."""

    looks = 0
    keeps = 0

    async def changed(self) -> bool:
        self.looks += 1
        if self.looks <= 3:
            raise ZeroDivisionError("no store raises this")
        return await super().changed()

    async def keep(self, key: Key, **more: Any) -> None:
        self.keeps += 1
        raise ZeroDivisionError("nor this")


@windlass.tool
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


def worker(*turns: Any) -> windlass.Agent:
    return windlass.Agent("w", model=ScriptedModel(list(turns)), tools=[add])


async def never(request: Any) -> Any:
    await asyncio.get_running_loop().create_future()


async def test_one_look_finds_a_command_for_a_session_at_work_and_for_one_let_go(tmp_path):
    assert POLL_MS <= 100  # how soon a look comes; below, one is taken by hand
    path = str(tmp_path / "work.db")
    agent = windlass.Agent("w", model=ScriptedModel(by_history(["done", never])))
    async with windlass.open(path, agents=[agent], poll_ms=NEVER_MS) as rt, windlass.open(path) as other:
        for name in ("at-work", "let-go"):
            session = await rt.session(agent, name)
            await session.prompt("go")
            assert (await session.result()).text == "done"
        busy = await rt.get("at-work")
        await busy.prompt("again")
        active = rt._active.pop(Key("default", "let-go"))
        await active.owner.release()
        await rt._look_round()
        await (await other.get("at-work")).cancel()
        await (await other.get("let-go")).set_title("seen")
        await rt._look_round()
        await started(busy, RunCancelled)
        await started(await rt.get("let-go"), TitleChanged)


async def test_more_commands_than_are_read_at_once_are_all_taken_at_one_look(tmp_path):
    path = str(tmp_path / "work.db")
    agent = worker(never)
    titles = [f"title {number}" for number in range(INBOX_AT_ONCE + 20)]
    async with windlass.open(path, agents=[agent], poll_ms=NEVER_MS) as rt, windlass.open(path) as other:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        remote = await other.get("s")
        for title in titles:
            await remote.set_title(title)
        await rt._look_round()
        await started(session, TitleChanged, count=len(titles))
        assert [event.title for event in only(await events_of(session), TitleChanged)] == titles


async def test_what_a_runtime_writes_itself_does_not_make_it_look_round(tmp_path):
    store = await Counted.open(tmp_path / "work.db", durability="normal")
    agent = worker(*[call("add", x=1, y=number) for number in range(20)], "done")
    async with windlass.open(store, agents=[agent], poll_ms=1) as rt:
        await until(lambda: store.finds > 0)
        await asyncio.sleep(0.02)
        before = store.finds
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert (store.finds, store.news) == (before, 1)
    await store.close()


async def test_sessions_that_another_process_holds_are_not_claimed_at_its_every_write(tmp_path):
    path = str(tmp_path / "work.db")
    idle = await Counted.open(path)
    model = ScriptedModel([*[call("add", x=1, y=number) for number in range(20)], never])
    agent = windlass.Agent("w", model=model, tools=[add])
    async with windlass.open(path, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with windlass.open(idle, agents=[worker("mine")], poll_ms=1) as other:
            await until(lambda: idle.news > 0)
            await session.prompt("go")
            await until(lambda: model.turns_taken == 21)
            await until(lambda: idle.news > 5)
            assert idle.claims <= 2  # once at the start, once at the first look; the lease lasts far longer
            assert not other._active
        await session.cancel()
    await idle.close()


async def test_an_error_that_no_store_raises_is_told_once_and_the_watching_goes_on(tmp_path):
    path = str(tmp_path / "work.db")
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    store = await Broken.open(path)
    agent = worker("done")
    async with windlass.open(store, agents=[agent], poll_ms=1) as rt, windlass.open(path) as other:
        session = await rt.session(agent, "s")
        await until(lambda: store.looks > 3)
        await (await other.get("s")).set_title("seen")
        await started(session, TitleChanged)
    await store.close()
    assert [(context["message"], type(context["exception"])) for context in told] == [
        (
            "windlass: a look at the store failed; it is tried again: ZeroDivisionError: no store raises this",
            ZeroDivisionError,
        )
    ]


async def test_a_lease_that_cannot_be_kept_for_an_unknown_reason_is_tried_again(tmp_path):
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))
    store = await Broken.open(tmp_path / "work.db")
    agent = worker(never)
    async with windlass.open(store, agents=[agent], poll_ms=NEVER_MS, lease_ms=30) as rt:
        await (await rt.session(agent, "s")).prompt("go")
        await until(lambda: store.keeps >= 2)
    await store.close()
    assert told == ["windlass: the lease of session 's' was not kept; it is tried again: ZeroDivisionError: nor this"]
