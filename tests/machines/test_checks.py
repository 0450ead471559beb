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
        "look: 'dnoe' is to follow it, which is no state: did you mean 'done'?",
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
        "unknown key 'sates': did you mean 'states'?",
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


CODE = [
    ["sh", "-c", "{input.x}"],
    ["sh", "-c", "-e", "{input.x}"],
    ["sh", "-ec", "{input.x}"],
    ["sh", "{input.x}"],
    ["bash", "-o", "pipefail", "-c", "{input.x}"],
    ["bash", "--strange", "word", "-c", "true", "sh", "{input.x}"],
    ["rbash", "-c", "{input.x}"],
    ["/usr/bin/zsh-5.9", "-c", "{input.x}"],
    ["env", "-S", "{input.x}"],
    ["env", "-S", "sh -c", "{input.x}"],
    ["env", "-vS", "sh -c", "{input.x}"],
    ["env", "{input.x}"],
    ["env", "A=b", "sh", "-c", "{input.x}"],
    ["timeout", "5", "{input.x}"],
    ["timeout", "5", "sh", "-c", "{input.x}"],
    ["nice", "-n", "5", "{input.x}"],
    ["busybox", "sh", "-c", "{input.x}"],
    ["xargs", "-I", "R", "sh", "-c", "{input.x}"],
    ["find", ".", "-exec", "sh", "-c", "{input.x}", ";"],
    ["wrapper", "sh", "-c", "{input.x}"],
    ["python3.12", "-c", "{input.x}"],
    ["python3", "-m", "{input.x}"],
    ["python3", "-W", "ignore", "{input.x}"],
    ["perl", "-ne", "{input.x}"],
    ["perl", "-e", "print 1", "{input.x}"],
    ["node", "--eval", "{input.x}"],
    ["ruby", "-e", "{input.x}"],
    ["awk", "{input.x}"],
    ["sed", "s/a/b/", "{input.x}"],
    ["ssh", "host", "{input.x}"],
    ["sqlite3", "base.db", "{input.x}"],
    ["pwsh", "-Command", "{input.x}"],
]


@pytest.mark.parametrize("command", CODE, ids=" ".join)
def test_a_value_that_an_interpreter_would_read_is_refused(command):
    told = [line for line in wrong(machines.script("a", command, next="done"), DONE) if "would be read by" in line]
    assert len(told) == 1


DATA = [
    ["sh", "-c", 'echo "$1"', "sh", "{input.x}"],
    ["bash", "-o", "pipefail", "-ec", 'echo "$1"', "sh", "{input.x}", "{input.y}"],
    ["sh", "script.sh", "{input.x}"],
    ["env", "-u", "C", "A=b", "make", "{input.x}"],
    ["timeout", "-k", "5", "10", "make", "{input.x}"],
    ["nice", "-n", "5", "make", "{input.x}"],
    ["python3", "-c", "print(1)", "{input.x}"],
    ["python3", "-W", "ignore", "tool.py", "{input.x}"],
    ["perl", "-e", "print 1", "--", "{input.x}"],
    ["awk", "{print}", "{input.x}"],
    ["sed", "-e", "s/a/b/", "--", "{input.x}"],
    ["find", "{input.x}", "-exec", "sh", "-c", "true", ";"],
    ["grep", "-r", "python", "{input.x}"],
    ["gh", "pr", "view", "{input.x}"],
]


@pytest.mark.parametrize("command", DATA, ids=" ".join)
def test_a_value_behind_the_code_is_an_argument_like_any(command):
    assert Machine("m", [machines.script("a", command, next="done"), DONE]).spec.states[0].command == tuple(command)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Do {inptu.task}.", "write {input.task}"),
        ("Do {task}.", "write {input.task}"),
        ("Do {input}.", "name a value of it, such as {input.name}"),
    ],
)
def test_a_reference_that_stands_for_nothing_is_refused(text, told):
    (line,) = wrong(machines.agent("a", text, next="done"), DONE)
    assert told in line
    assert told in wrong(machines.park("a", text, next="done"), DONE)[0]


def test_a_command_with_a_misspelt_input_is_refused_and_braces_of_others_are_not():
    assert "write {input.x}" in wrong(machines.script("a", ["ls", "{inptu.x}"], next="done"), DONE)[0]
    Machine("m", [machines.script("a", ["python3", "-c", "print(f'{a.b}')"], next="done"), DONE])


def test_doubled_braces_are_braces():
    from windlass.runtime.machines.inputs import filled

    text = "Write {{name}} and {{input.x}}, {input.x}."
    Machine("m", [machines.agent("a", text, next="done"), DONE])
    assert filled(text, {"x": "{input.x}"}) == "Write {name} and {input.x}, {input.x}."


def test_a_value_deep_in_a_schema_is_looked_up():
    schema = {"properties": {"pr": {"type": "object", "properties": {"id": {}}}}}
    assert "{input.pr.nubmer} is no part" in wrong(machines.agent("a", "{input.pr.nubmer}", input=schema), DONE)[0]
    Machine("m", [machines.agent("a", "{input.pr.id}", input=schema), DONE])


def test_a_file_may_name_its_ends_by_how_they_end(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(
        "states:\n- {name: nap, kind: timer, after: 1h, next: good, on_failure: bad}\n"
        "- {name: good, kind: completed, reason: it is over}\n- {name: bad, kind: failed}\n"
    )
    _, good, bad = machines.load_machine(path).spec.states
    assert [(one.kind, one.outcome, one.reason) for one in (good, bad)] == [
        ("terminal", "completed", "it is over"),
        ("terminal", "failed", ""),
    ]
    path.write_text("states:\n- {name: a, kind: complete}\n")
    with pytest.raises(BadMachine, match="did you mean 'completed'"):
        machines.load_machine(path)


def test_what_a_file_says_wrong_at_the_top_hides_nothing_below(tmp_path):
    path = tmp_path / "m.json"
    path.write_text(
        json.dumps({"colour": 1, "states": [{"name": "a", "kind": "timer"}, {"name": "b", "kind": "completed"}]})
    )
    with pytest.raises(BadMachine) as refused:
        machines.load_machine(path)
    assert [line.partition(":")[0] for line in refused.value.problems] == ["unknown key 'colour'", "a"]


@pytest.mark.parametrize(
    ("value", "fits"), [("-rf", False), ("--eval=x", False), ("-5", True), ("-", True), ("a", True)]
)
def test_a_value_that_would_be_an_option_does_not_fit_unless_it_stands_behind_the_options(value, fits):
    from windlass.runtime.machines.inputs import unfit

    def reason(*command: str) -> str:
        return unfit(Machine("m", [machines.script("a", command, next="done"), DONE]).spec.states[0], {"x": value})

    assert (reason("rm", "{input.x}") == "") is fits
    assert reason("rm", "--", "{input.x}") == ""
    assert reason("sh", "-c", 'echo "$1"', "sh", "{input.x}") == ""


def test_a_word_or_a_form_that_a_file_has_wrong_is_told_with_what_may_be_written(tmp_path):
    path = tmp_path / "deploy.yaml"
    path.write_text(
        "name: deploy\nstates:\n"
        "- {name: rest, kind: timer, after: 1m, misfire: later, next: [end]}\n"
        "- {name: agree, kind: park, question: Now, next: {yes: end}}\n"
        "- {name: end, kind: completed}\n"
    )
    with pytest.raises(UsageError) as wrong:
        machines.load_machine(path)
    assert "rest: misfire 'later' is none of" in str(wrong.value)
    assert "agree: next is a list of states, such as [review, merge]" in str(wrong.value)
