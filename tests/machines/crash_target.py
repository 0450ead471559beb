"""A machine gone through by a process that may be killed at any append: a state of each kind."""

from __future__ import annotations

import asyncio
import pathlib
import sys

import windlass
from tests.runtime.tree_target import dies_at
from windlass import machines
from windlass.events.questions import Answer, AnswerBody
from windlass.models.base import Request
from windlass.testing import ScriptedModel

PATIENT = windlass.Settings(losses_max=1_000, retry_base_ms=5, retry_cap_ms=20)
LOOK = "test -e again || { touch again; exit 1; }"


def said(request: Request) -> str:
    return "Dear Ada"


def agent() -> windlass.Agent:
    machine = machines.Machine(
        "killed",
        [
            machines.agent("draft", "Write to {input.who}.", next="send"),
            machines.script("send", ["sh", "-c", "echo sent >> sent.txt"], next="look", on_failure="look"),
            machines.poll("look", ["sh", "-c", LOOK], every="20ms", next="nap"),
            machines.timer("nap", after="20ms", next="ask"),
            machines.park("ask", "All well?", next=["done", "drop"]),
            machines.completed("done"),
            machines.cancelled("drop"),
        ],
    )
    return windlass.Agent("pilot", ScriptedModel(said), machine=machine, settings=PATIENT)


async def work(folder: pathlib.Path, number: int, *, kept: bool) -> None:
    pilot = agent()
    async with windlass.open(folder / "work.db", agents=[pilot], poll_ms=5) as runtime:
        dies_at(runtime.store, number, kept=kept)
        session = await runtime.session(pilot, "s", workspace=folder)
        machine = machines.SessionMachine(session)
        if (await machine.view()).status == "none":
            await machine.start({"who": "Ada"}, command_id="begin")
        async with asyncio.timeout(100):
            while (view := await machine.view()).status != "ended":
                for asked in await session.questions():
                    body = AnswerBody(answers=(Answer(index=0, selected=("done",)),))
                    await session.answer(asked.question_id, body, command_id=f"answer {asked.question_id}")
                await asyncio.sleep(0.01)
        print(view.outcome, " ".join(view.way), flush=True)


if __name__ == "__main__":
    asyncio.run(work(pathlib.Path(sys.argv[1]), int(sys.argv[2]), kept=sys.argv[3] == "kept"))
