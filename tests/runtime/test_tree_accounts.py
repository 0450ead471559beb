"""What a tree has used, once it has come to rest: told at every level, whoever stopped it and whenever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import ChildFinished
from windlass.events.turns import TurnStarted
from windlass.kernel.parts.budgets import held
from windlass.testing.scripted import ScriptedModel, call

from .support import agent_of, events_of, only, sound

TURNS = 64
LIMIT_S = 60


class Deep:
    """A tree three deep whose deepest session hangs in a tool."""

    def __init__(self, mode: str = "foreground") -> None:
        self.hanging = asyncio.Event()
        never = asyncio.Event()

        @windlass.tool(contract="pure")
        async def hang() -> str:
            """Hangs."""
            self.hanging.set()
            await never.wait()
            return ""

        leaf = self._named("leaf", call("hang"), tools=[hang])
        mid = self._named("mid", call("spawn", agent="leaf", task="x", mode=mode), "over", agents=[leaf])
        top = self._named("top", call("spawn", agent="mid", task="x"), "over", agents=[mid])
        self.agent = agent_of(
            call("spawn", agent="top", task="x"),
            *["over"] * 3,
            agents=[top],
            session_budget=windlass.Budget(turns=TURNS, calls=40, tokens=400_000, children=20),
        )

    def _named(self, name: str, *replies: Any, **more: Any) -> windlass.Agent:
        return windlass.Agent(name, ScriptedModel(list(replies)), description="helps", **more)


def _open(state: Any) -> bool:
    return bool(state.active or state.children.open or state.children.unsettled)


async def at_rest(rt: windlass.Runtime, root: str = "s") -> list[windlass.Session]:
    """The sessions of a tree, the root first, once nobody in it waits for an end."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            tree = [await rt.get(row.session) for row in await rt.sessions(root=root)]
            states = [await session.state() for session in tree]
            unread = [await rt.store.inbox.waiting(session.key) for session in tree]
            if not any(unread) and not any(_open(state) for state in states):
                return sorted(tree, key=lambda session: session.key.session.count("~"))
            await asyncio.sleep(0.01)


async def check_accounts(tree: list[windlass.Session]) -> None:
    """At every level what is booked is what the logs below tell, and nothing is set aside any more."""
    for session in tree:
        below = [
            one
            for one in tree
            if one.key.session == session.key.session or one.key.session.startswith(f"{session.key.session}~")
        ]
        turns = sum([len(only(await events_of(one), TurnStarted)) for one in below])
        state = await sound(session)
        spent = state.budget.spent
        assert (session.key.session, spent.turns, spent.children) == (session.key.session, turns, len(below) - 1)
        assert (session.key.session, held(state).turns, held(state).tokens) == (session.key.session, 0, 0)


@pytest.mark.parametrize("stop", ["interrupt", "cancel"])
async def test_a_tree_that_is_stopped_books_what_was_used_and_gives_the_rest_back(stop):
    deep = Deep()
    async with windlass.open(agents=[deep.agent]) as rt:
        session = await rt.session(deep.agent, "s")
        await session.prompt("go")
        await asyncio.wait_for(deep.hanging.wait(), LIMIT_S)
        await getattr(session, stop)()
        tree = await at_rest(rt)
        assert [one.key.session.count("~") for one in tree] == [0, 1, 2, 3]
        await check_accounts(tree)


async def test_a_child_that_ends_before_the_one_below_it_gives_its_answer_at_once_and_settles_later():
    deep = Deep(mode="background")
    async with windlass.open(agents=[deep.agent]) as rt:
        session = await rt.session(deep.agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "over"
        tree = await at_rest(rt)
        await check_accounts(tree)
        _, top, mid, _ = tree
        (end,), (settled,) = only(await events_of(top), ChildFinished), only(await events_of(top), ChildSettled)
        assert end.held is not None
        assert end.child_id == settled.child_id == mid.key.session
        assert end.held.turns > 0


async def test_a_fork_pays_nothing_for_children_that_work_for_its_origin():
    deep = Deep()
    async with windlass.open(agents=[deep.agent]) as rt:
        session = await rt.session(deep.agent, "s")
        await session.prompt("go")
        await asyncio.wait_for(deep.hanging.wait(), LIMIT_S)
        branch = await session.fork("other")
        state = await branch.state()
        assert (state.budget.spent.turns, state.budget.spent.children) == (1, 1)
        assert (held(state).turns, held(state).tokens) == (0, 0)
        await session.cancel()
        await check_accounts(await at_rest(rt))


async def test_whoever_stops_a_tree_and_leaves_has_its_ends_on_record(tmp_path):
    deep, place = Deep(), str(tmp_path / "s.db")
    async with windlass.open(place, agents=[deep.agent]) as rt:
        session = await rt.session(deep.agent, "s")
        await session.prompt("go")
        await asyncio.wait_for(deep.hanging.wait(), LIMIT_S)
        await session.cancel()
    async with windlass.open(place, take_up=False) as rt:
        tree = [await rt.get(row.session) for row in await rt.sessions(root="s")]
        root, *_ = sorted(tree, key=lambda session: session.key.session.count("~"))
        assert [end.status for end in only(await events_of(root), ChildFinished)] == ["aborted"]
        assert [await rt.store.inbox.waiting(one.key) for one in tree] == [[]] * 4
        await check_accounts(tree)


async def test_a_tree_whose_ends_were_not_taken_is_brought_to_rest_by_the_next_who_asks_for_its_root(tmp_path):
    deep, place = Deep(), str(tmp_path / "s.db")
    async with windlass.open(place, agents=[deep.agent]) as rt:
        session = await rt.session(deep.agent, "s")
        await session.prompt("go")
        await asyncio.wait_for(deep.hanging.wait(), LIMIT_S)
        await session.cancel()
        rt.slots.closed = True  # as a process that is killed in between: nothing more is taken
    async with windlass.open(place, take_up=False, agents=[deep.agent]) as rt:
        await rt.drive("s")
        tree = await at_rest(rt)
        assert len(only(await events_of(tree[0]), ChildFinished)) == 1
        await check_accounts(tree)
