"""A state that is given back finds its session: in another process, after kill -9, with nothing lost and nothing done
twice; and a state that is not ours is refused."""

from __future__ import annotations

import json

import pytest

from .support import Caller, caller, calls, check_terminals, do, started
from .test_scenarios import MAIL, asleep, goes_to


def test_a_session_goes_on_in_the_next_process(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do("I am Ada."))
        state = client.terminal()["state"]
        assert client.leave() == 0
    with started(tmp_path, state=state) as client:
        assert client.told == [{"type": "turn_started", "state": state}]
        client.prompt("and you?")
        texts = [message["text"] for message in client.terminal()["state"]["agent"]["messages"]]
        assert texts[1:] == ["I am Ada.", "and you?", "heard"]
        check_terminals(client, 1)


def test_a_turn_that_was_killed_goes_on_with_the_last_state(tmp_path):
    slow = {
        "name": "slow",
        "prompt": "it takes a while",
        "states": [
            {"name": "look", "kind": "poll", "command": "touch begun; test -e go", "intervalMs": 3_600_000},
            {"name": "work", "kind": "agent", "prompt": "Say what you see."},
            {"name": "done", "kind": "terminal", "status": "completed"},
        ],
    }
    with started(tmp_path, mode=slow) as client:
        first = client.told[0]["state"]
        client.prompt(do(goes_to("look"), {"hang": "so far"}), requestId="r1")
        client.until("sleep")
        (tmp_path / "go").touch()
        client.send("wake")
        client.until("step", step={"type": "text_delta", "delta": "so far"})
        client.kill()
    with caller(tmp_path) as client:
        client.send("start", state=first)
        state = client.until("turn_started")["state"]
        assert state["status"] == "running"
        client.until("step", step={"type": "text_delta", "delta": "so far"})
        client.prompt(do(goes_to("look"), {"hang": "so far"}), requestId="r1")
        client.prompt(do(goes_to("done"), "All seen."))
        client.taken()
        client.send("interrupt")
        assert client.terminal()["type"] == "interrupted"
        client.prompt(do(goes_to("done"), "All seen."))
        end = client.terminal()
        assert end["result"] == "All seen."
        said = [message["text"] for message in end["state"]["agent"]["messages"] if message["role"] == "user"]
        assert sum("so far" in text for text in said) == 1, "the prompt that was sent again was taken twice"
        check_terminals(client, 2)


def test_a_prompt_that_is_sent_again_is_answered_with_what_came_of_it(tmp_path):
    with started(tmp_path) as client:
        before = client.told[0]["state"]
        client.prompt(do("Once."), requestId="r1")
        end = client.terminal()
        client.kill()
    with started(tmp_path, state=before) as client:
        client.prompt(do("Once."), requestId="r1")
        again = client.terminal()
        assert again["result"] == "Once." or again["state"]["agent"]["messages"] == end["state"]["agent"]["messages"]
        assert again["state"] == end["state"]
        assert (again["type"], again["status"]) == ("complete", "completed")
        assert client.leave() == 0
        check_terminals(client, 1)


def test_a_sleeping_session_wakes_in_the_next_process(tmp_path):
    with started(tmp_path, mode=MAIL) as client:
        state = asleep(client, "nap")["state"]
        client.kill()
    with started(tmp_path, state=state, mode=MAIL) as client:
        assert client.told[0]["state"] == state
        client.send("wake")
        assert client.terminal()["type"] == "complete"
        check_terminals(client, 1)


def test_what_is_asked_is_answered_in_the_next_process(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do(calls("send", to="Ada"), "Sent."))
        end = client.terminal()
        assert end["type"] == "ask"
        client.kill()
    with started(tmp_path, state=end["state"]) as client:
        assert client.told[0]["state"]["status"] == "waiting_for_human"
        (question,) = end["questions"]
        client.send("answer", questions=[question], answers={question["question"]: "allow"}, behavior="steer")
        assert client.terminal()["result"] == "Sent."
        (done,) = [step for step in client.steps("tool_call") if step["status"] == "completed"]
        assert done["output"] == [{"type": "text", "text": "sent to Ada"}]


def refused(client: Caller, **fields: object) -> str:
    client.send("start", **fields)
    event = client.next()
    assert event is not None
    assert (event["type"], event["level"]) == ("system", "error"), event
    return str(event["message"])


def test_a_state_that_is_not_ours_is_refused_and_the_process_goes_on(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do("hi"))
        state = client.terminal()["state"]
    (tmp_path / "other").mkdir()
    with caller(tmp_path) as client:
        strange = {**state, "agent": {"status": "idle", "messages": []}}
        assert "this state was not made here" in refused(client, state=strange)
        gone = json.loads(json.dumps(state))
        gone["agent"]["session"]["id"] = "nobody"
        assert "there is no session 'nobody' in this store" in refused(client, state=gone)
        other = json.loads(json.dumps(state))
        seq, _, _ = other["agent"]["session"]["cursor"].rpartition(".")
        other["agent"]["session"]["cursor"] = f"{seq}.AAAAAAAAAAAA"
        assert "does not fit the log" in refused(client, state=other)
        assert "is in another mode, 'auto'" in refused(client, state=state, mode="agent")
        client.send("start", state=state)
        assert client.until("turn_started")["state"] == state


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"mode": "fly"}, "start.mode: 'fly': give 'agent', 'auto' or a definition"),
        ({"options": {"thinkingLevel": "a lot"}}, "start.options.thinkingLevel: 'a lot': there are off, minimal"),
        ({"mode": {"name": "m", "states": []}}, "states: a list is wanted"),
        (
            {
                "mode": {
                    "name": "m",
                    "states": [
                        {"name": "a", "kind": "script", "command": "echo {{ input.who }}"},
                        {"name": "b", "kind": "agent", "prompt": "p", "allowedSkills": ["x"]},
                    ],
                }
            },
            'a: command: a value of the input is not spliced into shell text: write "$INPUT_WHO"',
        ),
        ({"state": "text"}, "Expected `object | null`, got `str` - at `$.state`"),
    ],
)
def test_a_start_that_means_nothing_is_refused_with_the_place(tmp_path, fields, complaint):
    with caller(tmp_path) as client:
        assert complaint in refused(client, **fields)
        client.send("start")
        client.until("turn_started")


def test_a_program_that_a_kill_cut_off_is_not_run_again(tmp_path):
    with started(tmp_path, mode=MAIL) as client:
        state = client.told[0]["state"]
        client.prompt(do(goes_to("send"), goes_to("done"), "Sent."))
        client.running("run_state")
        client.kill()
    (tmp_path / "go").touch()
    with caller(tmp_path) as client:
        client.send("start", state=state)
        client.until("turn_started")
        end = client.terminal()
        assert end["type"] == "complete"
        steps = [step["type"] for step in end["state"]["stateMachine"]["history"]]
        assert "state_failed" in steps, "a script that was cut off is run at most once"
