"""A runtime with a strange server, run as a program that a test kills: `runtime_to_kill.py STORE FOLDER CONTRACT`."""

from __future__ import annotations

import asyncio
import pathlib
import sys
from typing import Any

import windlass
from tests.mcp_client.conftest import Strange
from windlass.testing.scripted import ScriptedModel, call

LEASE_MS = 3_000
"""Short, so that nobody waits long for whoever was killed."""


def agent(folder: pathlib.Path, contract: Any, *replies: Any) -> windlass.Agent:
    model = ScriptedModel(list(replies))
    server = Strange(folder).server(contracts={"*": contract})
    return windlass.Agent("victim", model, policy=windlass.ALLOW_ALL, mcp=[server])


async def main(store: str, folder: str, contract: str) -> None:
    victim = agent(pathlib.Path(folder), contract, call("strange__hangs"), "done")
    async with windlass.open(store, agents=[victim], lease_ms=LEASE_MS) as runtime:
        session = await runtime.session(victim, "one")
        await session.prompt("go")
        await session.wait_idle()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
