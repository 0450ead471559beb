"""One stream over a tree: each session's order, causes before effects, a cursor that may be cut anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from windlass.events.base import Event, name_of
from windlass.events.errors import UsageError
from windlass.events.live import Live
from windlass.events.runs import InterruptReceived
from windlass.events.sessions import NoticeGiven
from windlass.events.trees.children import ChildFinished, ChildMoved, ChildStarted, ChildStopped
from windlass.runtime.streams.cursors import CursorMismatch
from windlass.runtime.streams.record import Record
from windlass.runtime.streams.tree_merge import Scoped, TreeMerge
from windlass.store import MemoryStore
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import agent_of


@windlass.tool(traits=["write"])
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


ASK = windlass.Policy((windlass.ask("pay"),))
Said = tuple[str, int, str]


def helper(name: str, *turns: object, **more: object) -> windlass.Agent:
    return windlass.Agent(name, ScriptedModel(by_history(list(turns))), description="helps", **more)  # type: ignore[arg-type]


def spawn(name: str, mode: str = "foreground") -> object:
    return call("spawn", agent=name, task="do it", mode=mode)


def tree() -> windlass.Agent:
    """A tree of six sessions, three deep: one asks, one goes on in the background."""
    payer = helper("payer", call("pay", amount=3), "paid", tools=[pay], policy=ASK)
    thinker = helper("thinker", "thought")
    middle = helper("middle", [spawn("payer"), spawn("thinker")], "both", agents=[payer, thinker])
    turns = [[spawn("middle"), spawn("thinker", "background")], spawn("thinker"), "done", "told"]
    return agent_of(*turns, name="lead", agents=[middle, thinker])


async def worked(store: object) -> None:
    """Has the tree work to its end, with one answer on the way."""
    lead = tree()
    async with windlass.open(store, agents=[lead]) as rt:  # type: ignore[arg-type]
        session = await rt.session(lead, "s")
        await session.prompt("go")
        await session.result()
        async with asyncio.timeout(60):
            while not (asked := await session.requests()):
                await asyncio.sleep(0.01)
            await session.approve(asked[0])
            while await at_work(session):
                await asyncio.sleep(0.01)


async def at_work(session: windlass.Session) -> bool:
    """Whether more may happen in a tree: nothing comes to a root that rests and has no children."""
    state = await session.state()
    return state.active or bool(state.children.open)


def said(read: Sequence[Scoped]) -> list[Said]:
    return [(one.scope, one.told.seq, name_of(one.told.event)) for one in read if isinstance(one.told, Record)]


def check_order(read: Sequence[Scoped]) -> None:
    """Each session's records in their order from its first on, behind the call that started it; causes first."""
    places: dict[str, int] = {"": 0}
    for one in read:
        assert isinstance(one.told, Record)
        event = one.told.event
        assert one.told.seq == places[one.scope] + 1, (one.scope, one.told.seq, places)
        places[one.scope] += 1
        below = f"{one.scope}~".lstrip("~")
        if isinstance(event, ChildStarted):
            places[f"{below}{event.call_id}"] = 0
        if isinstance(event, ChildFinished | ChildMoved):
            assert places[f"{below}{event.call_id}"] >= event.child_seq


async def test_the_logs_of_a_tree_are_one_stream_in_one_order():
    store = MemoryStore()
    await worked(store)
    async with windlass.open(store) as rt:
        session = await rt.get("s")
        read = [one async for one in session.tail_tree(live=False)]
        check_order(read)
        assert said([one async for one in session.tail_tree(live=False)]) == said(read)
        rows = await rt.sessions(root="s")
        assert len(rows) == 6
        assert len(read) == sum(row.seq for row in rows)
        deep = next(one for one in read if one.depth == 2)
        assert [(frame.agent, frame.session) for frame in deep.frames] == [
            ("middle", "s~c6.0"),
            (deep.frames[1].agent, deep.session),
        ]
        for depth in range(3):
            some = [one async for one in session.tail_tree(depth=depth, live=False)]
            assert max(one.depth for one in some) == depth
            assert {one.session for one in some} == {one.session for one in read if one.depth <= depth}
        assert said(some) == said(read)


class Logs:
    """Logs of a tree, written down: what a merge reads of a `LogReader`."""

    def __init__(self, **logs: Sequence[tuple[int, Event]]) -> None:
        self._logs = {
            name: [Record(seq=n, at_ms=at, event=event, first=n) for n, (at, event) in enumerate(log, start=1)]
            for name, log in logs.items()
        }

    async def records(self, key: Key, *, after: int = 0) -> AsyncIterator[Record]:
        for record in self._logs.get(key.session, [])[after:]:
            yield record


def tree_of(times: Sequence[int]) -> Logs:
    """A session, a child that is stopped and tells its end, and a child of that one; each record at some time."""
    at = iter(times)
    note = NoticeGiven(level="info", code="x", message="x")
    end: dict[str, Any] = {"child_id": "s~c1.0", "call_id": "c1.0", "command_id": "finished:s~c1.0"}
    deep: dict[str, Any] = {"child_id": "s~c1.0~c2.0", "call_id": "c2.0", "command_id": "finished:s~c1.0~c2.0"}
    root: list[Event] = [note, ChildStarted(child_id="s~c1.0", call_id="c1.0"), note]
    root += [ChildStopped(child_id="s~c1.0", call_id="c1.0", how="interrupt"), note, ChildFinished(**end, child_seq=6)]
    child: list[Event] = [note, ChildStarted(child_id="s~c1.0~c2.0", call_id="c2.0"), note]
    child += [InterruptReceived(command_id="stop:s~c1.0:4"), ChildFinished(**deep, child_seq=3), note, note]
    logs: dict[str, list[tuple[int, Event]]] = {
        "s": [(next(at), event) for event in root],
        "s~c1.0": [(next(at), event) for event in child],
        "s~c1.0~c2.0": [(next(at), note) for _ in range(4)],
    }
    return Logs(**logs)


@given(st.lists(st.integers(0, 5), min_size=17, max_size=17))
@settings(max_examples=60, deadline=None)
def test_causes_come_first_whatever_the_clocks_say(times):
    async def merged() -> list[Scoped]:
        merge = TreeMerge(tree_of(times), Key("default", "s"))  # type: ignore[arg-type]
        found = []
        while (scoped := await merge.next()) is not None:
            found.append(scoped)
        return found

    read = asyncio.run(merged())
    check_order(read)
    order = said(read)
    assert len(order) == 17
    assert order.index(("", 4, "child.stopped")) < order.index(("c1.0", 4, "interrupt.received"))


async def test_a_cursor_may_be_cut_anywhere_without_a_gap_or_a_repeat():
    store = MemoryStore()
    await worked(store)
    async with windlass.open(store) as rt:
        session = await rt.get("s")
        whole = said([one async for one in session.tail_tree(live=False)])
        stream = session.tail_tree(live=False)
        cursors = [stream.cursor]
        async for _ in stream:
            cursors.append(stream.cursor)
        assert len(cursors) == len(whole) + 1
        for cut, cursor in enumerate(cursors):
            again = session.tail_tree(after=cursor, live=False)
            assert again.cursor == cursor
            assert said([one async for one in again]) == whole[cut:]


async def test_a_tree_is_told_live_with_what_is_being_written(tmp_path):
    lead = tree()
    async with windlass.open(tmp_path / "s.db", agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        read: list[Scoped] = []
        ended = 0
        stream = session.tail_tree()
        async with asyncio.timeout(60):
            async for one in stream:
                read.append(one)
                event = one.told.event if isinstance(one.told, Record) else None
                if event is not None and name_of(event) == "permission.requested":
                    await session.approve(next(iter(await session.requests())))
                ended += isinstance(event, ChildFinished)
                if ended == 5 and not await at_work(session):
                    break
        recorded = [one for one in read if isinstance(one.told, Record)]
        check_order(recorded)
        assert any(isinstance(one.told, Live) and one.depth == 2 for one in read)
        rest = [one async for one in session.tail_tree(after=stream.cursor, live=False)]
        check_order([*recorded, *rest])
        whole = [one async for one in session.tail_tree(live=False)]
        assert sorted(said([*recorded, *rest])) == sorted(said(whole))


async def test_a_reading_that_is_cut_live_goes_on_where_it_stopped(tmp_path):
    lead = tree()
    read: list[Scoped] = []
    async with windlass.open(tmp_path / "s.db", agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        cursor: str | None = None
        async with asyncio.timeout(60):
            while len({one.session for one in read}) < 6 or await at_work(session):
                stream = session.tail_tree(after=cursor)
                tail = aiter(stream)
                for _ in range(7):
                    try:
                        one = await asyncio.wait_for(anext(tail), 0.5)
                    except TimeoutError:
                        break
                    if isinstance(one.told, Record):
                        read.append(one)
                cursor = stream.cursor
                await tail.aclose()  # type: ignore[attr-defined]
                for ask in await session.requests():
                    await session.approve(ask)
        read += [one async for one in session.tail_tree(after=cursor, live=False)]
        check_order(read)
        assert sorted(said(read)) == sorted(said([one async for one in session.tail_tree(live=False)]))


async def test_a_cursor_of_other_logs_or_of_nothing_is_refused():
    one, other = MemoryStore(), MemoryStore()
    await worked(one)
    await worked(other)
    async with windlass.open(one) as rt:
        stream = (await rt.get("s")).tail_tree(live=False, depth=1)
        async for _ in stream:
            pass
    async with windlass.open(other) as rt:
        session = await rt.get("s")
        with pytest.raises(CursorMismatch):
            async for _ in session.tail_tree(after=stream.cursor, live=False):
                pass
        for wrong in ("", "t1.", "t1.x", "c1.0.", stream.cursor[:-9]):
            with pytest.raises(UsageError):
                session.tail_tree(after=wrong)
        with pytest.raises(UsageError, match="depth=1"):
            session.tail_tree(after=stream.cursor, depth=2)
        with pytest.raises(UsageError, match="depth"):
            session.tail_tree(depth=-1)
