"""Sessions over processes and owners: binding, resuming, leases, poison, shared stores."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

import windlass
from windlass.events.commands import PromptReceived
from windlass.events.runs import RunCompleted, RunStarted, Terminal
from windlass.events.sessions import AgentChanged, SessionResumed, SessionTotalled
from windlass.events.tools.calls import ToolOutcomeUnknown, ToolStarted
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.turns import ModelRequested
from windlass.runtime.host.slot_table import Line
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.schema import SEQ_BITS
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import JumpPorts, agent_of, events_of, only, sound, started, until


@windlass.tool
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


@windlass.tool(contract="pure")
def read(path: str) -> str:
    "Read a file."
    return path


async def hold() -> str:
    await asyncio.get_running_loop().create_future()
    return ""


async def cut_off(store: Any, agent: windlass.Agent, model_requests: int) -> None:
    """Leaves a session in the middle of its work."""
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        model = agent.model
        assert isinstance(model, ScriptedModel)
        await until(lambda: model.turns_taken == model_requests)
        await asyncio.sleep(0.01)


async def test_a_session_that_was_cut_off_goes_on_by_itself_when_its_agent_is_bound(tmp_path):
    store = str(tmp_path / "work.db")

    async def never(request):
        await asyncio.get_running_loop().create_future()

    await cut_off(store, windlass.Agent("w", model=ScriptedModel([call("add", x=1, y=2), never]), tools=[add]), 2)
    second = windlass.Agent("w", model=ScriptedModel(["three"]), tools=[add])
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "three"
        events = await events_of(session)
        assert len(only(events, SessionResumed)) == 1
        assert len(only(events, ToolStarted)) == 1
        assert len(only(events, RunStarted)) == 1
        await sound(session)


@pytest.mark.parametrize(("contract", "starts"), [("pure", 2), ("idempotent", 2), ("at_most_once", 1)])
async def test_a_tool_that_was_running_is_treated_by_its_contract(tmp_path, contract, starts):
    store = str(tmp_path / "work.db")
    keys: list[str] = []
    held = True

    @windlass.tool(contract=contract)
    async def act(ctx: windlass.ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        if held:
            await hold()
        return "acted"

    async with windlass.open(store, agents=[first := agent_of(call("act"), tools=[act])]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await until(lambda: len(keys) == 1)
    held = False
    second = agent_of("done", tools=[act])
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "done"
        assert len(keys) == starts
        assert len(set(keys)) == 1
        unknown = only(await events_of(session), ToolOutcomeUnknown)
        assert len(unknown) == (contract == "at_most_once")
        model = second.model
        assert isinstance(model, ScriptedModel)
        told = str(model.requests[0].items[-1])
        assert ("acted" in told) == (contract != "at_most_once")
        assert ("unknown" in told) == (contract == "at_most_once")
        await sound(session)


async def test_an_unknown_outcome_is_settled_by_a_person_where_the_tool_says_so(tmp_path):
    store = str(tmp_path / "work.db")
    runs: list[int] = []

    @windlass.tool(settle=True)
    async def wire_money() -> str:
        runs.append(1)
        if len(runs) == 1:
            await hold()
        return "wired"

    async with windlass.open(store, agents=[first := agent_of(call("wire_money"), tools=[wire_money])]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await until(lambda: len(runs) == 1)
    second = agent_of("done", tools=[wire_money])
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        result = await session.result()
        assert (result.status, runs) == ("asked", [1])
        await session.settle(result.waiting_for[0], "run_again")
        assert (await session.result()).text == "done"
        assert runs == [1, 1]
        await sound(session)


async def test_a_missing_and_a_changed_tool_are_reported_on_resume(tmp_path):
    store = str(tmp_path / "work.db")
    first = agent_of("one", tools=[add, read])
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await session.result()

    @windlass.tool(name="add")
    def other_add(x: int, y: int, z: int = 0) -> int:
        "Add three numbers."
        return x + y + z

    second = agent_of(call("read", path="x"), "two", tools=[other_add])
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        await session.prompt("again")
        assert (await session.result()).text == "two"
        events = await events_of(session)
        (changed,) = only(events, AgentChanged)
        assert (changed.missing, changed.changed, changed.added) == (("read",), ("add",), ())
        assert [event.operation for event in only(events, ToolsetChanged)] == ["reload", "remove"]
        await sound(session)


async def test_the_same_agent_resumes_without_a_word(tmp_path):
    store = str(tmp_path / "work.db")
    for text in ("one", "two"):
        agent = agent_of(text, tools=[add])
        async with windlass.open(store, agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("go")
            assert (await session.result()).text == text
            assert only(await events_of(session), AgentChanged) == []


async def test_a_session_without_its_agent_stays_owed_and_says_so(tmp_path):
    store = str(tmp_path / "work.db")

    async def never(request):
        await asyncio.get_running_loop().create_future()

    await cut_off(store, windlass.Agent("math", model=ScriptedModel([never])), 1)
    other = agent_of("x", name="other")
    async with windlass.open(store, agents=[other]) as rt:
        (row,) = await rt.sessions()
        assert (row.owed, row.agent, row.state) == (True, "math", "running")
        rested = await rt.drive("s")
        assert rested.status == "parked"
        assert "math" in rested.reason
        assert "not bound" in rested.reason
        head = await rt.store.log.head((await rt.get("s")).key)
        assert head is not None
    async with windlass.open(store, agents=[windlass.Agent("math", model=ScriptedModel(["back"]))]) as rt:
        assert (await (await rt.get("s")).result()).text == "back"


async def test_two_runtimes_on_one_store_never_both_drive_a_session(tmp_path):
    store = str(tmp_path / "work.db")
    entered, release = asyncio.Event(), asyncio.Event()

    @windlass.tool
    async def slow() -> str:
        entered.set()
        await release.wait()
        return "ok"

    one = agent_of(call("slow"), "done", tools=[slow])
    two = agent_of("must not be asked", tools=[slow])
    async with windlass.open(store, agents=[one], poll_ms=10) as first:
        session = await first.session(one, "s")
        await session.prompt("go")
        await entered.wait()
        async with windlass.open(store, agents=[two], poll_ms=10) as second:
            other = await second.session(two, "s")
            assert (await second.drive("s")).reason == "another runtime of this process drives it"
            watching = asyncio.ensure_future(_texts(other))
            await other.prompt("and this", behavior="steer")
            await started(session, PromptReceived, count=2)
            release.set()
            assert (await session.result()).text == "done"
            assert (await other.result()).text == "done"
            assert "RunCompleted" in await watching
            await sound(other)
    model = two.model
    assert isinstance(model, ScriptedModel)
    assert model.requests == []


async def _texts(session: Any) -> list[str]:
    found = []
    async for event in session.events():
        found.append(type(event).__name__)
        if isinstance(event, RunCompleted):
            break
    return found


async def test_a_runner_that_lost_its_lease_stops_and_its_late_outcome_is_dropped():
    store = MemoryStore()
    entered, release = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @windlass.tool
    async def slow(ctx: windlass.ToolContext) -> str:
        runs.append(ctx.epoch)
        entered.set()
        await release.wait()
        return "ok"

    one = agent_of(call("slow"), "by the first", tools=[slow])
    two = agent_of("by the second", tools=[slow])
    ports = JumpPorts()
    first = await windlass.open(store, agents=[one], lease_ms=600_000).start()
    session = await first.session(one, "s")
    await session.prompt("go")
    await entered.wait()
    ports.ahead_ms = 700_000
    async with windlass.open(store, agents=[two], ports=ports, poll_ms=10) as second:
        other = await second.get("s")
        assert (await other.result()).text == "by the second"
        release.set()
        rested = await first.drive("s")
        assert rested.status in ("lost_epoch", "parked")
        assert len(only(await events_of(other), ToolOutcomeUnknown)) == 1
        await sound(other)
    await first.close()
    assert runs == [1]


@pytest.mark.parametrize("lease_ms", [600_001, -1])
def test_a_lease_that_no_store_would_give_is_refused_when_it_is_asked_for(lease_ms):
    with pytest.raises(windlass.UsageError, match=f"a lease lasts 0 to 600000 ms, not {lease_ms}"):
        windlass.open(MemoryStore(), lease_ms=lease_ms)


async def test_a_command_to_a_runner_that_lost_its_lease_goes_through_the_inbox():
    store = MemoryStore()
    agent, again = agent_of("one", "two"), agent_of("three")
    ports = JumpPorts()
    first = await windlass.open(store, agents=[agent], lease_ms=600_000).start()
    session = await first.session(agent, "s")
    await session.prompt("a")
    await session.result()
    ports.ahead_ms = 700_000
    async with windlass.open(store, agents=[again], ports=ports, poll_ms=10) as second:
        other = await second.session(again, "s")
        await other.set_title("mine now")
        await session.prompt("b")
        await started(other, Terminal, count=2)
        assert (await other.result()).text == "three"
        await sound(other)
    await first.close()


async def test_a_poison_session_parks_alone(tmp_path):
    import apsw

    place = str(tmp_path / "work.db")

    async def never(request):
        await asyncio.get_running_loop().create_future()

    async with windlass.open(place, agents=[first := windlass.Agent("w", model=ScriptedModel(never))]) as rt:
        for name in ("good", "bad", "other"):
            session = await rt.session(first, name)
            await session.prompt("go")
    connection = apsw.Connection(place)
    where = f"place >> {SEQ_BITS} = (select sid from sessions where session = 'bad') and last_seq > 2"
    connection.execute(f"update appends set data = substr(data, 1, length(data) - 40) where {where}")
    assert connection.changes() > 0
    connection.close()
    agent = windlass.Agent("w", model=ScriptedModel(by_history(["one", "two"])))
    async with windlass.open(place, agents=[agent], poll_ms=10) as rt:
        assert [key.session for key in rt.parked] == ["bad"]
        for name in ("good", "other"):
            session = await rt.get(name)
            assert (await session.result()).text == "one"
            await session.prompt("again")
            assert (await session.result()).text == "two"
        assert (await rt.drive("bad")).status == "parked"
        with pytest.raises(windlass.WindlassError):
            await (await rt.get("bad")).prompt("hello")


async def test_a_hostile_tool_does_not_touch_the_other_sessions(tmp_path):
    @windlass.tool
    def crash() -> str:
        raise SystemExit(3)

    def answer(request):
        first = len(request.items) == 1
        return (call("crash") if "crash" in str(request.items[0]) else call("add", x=1, y=1)) if first else "done"

    agent = windlass.Agent("w", model=ScriptedModel(answer), tools=[crash, add])
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        sessions = [await rt.session(agent, f"s{n}") for n in range(20)]
        await asyncio.gather(*(s.prompt("crash" if n == 7 else "sum") for n, s in enumerate(sessions)))
        assert [(await s.result()).text for s in sessions] == ["done"] * 20


async def test_totals_are_put_on_record_at_shutdown():
    agent = agent_of("one")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await rt.shut_down("s")
        (totals,) = only(await events_of(session), SessionTotalled)
        assert totals.models[0].requests == 1


async def test_closing_in_the_middle_leaves_the_work_to_the_next(tmp_path):
    store = str(tmp_path / "work.db")

    async def never(request):
        await asyncio.get_running_loop().create_future()

    agent = windlass.Agent("w", model=ScriptedModel([never, "done"]))
    rt = await windlass.open(store, agents=[agent]).start()
    session = await rt.session(agent, "s")
    await session.prompt("go")
    await started(session, ModelRequested)
    waiting = asyncio.ensure_future(_texts(session))
    await asyncio.sleep(0.01)
    await rt.close()
    await rt.close()
    assert "RunCompleted" not in await waiting
    again = windlass.Agent("w", model=ScriptedModel(["done"]))
    async with windlass.open(store, agents=[again]) as rt:
        assert (await (await rt.get("s")).result()).text == "done"


async def test_every_store_carries_a_session_the_same_way(tmp_path):
    for place in (":memory:", str(tmp_path / "a.db"), str(tmp_path / "a.jsonl.d")):
        agent = agent_of(call("add", x=1, y=2), "three", tools=[add])
        async with windlass.open(place, agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("go")
            assert (await session.result()).text == "three"
            await sound(session)


@pytest.fixture
def short_pages(monkeypatch):
    """Pages of three, so that eight sessions are many."""
    monkeypatch.setattr("windlass.runtime.host.store_watch.OWED_AT_ONCE", 3)


MANY = [f"s{number}" for number in range(8)]


async def test_however_many_sessions_are_owed_all_go_on(tmp_path, short_pages):
    store = str(tmp_path / "work.db")

    async def never(request):
        await asyncio.get_running_loop().create_future()

    first = windlass.Agent("w", model=ScriptedModel(never))
    async with windlass.open(store, agents=[first]) as rt:
        for name in MANY:
            await (await rt.session(first, name)).prompt("go")
    second = windlass.Agent("w", model=ScriptedModel(by_history(["done"])))
    async with windlass.open(store, agents=[second]) as rt:
        for name in MANY:
            assert (await (await rt.get(name)).result()).text == "done"


async def test_however_many_sessions_sleep_all_are_woken_in_time(tmp_path, short_pages):
    store = str(tmp_path / "work.db")
    turns = by_history([call("wait", for_ms=3_600_000), "sleeping", "awake"])
    first = windlass.Agent("w", model=ScriptedModel(turns), tools=["wait"])
    async with windlass.open(store, agents=[first]) as rt:
        for name in MANY:
            session = await rt.session(first, name)
            await session.prompt("go")
            await session.result()
    ports = JumpPorts()
    ports.ahead_ms = 7_200_000
    second = windlass.Agent("w", model=ScriptedModel(turns), tools=["wait"])
    async with windlass.open(store, agents=[second], ports=ports, poll_ms=5) as rt:
        for name in MANY:
            await started(await rt.get(name), RunCompleted)


async def test_however_many_sessions_wait_a_command_from_another_process_is_found(tmp_path, short_pages):
    store = str(tmp_path / "work.db")
    turns = by_history([call("add", x=1, y=2), "three"])
    policy = windlass.Policy(rules=(windlass.ask("add"),))

    def clerk() -> windlass.Agent:
        return windlass.Agent("w", model=ScriptedModel(turns), tools=[add], policy=policy)

    async with windlass.open(store, agents=[first := clerk()]) as rt:
        for name in MANY:
            session = await rt.session(first, name)
            await session.prompt("go")
            await session.result()
    async with windlass.open(store, agents=[clerk()], poll_ms=5) as rt, windlass.open(store) as other:
        for name in (MANY[0], MANY[4]):
            remote = await other.get(name)
            (asked,) = only(await events_of(remote), windlass.PermissionRequested)
            await remote.approve(asked)
            await started(await rt.get(name), RunCompleted)


async def test_sessions_at_rest_are_let_go_and_opened_again_when_needed(tmp_path, monkeypatch):
    monkeypatch.setattr("windlass.runtime.host.drive_tasks.RESTING_MAX", 2)
    store = str(tmp_path / "work.db")
    agent = windlass.Agent("w", model=ScriptedModel(by_history(["one", "two", "three"])))
    async with windlass.open(store, agents=[agent], poll_ms=5) as rt:
        for text in ("one", "two"):
            for name in MANY:
                session = await rt.session(agent, name)
                await session.prompt("go")
                assert (await session.result()).text == text
        assert len(rt.slots.driven) <= 3
        assert len(rt.slots) <= 4
        watched = await rt.get(MANY[0])
        seen = asyncio.ensure_future(_texts(watched))
        async with windlass.open(store) as other:
            await (await other.get(MANY[0])).prompt("from elsewhere")
        await started(watched, RunCompleted, count=3)
        assert "RunCompleted" in await seen
        await sound(watched)


async def test_nothing_is_kept_for_sessions_that_were_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr("windlass.runtime.host.drive_tasks.RESTING_MAX", 2)
    agent = windlass.Agent("a", model=ScriptedModel(lambda request: "hi"))
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as runtime:
        for number in range(12):
            session = await runtime.session(agent, f"s{number}")
            await session.prompt("x")
            await session.wait_idle()
        for number in range(6):
            session = await runtime.get(f"s{number}")
            async for _ in session.events():
                break
            await session.result()
            await (await session.fork(f"f{number}")).close()
            await session.close()
        await until(lambda: len(runtime.slots.driven) <= 3, "the others to be let go")
        tables = {**vars(runtime), **vars(runtime.host), **vars(runtime.slots)}
        kept = {name: len(held) for name, held in tables.items() if isinstance(held, dict | set | list | Line)}
        assert {name: count for name, count in kept.items() if count > 4} == {}


async def test_a_session_that_is_let_go_leaves_nothing_to_the_collector(tmp_path, monkeypatch):
    monkeypatch.setattr("windlass.runtime.host.drive_tasks.RESTING_MAX", 1)
    agent = windlass.Agent("a", model=ScriptedModel(by_history([call("add", x=1, y=2), "3"])), tools=[add])
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as runtime:
        gc.collect()
        gc.disable()  # what goes now goes because nobody knows it any more
        try:
            parts: list[weakref.ref[Any]] = []
            for number in range(4):
                session = await runtime.session(agent, f"s{number}")
                await session.prompt("x")
                await session.wait_idle()
                driven = runtime.slots.at(session.key).driven
                assert driven is not None
                parts += map(weakref.ref, (driven, driven.owner, driven.driver, driven.driver.performer, driven.tools))
                del driven, session
            gone = parts[: 2 * 5]
            await until(lambda: not any(part() for part in gone), "the first two to be gone")
        finally:
            gc.enable()


async def test_a_reader_who_comes_back_to_a_session_hears_of_it_again(tmp_path, monkeypatch):
    monkeypatch.setattr("windlass.runtime.host.drive_tasks.RESTING_MAX", 1)
    agent = windlass.Agent("a", model=ScriptedModel(lambda request: "hi"))
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as runtime:
        first, second = [await runtime.session(agent, name) for name in "ab"]
        for _ in range(3):
            for session in (first, second):
                heard = [event async for event in session.prompt("x")]
                assert isinstance(heard[-1], RunCompleted)
                assert any(isinstance(event, windlass.TextDelta) for event in heard), "live too"
