"""A folder with agents and a store whose sessions stand at every point that the command line has a word for."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import windlass
from windlass.cli.agents import module_of

AGENTS = """
import asyncio

import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call, fail, hang


@windlass.tool(contract="idempotent")
def pay(invoice: str, cents: int) -> str:
    "Pay an invoice."
    return f"paid {invoice}"


@windlass.tool(settle=True)
async def wire(account: str) -> str:
    "Send money."
    await asyncio.sleep(3600)
    return "sent"


@windlass.tool
async def stare() -> str:
    "Look into the distance, whoever calls."
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


@windlass.tool
async def order(ctx: windlass.ToolContext) -> str:
    "Order a shirt, of a size that is asked for."
    size = (await ctx.ask("Which size?", options=["S", "L"])).body.answers[0]
    return f"ordered {size.text or size.selected[0]}"


def model(*turns):
    return ScriptedModel(by_history(list(turns)))


ASK = windlass.Policy(rules=(windlass.ask("pay"),))
PAY = ["I will pay it.", call("pay", invoice="I-7", cents=1200)]
QUESTION = call("ask_user", questions=[{"question": "Which one?", "options": [{"label": "red"}, {"label": "blue"}]}])

free = windlass.Agent("free", model=model(PAY, "Done: I-7 is paid.", "And again."), tools=[pay])
terse = windlass.Agent("terse", model=model(PAY, "Paid."), tools=[pay])
clerk = windlass.Agent("clerk", model=model(PAY, "Done: I-7 is paid."), tools=[pay], policy=ASK)
look = windlass.Agent(
    "look",
    model=model(*[[call("read", path=name)] for name in ("a.txt", "b.txt", "a\\x1b[2J\\nb.txt")], "Read."),
    tools=["read"],
    policy=windlass.Policy(rules=(windlass.ask("read"),)),
)
poll = windlass.Agent("poll", model=model([QUESTION], "So be it."), tools=["ask_user"])
tailor = windlass.Agent("tailor", model=model(call("order"), "It is ordered."), tools=[order])
banker = windlass.Agent("banker", model=model([call("wire", account="A-1")], "Noted."), tools=[wire])
slow = windlass.Agent("slow", model=model([hang()], "Never."))
deaf = windlass.Agent("deaf", model=model([call("stare")], "Ah."), tools=[stare])
tired = windlass.Agent("tired", model=model(fail("rate_limited", "come back later", retry_after_ms=86_400_000)))
"""


def make_folder(folder: pathlib.Path) -> pathlib.Path:
    """The folder with its agents and an empty room for a store."""
    (folder / "agents.py").write_text(AGENTS, encoding="utf-8")
    return folder


def make(folder: pathlib.Path) -> pathlib.Path:
    """The folder with a store: `done` is complete, `march` waits for a word, `poll` for an answer, `wired` to be
    settled, `asleep` for tomorrow; `held` was interrupted with two prompts behind it."""
    make_folder(folder)
    module: Any = module_of(str(folder / "agents.py"))
    asyncio.run(_fill(str(folder / "windlass.db"), module))
    return folder


async def _fill(store: str, agents: Any) -> None:
    bound = [agents.free, agents.clerk, agents.poll, agents.banker, agents.slow, agents.tired]
    async with windlass.open(store, agents=bound) as runtime:
        await _hold(await runtime.session(agents.slow, "held"))
        asleep = await runtime.session(agents.tired, "asleep")
        await asleep.prompt("Try it.")
        await asleep.wait_idle()
        for agent, name in ((agents.free, "done"), (agents.clerk, "march"), (agents.poll, "poll")):
            session = await runtime.session(agent, name, title=f"the {name} one")
            await session.prompt("Pay I-7.")
            await session.result()
        wired = await runtime.session(agents.banker, "wired")
        async for event in wired.prompt("Send it."):
            if isinstance(event, windlass.ModelReplied):
                break
        while not any(call.status == "started" for call in (await wired.state()).calls.by_id.values()):
            await asyncio.sleep(0.01)
    async with windlass.open(store, agents=[agents.banker]) as runtime:
        session = await runtime.session(agents.banker, "wired")
        await session.wait_idle()


async def _hold(session: Any) -> None:
    """Interrupts a session that has two more things to do."""
    await session.prompt("Wait.")
    while not (await session.state()).active:
        await asyncio.sleep(0.01)
    await session.prompt("Then sweep the floor.")
    await session.prompt("Then close the door.")
    await session.interrupt("enough")
    await session.wait_idle()
