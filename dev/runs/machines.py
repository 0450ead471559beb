"""State machines: every kind of state, chosen by an agent, a person and by rule; stopped, failed and begun again."""

from __future__ import annotations

import asyncio

import windlass
from windlass import machines
from windlass.events.questions import QuestionRequested
from windlass.events.runs import Terminal
from windlass.events.tools.calls import ToolStarted
from windlass.events.trees.machines import MachineEnded, MachineInterrupted, MachineSlept
from windlass.events.values.failures import failure
from windlass.events.values.ids import job_id
from windlass.testing.scripted import call

from .stage import QUICK, Play, Stage, scripted

LOOK = "test -e green || { touch green; exit 1; }"
TOPIC = {"type": "object", "properties": {"topic": {"type": "string"}}}


def lifecycle() -> machines.Machine:
    """Every kind of state, and all that may be said of one."""
    return machines.Machine(
        "lifecycle",
        [
            machines.agent("draft", "Write about {input.topic}.", next="send", input=TOPIC, when="it is new"),
            machines.script("send", ["sh", "-c", "true"], next="look", on_failure="lost", timeout="5s",
                            success_codes=[0, 3], cwd="."),
            machines.poll("look", ["sh", "-c", LOOK], every="1m", give_up="2h", next="nap"),
            machines.timer("nap", after="1h", next="ask", misfire="fail", late="1d"),
            machines.timer("later", at="2030-01-01T00:00:00+00:00", next="ask"),
            machines.park("ask", "All well?", next=["done", "dropped", "later"]),
            machines.completed("done", "they answered"),
            machines.failed("lost", "it was never sent"),
            machines.cancelled("dropped", "nobody wants it"),
        ],
        when="somebody is to be written to",
        visits_max=9,
        quick_polls_max=4,
    )  # fmt: skip


async def machine(stage: Stage) -> None:
    """An agent goes through a machine that was given; a person decides in the end, and has it begin again."""
    replies = [call("select_state", state="draft", input={"topic": "rain"}), "It rains.", "They answered."]
    agent = windlass.Agent("pilot", model=scripted(*replies), machine=lifecycle(), settings=QUICK)
    async with stage.open(agent) as rt:
        session = await rt.session(agent, "machine", workspace=stage.folder)
        stage.listen(rt, session)
        await session.prompt("write about the rain")
        await stage.until(session, MachineSlept)
        stage.ports.ahead_ms += 61_000
        await stage.until(session, MachineSlept, 2)
        stage.ports.ahead_ms += 3_601_000
        (asked,) = await stage.until(session, QuestionRequested)
        await stage.until(session, Terminal, 3)
        await session.answer(asked.question_id, "done")
        await stage.until(session, MachineEnded)
        await session.wait_idle()
        mine = machines.SessionMachine(session)
        await mine.select("dropped", {"topic": "sun"})
        await stage.until(session, MachineEnded, 2)
        await session.wait_idle()
        await mine.select("send")
        await stage.until(session, MachineSlept, 3)
        await session.wait_idle()
        other = await rt.session(agent, "machine_begun", workspace=stage.folder)
        await machines.SessionMachine(other).select("dropped", {"topic": "snow"})
        await stage.until(other, MachineEnded)
        await other.wait_idle()


async def machine_created(stage: Stage) -> None:
    """An agent creates a machine, chooses its states, is stopped in one, and goes on."""
    states = [
        {"name": "build", "kind": "script", "command": ["sh", "-c", "echo half way; sleep 600"]},
        {"name": "check", "kind": "script", "command": ["sh", "-c", "exit 1"]},
        {"name": "say", "kind": "agent", "prompt": "Say {input.missing}."},
        {"name": "done", "kind": "terminal"},
        {"name": "failed", "kind": "terminal", "outcome": "failed"},
    ]
    replies = [
        call("create_machine", name="build", first="build", states=states),
        call("select_state", state="check"),
        call("select_state", state="say"),
        call("machine_state"),
        call("select_state", state="build"),
        failure("invalid_request", "no"),
    ]
    allow = windlass.Policy(default="allow")
    agent = windlass.Agent("pilot", model=scripted(*replies), machine="auto", settings=QUICK, policy=allow)
    async with stage.open(agent) as rt:
        session = await rt.session(agent, "machine_created", workspace=stage.folder)
        stage.listen(rt, session)
        await session.prompt("build it")
        (begun,) = await stage.until(session, ToolStarted)
        while not (await session.job_output(job_id(begun.call_id))).data:
            await asyncio.sleep(0.01)
        await session.interrupt()
        await stage.until(session, MachineInterrupted)
        await session.prompt("check it instead")
        await stage.until(session, ToolStarted, 3)
        await machines.SessionMachine(session).select("say", {"missing": "nothing"})
        await stage.until(session, MachineInterrupted, 2)
        await session.wait_idle()
        await machines.SessionMachine(session).select("build")
        await stage.until(session, ToolStarted, 4)
        await session.fork("machine_forked")
        await session.cancel()
        await stage.until(session, MachineEnded)


SCENARIOS: dict[str, Play] = {"machine": machine, "machine_created": machine_created}
