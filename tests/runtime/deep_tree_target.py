"""What lives and dies in the kills over a deep tree: a real process that works on a tree three deep, in which one session
waits for a person, one sleeps until a time, one works in the background, and somebody answers at the root."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import windlass
from windlass.events.errors import Refused
from windlass.runtime.api import runtime as runtimes
from windlass.runtime.bind import builtin_tools
from windlass.runtime.host import host
from windlass.runtime.host.ports import SystemPorts
from windlass.store.sqlite import store as stores
from windlass.testing.kill_rig import Child
from windlass.testing.scripted import ScriptedModel, by_history, call

SETTINGS = windlass.Settings(losses_max=10_000, sleep_over_ms=1)
IMPORTED = (runtimes, builtin_tools, host, stores)
"""Before a life is forked, so that lives are short."""
WAIT_S = 100
SLEEP_MS = 30


class CrashPorts(SystemPorts):
    """The real world, with a death at the chosen point."""

    def __init__(self, child: Child) -> None:
        super().__init__()
        self._child = child

    def point(self, name: str) -> None:
        self._child.point()


def agent(name: str, *turns: Any, **more: Any) -> windlass.Agent:
    model = ScriptedModel(by_history(list(turns)))
    return windlass.Agent(name, model, description="helps", settings=SETTINGS, **more)


def spawn(name: str, mode: str = "foreground") -> Any:
    return call("spawn", agent=name, task="do it", mode=mode)


def tree(folder: pathlib.Path) -> windlass.Agent:
    """Eight sessions: the root, two below it, two below one of them, and three at the bottom."""

    @windlass.tool(contract="idempotent", traits=["write"])
    def pay(amount: int, ctx: windlass.ToolContext) -> str:
        """Pays."""
        with (folder / "paid").open("a") as paid:
            paid.write(f"{ctx.session}\n")
        return f"paid {amount}"

    ask = windlass.Policy((windlass.ask("pay"),))
    payer = agent("payer", call("pay", amount=3), "paid", tools=[pay], policy=ask)
    sleeper = agent("sleeper", call("wait", for_ms=SLEEP_MS), "resting", "slept", tools=["wait"])
    thinker = agent("thinker", "thought")
    left = agent("left", [spawn("payer"), spawn("sleeper")], "left is done", agents=[payer, sleeper])
    right = agent("right", spawn("thinker"), "right is done", agents=[thinker])
    middle = agent("middle", [spawn("left"), spawn("right")], "middle is done", agents=[left, right])
    budget = windlass.Budget(turns=200, calls=100, children=20)
    turns = [[spawn("thinker", "background"), spawn("middle")], "all is done", "told"]
    return agent("lead", *turns, agents=[middle, thinker], session_budget=budget)


def live(child: Child, arguments: dict[str, Any]) -> None:
    """One life: goes on with the work in `place` until it is done."""
    child.ready()
    asyncio.run(_live(CrashPorts(child), pathlib.Path(arguments["place"])))


async def _live(ports: CrashPorts, place: pathlib.Path) -> None:
    lead = tree(place)
    settings: dict[str, Any] = {"ports": ports, "poll_ms": 20, "lease_ms": 1}
    async with windlass.open(place / "work.db", agents=[lead], **settings) as runtime:
        session = await runtime.session(lead, "root")
        await session.prompt("go", command_id="go")
        async with asyncio.timeout(WAIT_S):
            while not await done(runtime, session):
                for asked in await session.requests():
                    try:
                        await session.approve(asked, command_id=f"yes:{asked.request_id}")
                    except Refused:
                        continue  # it has its answer
                await asyncio.sleep(0.02)


async def done(runtime: windlass.Runtime, session: windlass.Session) -> bool:
    """Whether the whole tree has come to its end."""
    rows = await runtime.sessions(root="root")
    return (await session.state()).run.run_id != "" and all(row.state == "idle" and not row.owed for row in rows)
