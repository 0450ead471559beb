"""A process that drives sessions until all of them rest, of which one has a tool that kills it. Every life begins what
there is not yet; what was begun before is taken up again, or told all of it again as programs do that know no better."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

import windlass
from windlass.events.values.items import UserItem
from windlass.events.values.settings import Settings
from windlass.models.base import Request
from windlass.runtime.host import suspects
from windlass.testing.scripted import ScriptedModel, by_history, call

HEALTHY = 2
LEASE_MS = 1
"""A dead process cannot give its lease back, so it holds it only for a moment."""

suspects.HEAD_START_MS = 10_000


@windlass.tool(contract="pure")
def boom() -> str:
    """Kills its process."""
    with open(sys.argv[2], "a") as file:
        file.write("boom\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@windlass.tool(contract="pure")
def slow() -> str:
    """Takes longer than the process lives if the other tool is begun beside it."""
    time.sleep(0.25)
    return "slow"


def answer(request: Request) -> Any:
    first = request.items[0]
    assert isinstance(first, UserItem)
    tool = "boom" if "kill" in str(first.content) else "slow"
    return by_history([call(tool), f"{tool} has ended"])(request)


async def main() -> None:
    settings = Settings(losses_max=int(sys.argv[3]))
    agent = windlass.Agent("worker", model=ScriptedModel(answer), tools=[boom, slow], settings=settings)
    async with windlass.open(sys.argv[1], agents=[agent], lease_ms=LEASE_MS, poll_ms=10) as runtime:
        names = ["killer", *(f"healthy{number}" for number in range(HEALTHY))]
        known = {row.session for row in await runtime.sessions()}
        for name in names:
            if name not in known or sys.argv[4] == "says all again":
                session = await runtime.session(agent, name)
                await session.prompt("kill" if name == "killer" else "work", command_id="the one")
        while any(row.owed for row in await runtime.sessions()):
            await asyncio.sleep(0.02)


asyncio.run(main())
