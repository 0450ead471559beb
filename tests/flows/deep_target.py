"""A workflow with everything open at once: an approval three sessions below its root, a question, and a pause."""

from __future__ import annotations

import asyncio
import pathlib
import sys

import windlass
from windlass import flows
from windlass.events.values.failures import failure
from windlass.models.base import Request
from windlass.runtime.api.flows import FlowRun
from windlass.testing import ScriptedModel
from windlass.testing.scripted import call

PATIENT = windlass.Settings(losses_max=1_000, retries_max=0)


@windlass.tool(contract="at_most_once", traits=("write",))
def pay(amount: int, ctx: windlass.ToolContext) -> str:
    "Pays."
    with open("paid.txt", "a") as file:
        file.write(f"{amount}\n")
    return f"paid {amount}"


def said(what: object, end: str) -> ScriptedModel:
    return ScriptedModel(lambda request: end if len(request.items) > 1 else what)  # type: ignore[arg-type, return-value]


def flaky(request: Request) -> object:
    """Fails until somebody has left a file that says otherwise."""
    return "tried again" if pathlib.Path("paid.txt").exists() else failure("invalid_request", "not yet")


def flow() -> flows.Flow:
    asks = windlass.Policy([windlass.ask("pay")])
    third = windlass.Agent("third", said(call("pay", amount=5), "paid"), tools=[pay], policy=asks, settings=PATIENT)
    second = windlass.Agent(
        "second", said(call("spawn", agent="third", task="pay"), "second"), agents=[third], settings=PATIENT,
        policy=windlass.ALLOW_ALL,
    )  # fmt: skip
    first = windlass.Agent(
        "first", said(call("spawn", agent="second", task="pay"), "first"), agents=[second], settings=PATIENT,
        policy=windlass.ALLOW_ALL,
    )  # fmt: skip
    unsure = windlass.Agent("unsure", ScriptedModel(flaky), settings=PATIENT)  # type: ignore[arg-type]
    return flows.Flow(
        "deep",
        [
            flows.spawn("work", first, "have it paid"),
            flows.gate("agree", "Go on?"),
            flows.spawn("again", unsure, "try", retries=1, retry_wait=3600),
            flows.reduce("end", "concat", ["work", "agree", "again"]),
        ],
        settings=PATIENT,
    )


async def all_open(run: FlowRun) -> bool:
    """Whether an approval is open three sessions down, a question at the root, and a node pauses."""
    state = await run.session.state()
    below = [name for name in (await run.result()).waiting_for if name.count("~") == 2]
    return bool(below) and bool(state.asks.open) and bool(state.flow.pauses)


async def work(folder: pathlib.Path) -> None:
    graph = flow()
    async with windlass.open(folder / "work.db", agents=[graph], take_up=False) as runtime:
        run = await runtime.flow(graph, "f")
        while not await all_open(run):
            await asyncio.sleep(0.01)
        print("open", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(pathlib.Path(sys.argv[1])))
