"""Each command over stdio: prompts that come meanwhile, questions, queues, bad input, and how a process ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from .support import AGENTS, WAIT_S, caller, calls, check_terminals, do, started


def test_start_alone_runs_nothing(tmp_path):
    with started(tmp_path) as client:
        assert client.told[0]["state"]["agent"]["messages"] == []
        assert client.leave() == 0
        assert [event["type"] for event in client.told] == ["turn_started"]


def test_bad_input_is_told_and_the_process_goes_on(tmp_path):
    with caller(tmp_path) as client:
        for line, complaint in (
            (b"nonsense", "this line is no JSON object"),
            (b"[1]", "send one JSON object"),
            (b'"start"', "send one JSON object"),
            (b"\xff\xfe", "this line is no JSON object"),
            (b"{}", "a command without a type: there are start, prompt"),
            (b'{"type":"fly"}', "a command of type 'fly'"),
            (b'{"type":["start"]}', "a command of type"),
            (b'{"type":"prompt","message":"hi","behavior":"steer"}', "prompt: send start first"),
            (b'{"type":"wake"}', "wake: send start first"),
            (b'{"type":"interrupt"}', "interrupt: send start first"),
            (b'{"type":"answer","questions":[],"answers":{},"behavior":"steer"}', "answer: send start first"),
            (b'{"type":"edit_follow_up_queue","prompts":[]}', "edit_follow_up_queue: send start first"),
            (b'{"type":"prompt","message":7,"behavior":"steer"}', "prompt: Expected `str`, got `int` - at `$.message`"),
            (b'{"type":"prompt","message":"hi"}', "missing required field `behavior`"),
            (b'{"type":"prompt","message":"hi","behavior":"soon"}', "Invalid enum value 'soon' - at `$.behavior`"),
            (b'{"type":"prompt","message":" ","behavior":"steer"}', "write a text that is not empty"),
            (b'{"type":"wake","requestId":"a/b"}', "wake: requestId 'a/b' is not allowed"),
            (b'{"type":"wake","type":"start"}', "twice"),
        ):
            client.send_line(line)
            event = client.next()
            assert event is not None
            assert (event["type"], event["level"]) == ("system", "error"), (line, event)
            assert complaint in event["message"], (line, event)
        client.send_line(b"")
        client.send("start")
        assert client.next() == client.told[-1]
        assert client.told[-1]["type"] == "turn_started"
        client.send("start")
        event = client.next()
        assert event is not None
        assert "this process has its session" in event["message"]
        client.prompt(do("fine"))
        assert client.terminal()["result"] == "fine"
        assert client.leave() == 0


def test_prompts_that_come_meanwhile_are_one_turn_in_their_order(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do({"hang": "first"}))
        client.until("step", step={"type": "text_delta", "delta": "first"})
        client.prompt("second", "follow_up")
        assert client.until("follow_up_queue")["prompts"] == ["second"]
        client.prompt("third", "follow_up")
        assert client.until("follow_up_queue")["prompts"] == ["second", "third"]
        client.send("edit_follow_up_queue", prompts=["third", "fourth", "fifth"])
        while client.until("follow_up_queue")["prompts"] != ["third", "fourth", "fifth"]:
            pass
        client.send("edit_follow_up_queue", prompts=["fifth", "third"])
        while client.until("follow_up_queue")["prompts"] != ["fifth", "third"]:
            pass
        client.send("interrupt")
        end = client.terminal()
        assert end["type"] == "interrupted"
        assert end["state"]["followUpQueue"] == ["fifth", "third"], "what was accepted is kept"
        client.send("edit_follow_up_queue", prompts=["third", "fifth"])
        assert client.until("follow_up_queue")["prompts"] == ["third", "fifth"]
        client.send("edit_follow_up_queue", prompts=["third", "fifth", "sixth"])
        assert "nothing runs that these could follow" in client.until("system")["message"]
        client.prompt("now")
        end = client.terminal()
        said = [message["text"] for message in end["state"]["agent"]["messages"] if message["role"] == "user"]
        assert said[-3:] == ["now", "third", "fifth"]
        assert end["state"]["followUpQueue"] == []
        assert client.leave() == 0
        check_terminals(client, 2)


def test_questions_are_asked_and_answered_by_their_texts(tmp_path):
    asked = [
        {"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}], "header": "Paint"},
        {"question": "Which days?", "options": [{"label": "Mon"}, {"label": "Tue"}], "multi_select": True},
        {"question": "Why?"},
    ]
    with started(tmp_path) as client:
        client.prompt(do(calls("ask_user", questions=asked), "Thanks."))
        end = client.terminal()
        assert (end["type"], end["state"]["status"]) == ("ask", "waiting_for_human")
        assert end["questions"] == [
            {"question": "Which colour?", "header": "Paint", "options": [{"label": "red"}, {"label": "blue"}]},
            {"question": "Which days?", "options": [{"label": "Mon"}, {"label": "Tue"}], "multiSelect": True},
            {"question": "Why?", "options": []},
        ]
        said = {"Which colour?": "red", "Which days?": "Mon, Tue", "Why?": "because"}
        client.send("answer", questions=end["questions"], answers=said, behavior="follow_up")
        assert client.terminal()["result"] == "Thanks."
        (given,) = [step for step in client.steps("tool_call") if step["status"] == "completed"]
        text = given["output"][0]["text"]
        assert all(word in text for word in ("red", "Mon", "Tue", "because")), text
        check_terminals(client, 2)


def test_a_call_that_needs_a_word_is_a_question_and_other_words_deny_it(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do(calls("send", to="Ada"), "I did not send it."))
        (question,) = client.terminal()["questions"]
        assert question["question"].startswith("May send be called?")
        assert [option["label"] for option in question["options"]] == ["allow", "deny"]
        client.send("answer", questions=[question], answers={question["question"]: "not today"}, behavior="steer")
        end = client.terminal()
        assert end["result"] == "I did not send it."
        assert client.steps("tool_call")[-1]["status"] == "error"
        told = [message["text"] for message in end["state"]["agent"]["messages"] if message["role"] == "tool"]
        assert "not today" in told[-1]


def test_answers_to_what_nobody_asks_are_words_for_the_agent(tmp_path):
    with started(tmp_path) as client:
        question = {"question": "Still there?", "options": []}
        client.send("answer", questions=[question], answers={"Still there?": "yes"}, behavior="steer")
        end = client.terminal()
        assert end["state"]["agent"]["messages"][0]["text"] == "Question: Still there?\nAnswer: yes"
        client.send("answer", questions=[question], answers={}, behavior="steer")
        assert "give at least one" in client.until("system")["message"]
        check_terminals(client, 1)


def test_a_prompt_in_place_of_an_answer_goes_on_without_it(tmp_path):
    with started(tmp_path) as client:
        client.prompt(do(calls("send", to="Ada"), "never said"))
        assert client.terminal()["type"] == "ask"
        client.prompt(do("Forgotten."), "follow_up")
        end = client.terminal()
        assert (end["type"], end["result"]) == ("complete", "Forgotten.")
        check_terminals(client, 2)


def test_input_that_ends_lets_the_turn_end_and_one_turn_may_be_all(tmp_path):
    lines = [
        b'{"type":"start"}',
        b'{"type":"prompt","message":"do [\\"one\\"]","behavior":"steer"}',
    ]
    words = [sys.executable, "-m", "windlass.cli.main", "duet", str(AGENTS), "--store", "kept.db"]
    done = subprocess.run(
        words, cwd=tmp_path, input=b"\n".join(lines) + b"\n", stdout=subprocess.PIPE, timeout=WAIT_S, check=True
    )
    assert b'"result":"one"' in done.stdout.splitlines()[-1]
    assert subprocess.run(words, cwd=tmp_path, input=b"", stdout=subprocess.PIPE, timeout=WAIT_S).stdout == b""
    with started(tmp_path, "--once") as client:
        client.prompt(do("one"))
        assert client.terminal()["result"] == "one"
        assert client.process.wait(WAIT_S) == 0


def test_a_signal_ends_the_process_and_the_work_is_kept(tmp_path):
    with started(tmp_path, "--drain", "0.1") as client:
        state = client.told[0]["state"]
        client.prompt(do({"hang": "begun"}))
        client.until("step", step={"type": "text_delta", "delta": "begun"})
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(WAIT_S) == 143
    with started(tmp_path, state=state) as client:
        assert client.told[0]["state"]["status"] == "running"
        client.until("step", step={"type": "text_delta", "delta": "begun"})
        client.send("interrupt")
        assert client.terminal()["type"] == "interrupted"


def test_a_caller_that_is_gone_leaves_the_work_to_the_next_process(tmp_path):
    words = [sys.executable, "-m", "windlass.cli.main", "duet", str(AGENTS), "--store", "kept.db"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            prompt = {"type": "prompt", "message": do({"hang": "begun"}), "behavior": "steer"}
            process.stdin.write(b'{"type":"start"}\n' + json.dumps(prompt).encode() + b"\n")
            process.stdin.flush()
            state = json.loads(process.stdout.readline())["state"]
            assert b'"text_delta"' in process.stdout.readline()
            process.stdin.close()
            process.stdout.close()
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
    with started(tmp_path, state=state) as client:
        assert client.told[0]["state"]["status"] == "running"
