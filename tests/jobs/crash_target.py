"""What lives and dies in the campaign of kills over background jobs: a real process whose agent starts a job, and goes
on until the end of the job is on record."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import Any

import windlass
from tests.jobs.jobbing import TOOLS
from windlass.events.values.settings import Settings
from windlass.runtime.host.ports import SystemPorts
from windlass.testing.kill_rig import Child
from windlass.testing.scripted import ScriptedModel, by_history, call

POINTS = (
    "began",
    "before_append",
    "after_append",
    "before_model",
    "after_model",
    "before_tool",
    "job_kept",
    "after_tool",
    "job_ended",
    "before_snapshot",
    "after_snapshot",
)
COMMAND = ": {mark}; echo started >> starts; echo one; sleep 0.05; echo two"
WAIT_S = 60


class CrashPorts(SystemPorts):
    """The real world, with a death at the chosen point."""

    def __init__(self, child: Child) -> None:
        super().__init__()
        self._child = child

    def point(self, name: str) -> None:
        self._child.mark(POINTS.index(name))
        self._child.point()


def agent_for(mark: str, plant: str) -> windlass.Agent:
    started = call("shell", command=COMMAND.format(mark=mark), background=True)
    turns: list[Any] = [[started], "it goes on", "it is done"]
    if plant == "starts_again":
        turns = [[started], [started], "it goes on", "it is done"]
    return windlass.Agent(
        "coder",
        model=ScriptedModel(by_history(turns)),
        tools=TOOLS,
        policy=windlass.Policy(default="allow"),
        settings=Settings(losses_max=10_000),
    )


def live(child: Child, arguments: dict[str, Any]) -> None:
    """One life: goes on with the work in `place` until it is done."""
    ports = CrashPorts(child)
    ports.point("began")
    child.ready()
    asyncio.run(_live(ports, **arguments))


async def _live(ports: CrashPorts, place: str, plant: str = "") -> None:
    agent = agent_for(os.path.basename(place), plant)
    store, jobs = os.path.join(place, "work.db"), os.path.join(place, "jobs")
    settings: dict[str, Any] = {"ports": ports, "poll_ms": 5, "lease_ms": 1, "jobs": jobs}
    async with windlass.open(store, agents=[agent], **settings) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("please", command_id="p1")
        async with asyncio.timeout(WAIT_S):
            while True:
                await session.wait_idle()
                state = await session.state()
                if not state.jobs.open and not state.active and not state.queue.waiting:
                    return
                await asyncio.sleep(0.003)


class Calm(Child):
    """A child that nobody kills."""

    def __init__(self) -> None:
        """Shares nothing."""

    def ready(self) -> None: ...

    def mark(self, value: int) -> None: ...

    def point(self) -> None: ...


if os.path.basename(sys.argv[0]) == "kill_rig.py":
    # In the fork server: live once before the forks, so that no life pays for what is imported on first use.
    with tempfile.TemporaryDirectory() as folder:
        live(Calm(), {"place": folder})
