"""Child sessions: waited for, in the background, let go, asked for a person, failed, stopped."""

from __future__ import annotations

import asyncio
import typing

import msgspec

import windlass
from windlass.events.hooks import HookPoint
from windlass.events.signals import SignalReceived
from windlass.events.tools.calls import ToolStarted
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import ChildFinished, ChildOpened, ChildStarted
from windlass.testing.scripted import call, fail

from .stage import QUICK, Play, Stage, scripted

ASK = windlass.Policy(rules=[windlass.ask("pay", reason="a person decides")])


@windlass.tool(traits=("write",))
def pay(cents: int) -> str:
    "Pay somebody."
    return f"paid {cents}"


@windlass.tool(contract="pure")
def look(badly: bool = False) -> str:
    "Look."
    if badly:
        raise LookupError("there is nothing")
    return "seen"


@windlass.tool(contract="pure")
async def hang() -> str:
    "Takes for ever."
    await asyncio.Event().wait()
    return ""


def specialist(name: str, *replies: object, **more: object) -> windlass.Agent:
    more.setdefault("settings", QUICK)
    return windlass.Agent(name, model=scripted(*replies), description="helps", **more)  # type: ignore[arg-type]


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


async def trees_failed(stage: Stage) -> None:
    """A model fails for good three deep: the one above is told why and where."""
    leaf = specialist("leaf", fail("invalid_request", "400: no such field"))
    mid = specialist("mid", call("spawn", agent="leaf", task="try"), "it failed", agents=[leaf])
    top = specialist("top", call("spawn", agent="mid", task="try"), "it failed", agents=[mid])
    agent = windlass.Agent(
        "lead", model=scripted(call("spawn", agent="top", task="try"), "it failed"), agents=[top], settings=QUICK
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_failed")
        await session.prompt("go")
        await session.result()


async def trees_granted(stage: Stage) -> None:
    """Two children ask for more than was set aside for them: one gets it, the other one is let end."""
    asks = msgspec.structs.replace(QUICK, budget_asked=True)
    worker = specialist("worker", *[call("look")] * 2, "well", *[call("look")] * 2, "cut", tools=[look], settings=asks)
    spawned = call("spawn", agent="worker", task="look", limits={"turns": 2})
    budget = windlass.Budget(turns=40)
    agent = windlass.Agent(
        "lead", model=scripted(spawned, spawned, "done"), agents=[worker], session_budget=budget, settings=asks
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_granted")
        await session.prompt("go")
        await session.result()
        (child,) = await session.children()
        await session.grant(child, windlass.Budget(turns=1))
        await stage.until(session, ChildStarted, 2)
        await session.result()
        (question,) = await session.questions()
        await session.answer(question, ["end"], actor="ada")
        await session.result()


async def trees_shared(stage: Stage) -> None:
    """A child looks up what its parent was told, and nothing of it was copied when it began."""
    reader = specialist("reader", call("read_parent"), "it was told to go")
    model = scripted(call("spawn", agent="reader", task="what was said?", context="shared_read"), "done")
    agent = windlass.Agent("lead", model=model, agents=[reader], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_shared")
        await session.prompt("go")
        await session.result()


async def trees_heard(stage: Stage) -> None:
    """A session lets one of another tree tell it something, hears it, and takes that back."""
    agent = windlass.Agent("clerk", model=scripted(*["noted"] * 3), tools=["tell"], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_heard")
        other = await rt.session(agent, "auditor")
        grant = await session.hear(other, actor="ada")
        await other.tell(session, "Line 7 is wrong.", urgency="high")
        await stage.until(session, SignalReceived)
        await session.wait_idle()
        await session.revoke(grant, actor="ada")


async def trees_limited(stage: Stage) -> None:
    """One child too many at once, and one too deep: both calls are denied, and say which limit it is."""
    leaf = specialist("leaf", "not begun")
    one_deep = msgspec.structs.replace(QUICK, children_open_max=1, children_depth_max=1)
    deeper = call("spawn", agent="leaf", task="go deeper")
    mid = specialist("mid", deeper, "it is too deep", agents=[leaf], settings=one_deep)
    model = scripted([call("spawn", agent="mid", task="go")] * 2, "done")
    agent = windlass.Agent("lead", model=model, agents=[mid], settings=one_deep)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_limited")
        await session.prompt("go")
        await session.result()


async def trees_watched(stage: Stage) -> None:
    """Observers hear of children, and of what those do: one ends well, one fails."""
    points = typing.get_args(HookPoint)
    hooks = [
        windlass.Hook(point=point, run=lambda moment: None, name=point)
        for point in points
        if point.startswith(("spawn_", "child_"))
    ]
    looker = specialist("looker", [call("look"), call("look", badly=True)], "seen", tools=[look])
    failing = specialist("failing", fail("invalid_request", "400: no such field"))
    model = scripted(call("spawn", agent="looker", task="look"), call("spawn", agent="failing", task="look"), "done")
    agent = windlass.Agent("lead", model=model, agents=[looker, failing], hooks=hooks, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "trees_watched")
        await session.prompt("go")
        await session.result()


async def selected(stage: Stage) -> None:
    """A specialist runs the session for a while: its own tools and words, the same history. One that only reads has a
    call judged again that a person was asked about."""
    critic = specialist("critic", "it is dear", tools=[look], display_name="The critic")
    reader = specialist("reader", "then I only look", tools=[look, pay], role="explore")
    model = scripted("bought", call("pay", cents=5), "sold")
    agent = windlass.Agent("lead", model=model, agents=[critic, reader], tools=[pay], policy=ASK, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "selected")
        for name in (None, "critic", None):
            if name is not None or await session.selected():
                await session.select(name, actor="ada")
            await session.prompt("go")
            await session.result()
        await session.select("reader", actor="ada")
        await session.result()
        await session.select(None, actor="ada")
        await session.prompt("go on")
        await session.result()


SCENARIOS: dict[str, Play] = {
    "trees": trees,
    "trees_stopped": trees_stopped,
    "trees_settled": trees_settled,
    "trees_failed": trees_failed,
    "trees_granted": trees_granted,
    "trees_shared": trees_shared,
    "trees_heard": trees_heard,
    "trees_limited": trees_limited,
    "trees_watched": trees_watched,
    "selected": selected,
}
