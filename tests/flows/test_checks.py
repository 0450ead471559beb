"""Graphs that could not be carried out are refused before they start: each problem names its node and what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

import windlass
from windlass import flows
from windlass.events.errors import UsageError
from windlass.events.values.graphs import FlowNode
from windlass.runtime.flows.steps import Step

from .support import listener

AGENT = listener("a", str)


@windlass.tool(contract="pure")
def shout(text: str) -> str:
    """Shouts."""
    return text.upper()


def problems(*steps: Step, **more: object) -> list[str]:
    with pytest.raises(flows.BadFlow) as caught:
        flows.Flow("f", list(steps), **more)  # type: ignore[arg-type]
    return list(caught.value.problems)


def node(name: str, *needs: str, **more: object) -> Step:
    return flows.spawn(name, AGENT, "work", needs=needs, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([], ["it has no nodes: give it at least one"]),
        ([node("a b")], ["'a b': a node's name is 1 to 64 letters, digits and '_', and begins with a letter"]),
        ([node("input")], ["input: this name stands for something else: give the node another one"]),
        ([node("x"), node("x")], ["x: 2 nodes have this name: give each its own"]),
        ([node("one"), node("two", "on")], ["two: it needs 'on', which is no node: did you mean 'one'?"]),
        ([node("x", "y"), node("y", "x")], ["x: it waits for itself: x needs y needs x: take one of these needs away"]),
        ([node("x", "x")], ["x: it waits for itself: x needs x: take one of these needs away"]),
        (
            [node("x", "y"), node("y", "x"), node("z", "y")],
            [
                "x: it waits for itself: x needs y needs x: take one of these needs away",
                "z: it would never begin, because it waits for x: break the circle first",
            ],
        ),
        (
            [node("x"), node("y", "x", quorum=2)],
            ["y: it would never begin: quorum is 2 and it needs 1 nodes: lower one of them"],
        ),
        ([node("x"), node("y", "x", "x")], ["y: it needs 'x' twice: name it once"]),
        ([flows.spawn("x", "nobody", "work")], ["x: there is no agent 'nobody': there are none"]),
        ([flows.spawn("x", AGENT, "")], ["x: it needs a task: say what is to be done"]),
        ([node("x"), flows.reduce("y", "best", ["x"])], ["y: there is no reducer 'best': there are concat, count, " + "dedupe_lines, merge_json_arrays"]),
        ([flows.reduce("y", "count", [])], ["y: it has nothing to reduce: say which nodes it needs"]),
        (
            [node("x"), flows.spawn("y", AGENT, "about {x}")],
            ["y: it speaks of {x}, which it does not need: write needs=['x']"],
        ),
        (
            [flows.spawn("y", AGENT, "about {nothing}")],
            ["y: it speaks of {nothing}, which it does not need: write {{nothing}} for the braces themselves"],
        ),
        (
            [flows.classify("c", AGENT, "which", {"one": ["c"]})],
            ["c: it needs at least two branches to choose from", "c: its branch 'one' leads to itself"],
        ),
        (
            [flows.classify("c", AGENT, "which", {"one": ["d"], "two": []})],
            ["c: its branch 'one' leads to 'd', which is no node: there are c"],
        ),
        ([flows.loop("l", AGENT, "on", rounds=65)], ["l: it may go round 64 times at the most, not 65"]),
        (
            [Step(FlowNode(name="m", kind="map", over="x", agent="a", task="t"), (AGENT,))],
            ["m: it goes over 'x', which it does not need: name a node that it needs, or 'input'"],
        ),
        (
            [flows.map_over("m", "input", AGENT, "t", items=257)],
            ["m: it may take 256 items at the most, not 257"],
        ),
        (
            [flows.tournament("t", AGENT, "best", ["only"])],
            ["t: it needs at least two entrants: tasks, or nodes whose outputs compete"],
        ),
        ([flows.tool("t", "whisper")], ["t: there is no tool 'whisper': there are shout"]),
        (
            [flows.tool("t", "shout", {"words": "x"})],
            ["t: shout takes no 'words': it takes text", "t: shout needs 'text': add it to args"],
        ),
        ([flows.gate("g")], ["g: a gate needs either a question for a person or a condition (when=...)"]),
        ([flows.gate("g", when="1 +")], ["g: condition '1 +' is not CEL"]),
        (
            [node("x", output={"type": "string"}), flows.map_over("m", "x", AGENT, "t")],
            ["m: it takes arrays, and the output of x is of type string: give x an array as its output"],
        ),
        (
            [node("x", output={"type": "object"}), flows.reduce("m", "merge_json_arrays", ["x"])],
            ["m: it takes arrays, and the output of x is of type object: give x an array as its output"],
        ),
        (
            [
                node("x", output={"type": "object", "properties": {"a": {"type": "string"}}}),
                flows.spawn("y", AGENT, "{x.b}", needs=["x"]),
            ],
            ["y: it speaks of {x.b}, and the output of x has no 'b': it has a"],
        ),
        ([node("x", output={"type": "nothing"})], ["x: its output is no JSON Schema"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_node_and_a_fix(steps, told):
    found = problems(*steps, tools=[shout])
    assert [line[: len(expected)] for line, expected in zip(found, told, strict=True)] == told


def test_all_problems_are_told_at_once():
    found = problems(node("x", "gone"), flows.tool("t", "none"), results=["nowhere"])
    assert [line.partition(":")[0] for line in found] == ["x", "t", "results"]


def test_circles_are_told_with_everything_else_and_each_of_them():
    found = problems(node("a", "b"), node("b", "a"), node("c", "d"), node("d", "c"), node("e", "gone", "d"))
    assert [line.partition(": ")[0] for line in found] == ["e", "a", "c", "e"]
    assert found[0].startswith("e: it needs 'gone', which is no node")
    assert found[1] == "a: it waits for itself: a needs b needs a: take one of these needs away"
    assert found[2] == "c: it waits for itself: c needs d needs c: take one of these needs away"
    assert found[3] == "e: it would never begin, because it waits for c: break the circle first"


def test_a_file_with_faults_of_every_kind_is_told_all_of_them_at_once(tmp_path):
    written = {
        "name": "wrong",
        "colour": "blue",
        "agents": {"broken": {"hooks": []}, "checker": {"instructions": "Check."}},
        "budget": {"tokens": -1},
        "nodes": [
            {"name": "typo", "kind": "verify", "agent": "checker", "tasks": "?"},
            {"name": "after", "agent": "broken", "task": "go on", "needs": ["typo", "nobody"]},
            {"name": "x", "agent": "checker", "task": "x", "needs": ["y"]},
            {"name": "y", "agent": "stranger", "task": "y", "needs": ["x"]},
        ],
    }
    (tmp_path / "wrong.json").write_text(json.dumps(written))
    with pytest.raises(flows.BadFlow) as caught:
        flows.load_flow(tmp_path / "wrong.json")
    assert [line.partition(":")[0] for line in caught.value.problems] == [
        "unknown key 'colour'", "typo", "agent broken", "budget", "after", "y", "x",
    ]  # fmt: skip
    assert "after: it needs 'nobody', which is no node" in "\n".join(caught.value.problems)
    assert "'typo', which is no node" not in "\n".join(caught.value.problems)


UNTYPED: Any = flows
"""The same for those who check no types."""


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: flows.spawn("x", AGENT, "t", needs="y"), r"needs is a list of names: write needs=\['y'\]"),
        (lambda: UNTYPED.map_over("x", "y", AGENT, "t", needs="y"), r"needs is a list of names: write needs=\['y'\]"),
        (lambda: UNTYPED.phase("x", AGENT, "t", judge=AGENT, unlocks="shell"), r"write unlocks=\['shell'\]"),
        (lambda: UNTYPED.tournament("x", AGENT, "t", "ab", judge=AGENT), r"a list of tasks: write entrants=\['ab'\]"),
        (lambda: UNTYPED.tournament("x", AGENT, "t", 3, judge=AGENT), "entrants is a list of tasks, not 3"),
        (lambda: UNTYPED.classify("x", AGENT, "t", ["a", "b"]), r"write branches=\{'yes': \['node'\], …\}"),
        (lambda: UNTYPED.classify("x", AGENT, "t", {"a": "ab"}), r"write branches\['a'\]=\['ab'\]"),
        (lambda: UNTYPED.spawn("x", AGENT, "t", timeout="soon"), "node 'x': a time is a number of seconds"),
        (lambda: UNTYPED.spawn("x", AGENT, "t", retries=1, retry_wait="soon"), "node 'x': a time is a number of seconds"),
        (lambda: UNTYPED.spawn("x", AGENT, "t", budget=5), "node 'x': budget is a Budget, not 5"),
        (lambda: UNTYPED.tool("x", AGENT), r"node 'x': tool is a name: write 'a', and give the tool to Flow"),
        (lambda: UNTYPED.tool("x", "a", ["y"]), "node 'x': args is a table"),
        (lambda: flows.spawn("x", AGENT, "t", retries=-1), "node 'x'"),
        (lambda: flows.spawn("x", AGENT, "t", timeout=-1), "node 'x'"),
        (lambda: flows.Flow("f", ["x"]), "a node is made by windlass.flows, not str"),  # type: ignore[list-item]
        (lambda: flows.Flow("f", [node("x")], parallel=0), "workflow 'f'"),
        (lambda: flows.Flow("f", [node("x"), flows.spawn("y", listener("a", len), "t")]), "two agents are named 'a'"),
    ],
)  # fmt: skip
def test_values_that_no_node_can_have_are_refused_where_they_are_written(make, told):
    with pytest.raises(UsageError, match=told):
        make()


# --- files ---

FILE = {
    "name": "review",
    "agents": {"checker": {"instructions": "Check.", "role": "verify"}},
    "budget": {"tokens": 10_000},
    "parallel": 2,
    "nodes": [
        {"name": "cents", "kind": "verify", "agent": "checker", "task": "Cents?", "retries": 1, "timeout": 2.5},
        {"name": "all", "kind": "reduce", "reducer": "concat", "needs": ["cents"]},
    ],
}
YAML = """
name: review
agents:
  checker: {instructions: Check., role: verify}
budget: {tokens: 10000}
parallel: 2
nodes:
  - {name: cents, kind: verify, agent: checker, task: "Cents?", retries: 1, timeout: 2.5}
  - name: all
    kind: reduce
    reducer: concat
    needs: [cents]
"""


def test_a_graph_is_the_same_in_json_yaml_and_python(tmp_path):
    (tmp_path / "f.json").write_text(json.dumps(FILE))
    (tmp_path / "f.yaml").write_text(YAML)
    checker = windlass.Agent("checker", instructions="Check.", role="verify")
    made = flows.Flow(
        "review",
        [
            flows.verify("cents", checker, "Cents?", retries=1, timeout=2.5),
            flows.reduce("all", "concat", ["cents"]),
        ],
        budget=windlass.Budget(tokens=10_000),
        parallel=2,
    )
    for name in ("f.json", "f.yaml"):
        loaded = flows.load_flow(tmp_path / name)
        assert loaded.graph == made.graph
        assert loaded.agents_by_name() == made.agents_by_name()
        assert loaded.budget == made.budget


def test_an_agent_that_is_given_takes_the_place_of_one_in_the_file(tmp_path):
    (tmp_path / "f.json").write_text(json.dumps(FILE))
    mine = listener("checker", str)
    assert flows.load_flow(tmp_path / "f.json", agents=[mine]).agents_by_name() == {"checker": mine}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("f.txt", "", "the file of a workflow ends in .json, .yaml, .yml"),
        ("f.json", "{", "cannot be read"),
        ("f.json", "[]", "a workflow is a table with name, agents and nodes"),
        ("f.json", '{"nodes": [], "steps": []}', "unknown key 'steps'"),
        ("f.json", '{"nodes": 3}', "nodes: a list is wanted"),
        ("f.json", '{"nodes": [3]}', "node 1: a table of fields is wanted"),
        ("f.json", '{"nodes": [{"name": "a", "task": 3}]}', "a: task: expected `str`, got `int`"),
        ("f.json", '{"nodes": [{"name": "a", "tasks": "x"}]}', "a: unknown field 'tasks'"),
        ("f.json", '{"nodes": [{"name": "a", "kind": "magic"}]}', "a: kind 'magic' is none of spawn, "),
        ("f.json", '{"nodes": [{"name": "a", "kind": "verfy"}]}', ": did you mean 'verify'?"),
        ("f.json", '{"nodes": [{"name": "a", "timeout": "1h"}]}', "a: timeout '1h': give a number of seconds"),
        ("f.json", '{"nodes": [], "agents": {"a": {"hooks": []}}}', "agent a: unknown field 'hooks'"),
        ("f.json", '{"nodes": [], "budget": {"tokens": -1}}', "budget: "),
        ("f.yaml", "a: &x 1\nb: *x", "anchors and aliases are not taken"),
        ("f.yaml", "a: !!python/object/apply:os.getcwd []", "cannot be read"),
        ("f.yaml", "a: [", "not YAML"),
    ],
)
def test_a_file_that_is_no_workflow_is_refused_and_says_why(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        flows.load_flow(tmp_path / name)
    assert told in str(caught.value)


def test_a_phase_unlocks_tools_that_somebody_has():
    shouting = listener("s", str, tools=[shout])
    passes = flows.phase("p", AGENT, "work", when="args.output != ''", unlocks=["shuot"])
    assert problems(passes, flows.spawn("x", shouting, "shout", needs=["p"])) == [
        "p: it unlocks 'shuot', a tool that no agent and no node here has: did you mean 'shout'?"
    ]
    for name in ("shout", "sh*"):
        sound = flows.phase("p", AGENT, "work", when="args.output != ''", unlocks=[name])
        flows.Flow("f", [sound, flows.spawn("x", shouting, "shout", needs=["p"])])


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([flows.spawn("x", AGENT, "{inptu.x}")], "x: it speaks of {inptu}, which it does not need: write {input}"),
        (
            [flows.verify("v", AGENT, "?"), flows.spawn("x", AGENT, "{v.raeson}", needs=["v"])],
            "x: it speaks of {v.raeson}, and the output of v has no 'raeson': it has pass, reason",
        ),
        (
            [node("a"), flows.gate("g", when="args.b == 'x'", needs=["a"])],
            "g: its condition speaks of args.b, which it does not have: it has input, a",
        ),
        (
            [flows.verify("v", AGENT, "?"), flows.gate("g", when="args.v.passed", needs=["v"])],
            "g: its condition speaks of args.v.passed, and the output of v has no 'passed': it has pass, reason",
        ),
    ],
)
def test_what_is_spoken_of_is_held_against_what_is_given(steps, told):
    assert problems(*steps) == [told]


def test_a_condition_may_call_functions_and_quote_anything():
    when = "args.a.contains('args.b') && args.input.size() > 0"
    flows.Flow("f", [node("a"), flows.gate("g", when=when, needs=["a"])])


def test_what_is_wrong_behind_an_unknown_field_is_told_with_it(tmp_path):
    written = {
        "agents": {"a": {}},
        "nodes": [{"name": "x", "agnet": "b", "task": "{y}"}, {"name": "z", "agent": "a", "task": 3, "retries": -1}],
    }
    (tmp_path / "f.json").write_text(json.dumps(written))
    with pytest.raises(flows.BadFlow) as caught:
        flows.load_flow(tmp_path / "f.json")
    assert list(caught.value.problems) == [
        "x: unknown field 'agnet': did you mean 'agent'?",
        "z: task: expected `str`, got `int`",
        "z: retries: expected `int` >= 0",
        "x: it speaks of {y}, which it does not need: write {{y}} for the braces themselves",
        "x: there is no agent 'b': there are a",
    ]


def test_a_name_that_nobody_gave_is_not_listed_among_the_nodes(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text("name: review\nnodes:\n- {name: a, kind: gate, question: Go on, needs: [zz]}\n- {nam: d}\n- {}\n")
    with pytest.raises(UsageError) as wrong:
        flows.load_flow(path)
    assert "it needs 'zz', which is no node: there are a, d" in str(wrong.value)
    assert "None" not in str(wrong.value)
