"""What a runtime notices of a store that others write to, and what it leaves alone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

import windlass
from windlass.events.changes import TitleChanged
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.runs import RunCancelled
from windlass.events.stored import codec
from windlass.events.values.blocks import Text
from windlass.runtime.api.runtime import POLL_MS
from windlass.runtime.drive.mailbox import INBOX_AT_ONCE
from windlass.runtime.host import suspects
from windlass.store import open_store
from windlass.store.base import Claim, InboxCommand, IndexRow, Key, Query
from windlass.store.sqlite.index import SqliteIndex
from windlass.store.sqlite.leases import SqliteLeases
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import events_of, only, started, until

NEVER_MS = 10_000_000


class CountedLeases(SqliteLeases):
    """Counts the claims."""

    claims = 0

    async def claim(self, key: Key, **more: Any) -> Claim:
        self.claims += 1
        return await super().claim(key, **more)


class CountedIndex(SqliteIndex):
    """Counts the queries."""

    finds = 0

    async def find(self, query: Query) -> list[IndexRow]:
        self.finds += 1
        return await super().find(query)


class Counted(SqliteStore):
    """Counts what it is asked."""

    leases: CountedLeases
    index: CountedIndex
    looks = 0
    news = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.leases, self.index = CountedLeases(self.database), CountedIndex(self.database)

    async def changed(self) -> bool:
        changed = await super().changed()
        self.looks += 1
        self.news += changed
        return changed


class BrokenLeases(SqliteLeases):
    """Breaks at keeping leases in a way that no store should."""

    keeps = 0

    async def keep(self, key: Key, **more: Any) -> None:
        self.keeps += 1
        raise ZeroDivisionError("nor this")


class Broken(SqliteStore):
    """Breaks at its first looks in a way that no store should, and at keeping leases."""

    leases: BrokenLeases
    looks = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.leases = BrokenLeases(self.database)

    async def changed(self) -> bool:
        self.looks += 1
        if self.looks <= 3:
            raise ZeroDivisionError("no store raises this")
        return await super().changed()


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
        slot = rt.slots.at(Key("default", "let-go"))
        assert slot.driven is not None
        owner = slot.driven.owner
        rt.slots.unseat(slot)
        await owner.release()
        await rt.host.watch.look_round()
        await (await other.get("at-work")).cancel()
        await (await other.get("let-go")).set_title("seen")
        await rt.host.watch.look_round()
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
        await rt.host.watch.look_round()
        await started(session, TitleChanged, count=len(titles))
        assert [event.title for event in only(await events_of(session), TitleChanged)] == titles


async def test_what_a_runtime_writes_itself_does_not_make_it_look_round(tmp_path):
    store = await Counted.open(tmp_path / "work.db", durability="normal")
    agent = worker(*[call("add", x=1, y=number) for number in range(20)], "done")
    async with windlass.open(store, agents=[agent], poll_ms=1) as rt:
        await until(lambda: store.index.finds > 0)
        looks = store.looks
        await until(lambda: store.looks > looks + 2)  # by then, what the first look brought about is over
        before = store.index.finds
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert (store.index.finds, store.news) == (before, 1)
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
            assert idle.leases.claims <= 2  # once at the start, once at the first look; the lease lasts far longer
            assert not len(other.slots.driven)
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
    async with windlass.open(store, agents=[agent], poll_ms=NEVER_MS, lease_ms=600) as rt:
        await (await rt.session(agent, "s")).prompt("go")
        await until(lambda: store.leases.keeps >= 2)
    await store.close()
    assert told == ["windlass: the lease of session 's' was not kept; it is tried again: ZeroDivisionError: nor this"]


async def test_words_in_its_inbox_do_not_have_a_suspect_driven_before_its_turn(tmp_path: Any, monkeypatch: Any) -> None:
    """Two sessions of which one has lost owners; both are left a prompt while nobody drives them."""
    monkeypatch.setattr(suspects, "HEAD_START_MS", NEVER_MS)
    agent = windlass.Agent("worker", model=ScriptedModel(by_history(["one", "two"])))
    place = str(tmp_path / "work.db")
    async with windlass.open(place, agents=[agent]) as rt:
        for name in ("healthy", "suspect"):
            await (await rt.session(agent, name)).prompt("go")
            await (await rt.get(name)).result()
    store = await open_store(place)
    for name in ("healthy", "suspect"):
        key = Key("default", name)
        row = await store.index.get(key)
        assert row is not None
        if name == "suspect":
            await store.index.put(msgspec.structs.replace(row, losses=1, updated_ms=row.updated_ms + 1_000))
        command = PromptReceived(command_id=f"for-{name}", body=PromptBody(content=(Text(text="more"),)))
        data = codec.encode_command(command)
        await store.inbox.send(key, InboxCommand(command_id=command.command_id, at_ms=1, data=data))
    await store.close()
    async with windlass.open(place, agents=[agent], poll_ms=10) as rt:
        healthy, suspect = await rt.get("healthy"), await rt.get("suspect")
        await until(lambda: rt.slots.driven_at(healthy.key) is not None)
        assert (await healthy.result("for-healthy")).text == "two"
        assert rt.slots.driven_at(suspect.key) is None
        assert [one.command_id for one in await rt.store.inbox.waiting(suspect.key)] == ["for-suspect"]
        await suspect.wake()  # somebody says so
        assert (await suspect.result("for-suspect")).text == "two"
