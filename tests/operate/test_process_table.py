"""The process table of a tree: every state, what each session waits for, and that it is told from the store alone."""

from __future__ import annotations

import asyncio

import windlass
from windlass.runtime.operate.process_table import Process, process_table
from windlass.store import MemoryStore, open_store
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, call, fail

ROOT = Key("default", "s")


@windlass.tool(traits=["write"])
def pay(cents: int) -> str:
    """Pays."""
    return f"paid {cents}"


ASK = windlass.Policy(rules=(windlass.ask("pay"),))


def agent(name: str, *turns: object, **more: object) -> windlass.Agent:
    return windlass.Agent(name, ScriptedModel(list(turns)), description="helps", **more)  # type: ignore[arg-type]


def spawn(name: str, mode: str = "foreground") -> object:
    return call("spawn", agent=name, task="do it", mode=mode)


def shown(processes: list[Process]) -> list[tuple[str, str, str, str]]:
    """What a table says: place, agent, state, what is waited for."""
    return [
        (process.scope, process.agent, process.state, ", ".join(map(str, process.waits_for)) or process.ended)
        for process in processes
    ]


def tree() -> windlass.Agent:
    """One that asks, one that sleeps, one that has ended, below one in the middle."""
    payer = agent("payer", call("pay", cents=3), "paid", tools=[pay], policy=ASK)
    sleeper = agent("sleeper", fail("rate_limited", "later", retry_after_ms=86_400_000), "awake")
    thinker = agent("thinker", "thought")
    middle = agent(
        "middle", [spawn("payer"), spawn("sleeper"), spawn("thinker")], "ok", agents=[payer, sleeper, thinker]
    )
    return agent("lead", spawn("middle"), "done", agents=[middle])


RESTING = [
    ("", "lead", "blocked", "child c6.0"),
    ("c6.0", "middle", "blocked", "child c6.0, child c6.1"),
    ("c6.0~c6.0", "payer", "blocked", "permission p8 (pay)"),
    ("c6.0~c6.1", "sleeper", "suspended", "timer w7"),
    ("c6.0~c6.2", "thinker", "done", "completed"),
]


async def test_a_tree_at_rest_is_told_from_its_store_alone(tmp_path):
    place = tmp_path / "s.db"
    lead = tree()
    async with windlass.open(place, agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        assert shown(await session.processes()) == RESTING
        assert [process.session for process in await session.processes()][2] == "s~c6.0~c6.0"
    store = await open_store(place)
    found = await process_table(store, ROOT)
    await store.close()
    assert shown(found) == RESTING
    assert [process.depth for process in found] == [0, 1, 2, 2, 2]
    assert [process.parent for process in found] == [None, "s", "s~c6.0", "s~c6.0", "s~c6.0"]
    assert {process.driver for process in found} == {""}


async def test_who_works_is_running_and_whose_process_is_gone_is_ready():
    begun, go_on = asyncio.Event(), asyncio.Event()

    @windlass.tool(contract="pure")
    async def slow() -> str:
        """Takes its time."""
        begun.set()
        await go_on.wait()
        return "slow"

    worker = agent("worker", call("slow"), call("slow"), "worked", tools=[slow])
    lead = agent("lead", spawn("worker"), "done", agents=[worker])
    store = MemoryStore()
    async with windlass.open(store, agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        await asyncio.wait_for(begun.wait(), 60)
        assert shown(await session.processes()) == [
            ("", "lead", "blocked", "child c6.0"),
            ("c6.0", "worker", "running", "tool c6.0 (slow)"),
        ]
        assert all(process.driver for process in await session.processes())
    left = shown(await process_table(store, ROOT))
    assert left[0] == ("", "lead", "blocked", "child c6.0")
    assert left[1][2] == "ready"
    assert left[1][3].startswith("process worker")
    go_on.set()
    async with windlass.open(store, agents=[lead]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "done"
        assert [(p.state, p.ended) for p in await session.processes()] == [("done", "completed")] * 2
    await store.close()


async def test_a_child_that_has_not_begun_is_ready_and_an_answer_makes_its_session_so(tmp_path):
    payer = agent("payer", call("pay", cents=3), "paid", tools=[pay], policy=ASK)
    lead = agent("lead", spawn("payer"), "done", agents=[payer])
    place = tmp_path / "s.db"
    async with windlass.open(place, agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
    async with windlass.open(place) as rt:  # has no code
        session = await rt.get("s")
        (request,) = await session.requests()
        await session.approve(request)
        assert shown(await session.processes())[1][2:] == ("ready", "process payer, permission p8 (pay)")
    kept, other = await open_store(place), await open_store(tmp_path / "other.db")
    lines = [sealed async for sealed in kept.log.read(ROOT)]
    before = next(n for n, sealed in enumerate(lines) if b"child.started" in sealed.data)
    await other.log.adopt(ROOT, lines[: before + 1])
    assert shown(await process_table(other, ROOT))[1] == ("c6.0", "payer", "ready", "process payer")
    await kept.close()
    await other.close()
