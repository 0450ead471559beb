"""The scenarios of Duet's turn protocol, by name: one-shot tasks, machines that are chosen, steered, asleep,
interrupted, and given by the caller. Scripted models, real programs, and a clock that jumps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import machines
from windlass.events.errors import Refused, UsageError
from windlass.events.runs import RunAsked, RunCompleted, RunInterrupted, RunSlept
from windlass.events.tools.calls import ToolFinished, ToolStarted
from windlass.events.trees.machines import MachineEnded, MachineLeft, MachineMoved
from windlass.events.values.ids import job_id
from windlass.testing.scripted import call, hang

from .support import ALLOW, Machine, events_of, flying, only, piloted, started

MINUTE_S, HOUR_S = 60, 3600
HOUR_MS = HOUR_S * 1000


def ship(**more: Any) -> dict[str, Any]:
    """A definition as a model writes it."""
    return {
        "name": "ship",
        "first": "push",
        "states": [
            {"name": "push", "kind": "script", "command": ["touch", "pushed"], "next": ["checks"]},
            {
                "name": "checks",
                "kind": "poll",
                "command": ["test", "-e", "green"],
                "every_ms": 60_000,
                "next": ["done"],
            },
            {"name": "done", "kind": "terminal", "reason": "it is shipped"},
        ],
        **more,
    }


SHEPHERD = Machine(
    "shepherd",
    [
        machines.agent("draft", "Draft an answer to {input.who}.", next="send"),
        machines.script("send", ["sh", "-c", 'echo "$INPUT_OUTPUT" > sent.txt'], next="reply"),
        machines.poll("reply", ["test", "-e", "reply.txt"], every="1m", give_up="2h", next="done", on_failure="silent"),
        machines.completed("done", "they answered"),
        machines.failed("silent", "nobody answered"),
    ],
    when="somebody wants an answer by mail",
)


async def test_scenario_1_a_one_shot_task_is_answered_without_a_machine(tmp_path):
    async with flying(piloted("auto", "It says hello."), tmp_path) as flight:
        await flight.session.prompt("summarise this file")
        assert isinstance(await flight.ended(1), RunCompleted)
        told = await flight.machine.turn_state()
        assert (told["status"], told["mode"]) == ("completed", "auto")
        assert told["agent"]["messages"] == [
            {"role": "user", "text": "summarise this file"},
            {"role": "assistant", "text": "It says hello."},
        ]
        assert "stateMachine" not in told
        assert (told["followUpQueue"], told["queuedCommands"]) == ([], [])
        await flight.sound()


async def test_scenario_2_a_machine_is_created_for_a_task_with_a_lifecycle(tmp_path):
    agent = piloted("auto", call("create_machine", **ship()), "It is shipped.", policy=ALLOW)
    (tmp_path / "green").touch()
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("ship it and watch it")
        assert isinstance(await flight.ended(1), RunCompleted)
        assert await flight.way() == ["push", "checks", "done"]
        assert (tmp_path / "pushed").exists()
        told = (await flight.machine.turn_state())["stateMachine"]
        assert told["terminal"] == {"state": "done", "status": "completed", "reason": "it is shipped"}
        assert told["currentState"] == "done"
        assert [step["type"] for step in told["history"]] == [
            "state_machine_started",
            "state_started",
            "state_completed",
            "state_started",
            "state_completed",
            "state_started",
            "state_machine_completed",
        ]
        assert (await flight.session.result()).text == "It is shipped."
        await flight.sound()


async def test_scenario_2_another_machine_is_created_when_the_first_has_ended(tmp_path):
    again = ship(name="again")
    agent = piloted(
        "auto", call("create_machine", **ship()), "Shipped.", call("create_machine", **again), "Again.", policy=ALLOW
    )
    (tmp_path / "green").touch()
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("ship it")
        await flight.ended(1)
        await flight.session.prompt("once more")
        await flight.ended(2)
        assert (await flight.machine.view()).name == "again"
        assert await flight.way() == ["push", "checks", "done"] * 2
        await flight.sound()


async def test_scenario_2a_what_a_user_adds_meanwhile_is_heard_before_the_next_state(tmp_path):
    machine = Machine(
        "mail",
        [
            machines.script("send", ["sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"]),
            machines.completed("done"),
            machines.failed("dropped"),
        ],
    )
    agent = piloted(machine, call("select_state", state="send"), call("select_state", state="dropped"), "I dropped it.")
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("write to them")
        await started(flight.session, MachineMoved)
        await flight.session.prompt("I have their answer already", behavior="steer")
        (tmp_path / "go").touch()
        assert isinstance(await flight.ended(1), RunCompleted)
        assert await flight.way() == ["send", "dropped"]
        told = (await flight.machine.turn_state())["agent"]["messages"]
        texts = [message["text"] for message in told if message["role"] == "user"]
        assert "I have their answer already" in texts
        assert [event.outcome for event in only(await events_of(flight.session), MachineEnded)] == ["failed"]
        await flight.sound()


async def test_scenario_2b_a_poll_sleeps_and_each_wake_is_one_attempt(tmp_path):
    agent = piloted(SHEPHERD, call("select_state", state="draft", input={"who": "Ada"}), "Dear Ada", "She answered.")
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("answer Ada")
        slept = await flight.ended(1)
        assert isinstance(slept, RunSlept)
        told = await flight.machine.turn_state()
        assert told["status"] == "sleeping"
        assert told["stateMachine"]["progress"]["reply"] == {
            "kind": "poll",
            "runs": 1,
            "sleeps": 1,
            "startedAt": told["stateMachine"]["progress"]["reply"]["startedAt"],
            "nextWakeAt": slept.wake_at_ms,
        }
        await flight.session.wake()
        assert isinstance(await flight.ended(2), RunSlept)
        await flight.later(MINUTE_S)
        assert isinstance(await flight.ended(3), RunSlept)
        (tmp_path / "reply.txt").touch()
        await flight.later(MINUTE_S)
        assert isinstance(await flight.ended(4), RunCompleted)
        assert (tmp_path / "sent.txt").read_text() == "Dear Ada\n"
        view = await flight.machine.view()
        assert (view.progress["reply"].attempts, view.progress["reply"].sleeps) == (4, 3)
        assert view.way == ["draft", "send", "reply", "done"]
        await flight.sound()


async def test_scenario_2b_a_prompt_while_it_sleeps_is_answered_and_it_sleeps_on(tmp_path):
    machine = Machine("nap", [machines.timer("nap", after="1h", next="done"), machines.completed("done")])
    agent = piloted(machine, call("select_state", state="nap"), "It sleeps for an hour.", "Done.")
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("wait an hour")
        first = await flight.ended(1)
        await flight.session.prompt("what is it doing?")
        second = await flight.ended(2)
        assert isinstance(first, RunSlept)
        assert isinstance(second, RunSlept)
        assert first.wake_at_ms == second.wake_at_ms
        assert (await flight.session.result()).text == "It sleeps for an hour."
        assert (await flight.machine.turn_state())["status"] == "sleeping"
        await flight.later(HOUR_S)
        assert isinstance(await flight.ended(3), RunCompleted)
        await flight.sound()


async def test_scenario_2b_a_timer_is_kept_by_the_next_process(tmp_path):
    machine = Machine("nap", [machines.timer("nap", after="40d", next="done"), machines.completed("done")])
    store = str(tmp_path / "work.db")
    async with flying(piloted(machine), tmp_path, store=store) as flight:
        await flight.machine.start()
        assert isinstance(await flight.ended(1), RunSlept)
        ports = flight.ports
    await asyncio.sleep(0)
    ports.ahead_ms += 40 * 24 * HOUR_MS
    async with flying(piloted(machine), tmp_path, store=store, ports=ports) as flight:
        assert isinstance(await flight.ended(2), RunCompleted)
        assert await flight.way() == ["nap", "done"]
        await flight.sound()


async def test_scenario_2b_a_timer_that_was_missed_fails_if_it_says_so(tmp_path):
    machine = Machine(
        "train",
        [
            machines.timer("nap", after="1h", misfire="fail", late="5m", next="caught", on_failure="missed"),
            machines.completed("caught"),
            machines.failed("missed", "the train has left"),
        ],
    )
    store = str(tmp_path / "work.db")
    async with flying(piloted(machine), tmp_path, store=store) as flight:
        await flight.machine.start()
        await flight.ended(1)
        ports = flight.ports
    ports.ahead_ms += 2 * HOUR_MS
    async with flying(piloted(machine), tmp_path, store=store, ports=ports) as flight:
        await flight.ended(2)
        view = await flight.machine.view()
        assert (view.way, view.outcome, view.reason) == (["nap", "missed"], "failed", "the train has left")


async def test_scenario_2c_an_interrupt_leaves_a_marker_and_what_a_program_had_printed(tmp_path):
    machine = Machine(
        "build",
        [
            machines.script("build", ["sh", "-c", "echo half way; sleep 600"], next="done"),
            machines.completed("done"),
        ],
    )
    agent = piloted(machine, call("select_state", state="build"), "I stopped. Shall I go on?")
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("build it")
        (begun,) = await started(flight.session, ToolStarted)
        async with asyncio.timeout(60):
            while not (await flight.session.job_output(job_id(begun.call_id))).data:
                await asyncio.sleep(0.01)
        await flight.session.interrupt()
        assert isinstance(await flight.ended(1), RunInterrupted)
        told = (await flight.machine.turn_state())["stateMachine"]
        assert told["currentState"] == "interrupted"
        assert told["history"][-1]["type"] == "state_interrupted"
        assert told["history"][-1]["output"] == "half way\n"
        await flight.session.prompt("what happened?")
        await flight.ended(2)
        messages = (await flight.machine.turn_state())["agent"]["messages"]
        assert any("It was stopped in the state build" in message["text"] for message in messages)
        await flight.sound()


async def test_scenario_2c_an_interrupt_keeps_what_the_agent_had_written(tmp_path):
    agent = piloted(SHEPHERD, call("select_state", state="draft", input={"who": "Ada"}), ["Dear A", hang()])
    async with flying(agent, tmp_path) as flight:
        heard = asyncio.Event()

        async def listen() -> None:
            async for told in flight.session.prompt("answer Ada"):
                if getattr(told, "text", "") == "Dear A":
                    heard.set()

        listening = asyncio.create_task(listen())
        async with asyncio.timeout(60):
            await heard.wait()
        await flight.session.interrupt()
        await flight.ended(1)
        await listening
        assert (await flight.machine.history())[-1].output == "Dear A"
        await flight.sound()


async def test_scenario_2c_an_interrupt_ends_the_sleep_and_a_prompt_goes_on_from_there(tmp_path):
    machine = Machine("nap", [machines.timer("nap", after="1h", next="done"), machines.completed("done")])
    agent = piloted(machine, call("select_state", state="nap"), call("select_state", state="done"), "All done.")
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("wait")
        await flight.ended(1)
        await flight.session.interrupt()
        assert (await flight.machine.view()).status == "interrupted"
        assert (await flight.session.state()).timers.open == {}
        await flight.session.prompt("no need to wait any more")
        await flight.ended(2)
        assert await flight.way() == ["nap", "done"]
        await flight.sound()


async def test_scenario_3_a_prompt_that_fits_the_given_machine_goes_through_it(tmp_path):
    agent = piloted(SHEPHERD, call("select_state", state="draft", input={"who": "Ada"}), "Dear Ada", "She answered.")
    (tmp_path / "reply.txt").touch()
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("answer Ada")
        assert isinstance(await flight.ended(1), RunCompleted)
        told = await flight.machine.turn_state()
        assert told["mode"]["name"] == "shepherd"
        assert told["stateMachine"]["terminal"]["status"] == "completed"
        assert told["stateMachine"]["prompt"] == "somebody wants an answer by mail"
        assert await flight.way() == ["draft", "send", "reply", "done"]
        await flight.sound()


async def test_scenario_3_a_prompt_that_does_not_fit_is_answered_normally(tmp_path):
    async with flying(piloted(SHEPHERD, "Paris."), tmp_path) as flight:
        await flight.session.prompt("what is the capital of France?")
        assert (await flight.session.result()).text == "Paris."
        assert "stateMachine" not in await flight.machine.turn_state()
        assert await flight.way() == []


async def test_a_person_decides_at_a_park_and_the_choice_survives_a_restart(tmp_path):
    machine = Machine(
        "gate",
        [
            machines.park("gate", "Merge {input.branch}?", next=["merge", "drop"]),
            machines.script("merge", ["touch", "merged"], next="done"),
            machines.completed("done"),
            machines.cancelled("drop", "nobody wants it"),
        ],
    )
    store = str(tmp_path / "work.db")
    async with flying(piloted(machine), tmp_path, store=store) as flight:
        await flight.machine.start({"branch": "fix"})
        assert isinstance(await flight.ended(1), RunAsked)
        assert (await flight.machine.turn_state())["status"] == "waiting_for_human"
    async with flying(piloted(machine), tmp_path, store=store) as flight:
        (asked,) = await flight.session.questions()
        assert asked.body.questions[0].question == "Merge fix?"
        assert [option.label for option in asked.body.questions[0].options] == ["merge", "drop"]
        await flight.session.answer(asked.question_id, "merge")
        assert isinstance(await flight.ended(2), RunCompleted)
        assert (tmp_path / "merged").exists()
        moved = only(await events_of(flight.session), MachineMoved)
        assert [(event.state, event.by) for event in moved] == [
            ("gate", "person"),
            ("merge", "person"),
            ("done", "rule"),
        ]
        await flight.sound()


async def test_the_turn_state_can_be_read_at_every_terminal(tmp_path):
    agent = piloted(SHEPHERD, call("select_state", state="draft", input={"who": "Ada"}), "Dear Ada", "She answered.")
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("answer Ada")
        await flight.ended(1)
        (tmp_path / "reply.txt").touch()
        await flight.session.wake()
        await flight.ended(2)
        ends = [
            record.seq async for record in flight.session.records() if type(record.event) in (RunSlept, RunCompleted)
        ]
        states = [await flight.machine.turn_state(seq) for seq in ends]
        assert [told["status"] for told in states] == ["sleeping", "completed"]
        assert [told["stateMachine"]["currentState"] for told in states] == ["reply", "done"]
        assert "terminal" not in states[0]["stateMachine"]


async def test_an_input_reaches_a_program_as_one_argument_whatever_it_holds(tmp_path):
    machine = Machine(
        "say",
        [
            machines.script("say", ["sh", "-c", 'printf %s "$1" > said; printf %s "$INPUT_WORDS" > env', "sh", "{input.words}"],
                            next="done", input={"type": "object", "properties": {"words": {"type": "string"}}}),
            machines.completed("done"),
        ],
    )  # fmt: skip
    words = "$(touch gone); 'quoted' \"twice\" `id` && rm -rf ."
    async with flying(piloted(machine), tmp_path) as flight:
        await flight.machine.start({"words": words})
        await flight.ended(1)
        assert (tmp_path / "said").read_text() == words
        assert (tmp_path / "env").read_text() == words
        assert not (tmp_path / "gone").exists()


async def test_what_a_program_prints_as_json_is_the_input_of_the_next_state(tmp_path):
    machine = Machine(
        "numbers",
        [
            machines.script("find", ["echo", '{"number": 7}'], next="use"),
            machines.script("use", ["sh", "-c", 'echo "$1 $INPUT_WHO"', "sh", "{input.number}"], next="done"),
            machines.completed("done"),
        ],
    )
    async with flying(piloted(machine), tmp_path) as flight:
        await flight.machine.start({"who": "Ada"})
        await flight.ended(1)
        steps = await flight.machine.history()
        used = next(step for step in steps if step.kind == "left" and step.state == "use")
        assert used.output == "7 Ada"
        assert next(step for step in steps if step.kind == "moved" and step.state == "use").input == {
            "who": "Ada",
            "number": 7,
        }


async def test_a_definition_that_a_model_wrote_wrongly_is_refused_with_all_that_is_wrong(tmp_path):
    states = [
        {"name": "a", "kind": "poll", "command": ["true"], "every_ms": 10, "next": ["nowhere"]},
        {"name": "b", "kind": "agent"},
    ]
    wrong = {"name": "m", "first": "a", "states": states}
    agent = piloted("auto", call("create_machine", **wrong), "I cannot.")
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("go")
        await flight.ended(1)
        messages = (await flight.machine.turn_state())["agent"]["messages"]
        told = next(message["text"] for message in messages if message["role"] == "tool")
        for part in ("b: it needs prompt", "'nowhere' is to follow it", "10 ms is too soon", "it has no end"):
            assert part in told, told
        assert await flight.way() == []


async def test_the_programs_of_a_machine_that_a_model_wrote_are_asked_about(tmp_path):
    agent = piloted("auto", call("create_machine", **ship()))
    async with flying(agent, tmp_path) as flight:
        await flight.session.prompt("ship it")
        assert isinstance(await flight.ended(1), RunAsked)
        (request,) = await flight.session.requests()
        assert request.tool == "run_state"
        assert not (tmp_path / "pushed").exists()


async def test_a_program_that_takes_too_long_is_ended(tmp_path):
    machine = Machine(
        "slow",
        [
            machines.script("slow", ["sleep", "600"], timeout="200ms", next="done", on_failure="late"),
            machines.completed("done"),
            machines.failed("late"),
        ],
    )
    async with flying(piloted(machine), tmp_path) as flight:
        await flight.machine.start()
        await flight.ended(1)
        assert await flight.way() == ["slow", "late"]
        events = await events_of(flight.session)
        assert [event.error_code for event in only(events, ToolFinished)] == ["timeout"]
        assert [event.reason for event in only(events, MachineLeft)] == ["its program was not done in time"]
        await flight.sound()


async def test_a_machine_at_work_does_not_begin_again_unless_it_is_told_where(tmp_path):
    machine = Machine("m", [machines.park("ask", "Go on?", next=["done"]), machines.completed("done")])
    async with flying(piloted(machine), tmp_path) as flight:
        await flight.session.result(await flight.machine.start({}))
        with pytest.raises(Refused, match=r"at work, in state 'ask'.*select\('ask'\)"):
            await flight.machine.start({})
        assert await flight.way() == ["ask"]
        await flight.session.result(await flight.machine.select("ask"))
        assert await flight.way() == ["ask", "ask"]
        (question,) = await flight.session.questions()
        await flight.session.result(await flight.session.answer(question, "done"))
        assert (await flight.machine.view()).outcome == "completed"
        with pytest.raises(UsageError, match="is no question"):
            await flight.session.answer(3, "done")  # type: ignore[arg-type]
