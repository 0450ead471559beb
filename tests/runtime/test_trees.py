"""Child sessions end to end: each begins once, its end comes back once, whatever is killed in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import windlass
from windlass.events.base import Event
from windlass.events.commands import PromptReceived
from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.runs import RunCompleted, RunStarted
from windlass.events.sessions import NoticeGiven
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import ToolDenied
from windlass.events.trees.children import ChildFinished, ChildOpened, ChildStarted
from windlass.events.values.policy import Policy, Rule
from windlass.runtime.api.approvals import together
from windlass.store import open_store
from windlass.store.base import Key
from windlass.store.memory import MemoryStore
from windlass.testing.scripted import ScriptedModel, by_history, call, fail, hang

from .support import QUICK, JumpPorts, agent_of, events_of, only, sound, until

DAY_MS = 24 * 3_600_000


def helper(*replies: object, name: str = "helper", **more: object) -> windlass.Agent:
    return windlass.Agent(name, ScriptedModel(list(replies)), description="helps", **more)  # type: ignore[arg-type]


def told(agent: windlass.Agent) -> str:
    assert isinstance(agent.model, ScriptedModel)
    return str(agent.model.requests[-1].items[-1])


async def test_a_child_in_the_foreground_gives_the_result_of_its_call():
    child = helper("forty-two")
    agent = agent_of(call("spawn", agent="helper", task="think"), "done", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        events = await events_of(session)
        (began,), (end,) = only(events, ChildStarted), only(events, ChildFinished)
        assert began.child_id == f"s~{began.call_id}" == end.child_id
        assert "forty-two" in told(agent)
        assert "think" in told(child)
        below = await rt.get(began.child_id)
        row = await rt.store.index.get(below.key)
        assert row is not None
        assert (row.root, row.parent, row.scope) == ("s", "s", began.call_id)
        assert (await sound(session)).children.open == {}
        await sound(below)


async def test_a_child_that_has_not_begun_is_there_and_a_session_of_a_cut_off_beginning_is_not():
    store = MemoryStore()
    for name in ("s~c6.0", "s"):
        await store.log.create(Key("default", name))
    async with windlass.open(store=store, agents=[agent_of("done")]) as rt:
        assert (await rt.get("s~c6.0")).session_id == "s~c6.0"
        with pytest.raises(NotFound, match="there is no session 's'"):
            await rt.get("s")


async def test_a_child_in_the_background_is_told_of_later():
    child = helper("forty-two")
    agent = agent_of(call("spawn", agent="helper", task="t", mode="background"), "going on", "seen", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await until(lambda: len(agent.model.requests) == 3)  # type: ignore[union-attr]
        await session.result()
        events = await events_of(session)
        assert len(only(events, ChildOpened)) == len(only(events, ChildFinished)) == 1
        assert any("forty-two" in str(item) for item in agent.model.requests[-1].items)  # type: ignore[union-attr]
        await sound(session)


async def test_sessions_of_one_process_hear_of_each_other_without_a_look_at_the_store():
    leaf = helper("leaf", name="leaf")
    mid = helper(call("spawn", agent="leaf", task="x"), "mid", name="mid", agents=[leaf])
    agent = agent_of(call("spawn", agent="mid", task="x"), "done", agents=[mid])
    async with windlass.open(agents=[agent], poll_ms=DAY_MS) as rt, asyncio.timeout(100):
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"


async def test_a_child_is_told_its_task_by_a_process_that_has_not_read_the_reply_that_names_it(tmp_path):
    store = str(tmp_path / "work.db")

    def spawning() -> tuple[windlass.Agent, windlass.Agent]:
        child = helper("forty-two")
        turns: list[Any] = [call("spawn", agent="helper", task="think of a number"), "done"]
        policy = Policy([Rule(action="ask", tool="spawn")])
        return windlass.Agent("a", ScriptedModel(by_history(turns)), agents=[child], policy=policy), child

    agent, _ = spawning()
    async with windlass.open(store, agents=[agent], snapshot_every=1) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
    agent, child = spawning()
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.get("s")
        await session.approve((await session.requests())[0])
        assert (await session.result()).text == "done"
        assert "think of a number" in told(child)


async def test_what_a_child_does_comes_later_than_what_caused_it_also_if_the_log_of_its_parent_is_ahead(tmp_path):
    store, ahead = str(tmp_path / "work.db"), JumpPorts()
    child = helper("forty-two")
    turns: list[Any] = ["one", call("spawn", agent="helper", task="think"), "done"]
    agent = windlass.Agent("a", ScriptedModel(by_history(turns)), agents=[child])
    ahead.ahead_ms = DAY_MS
    async with windlass.open(store, agents=[agent], ports=ahead) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.get("s")
        await session.prompt("on")
        assert (await session.result()).text == "done"
        sent = {type(record.event): record async for record in session.records()}
        (began,) = only(await events_of(session), ChildStarted)
        below = await rt.get(began.child_id)
        taken = {type(record.event): record async for record in below.records()}
    caused = [sent[ChildStarted].at_ms, taken[PromptReceived].at_ms, taken[RunCompleted].at_ms]
    assert caused == sorted(caused)
    assert caused[0] < caused[1]
    assert taken[RunCompleted].at_ms < sent[ChildFinished].at_ms


async def test_trees_go_three_deep_and_no_deeper():
    leaf = helper("leaf", name="leaf")
    mid = helper(call("spawn", agent="leaf", task="x"), "mid", name="mid", agents=[leaf])
    top = helper(call("spawn", agent="mid", task="x"), "top", name="top", agents=[mid])
    agent = agent_of(call("spawn", agent="top", task="x"), "done", agents=[top])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        rows = await rt.sessions(root="s")
        assert sorted(row.session.count("~") for row in rows) == [0, 1, 2, 3]


BOUNDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "budget": lambda depth: {"budget": windlass.Budget(depth=depth)},
    "session_budget": lambda depth: {"session_budget": windlass.Budget(depth=depth)},
    "settings": lambda depth: {"settings": msgspec.structs.replace(QUICK, children_depth_max=depth)},
}
"""Where an agent says how deep the sessions below it may go."""


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("bound", sorted(BOUNDS))
@pytest.mark.parametrize("below", sorted(BOUNDS))
async def test_a_tree_goes_as_deep_as_whoever_is_above_lets_it_whatever_those_below_say(bound, depth, at, below):
    """Six agents one above the other; the one at `at` is bound, the root allows more than there is otherwise."""
    wide = msgspec.structs.replace(QUICK, children_depth_max=9)
    agent = helper("leaf", name="a0")
    for level in range(1, 6):
        said: dict[str, Any] = {"settings": wide, **BOUNDS[below](9)}
        if level == 5 - at:
            said |= BOUNDS[bound](depth)
        spawn = call("spawn", agent=agent.name, task="x")
        agent = windlass.Agent(
            f"a{level}", ScriptedModel(by_history([spawn, "done"])), agents=[agent], description="spawns", **said
        )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        processes = await session.processes()
        assert max(process.depth for process in processes) == max(depth, at)
        for process in processes:
            await sound(await rt.get(process.session))


async def test_no_caller_may_name_a_session_like_a_child():
    async with windlass.open() as rt:
        with pytest.raises(UsageError, match="child sessions"):
            await rt.session(agent_of("x"), "a~b")


async def test_a_timer_begins_no_run_in_a_child_that_has_ended():
    ports = JumpPorts()
    child = helper(call("wait", for_ms=60_000), fail("invalid_request", "no"), tools=["wait"])
    agent = agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child])
    async with windlass.open(agents=[agent], ports=ports, poll_ms=10) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        below = await rt.get("s~c6.0")
        assert (await below.state()).timers.open
        ports.ahead_ms += 120_000
        await recorded(below, TimerFired)
        assert len(only(await events_of(below), RunStarted)) == 1
        await sound(below)


async def recorded(session: windlass.Session, kind: type[Event]) -> None:
    """Waits until the log holds such an event."""
    async with asyncio.timeout(120):
        while not only(await events_of(session), kind):
            await asyncio.sleep(0.01)


async def test_an_interrupt_reaches_the_child_and_its_end_comes_back():
    started, never = asyncio.Event(), asyncio.Event()

    @windlass.tool(contract="pure")
    async def hang() -> str:
        """Hangs."""
        started.set()
        await never.wait()
        return ""

    child = helper(call("hang"), "never", tools=[hang])
    agent = agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await asyncio.wait_for(started.wait(), 20)
        await session.interrupt()
        assert (await session.result()).status == "interrupted"
        while (await session.state()).children.open:
            await asyncio.sleep(0.01)
        (end,) = only(await events_of(session), ChildFinished)
        assert end.status == "aborted"
        ended = await rt.get(end.child_id)
        for said in (ended.prompt("more"), ended.wake(), ended.signal("news", "more")):
            with pytest.raises(Refused, match="has ended"):
                await said


@pytest.mark.parametrize("store", ["sqlite", "jsonl"])
async def test_a_child_goes_on_after_its_process_is_gone(store, tmp_path):
    gate, first = asyncio.Event(), asyncio.Event()

    @windlass.tool(contract="pure")
    async def slow() -> str:
        """Takes its time."""
        first.set()
        await gate.wait()
        return "slow"

    def made() -> windlass.Agent:
        child = helper(call("slow"), "forty-two", tools=[slow])
        return agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child])

    place = str(tmp_path / ("s.db" if store == "sqlite" else "s.jsonl.d"))
    agent = made()
    async with windlass.open(place, agents=[agent]) as rt:
        await (await rt.session(agent, "s")).prompt("go")
        await asyncio.wait_for(first.wait(), 20)
    gate.set()
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "done"
        rows = await rt.sessions(root="s")
        assert len(rows) == 2
        assert len(only(await events_of(session), ChildFinished)) == 1


async def test_a_parent_says_that_its_child_waits_for_an_agent_that_is_not_here(tmp_path):
    """The code that began the child knew a specialist that this code does not know."""
    slow = helper([hang()], name="slow")
    before = agent_of(call("spawn", agent="slow", task="t"), agents=[slow])
    async with windlass.open(tmp_path / "w.db", agents=[before]) as rt:
        session = await rt.session(before, "s")
        await session.prompt("go")
        await until(lambda: slow.model.requests)  # type: ignore[union-attr]
    after = agent_of("done", agents=[helper(name="other")])
    async with windlass.open(tmp_path / "w.db", agents=[after]) as rt:
        session = await rt.get("s")
        async with asyncio.timeout(60):
            async for event in session.events(after=0):
                if isinstance(event, NoticeGiven):
                    break
        (notice,) = only(await events_of(session), NoticeGiven)
        assert notice.code == "child_unbound"
        assert "c6.0 waits for a process with its agent 'slow', which is not here" in notice.message
        await session.interrupt()
        assert (await session.result()).status == "interrupted"
        await sound(session)


async def test_a_store_that_sends_nothing_with_an_append_loses_no_message():
    from windlass.store.base import Capabilities

    class Plain(MemoryStore):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(durable=False, multi_process=False, transactional=True)

    child = helper("forty-two")
    agent = agent_of(call("spawn", agent="helper", task="think"), "done", agents=[child])
    async with windlass.open(Plain(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert await rt.store.inbox.waiting(Key("default", "s")) == []


@windlass.tool(traits=["write"])
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


ASK = Policy([Rule(action="ask", tool="pay")])


@pytest.mark.parametrize("deep", [False, True])
async def test_a_request_of_a_child_at_any_depth_surfaces_at_the_root_and_is_answered_there(deep):
    child = helper(call("pay", amount=3), "paid it", tools=[pay], policy=ASK)
    if deep:
        child = helper(call("spawn", agent="helper", task="x"), "done below", name="mid", agents=[child])
    agent = agent_of(call("spawn", agent=child.name, task="t"), "done", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        assert result.status == "asked"
        (request,) = await session.requests()
        assert result.waiting_for == (request.request_id,)
        assert request.request_id.count("~") == int(deep)
        row = await rt.store.index.get(session.key)
        assert row is not None
        assert row.waiting_for == (request.request_id,)
        await session.approve(request)
        assert (await session.result()).text == "done"
        await sound(session)


async def test_a_request_of_a_child_survives_restarts_of_both_sides(tmp_path):
    place = str(tmp_path / "s.db")
    child = helper(call("pay", amount=3), "paid it", tools=[pay], policy=ASK)
    agent = agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child])
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
    async with windlass.open(place) as rt:  # a process that has no code sends the answer
        session = await rt.get("s")
        (request,) = await session.requests()
        await session.approve(request)
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.get("s")
        await until_text(session, "done")
        assert len(await rt.sessions(root="s")) == 2


async def test_an_outcome_that_nobody_knows_is_settled_at_the_root(tmp_path):
    begun = asyncio.Event()

    @windlass.tool(settle=True)
    async def wire() -> str:
        """Sends money."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    place = str(tmp_path / "s.db")
    child = helper(call("wire"), "noted", tools=[wire])
    agent = agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child])
    async with windlass.open(place, agents=[agent]) as rt:
        await (await rt.session(agent, "s")).prompt("go")
        await asyncio.wait_for(begun.wait(), 60)
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.get("s")
        while not (result := await session.result()).waiting_for:
            await asyncio.sleep(0.01)
        (name,) = result.waiting_for
        await session.settle(name, "happened", "sent")
        await until_text(session, "done")
        assert "sent" in told(child)


async def test_what_a_child_asks_is_listed_at_the_root_before_the_root_has_heard_of_it(tmp_path):
    place = str(tmp_path / "s.db")
    child = helper(call("pay", amount=3), "paid it", tools=[pay], policy=ASK)
    agent = agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child])
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (known,) = await session.requests()
    other = await open_store(tmp_path / "other.db")
    kept = await open_store(place)
    lines = [sealed async for sealed in kept.log.read(Key("default", "s"))]
    before = next(n for n, sealed in enumerate(lines) if b"child.moved" in sealed.data)
    await other.log.adopt(Key("default", "s"), lines[:before])
    asked = Key("default", "s~" + known.request_id.partition("/")[0])
    row = await kept.index.get(asked)
    await other.log.adopt(asked, [sealed async for sealed in kept.log.read(asked)], index=row)
    await kept.close()
    async with windlass.open(other, take_up=False) as rt:
        session = await rt.get("s")
        assert (await session.state()).children.open["c6.0"].status == "working"
        assert [ask.request_id for ask in await session.requests()] == [known.request_id]
    await other.close()


async def test_requests_of_two_children_that_look_alike_are_not_one():
    child = helper(*[call("pay", amount=3)] * 2, *["paid it"] * 2, tools=[pay], policy=ASK)
    spawn = call("spawn", agent="helper", task="t")
    agent = agent_of([spawn, spawn], "done", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        requests = await session.requests()
        assert [ask.request_id for ask in requests] == ["c6.0/p8", "c6.1/p8"]
        assert [getattr(ask, "also", ()) for ask in together(requests)] == [(), ()]
        for ask in requests:
            await session.approve(ask)
        await until_text(session, "done")


@pytest.mark.parametrize("by", ["its parent", "somebody"])
async def test_a_child_that_is_stopped_in_its_sleep_tells_its_end(by):
    child = helper(fail("rate_limited", "later", retry_after_ms=86_400_000), "awake")
    agent = agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "sleeping"
        (name,) = await session.children()
        await (session if by == "its parent" else await rt.get(name)).interrupt()
        async with asyncio.timeout(60):
            while (await session.state()).children.open:
                await asyncio.sleep(0.01)
        (end,) = only(await events_of(session), ChildFinished)
        assert end.status == "aborted"
        await sound(await rt.get(name))
        await sound(session)


async def until_text(session: windlass.Session, text: str) -> None:
    while (await session.result()).text != text:
        await asyncio.sleep(0.02)


async def test_a_child_has_its_parents_denials_and_none_of_its_approvals():
    child = helper(call("pay", amount=1), "ended", tools=[pay])
    deny = Policy([Rule(action="deny", tool="pay", missing_ok=True, reason="not here")])
    agent = agent_of(call("spawn", agent="helper", task="t"), "done", agents=[child], policy=deny)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        assert "not here" in told(child)


async def test_a_child_is_spawned_from_code_and_typed():
    child = helper('{"n": 4}', output={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    agent = agent_of("unused", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        below = await session.spawn(child, "count", budget=windlass.Budget(tokens=5_000))
        assert (await below.result()).output == {"n": 4}
        await session.result()
        (end,) = only(await events_of(session), ChildFinished)
        assert end.status == "completed"
        assert end.body is not None
        assert end.body.output == {"n": 4}
        assert (await below.state()).budget.limits.tokens == 5_000


async def test_the_slices_of_a_tree_come_out_of_its_budget_and_go_back():
    child = helper("a", "b", "c")
    spawn = call("spawn", agent="helper", task="t")
    agent = agent_of([spawn, spawn, spawn], "done", agents=[child], budget=windlass.Budget(tokens=40_000))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        began = only(await events_of(session), ChildStarted)
        assert len(began) == 3
        assert sum(start.slice.tokens or 0 for start in began) < 40_000
        rows = await rt.sessions(root="s")
        below = sum(row.input_tokens + row.output_tokens for row in rows if row.parent)
        state = await session.state()
        assert state.budget.spent.tally.total_tokens >= below > 0
        assert result.text == "done"
        assert state.children.open == {}


async def test_nothing_left_to_give_is_a_denial():
    child = helper("a")
    agent = agent_of(
        call("spawn", agent="helper", task="t"), "done", agents=[child], budget=windlass.Budget(children=0)
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert "no child sessions are left" in told(agent)


async def test_something_said_to_a_child_steers_it():
    gate, first = asyncio.Event(), asyncio.Event()

    @windlass.tool(contract="pure")
    async def slow() -> str:
        """Takes its time."""
        first.set()
        await gate.wait()
        return "slow"

    child = helper(call("slow"), "ended", tools=[slow])
    agent = agent_of("seen", agents=[child])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        below = await session.spawn("helper", "t", mode="background")
        await asyncio.wait_for(first.wait(), 20)
        await session.tell_child(below, "be brief")
        while not (await below.state()).queue.steering:
            await asyncio.sleep(0.01)
        gate.set()
        await below.result()
        assert "be brief" in str(child.model.requests[-1].items)  # type: ignore[union-attr]


@pytest.mark.parametrize("chars", [186, 187, 195, 196, 200])
async def test_a_session_of_any_length_of_name_has_children_or_says_why_not(chars):
    below = windlass.Agent("below", ScriptedModel(["found"]))
    model = ScriptedModel(by_history([call("spawn", agent="below", task="look"), "done"]))
    agent = windlass.Agent("above", model, agents=[below])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s" * chars)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        ends = [end.ok for end in only(await events_of(session), ChildFinished)]
        denied = [each.detail for each in only(await events_of(session), ToolDenied)]
    told = "the ids of sessions have 200 characters at the most, and a child's would have more"
    assert (ends, denied) == (([True], []) if chars <= 195 else ([], [told]))
