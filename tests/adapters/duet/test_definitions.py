"""Definitions of machines, in both directions; and names of models."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import machines
from windlass.adapters.duet.definitions import definition_form, machine_again, machine_of
from windlass.adapters.duet.model_names import model_form, read_model
from windlass.machines import BadMachine, Machine

END = {"name": "end", "kind": "terminal", "status": "completed", "reason": "over"}
FAILED = {"name": "bad", "kind": "terminal", "status": "failed"}
SCHEMA = {"type": "object", "properties": {"who": {"type": "string"}}}
WHOLE: dict[str, Any] = {
    "name": "whole",
    "prompt": "somebody wants all of it",
    "states": [
        {
            "name": "write",
            "kind": "agent",
            "when": "first",
            "inputSchema": SCHEMA,
            "prompt": "To {{ input.who }}: {hi}.",
        },
        {"name": "run", "kind": "script", "command": 'echo "$INPUT_WHO"', "timeoutMs": 1500, "successCodes": [0, 3]},
        {"name": "look", "kind": "poll", "command": "test -e green", "intervalMs": 90_000, "cwd": "sub"},
        {"name": "nap", "kind": "timer", "wakeAt": 4_000_000_000_000},
        {"name": "rest", "kind": "timer", "wakeAfterMs": 250, "next": ["look", "end"], "onFailure": "end"},
        {"name": "gate", "kind": "park", "question": "Go on, {{ input.who }}?", "next": ["look", "end"]},
        END,
        FAILED,
    ],
}


def test_a_definition_becomes_a_machine():
    spec = machine_of(WHOLE).spec
    assert (spec.name, spec.when, spec.first) == ("whole", "somebody wants all of it", "write")
    write, run, look, nap, rest, gate, end, bad = spec.states
    assert (write.prompt, write.when, write.input) == ("To {input.who}: {{hi}}.", "first", SCHEMA)
    assert (run.command, run.timeout_ms, run.success_codes) == (("sh", "-c", 'echo "$INPUT_WHO"'), 1500, (0, 3))
    assert (look.every_ms, look.cwd) == (90_000, "sub")
    assert (nap.at_ms, nap.after_ms) == (4_000_000_000_000, None)
    assert (rest.after_ms, rest.next, rest.on_failure) == (250, ("look", "end"), "end")
    assert gate.question == "Go on, {input.who}?"
    assert (end.outcome, end.reason, bad.outcome) == ("completed", "over", "failed")


def test_a_definition_comes_back_as_it_was():
    told = definition_form(machine_of(WHOLE).spec)
    assert machine_of(told).spec == machine_of(WHOLE).spec
    for given, back in zip(WHOLE["states"], told["states"], strict=True):
        assert {key: back[key] for key in given} == given


def test_a_recorded_machine_is_made_again_for_the_next_process():
    made = [
        machine_of(WHOLE),
        Machine(
            "own",
            [
                machines.agent("a", "Do {input.what}.", next="b", when="always"),
                machines.script("b", ["make", "test"], timeout="90s", next="c", cwd="sub"),
                machines.poll("c", ["true"], every="1m", give_up="2h", next="d", on_failure="f"),
                machines.timer("d", after="40d", misfire="fail", late="5m", next="e"),
                machines.park("e", "Go on?", next=["a", "f"]),
                machines.completed("f"),
            ],
            first="b",
            when="it is mine",
            visits_max=7,
            quick_polls_max=2,
        ),
    ]
    for machine in made:
        assert machine_again(machine.spec).spec == machine.spec


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        ({"name": "a", "kind": "script", "command": "rm {{input.path}}"}, '"$INPUT_PATH" in place of {{input.path}}'),
        (
            {"name": "a", "kind": "agent", "prompt": "p", "systemPrompt": "s"},
            "a: systemPrompt is not known here: put it",
        ),
        ({"name": "a", "kind": "agent", "prompt": "p", "allowedSkills": []}, "a: allowedSkills is not known here"),
        ({"name": "a", "kind": "agent"}, "a: it needs 'prompt'"),
        ({"name": "a", "kind": "sprint"}, "a: 'sprint' is no kind of a state: there are agent, script"),
        (
            {"name": "a", "kind": "poll", "command": "true", "intervalMs": "soon"},
            "intervalMs: a number of milliseconds",
        ),
        ({"name": "a", "kind": "timer"}, "a: a timer needs 'after'"),
        ({"name": "a", "kind": "timer", "wakeAt": 1, "interval": 2}, "a: timer states have no 'interval'"),
        ({"kind": "agent"}, "state 1: a table of fields is wanted, with name and kind"),
        ("a", "state 1: a table of fields is wanted, with name and kind"),
        ({"name": "end", "kind": "agent", "prompt": "p"}, "end"),
    ],
)
def test_what_is_wrong_is_told_with_its_state(state, complaint):
    with pytest.raises(BadMachine) as caught:
        machine_of({"name": "m", "states": [state, END]})
    assert complaint in str(caught.value)


def test_a_definition_without_an_end_or_a_name_is_refused():
    for wrong in (
        {"name": "m", "states": [WHOLE["states"][0]]},
        {"states": [END]},
        {"name": "m", "states": [END], "x": 1},
    ):
        with pytest.raises(BadMachine):
            machine_of(wrong)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("openai:gpt-5-mini", "openai/gpt-5-mini"),
        ("openrouter:meta/llama", "openrouter/meta/llama"),
        ("openai/gpt-5-mini", "openai/gpt-5-mini"),
        ("scripted", "scripted"),
    ],
)
def test_models_are_named_in_both_forms(theirs, ours):
    assert read_model(theirs) == ours
    assert read_model(model_form(ours)) == ours
