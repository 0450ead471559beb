"""A process of its own under a clock that is off: it puts sessions to sleep, or wakes those that it finds asleep.

python -m tests.runtime.clock_target STORE OFF_MS sleep|wake COUNT WAIT_MS
"""

from __future__ import annotations

import asyncio
import sys

import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import JumpPorts

LEASE_MS = 600
"""A third of it passes between two looks for what nobody drives."""


def sleeper(wait_ms: int) -> windlass.Agent:
    """Waits once, then says so."""
    model = ScriptedModel(by_history([call("wait", for_ms=wait_ms), "asleep", "awake"]))
    return windlass.Agent("sleeper", model=model, tools=["wait"])


async def main(store: str, off_ms: int, what: str, count: int, wait_ms: int) -> None:
    ports = JumpPorts()
    ports.ahead_ms = off_ms
    agent = sleeper(wait_ms)
    async with windlass.open(store, agents=[agent], ports=ports, poll_ms=5, lease_ms=LEASE_MS) as runtime:
        if what == "sleep":
            for number in range(count):
                session = await runtime.session(agent, f"s{number}")
                await session.prompt("go")
                print((await session.result()).status, flush=True)
            await asyncio.Event().wait()
        sessions = [await runtime.get(f"s{number}") for number in range(count)]
        for session in sessions:
            await _woken(session)
            print((await session.result()).text, flush=True)


async def _woken(session: windlass.Session) -> None:
    state = await session.state()
    while state.timers.open or state.active:
        await asyncio.sleep(0.01)
        state = await session.state()


if __name__ == "__main__":
    place, off, doing, number, wait = sys.argv[1:]
    asyncio.run(main(place, int(off), doing, int(number), int(wait)))
