"""Definitions are checked before anything starts: all that is wrong at once, each line with its place and its fix."""

from __future__ import annotations

import datetime
import json

import pytest

import windlass
from windlass import machines
from windlass.events.errors import UsageError
from windlass.machines import BadMachine, Machine
from windlass.runtime.machines.durations import milliseconds, moment

DONE = machines.completed("done")


def wrong(*states, **more) -> list[str]:
    with pytest.raises(BadMachine) as refused:
        Machine("m", list(states), **more)
    return list(refused.value.problems)


def test_everything_that_is_wrong_is_said_at_once():
    assert wrong(
        machines.poll("look", ["true"], every="soon", next="dnoe"),
        machines.timer("nap", after="1h", at="2027-01-01T00:00:00+00:00"),
        machines.script("run", ["sh", "-c", "{input.word}"], next="lost"),
        machines.agent("work", "", next="done", command=["true"]),
        machines.script("big", ["true"], input={"type": "nothing"}, next="done"),
        DONE,
    ) == [
        "look: every: 'soon' is no duration: write a number of seconds or a text such as '90s', '5m', '1h30m', '2d'",
        "nap: a timer needs 'after' (such as '2h') or 'at' (a date), and not both",
        "work: agent states have no 'command': they have when, next, on_failure, input, prompt",
        "work: it needs 'prompt': what the agent is told",
        "run: 'lost' is to follow it, which is no state: there are look, nap, run, work, big, done",
        "run: '{input.word}' would be read by a shell: pass it behind the text, as in "
        "['sh', '-c', 'echo \"$1\"', 'sh', '{input.name}'], or read $INPUT_NAME there",
        'big: input: its parameters are no valid JSON Schema: "nothing" is not valid under any of the schemas listed in '
        "the 'anyOf' keyword",
    ]


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([], "it has no states: give it at least one, and an end"),
        ([DONE, DONE], "done: 2 states have this name: give each its own"),
        ([machines.agent("interrupted", "x"), DONE], "interrupted: this name stands for something else: give the state"),
        ([machines.agent("a b", "x"), DONE], "'a b': a state's name is 1 to 64 letters, digits, '_' and '-'"),
        ([machines.agent("a", "x", next="a"), DONE], "done: nothing leads there"),
        ([machines.agent("a", "x", next="b"), machines.agent("b", "x", next="a"), DONE], "a: no way leads from there"),
        ([machines.agent("a", "x"), machines.failed("end")], "it has no end at which its work is done"),
        ([machines.agent("a", "x", next="dome"), DONE], "did you mean 'done'?"),
        ([machines.script("a", "make test", next="done"), DONE], "a command is a list, so that no shell reads it"),
        ([machines.script("a", ["{input.x}"], next="done"), DONE], "name the program itself"),
        ([machines.script("a", ["ls", "--x={input.x}"], next="done"), DONE], "input is a whole argument"),
        ([machines.script("a", ["ls"], timeout="1h", next="done"), DONE], "a program may take 10 minutes"),
        ([machines.poll("a", ["ls"], every="1h", give_up="1m", next="done"), DONE], "it would give up before it looks"),
        ([machines.timer("a", at="2027-01-01T00:00:00", next="done"), DONE], "has no time zone"),
        (
            [
                machines.agent(
                    "a", "{input.y}", input={"type": "object", "properties": {"x": {}}}, next="done"
                ),
                DONE,
            ],
            "{input.y} is no part of its input: its schema has x",
        ),
    ],
)  # fmt: skip
def test_each_thing_that_is_wrong_is_named_with_its_fix(states, told):
    assert any(told in line for line in wrong(*states)), wrong(*states)


def test_a_first_state_that_is_not_there_is_named():
    assert wrong(machines.agent("a", "x"), DONE, first="b") == ["first: there is no state 'b': there are a, done"]


def test_limits_are_numbers():
    assert wrong(machines.agent("a", "x"), DONE, visits_max=0) == [
        "visits_max: a number of at least 1 is wanted, not 0"
    ]


@pytest.mark.parametrize(
    ("given", "ms"),
    [("90s", 90_000), ("1h30m", 5_400_000), (2, 2_000), (0.5, 500), ("250ms", 250), ("2d", 172_800_000),
     (datetime.timedelta(minutes=1), 60_000)],
)  # fmt: skip
def test_durations_are_read_as_people_write_them(given, ms):
    assert milliseconds(given) == ms


@pytest.mark.parametrize("given", ["", "5", "1x", "-1s", 0, True, None, "h", "99999w"])
def test_what_is_no_duration_is_refused(given):
    with pytest.raises(UsageError, match=r"is no duration"):
        milliseconds(given)


def test_a_time_is_read_with_its_zone():
    assert moment("1970-01-01T01:00:01+01:00") == 1_000


def test_a_file_says_the_same_as_the_builder(tmp_path):
    built = Machine(
        "gate",
        [
            machines.poll("look", ["test", "-e", "x"], every="1m", next="ask"),
            machines.park("ask", "go on?", next=["done", "look"]),
            DONE,
        ],
        when="something is awaited",
    )
    values = {
        "name": "gate",
        "when": "something is awaited",
        "states": [
            {"name": "look", "kind": "poll", "command": ["test", "-e", "x"], "every": "1m", "next": "ask"},
            {"name": "ask", "kind": "park", "question": "go on?", "next": ["done", "look"]},
            {"name": "done", "kind": "terminal", "outcome": "completed"},
        ],
    }
    (tmp_path / "m.json").write_text(json.dumps(values))
    (tmp_path / "m.yaml").write_text(
        "name: gate\nwhen: something is awaited\nstates:\n"
        "- {name: look, kind: poll, command: [test, -e, x], every: 1m, next: ask}\n"
        '- {name: ask, kind: park, question: "go on?", next: [done, look]}\n'
        "- {name: done, kind: terminal}\n"
    )
    assert machines.load_machine(tmp_path / "m.json").spec == built.spec
    assert machines.load_machine(tmp_path / "m.yaml").spec == built.spec


def test_a_file_with_strange_words_is_refused(tmp_path):
    (tmp_path / "m.json").write_text('{"name": "m", "sates": [], "states": [{"kind": "agent"}, 3]}')
    with pytest.raises(BadMachine) as refused:
        machines.load_machine(tmp_path / "m.json")
    assert list(refused.value.problems) == [
        "unknown key 'sates': there are name, when, first, states, visits_max, quick_polls_max",
        "state 1: a table of fields is wanted, with name and kind",
        "state 2: a table of fields is wanted, with name and kind",
    ]


def test_an_agent_takes_a_machine_or_auto_and_nothing_else():
    with pytest.raises(UsageError, match=r"give a windlass\.machines\.Machine, 'auto' or None"):
        windlass.Agent("a", machine="always")


def test_diagrams_show_states_ways_and_the_current_one():
    machine = Machine(
        "m",
        [machines.poll("look", ["true"], every="1m", next="ask", on_failure="lost"),
         machines.park("ask", "?", next=["done", "look"]), DONE, machines.failed("lost")],
    )  # fmt: skip
    text = machines.mermaid(machine.spec, "ask")
    for line in ("begin(( )) --> s_look", "s_look --> s_ask", "s_look -.->|failed| s_lost", "s_ask --> s_look",
                 "class s_ask current"):  # fmt: skip
        assert f"    {line}\n" in text
    drawn = machines.svg(machine.spec, "ask")
    assert drawn.startswith("<svg ")
    assert drawn.count("<path d='M") == 4 + 1
    assert "poll every 1m" in drawn
