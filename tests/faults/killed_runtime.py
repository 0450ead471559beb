"""A runtime that is killed in the middle of a tool, and taken up again: run as a program by the tests, with the store,
the plane or sandbox, the contract, and the folder of the tool."""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys
import time
from typing import Any

import windlass
from windlass.testing import ScriptedModel, by_history, call
from windlass.tools.context import ToolContext

MARK = "FAULT_MARK"
"""As in `places`, which a worker in a sandbox must not import: it looks what the machine can run."""
LEASE_MS = 1_000
FOLDER = "."


def begun(folder: str) -> bool:
    """Counts a run, and says whether it is the first."""
    with open(os.path.join(folder, "ran"), "a") as file:
        file.write("x")
    return os.path.getsize(os.path.join(folder, "ran")) == 1


def works(ctx: ToolContext, folder: str) -> str:
    "Work: the first time without end, with a daemon beside it."
    if begun(folder):
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        while True:
            time.sleep(0.05)
    return "worked"


async def runs_program(ctx: ToolContext, folder: str) -> str:
    "Work: the first time a program that never ends, with a daemon beside it."
    words = "setsid sleep 600 & sleep 600" if begun(folder) else "echo worked"
    done = await ctx.run(["/bin/sh", "-c", words], env={MARK: os.environ[MARK]})
    return done.stdout.text.strip()


def setup(store: str, place: str, contract: Any, folder: str) -> tuple[windlass.Agent, Any]:
    """The agent, and what a runtime is opened with."""
    from windlass.tools.planes.process.plane import ProcessPlanes

    from .places import CONFINED  # not by the worker, which reads this module too and may make nothing to look about

    name = place.removeprefix("process-in-")
    options: dict[str, Any] = {}
    if place.startswith("process"):
        kind = CONFINED[name]() if "-in-" in place else None
        where: dict[str, Any] = {"folder": folder} if kind is not None else {}
        mark = {MARK: os.environ[MARK]} if MARK in os.environ else {}
        options["planes"] = {"process": ProcessPlanes(sandbox=kind, env=mark, **where)}
        made = windlass.tool(plane="process", contract=contract, name="work")(works)
    else:
        options["sandbox"] = CONFINED[name]() if name in CONFINED else None
        made = windlass.tool(contract=contract, name="work")(runs_program)  # type: ignore[arg-type]
    script = by_history([call("work", folder=folder), "done"])
    agent = windlass.Agent("a", model=ScriptedModel(script), tools=[made])
    return agent, windlass.open(store, agents=[agent], lease_ms=LEASE_MS, poll_ms=20, **options)


async def begin(store: str, place: str, contract: str, folder: str) -> None:
    agent, opened = setup(store, place, contract, folder)
    async with opened as runtime:
        session = await runtime.session(agent, "s", workspace=pathlib.Path(folder))
        await session.prompt("go")
        await session.result()


if __name__ == "__main__":
    asyncio.run(begin(*sys.argv[1:5]))
