"""A process that drives a schedule until it is killed."""

from __future__ import annotations

import asyncio
import sys

import windlass
from windlass.testing.scripted import ScriptedModel

REPORTER = windlass.Agent("reporter", model=ScriptedModel(lambda request: "done"))
EVERY_MS = 200


async def main(place: str) -> None:
    async with windlass.open(place, agents=[REPORTER], lease_ms=1_000, poll_ms=20) as runtime:
        await runtime.schedule(
            REPORTER, "tick", every=EVERY_MS / 1000, prompt="report", overlap="allow", misfire="all", catch_up_max=100
        )
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
