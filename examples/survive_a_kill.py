"""The process is killed in the middle of a tool. Another one opens the store, and the work goes on from there.

What had been done is not done again: the first page is fetched once. The call that was cut off runs again, because its
tool says that this is safe (`idempotent`), with the same key.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import sys

import windlass
from windlass.testing import ScriptedModel, by_history, call

STORE = "crawl.db"
LEASE_MS = 1_000  # how long others wait for a process that does not answer any more; 15 s unless said
DIARY = pathlib.Path("diary.txt")


@windlass.tool(contract="idempotent")
def fetch(ctx: windlass.ToolContext, page: int) -> str:
    "Fetch a page."
    with DIARY.open("a") as diary:
        diary.write(f"page {page}, attempt {ctx.attempt}, key {ctx.idempotency_key}\n")
    if page == 2 and ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)  # as sudden as a power cut, as far as this process can tell
    return f"content of page {page}"


crawler = windlass.Agent(
    "crawler",
    model=ScriptedModel(by_history([call("fetch", page=1), call("fetch", page=2), "Both pages are here."])),
    tools=[fetch],
)


async def begin() -> None:
    """Starts the work, and dies in it."""
    async with windlass.open(STORE, agents=[crawler], lease_ms=LEASE_MS) as runtime:
        session = await runtime.session(crawler, "crawl")
        await session.prompt("Fetch both pages.")
        await session.result()


async def go_on() -> None:
    """Opens the store; nothing else is needed."""
    async with windlass.open(STORE, agents=[crawler], lease_ms=LEASE_MS) as runtime:
        session = await runtime.get("crawl")
        async for event in session.events():
            if isinstance(event, windlass.RunCompleted):
                break
        print((await session.result()).text)


if __name__ == "__main__":
    if sys.argv[1:] == ["begin"]:
        asyncio.run(begin())
    else:
        died = subprocess.run([sys.executable, __file__, "begin"], check=False)
        print(f"the first process was ended by signal {-died.returncode}")
        asyncio.run(go_on())
        lines = [line.split(", key ") for line in DIARY.read_text().splitlines()]
        for done, _ in lines:
            print(done)
        print("the same key both times:", lines[1][1] == lines[2][1])
