"""What is said rarely: words of closed sets that no other run says."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

import windlass
from windlass.events.changes import ChangeSettings
from windlass.events.commands import PromptReceived
from windlass.events.context import CompactionStarted
from windlass.events.questions import QuestionRequested
from windlass.events.runs import RunSlept
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.blocks import Icon, Image, ResourceLink, Text
from windlass.events.values.items import UserItem
from windlass.events.values.usage import Usage
from windlass.models.base import Request
from windlass.runtime.sessions.handoff import Mover, hand_over
from windlass.store import open_store
from windlass.store.base import Key
from windlass.testing.model_server import fault, say
from windlass.testing.scripted import ScriptedModel, call, fail, hang, turn
from windlass.tools.planes.results import ToolResult

from .context import KEEP_TWO, small
from .stage import QUICK, Stage, scripted
from .tools import PNG

MUCH = Usage(input_tokens=4_000, output_tokens=100)
LONG = "and so it went on " * 60


async def compactions(stage: Stage) -> None:
    """Histories of talk alone, which only a summary makes smaller: by tokens, by bytes, with summaries that fail."""
    script: dict[str, list[Any]] = {"main": ["noted"] * 60, "compact": ["in short", "   ", "   ", "   "]}

    def answer(request: Request) -> Any:
        if request.lane == "compact" and not script["compact"]:
            return fail("server_error", "broken")
        return script[request.lane].pop(0)

    agent = windlass.Agent("talker", model=small(answer, 4_000), settings=KEEP_TWO)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "talk_by_tokens")
        for number in range(24):
            await stage.said(session, f"{number}: {LONG}")
            found = [r async for r in session.records() if isinstance(r.event, CompactionStarted)]
            if len(found) >= 4:
                break
    by_bytes = msgspec.structs.replace(KEEP_TWO, compact_bytes=5_000)
    script = {"main": ["noted"] * 60, "compact": ["in short"] * 9}
    agent = windlass.Agent("weigher", model=small(answer, 100_000), settings=by_bytes)
    async with stage.open(agent, store="bytes") as rt:
        session = await stage.session(rt, agent, "talk_by_bytes")
        for number in range(9):
            await stage.said(session, f"{number}: {LONG}")
    cut = msgspec.structs.replace(KEEP_TWO, summarise=False)
    script = {"main": ["noted"] * 60}
    agent = windlass.Agent("cutter", model=small(answer, 4_000), settings=cut)
    async with stage.open(agent, store="cut") as rt:
        session = await stage.session(rt, agent, "talk_cut")
        for number in range(14):
            await stage.said(session, f"{number}: {LONG}")


async def changed_mind(stage: Stage) -> None:
    """What is open when somebody goes on with something else: questions, permissions, timers, prompts."""

    @windlass.tool
    def pay(cents: int) -> str:
        "Pay."
        return "paid"

    ask = call("ask_user", question="which?")
    model = scripted(
        ask, call("pay", cents=1), call("pay", cents=2), "done", call("free"), "freely", ["so far ", hang()],
        "instead", "x",
        "again", "after the erasure", "y",
    )  # fmt: skip

    @windlass.tool
    def free() -> str:
        "Costs nothing."
        return "free"

    policy = windlass.Policy(rules=[windlass.ask("pay", when="args.cents > 0"), windlass.allow("free")], default="ask")
    agent = windlass.Agent("clerk", model=model, tools=[pay, free, "ask_user"], policy=policy, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "changed_mind")
        await session.prompt("ask me", behavior="follow_up")
        await stage.until(session, QuestionRequested)
        await session.wait_idle()
        await session.cancel("no")
        await session.wait_idle()
        await session.prompt("pay")
        await stage.until(session, PermissionRequested)
        await session.wait_idle()
        await session.interrupt("not now")
        await session.wait_idle()
        await session.prompt("pay again")
        asked = await stage.until(session, PermissionRequested, 2)
        await session.wait_idle()
        await session.deny(asked[-1].request_id)
        await session.wait_idle()
        await stage.said(session, "for nothing")
        state = await session.state()
        interrupting = msgspec.structs.replace(state.setup.settings, on_busy="interrupt")
        await session.change(ChangeSettings(settings=interrupting))
        await session.prompt("write")
        await stage.heard(session, "so far ")
        await session.prompt("something else")
        await session.wait_idle()
        rejecting = msgspec.structs.replace(interrupting, on_busy="reject")
        await session.change(ChangeSettings(settings=rejecting))
        seqs = [r.seq async for r in session.records() if isinstance(r.event, PromptReceived)]
        await session.rewind(seqs[-1])
        await stage.said(session, "after going back")
        await session.erase(seqs[0], "a name", actor="ada")
        await stage.said(session, "after the erasure")


async def overtaken(stage: Stage) -> None:
    """A provider's long wait that a prompt overtakes, and signals that nobody has room for."""
    async with stage.serving(fault("429_hour"), say("sooner"), say("x")) as server:
        agent = windlass.Agent("patient", model=stage.model(server), settings=QUICK)
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "overtaken")
            await session.prompt("go")
            await stage.until(session, RunSlept)
            await session.prompt("never mind the wait")
            await session.wait_idle()


@windlass.tool(contract="pure")
def pictures() -> Any:
    "Shows pictures."
    icon = Icon(src="https://example.com/i.png", theme="light")
    blocks = (
        Image(media_type="image/png", data=PNG, detail="low"),
        Image(media_type="image/png", data=PNG, detail="high"),
        ResourceLink(uri="https://example.com/b", name="b", icons=(icon,)),
    )
    return ToolResult(value=blocks)


async def imported(stage: Stage) -> None:
    """A session that begins with a history from elsewhere, and tools of clients."""
    history = [UserItem(content=(Text(text="we spoke before"),))]
    agent = windlass.Agent(
        "heir",
        model=ScriptedModel([call("pictures"), turn("I remember", usage=MUCH)]),
        tools=[pictures],
        settings=QUICK,
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "imported", history=history)
        await stage.said(session, "go on")
        await asyncio.sleep(0)


async def judged_again(stage: Stage) -> None:
    """A call that waits for a person while its code and the rules become others."""

    @windlass.tool
    def pay(cents: int) -> str:
        "Pay."
        return "paid"

    def agent(tool: Any, *turns: Any, **more: Any) -> windlass.Agent:
        return windlass.Agent("clerk", model=scripted(*turns), tools=[tool], settings=QUICK, **more)

    asking = windlass.Policy(rules=[windlass.ask("pay")])
    first = agent(pay, call("pay", cents=1), policy=asking)
    async with stage.open(first) as rt:
        session = await stage.session(rt, first, "judged_again")
        await session.prompt("pay")
        await stage.until(session, PermissionRequested)
        await session.wait_idle()

    @windlass.tool(name="pay", contract="idempotent", traits=("egress",))
    def pay_otherwise(cents: int, currency: str = "EUR") -> str:
        "Pay, in a currency."
        return "paid"

    second = agent(pay_otherwise, "done", policy=windlass.Policy(rules=[windlass.ask("pay", reason="money")]))
    async with stage.open(second) as rt:
        session = await rt.get("judged_again")
        await session.wake()
        await session.wait_idle()
        requests = await session.requests()
        for each in requests:
            await session.deny(each.request_id)
        await session.wait_idle()


async def handed_over(stage: Stage) -> None:
    """A session that asks and goes on in another store; one behind it where it went."""

    @windlass.tool
    def pay(cents: int) -> str:
        "Pay."
        return "paid"

    asking = windlass.Policy(rules=[windlass.ask("pay")])
    model = scripted(call("pay", cents=1), "done")
    agent = windlass.Agent("clerk", model=model, tools=[pay], settings=QUICK, policy=asking)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "leaving")
        await session.prompt("pay")
        await stage.until(session, PermissionRequested)
        await session.wait_idle()
        await session.close("handed over")
        there = await open_store(str(stage.folder / "there.db"))
        key = Key("default", "arrived")
        by = Mover(actor="ada")
        await hand_over(rt.store, session.key, there, key, to="https://agents.example", by=by, ports=stage.ports)
        await there.close()
    async with stage.open(agent, store="there") as rt:
        session = await rt.get("arrived")
        await session.wake()
        await session.wait_idle()
        for each in await session.requests():
            await session.approve(each)
        await session.wait_idle()


SCENARIOS = {
    "handed_over": handed_over,
    "judged_again": judged_again,
    "talk": compactions,
    "changed_mind": changed_mind,
    "overtaken": overtaken,
    "imported": imported,
}
