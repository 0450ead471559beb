"""What lives and dies in the kills over selections: a real process that has a specialist selected for a session, says
something to it, and has the session's own agent selected again."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import windlass
from windlass.models.base import Request
from windlass.runtime.api import runtime as runtimes
from windlass.runtime.host import host
from windlass.runtime.host.ports import SystemPorts
from windlass.store.sqlite import store as stores
from windlass.testing.kill_rig import Child
from windlass.testing.scripted import ScriptedModel

SETTINGS = windlass.Settings(losses_max=10_000)
IMPORTED = (runtimes, host, stores)
"""Before a life is forked, so that lives are short."""
WAIT_S = 100


class CrashPorts(SystemPorts):
    """The real world, with a death at the chosen point."""

    def __init__(self, child: Child) -> None:
        super().__init__()
        self._child = child

    def point(self, name: str) -> None:
        self._child.point()


def told(request: Request) -> str:
    """What its model says: whom it was told to be, and which tools it was told of."""
    return f"{request.instructions} {[tool.name for tool in request.tools]}"


@windlass.tool(contract="pure", traits=("read",))
def look() -> str:
    "Look."
    return "seen"


def lead() -> windlass.Agent:
    critic = windlass.Agent("critic", ScriptedModel(told), instructions="critic", tools=[look], description="helps")
    return windlass.Agent("lead", ScriptedModel(told), instructions="lead", agents=[critic], settings=SETTINGS)


def live(child: Child, arguments: dict[str, Any]) -> None:
    """One life: does what is left to be done in `place`."""
    child.ready()
    asyncio.run(_live(CrashPorts(child), pathlib.Path(arguments["place"])))


async def _live(ports: CrashPorts, place: pathlib.Path) -> None:
    agent = lead()
    settings: dict[str, Any] = {"ports": ports, "poll_ms": 20, "lease_ms": 1}
    async with windlass.open(place / "work.db", agents=[agent], **settings) as runtime, asyncio.timeout(WAIT_S):
        session = await runtime.session(agent, "s")
        await session.select("critic", command_id="select")
        await session.prompt("first", command_id="first")
        await session.result("first")
        await session.select(None, command_id="deselect")
        await session.prompt("second", command_id="second")
        await session.result("second")
