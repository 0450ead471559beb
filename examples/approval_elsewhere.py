"""A call waits for approval, and another process, which has none of the agent's code, gives it.

`python approval_elsewhere.py` runs the three steps one after the other, each in a process of its own; days may lie
between them. `python approval_elsewhere.py ask` runs one of them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

import windlass
from windlass.testing import ScriptedModel, by_history, call

STORE = "approvals.db"


@windlass.tool
def pay(invoice: str, cents: int) -> str:
    "Pay an invoice."
    return f"paid {invoice}: {cents / 100:.2f}"


clerk = windlass.Agent(
    "clerk",
    # by_history answers by what was said before, so that a new process goes on where the old one was.
    model=ScriptedModel(by_history([call("pay", invoice="march", cents=25_000), "The March invoice is paid."])),
    tools=[pay],
    policy=windlass.Policy(rules=(windlass.ask("pay", when="args.cents > 10000"), windlass.allow("pay"))),
)


async def ask() -> None:
    """The agent wants to pay, and the run ends: nobody is there to answer."""
    async with windlass.open(STORE, agents=[clerk]) as runtime:
        session = await runtime.session(clerk, "march")
        await session.prompt("Pay the March invoice.")
        result = await session.result()
        print(f"the run ended {result.status}, waiting for {len(result.waiting_for)} approval")


async def approve() -> None:
    """Somebody looks at what waits, and approves it."""
    async with windlass.open(STORE) as runtime:
        for row in await runtime.sessions(states=("asked",)):
            session = await runtime.get(row.session)
            async for record in session.records():
                if isinstance(record.event, windlass.PermissionRequested):
                    await session.approve(record.event, actor="boss")
                    print(f"approved a call of {record.event.tool} in session {row.session}")


async def finish() -> None:
    """The agent's process comes back: what was approved is done, once."""
    async with windlass.open(STORE, agents=[clerk]) as runtime:
        session = await runtime.get("march")
        async for event in session.events():
            if isinstance(event, windlass.RunCompleted):
                break
        print((await session.result()).text)


STEPS = {"ask": ask, "approve": approve, "finish": finish}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(STEPS[sys.argv[1]]())
    else:
        for name in STEPS:
            subprocess.run([sys.executable, __file__, name], check=True)
