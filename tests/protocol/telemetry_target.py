"""A process with telemetry: works in a session of a store if it is told to, says `done`, and waits to be ended.

python -m tests.protocol.telemetry_target STORE MARKS [SESSION]
"""

from __future__ import annotations

import asyncio
import sys

import windlass
from windlass.protocol.telemetry.otel_environment import OtelExport
from windlass.telemetry import Telemetry
from windlass.testing import ScriptedModel, call
from windlass.testing.scripted import by_history


@windlass.tool(contract="pure")
def look(page: int) -> str:
    "Looks at a page."
    return f"page {page}"


def reader() -> windlass.Agent:
    model = ScriptedModel(by_history([call("look", page=1), "Read."]))
    return windlass.Agent("reader", model=model, tools=[look], policy=windlass.ALLOW_ALL)


async def work(store: str, marks: str, session_id: str) -> None:
    otel = OtelExport()
    telemetry = Telemetry(otel._exporter, meters=otel._meters, marks=marks, every_ms=1)
    agent = reader()
    async with windlass.open(store, agents=[agent], telemetry=telemetry) as runtime:
        if session_id:
            session = await runtime.session(agent, session_id)
            await session.prompt("Read.")
            await session.result()
        print("done", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""))
