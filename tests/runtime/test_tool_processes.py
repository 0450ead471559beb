"""Processes that a tool started through its context end with its call, however that is given up: they, and what they
started in turn."""

from __future__ import annotations

import asyncio
import os
import pathlib
from typing import Any

import pytest

import windlass
from windlass.testing.scripted import call

from .support import agent_of, until

TREE = "echo $$ >> pids; sh -c 'echo $$ >> pids; sleep 1000' & sleep 1000"
"""A shell that writes down its number, and a child of it that does so too."""


def numbers(folder: pathlib.Path) -> list[int]:
    file = folder / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has too."""
    try:
        os.kill(pid, 0)
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.guard(60)
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("how", ["timeout", "interrupt", "cancel", "close"])
async def test_the_processes_of_a_call_that_is_given_up_are_killed(
    how: str, sync: bool, tmp_path: pathlib.Path
) -> None:
    async def run_it(ctx: windlass.ToolContext) -> str:
        await ctx.run(["sh", "-c", TREE])
        return "never"

    @windlass.tool(name="shell", timeout_ms=5_000 if how == "timeout" else 60_000)
    async def in_loop(ctx: windlass.ToolContext) -> str:
        """Runs a shell."""
        return await run_it(ctx)

    @windlass.tool(name="shell", timeout_ms=5_000 if how == "timeout" else 60_000)
    def in_thread(ctx: windlass.ToolContext) -> str:
        """Runs a shell."""
        return ctx.wait(run_it(ctx))

    tool: Any = in_thread if sync else in_loop
    agent = agent_of(call("shell"), "the end", tools=[tool])
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        await until(lambda: len(numbers(tmp_path)) == 2)
        if how == "interrupt":
            await session.interrupt()
        elif how == "cancel":
            await session.cancel()
        if how != "close":
            await session.wait_idle()
            await until(lambda: all(map(gone, numbers(tmp_path))))
    await until(lambda: all(map(gone, numbers(tmp_path))))
    await asyncio.sleep(0)
