"""Child sessions: waited for, in the background, let go, asked for a person, failed, stopped."""

from __future__ import annotations

import asyncio

import windlass
from windlass.events.tools.calls import ToolStarted
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import ChildFinished, ChildOpened, ChildStarted
from windlass.testing.scripted import call

from .stage import QUICK, Play, Stage, scripted

ASK = windlass.Policy(rules=[windlass.ask("pay", reason="a person decides")])


@windlass.tool(traits=("write",))
def pay(cents: int) -> str:
    "Pay somebody."
    return f"paid {cents}"


@windlass.tool(contract="pure")
async def hang() -> str:
    "Takes for ever."
    await asyncio.Event().wait()
    return ""


def specialist(name: str, *replies: object, **more: object) -> windlass.Agent:
    return windlass.Agent(name, model=scripted(*replies), description="helps", settings=QUICK, **more)  # type: ignore[arg-type]


async def trees(stage: Stage) -> None:
    """A parent has its specialists work in every mode, and answers for one of them."""
    agents = [
        specialist("thinker", *["forty-two"] * 4),
        specialist("payer", call("pay", cents=5), "paid", tools=[pay], policy=ASK),
    ]
    model = scripted(
        call("spawn", agent="thinker", task="think", limits={"tokens": 20_000}),
        call("spawn", agent="payer", task="pay", context="forked"),
        [
            call("spawn", agent="thinker", task="think on", mode="background"),
            call("spawn", agent="thinker", task="think alone", mode="detached"),
            call("spawn", agent="thinker", task="too little", limits={"tokens": 1}),
        ],
        *["told"] * 4,
    )
    agent = windlass.Agent("lead", model=model, agents=agents, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees")
        await session.prompt("go")
        await session.result()
        (request,) = await session.requests()
        await session.approve(request, actor="ada")
        await stage.until(session, ChildOpened, 2)
        await stage.until(session, ChildFinished, 5)
        await session.wait_idle()


async def trees_stopped(stage: Stage) -> None:
    """A parent is stopped twice while a specialist works for it, and what that used comes back."""
    sleeper = specialist("sleeper", call("hang"), call("hang"), tools=[hang])
    model = scripted(*[call("spawn", agent="sleeper", task="wait")] * 2)
    agent = windlass.Agent("lead", model=model, agents=[sleeper], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_stopped")
        for count, stop in ((1, session.interrupt), (2, session.cancel)):
            await session.prompt("go")
            started = (await stage.until(session, ChildStarted, count))[-1]
            await stage.until(await rt.get(started.child_id), ToolStarted)
            await stop()
            await stage.until(session, ChildFinished, count)
            await session.wait_idle()


async def trees_settled(stage: Stage) -> None:
    """A tree is cancelled while somebody works three deep: each level ends at once, and settles when those below have
    ended too."""
    leaf = specialist("leaf", call("hang"), tools=[hang])
    mid = specialist("mid", call("spawn", agent="leaf", task="wait"), agents=[leaf])
    top = specialist("top", call("spawn", agent="mid", task="wait"), agents=[mid])
    budget = windlass.Budget(turns=40, tokens=400_000)
    model = scripted(call("spawn", agent="top", task="wait"))
    agent = windlass.Agent("lead", model=model, agents=[top], session_budget=budget, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_settled")
        await session.prompt("go")
        below = session
        for _ in range(3):
            started = (await stage.until(below, ChildStarted))[-1]
            below = await rt.get(started.child_id)
        await stage.until(below, ToolStarted)
        await session.cancel()
        await stage.until(session, ChildSettled)
        await session.wait_idle()


SCENARIOS: dict[str, Play] = {"trees": trees, "trees_stopped": trees_stopped, "trees_settled": trees_settled}
