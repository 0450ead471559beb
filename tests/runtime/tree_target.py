"""A tree of seven sessions, three deep, worked off by a process that may be killed at any moment."""

from __future__ import annotations

import asyncio
import itertools
import os
import pathlib
import signal
import sys
from typing import Any

import windlass
from windlass.testing import ScriptedModel, by_history, call

PATIENT = windlass.Settings(losses_max=1_000)
"""Losing so many owners is what is tried here."""


def tree(folder: pathlib.Path) -> windlass.Agent:
    """An agent with two specialists, each with two of its own. Each leaf writes down that it worked."""

    @windlass.tool(contract="idempotent")
    def note(name: str, ctx: windlass.ToolContext) -> str:
        """Notes that a leaf worked."""
        with (folder / "notes").open("a") as notes:
            notes.write(f"{ctx.session} {name}\n")
        return "noted"

    def leaf(name: str) -> windlass.Agent:
        return windlass.Agent(
            name,
            ScriptedModel(by_history([call("note", name=name), f"{name} is done"])),
            tools=[note],
            settings=PATIENT,
        )

    def above(name: str, *below: windlass.Agent) -> windlass.Agent:
        spawns = [call("spawn", agent=agent.name, task="work") for agent in below]
        return windlass.Agent(
            name, ScriptedModel(by_history([spawns, f"{name} is done"])), agents=below, settings=PATIENT
        )

    left = above("left", leaf("a"), leaf("b"))
    right = above("right", leaf("c"), leaf("d"))
    return above("root", left, right)


def dies_at(store: Any, number: int, *, kept: bool) -> None:
    """Has the process killed with its n-th append, before or after that is kept."""
    append, count = store.log.append, itertools.count(1)

    async def last(*given: Any, **more: Any) -> None:
        here = next(count)
        if here == number and not kept:
            os.kill(os.getpid(), signal.SIGKILL)
        await append(*given, **more)
        if here == number:
            os.kill(os.getpid(), signal.SIGKILL)

    store.log.append = last


async def work(folder: pathlib.Path, number: int, *, kept: bool) -> None:
    agent = tree(folder)
    async with windlass.open(folder / "work.db", agents=[agent], take_up=False) as runtime:
        dies_at(runtime.store, number, kept=kept)
        session = await runtime.session(agent, "root", options=windlass.SessionOptions())
        if (await session.state()).seq < 2:
            await session.prompt("go", command_id="go")
        result = await session.result("go")
        print(result.status, result.text, flush=True)


if __name__ == "__main__":
    asyncio.run(work(pathlib.Path(sys.argv[1]), int(sys.argv[2]), kept=sys.argv[3] == "kept"))
