"""What lives and dies in the kills over messages: a real process that works on a tree in which one child tells its sibling
and the root something while both are at work."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import windlass
from windlass.runtime.api import runtime as runtimes
from windlass.runtime.bind import builtin_tools
from windlass.runtime.host import host
from windlass.runtime.host.ports import SystemPorts
from windlass.runtime.trees import messages
from windlass.store.sqlite import store as stores
from windlass.testing.kill_rig import Child
from windlass.testing.scripted import ScriptedModel, by_history, call

SETTINGS = windlass.Settings(losses_max=10_000)
IMPORTED = (runtimes, builtin_tools, host, messages, stores)
"""Before a life is forked, so that lives are short."""
WAIT_S = 100


class CrashPorts(SystemPorts):
    """The real world, with a death at the chosen point: of all, or of those of one name."""

    def __init__(self, child: Child, only: str) -> None:
        super().__init__()
        self._child = child
        self._only = only

    def point(self, name: str) -> None:
        if self._only in ("", name):
            self._child.point()


def is_there(file: pathlib.Path) -> bool:
    return file.exists()


async def appears(file: pathlib.Path) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_there(file):
            await asyncio.sleep(0.005)


def agent(name: str, *turns: Any, **more: Any) -> windlass.Agent:
    return windlass.Agent(name, ScriptedModel(by_history(list(turns))), description="helps", settings=SETTINGS, **more)


def tree(place: pathlib.Path) -> windlass.Agent:
    """A root and two children: one reads until the other has said what it has to say."""

    @windlass.tool(contract="pure")
    async def read() -> str:
        """Reads until everything is said."""
        (place / "reading").touch()
        await appears(place / "heard")
        return "read"

    @windlass.tool(contract="pure")
    async def look() -> str:
        """Waits until somebody reads."""
        await appears(place / "reading")
        return "somebody reads"

    @windlass.tool(contract="pure")
    async def end() -> str:
        """Says that everything is said."""
        (place / "said").touch()
        return "ended"

    tells = [call("tell", to=name, text=f"for {name}") for name in ("reader", "root")]
    reader = agent("reader", call("read"), "read", tools=[read])
    writer = agent("writer", call("look"), *tells, call("end"), "written", tools=["tell", look, end])
    spawns = [call("spawn", agent=name, task="do it") for name in ("reader", "writer")]
    return agent("lead", spawns, "done", agents=[reader, writer])


def live(child: Child, arguments: dict[str, Any]) -> None:
    """One life: goes on with the work in `place` until it is done."""
    child.ready()
    asyncio.run(_live(CrashPorts(child, arguments.get("only", "")), pathlib.Path(arguments["place"])))


async def _live(ports: CrashPorts, place: pathlib.Path) -> None:
    lead = tree(place)
    settings: dict[str, Any] = {"ports": ports, "poll_ms": 20, "lease_ms": 1}
    async with windlass.open(place / "work.db", agents=[lead], **settings) as runtime:
        session = await runtime.session(lead, "root")
        await session.prompt("go", command_id="go")
        letting_go = asyncio.create_task(let_go(runtime, place))
        async with asyncio.timeout(WAIT_S):
            await session.result()
        await letting_go


async def let_go(runtime: windlass.Runtime, place: pathlib.Path) -> None:
    """Lets the reader go on once everything is said and it has taken it: one that has ended would refuse it."""
    await appears(place / "said")
    (reader,) = [row.session for row in await runtime.sessions(root="root") if row.agent == "reader"]
    key = (await runtime.get(reader)).key
    while await runtime.store.inbox.waiting(key):
        await asyncio.sleep(0.005)
    (place / "heard").touch()
