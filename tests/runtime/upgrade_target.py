"""A process with a session in each place where a call can be when its code is replaced; it is killed there.

Run as `python -m tests.runtime.upgrade_target FOLDER`: it prints `ready` once every session is where it should be.
"""

from __future__ import annotations

import asyncio
import pathlib
import sys
from collections.abc import Callable
from typing import Any, Literal

import windlass
from windlass.events.tools.calls import ToolStarted
from windlass.events.values.policy import WorkMode
from windlass.events.values.settings import Settings
from windlass.events.values.tools import Contract
from windlass.runtime.api.session import Session
from windlass.testing.scripted import ScriptedModel, call

Place = Literal["running", "running_once", "asked", "approved", "queued", "sleeping"]
Change = Literal["none", "contract", "code", "docstring", "schema", "policy", "unrelated_rule", "mode", "name"]

PLACES: tuple[Place, ...] = ("running", "running_once", "asked", "approved", "queued", "sleeping")
TOOL: dict[Place, str] = {"running": "put", "queued": "put", "sleeping": "put"}
"""Which tool is replaced; `pay`, which a person is asked about, elsewhere."""
SCRIPTS: dict[Place, list[Any]] = {
    "running": [[call("put", n=1)]],
    "running_once": [[call("pay", n=1)]],
    "asked": [[call("pay", n=1)]],
    "approved": [[call("slow"), call("pay", n=1)]],
    "queued": [[call("slow"), call("put", n=1)]],
    "sleeping": [[call("wait", for_ms=3_600_000)], "later"],
}
AFTERWARDS: dict[Place, list[Any]] = {"sleeping": [[call("put", n=1)], "done"]}

ran: list[str] = []
"""What ran in this process."""
hang = asyncio.Event()
"""Whether a call that begins here never ends."""


async def work(name: str) -> str:
    ran.append(name)
    if hang.is_set():
        await asyncio.Event().wait()
    return f"{name} done"


@windlass.tool(contract="pure")
async def slow() -> str:
    "Takes long."
    return await work("slow")


def put(contract: Contract) -> Any:
    @windlass.tool(contract=contract)
    async def put(n: int) -> str:
        "Put it."
        return await work("put")

    return put


def pay(contract: Contract) -> Any:
    @windlass.tool(contract=contract)
    async def pay(n: int) -> str:
        "Pay it."
        return await work("pay")

    return pay


def other_code(name: str, contract: Contract) -> Any:
    async def changed(n: int) -> str:
        "Does it."
        return await work(name) + " otherwise"

    return windlass.tool(name=name, contract=contract)(changed)


def other_words(name: str, contract: Contract) -> Any:
    if name == "put":

        @windlass.tool(contract=contract)
        async def put(n: int) -> str:
            """Puts it where it belongs.

            Args:
                n: how many
            """
            return await work("put")

        return put

    @windlass.tool(contract=contract)
    async def pay(n: int) -> str:
        "Pays what is due, and says so at length."
        return await work("pay")

    return pay


def other_schema(name: str, contract: Contract) -> Any:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}}

    async def same(n: int, m: int = 0) -> str:
        return await work(name)

    return windlass.tool(name=name, contract=contract, parameters=parameters)(same)


def agent(place: Place, change: Change = "none", script: list[Any] | None = None) -> windlass.Agent:
    """The agent of a place, with one thing about it changed."""
    contracts: dict[str, Contract] = {"put": "idempotent", "pay": "at_most_once"}
    makers: dict[str, Callable[[Contract], Any]] = {"put": put, "pay": pay}
    target = TOOL.get(place, "pay")
    rules = [windlass.ask("pay")]
    mode: WorkMode = "interactive"
    if change == "contract":
        contracts[target] = "at_most_once" if target == "put" else "idempotent"
    elif change in ("code", "docstring", "schema"):
        made = {"code": other_code, "docstring": other_words, "schema": other_schema}[change]
        makers[target] = lambda contract: made(target, contract)
    elif change == "policy":
        rules = [windlass.deny(target, reason="not any more")]
    elif change == "unrelated_rule":
        rules.append(windlass.deny("delete_*"))
    elif change == "mode":
        mode = "plan"
    return windlass.Agent(
        f"{place}_renamed" if change == "name" else place,
        model=ScriptedModel(SCRIPTS[place] if script is None else script),
        tools=[slow, makers["put"](contracts["put"]), makers["pay"](contracts["pay"]), "wait"],
        policy=windlass.Policy(rules),
        settings=Settings(tool_order="sequential"),
        mode=mode,
    )


async def settle_in(session: Session, place: Place) -> None:
    """Has a session come to its place."""
    await session.prompt("go")
    if place in ("asked", "sleeping"):
        await session.result()
        return
    if place in ("running_once", "approved"):
        while not await session.requests():
            await asyncio.sleep(0.005)
        await session.approve((await session.requests())[0])
    tool = "slow" if place in ("approved", "queued") else TOOL.get(place, "pay")
    while not any([isinstance(record.event, ToolStarted) async for record in session.records()]) or tool not in ran:
        await asyncio.sleep(0.005)


async def main(folder: pathlib.Path) -> None:
    hang.set()
    agents = {place: agent(place) for place in PLACES}
    async with windlass.open(str(folder / "work.db"), agents=list(agents.values())) as rt:
        for place in PLACES:
            ran.clear()
            await settle_in(await rt.session(agents[place], place), place)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(pathlib.Path(sys.argv[1])))
