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
from windlass.events.timers import TimerFired, TimerSet
from windlass.events.values.blocks import Text
from windlass.runtime.api.runtime_options import POLL_MS
from windlass.runtime.drive.mailbox import INBOX_AT_ONCE
from windlass.runtime.host import suspects
from windlass.store import open_store
from windlass.store.base import LEASE_MS_MAX, Claim, InboxCommand, IndexRow, Key, Query
from windlass.store.sqlite.index import SqliteIndex
from windlass.store.sqlite.leases import SqliteLeases
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.scripted import ScriptedModel, by_history, call

from .clock_target import sleeper
from .support import JumpPorts, events_of, only, started, until

NEVER_MS = 10_000_000
SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


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


class SlowLeases(SqliteLeases):
    """Takes two seconds for each claim."""

    ports: JumpingPorts

    async def claim(self, key: Key, **more: Any) -> Claim:
        self.ports.ahead_ms += 2 * SECOND_MS
        self.ports.passed_ms += 2 * SECOND_MS
        return await super().claim(key, **more)


class JumpingPorts(JumpPorts):
    """A machine on which both clocks go on as tests say."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.passed_ms


class Slow(SqliteStore):
    """Is slow at giving sessions to whoever wants to drive them."""

    leases: SlowLeases

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.leases = SlowLeases(self.database)


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


async def asleep(runtime: windlass.Runtime, agent: windlass.Agent, count: int) -> None:
    """Puts sessions to sleep."""
    for number in range(count):
        session = await runtime.session(agent, f"s{number}")
        await session.prompt("go")
        assert (await session.result()).status == "sleeping"


async def test_what_an_earlier_process_put_to_sleep_wakes_at_its_time_and_not_when_leases_are_looked_at(tmp_path):
    path, agent = str(tmp_path / "work.db"), sleeper(MINUTE_MS)
    async with windlass.open(path, agents=[agent]) as first:
        await asleep(first, agent, 1)
    ports = JumpPorts()
    async with windlass.open(path, agents=[agent], ports=ports, poll_ms=NEVER_MS, lease_ms=LEASE_MS_MAX) as rt:
        await rt.host.watch.look_round()  # the next one that is overdue is minutes away
        ports.ahead_ms += MINUTE_MS
        await rt.host.watch.look_round()
        await started(await rt.get("s0"), TimerFired)


async def test_a_clock_that_jumps_wakes_at_once_what_nobody_had_before(tmp_path):
    path, agent = str(tmp_path / "work.db"), sleeper(HOUR_MS)
    async with windlass.open(path, agents=[agent]) as first:
        await asleep(first, agent, 1)
    ports = JumpPorts()
    async with windlass.open(path, agents=[agent], ports=ports, poll_ms=NEVER_MS) as rt:
        await rt.host.watch.look_round()
        ports.ahead_ms += HOUR_MS
        await rt.host.watch.look_round()
        assert rt.host.watch._patient, "leases of others are not believed to be over"
        await started(await rt.get("s0"), TimerFired)


async def test_a_sleeper_wakes_on_time_while_many_others_are_taken_up(tmp_path):
    path, agent = str(tmp_path / "work.db"), sleeper(HOUR_MS)
    async with windlass.open(path, agents=[agent]) as first:
        await asleep(first, agent, 10)
    store, ports = await Slow.open(path), JumpingPorts()
    store.leases.ports = ports
    ports.ahead_ms = HOUR_MS
    short = windlass.Agent("short", sleeper(5 * SECOND_MS).model, tools=["wait"])
    async with windlass.open(store, agents=[short], ports=ports, poll_ms=20) as rt:
        own = await rt.session(short, "own")
        await own.prompt("go")
        assert (await own.result()).status == "sleeping"
        rt.bind(agent)
        rt.host.watch._look_soon()
        for number in range(10):
            await started(await rt.get(f"s{number}"), TimerFired)
        await started(own, TimerFired)
        records = [record async for record in own.records()]
        (woken_ms,) = [record.at_ms for record in records if isinstance(record.event, TimerFired)]
        due_ms = next(event.at_ms for event in (record.event for record in records) if isinstance(event, TimerSet))
        assert woken_ms - due_ms <= 5 * SECOND_MS, "two claims and a little; all of them take twenty"
    await store.close()
