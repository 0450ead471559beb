"""Duet's scenarios, by name, over stdio, by a caller in another process: real processes, a real store, real programs,
and a scripted model."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import windlass
from windlass.events.values.ids import job_id

from .support import WAIT_S, Caller, calls, check_terminals, do, started

HOUR_MS = 3_600_000


def ship(**more: Any) -> dict[str, Any]:
    """A definition as a model writes it with our tool."""
    done = {"name": "done", "kind": "terminal", "reason": "it is shipped"}
    push = {"name": "push", "kind": "script", "command": ["touch", "pushed"], "next": ["checks"]}
    look = {"name": "checks", "kind": "poll", "command": ["test", "-e", "green"], "every_ms": HOUR_MS, "next": ["done"]}
    return {"name": "ship", "first": "push", "states": [push, look, done], **more}


MAIL: dict[str, Any] = {
    "name": "mail",
    "prompt": "somebody wants an answer by mail",
    "states": [
        {"name": "send", "kind": "script", "command": "while [ ! -e go ]; do sleep 0.02; done; touch sent"},
        {"name": "reply", "kind": "poll", "command": "echo look >> looks; test -e reply", "intervalMs": HOUR_MS},
        {"name": "nap", "kind": "timer", "wakeAfterMs": HOUR_MS},
        {"name": "done", "kind": "terminal", "status": "completed", "reason": "they answered"},
        {"name": "dropped", "kind": "terminal", "status": "cancelled"},
    ],
}
"""A definition as a caller of the protocol writes it."""


def goes_to(state: str, **given: Any) -> dict[str, Any]:
    return calls("select_state", state=state, **given)


def test_scenario_1_a_one_shot_task_ends_with_its_answer(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do({"think": "let me see", "say": "It is short."}))
        end = client.terminal()
        assert (end["type"], end["status"], end["result"]) == ("complete", "completed", "It is short.")
        assert client.steps("reasoning") == [{"type": "reasoning", "text": "let me see"}]
        assert client.steps("text") == [{"type": "text", "text": "It is short."}]
        assert "".join(step["delta"] for step in client.steps("text_delta")) == "It is short."
        assert client.states() == []
        state = end["state"]
        assert (state["status"], state["mode"]) == ("completed", "auto")
        assert [message["role"] for message in state["agent"]["messages"]] == ["user", "assistant"]
        assert "stateMachine" not in state
        assert client.leave() == 0
        check_terminals(client, 1)


def test_scenario_1_tools_are_pending_running_completed(tmp_path):
    with started(tmp_path, mode="agent") as client:
        client.prompt(do(calls("weigh", thing="it"), "3 kg."))
        assert client.terminal()["result"] == "3 kg."
        told = client.steps("tool_call")
        assert [step["status"] for step in told] == ["pending", "running", "completed"]
        assert {step["toolName"] for step in told} == {"weigh"}
        assert len({step["toolCallId"] for step in told}) == 1
        assert told[0]["input"] == {"thing": "it"}
        assert told[2]["output"] == [{"type": "text", "text": "it weighs 3 kg"}]
        check_terminals(client, 1)


def test_scenario_1_what_is_to_be_done_is_told(tmp_path):
    todos = [{"todo_id": "a", "content": "look", "status": "in_progress"}, {"todo_id": "b", "content": "write"}]
    with started(tmp_path) as client:
        client.prompt(do(calls("todo", todos=todos), "Noted."))
        end = client.terminal()
        wanted = [
            {"id": "a", "content": "look", "status": "in_progress"},
            {"id": "b", "content": "write", "status": "pending"},
        ]
        assert [event["todos"] for event in client.told if event["type"] == "todos"] == [wanted]
        assert end["state"]["todos"] == wanted


def test_scenario_2_a_machine_that_the_model_creates_goes_through_its_states(tmp_path):
    (tmp_path / "green").touch()
    with started(tmp_path, mode="auto") as client:
        client.prompt(do(calls("create_machine", **ship()), "It is shipped."))
        end = client.terminal()
        assert (end["type"], end["result"]) == ("complete", "It is shipped.")
        assert client.states() == ["push", "checks", "done"]
        assert (tmp_path / "pushed").exists()
        machine = end["state"]["stateMachine"]
        assert machine["currentState"] == "done"
        assert machine["terminal"] == {"state": "done", "status": "completed", "reason": "it is shipped"}
        assert [state["kind"] for state in machine["definition"]["states"]] == ["script", "poll", "terminal"]
        assert machine["definition"]["states"][1]["intervalMs"] == HOUR_MS
        client.prompt(do(calls("create_machine", **ship(name="again")), "Again."))
        assert client.terminal()["state"]["stateMachine"]["definition"]["name"] == "again"
        assert client.leave() == 0
        check_terminals(client, 2)


def test_scenario_2a_a_steering_prompt_is_heard_before_the_next_state(tmp_path):
    with started(tmp_path, mode=MAIL) as client:
        client.prompt(do(goes_to("send")))
        client.until("state_machine", currentState="send")
        client.prompt(do(goes_to("dropped"), "I dropped it."), "steer")
        client.taken()
        (tmp_path / "go").touch()
        end = client.terminal()
        assert (end["type"], end["result"]) == ("complete", "I dropped it.")
        assert client.states() == ["send", "dropped"]
        assert end["state"]["stateMachine"]["terminal"]["status"] == "cancelled"
        check_terminals(client, 1)


def asleep(client: Caller, state: str) -> dict[str, Any]:
    client.prompt(do(goes_to(state)))
    end = client.terminal()
    assert end["type"] == "sleep", end
    assert end["state"]["status"] == "sleeping"
    assert end["state"]["stateMachine"]["progress"][state]["nextWakeAt"] == end["wakeAt"]
    return end


def test_scenario_2b_each_wake_is_one_attempt_and_the_last_goes_on(tmp_path):
    with started(tmp_path, mode=MAIL) as client:
        first = asleep(client, "reply")
        client.send("wake")
        second = client.terminal()
        assert second["type"] == "sleep"
        assert second["wakeAt"] >= first["wakeAt"]
        assert (tmp_path / "looks").read_text() == "look\n" * 2
        assert second["state"]["stateMachine"]["progress"]["reply"]["runs"] == 2
        (tmp_path / "reply").touch()
        client.send("wake")
        assert client.terminal()["type"] == "complete"
        assert (tmp_path / "looks").read_text() == "look\n" * 3
        assert client.leave() == 0
        check_terminals(client, 3)


def test_scenario_2b_a_prompt_while_it_sleeps_is_answered_and_it_sleeps_on(tmp_path):
    with started(tmp_path, mode=MAIL) as client:
        first = asleep(client, "nap")
        client.prompt(do("It sleeps for an hour."))
        second = client.terminal()
        assert (second["type"], second["wakeAt"]) == ("sleep", first["wakeAt"])
        assert client.steps("text")[-1]["text"] == "It sleeps for an hour."
        assert second["state"]["agent"]["messages"][-1]["text"] == "It sleeps for an hour."
        client.send("wake")
        end = client.terminal()
        assert end["type"] == "complete"
        assert end["state"]["stateMachine"]["progress"]["nap"]["sleeps"] == 1
        check_terminals(client, 3)


def test_scenario_2b_a_wake_with_nothing_to_wake_changes_nothing(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do("done"))
        before = client.terminal()
        client.send("wake")
        end = client.terminal()
        assert (end["type"], end["status"]) == ("complete", "completed")
        assert end["state"] == before["state"]
        assert end["usage"] == {"inputTokens": 0, "outputTokens": 0}
        assert client.told[-2]["message"].startswith("nothing to wake")
        check_terminals(client, 2)


async def printed(folder: pathlib.Path, session_id: str, call_id: str) -> None:
    """Waits until what a program has printed is kept."""
    async with windlass.open(str(folder / "kept.db"), take_up=False) as runtime, asyncio.timeout(WAIT_S):
        session = await runtime.get(session_id)
        while not (await session.job_output(job_id(call_id))).data:
            await asyncio.sleep(0.01)


def test_scenario_2c_an_interrupt_leaves_a_marker_and_what_the_program_had_printed(tmp_path):
    build = {
        "name": "build",
        "prompt": "build it",
        "states": [
            {"name": "build", "kind": "script", "command": "echo half way; sleep 600"},
            {"name": "done", "kind": "terminal", "status": "completed"},
        ],
    }
    with started(tmp_path, mode=build) as client:
        client.prompt(do(goes_to("build")))
        call_id = client.running("run_state")
        asyncio.run(printed(tmp_path, client.told[0]["state"]["agent"]["session"]["id"], call_id))
        client.send("interrupt")
        end = client.terminal()
        assert end["type"] == "interrupted"
        machine = end["state"]["stateMachine"]
        assert (end["state"]["status"], machine["currentState"]) == ("interrupted", "interrupted")
        assert machine["history"][-1]["type"] == "state_interrupted"
        assert machine["history"][-1]["output"] == "half way\n"
        assert client.states() == ["build", "interrupted"]
        client.prompt(do(goes_to("done"), "I left it."))
        end = client.terminal()
        assert (end["type"], end["result"]) == ("complete", "I left it.")
        told = [message["text"] for message in end["state"]["agent"]["messages"] if message["role"] == "user"]
        assert any("It was stopped in the state build" in text for text in told)
        check_terminals(client, 2)


def test_scenario_2c_an_interrupt_keeps_what_the_model_had_written(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do({"hang": "Dear A"}))
        client.until("step", step={"type": "text_delta", "delta": "Dear A"})
        client.send("interrupt")
        end = client.terminal()
        assert end["type"] == "interrupted"
        assert end["state"]["agent"]["messages"][-1] == {"role": "assistant", "text": "Dear A"}
        assert client.steps("text") == [{"type": "text", "text": "Dear A"}]
        check_terminals(client, 1)


def test_scenario_2c_an_interrupt_of_a_sleeping_session_ends_no_turn(tmp_path):
    with started(tmp_path, mode=MAIL) as client:
        asleep(client, "nap")
        client.send("interrupt")
        assert client.until("state_machine")["currentState"] == "interrupted"
        client.send("wake")
        end = client.terminal()
        assert (end["type"], end["state"]["status"]) == ("complete", "interrupted")
        client.prompt(do(goes_to("done"), "Done."))
        assert client.terminal()["result"] == "Done."
        check_terminals(client, 3)


def test_scenario_3_a_prompt_that_fits_the_definition_goes_through_it(tmp_path):
    (tmp_path / "go").touch()
    with started(tmp_path, mode=MAIL) as client:
        client.prompt(do(goes_to("send"), goes_to("done"), "Sent."))
        end = client.terminal()
        assert (end["type"], end["result"]) == ("complete", "Sent.")
        assert client.states() == ["send", "done"]
        assert end["state"]["mode"]["states"][0] == {
            **MAIL["states"][0],
            "cwd": ".",
            "timeoutMs": 120_000,
            "successCodes": [0],
        }
        assert (end["state"]["mode"]["name"], end["state"]["mode"]["prompt"]) == (MAIL["name"], MAIL["prompt"])
        assert (tmp_path / "sent").exists()
        check_terminals(client, 1)


def test_scenario_3_a_prompt_that_does_not_fit_is_answered(tmp_path):
    with started(tmp_path, mode=MAIL) as client:
        client.prompt(do("It is Tuesday."))
        end = client.terminal()
        assert (end["type"], end["result"]) == ("complete", "It is Tuesday.")
        assert client.states() == []
        assert "stateMachine" not in end["state"]
        check_terminals(client, 1)
