"""Each kind of node, carried out by scripted models: what it does, what it gives, and what it says if it cannot."""

from __future__ import annotations

import json

import pytest

import windlass
from tests.runtime.support import events_of, only, sound, started
from windlass import flows
from windlass.events.questions import QuestionRequested
from windlass.events.trees.children import ChildStarted
from windlass.events.trees.flows import NodeFinished
from windlass.events.values.failures import failure

from .support import carried_out, listener, speaker


def statuses(result: windlass.runtime.api.flows.FlowResult) -> dict[str, str]:
    return {name: node.status for name, node in result.nodes.items()}


# --- classify ---


def triage(*answers: object) -> flows.Flow:
    echo = listener("echo", lambda task: task.splitlines()[0])
    return flows.Flow(
        "triage",
        [
            flows.classify("kind", speaker("judge", *answers), "Which?", {"bug": ["fix"], "idea": ["plan", "cost"]}),
            flows.spawn("fix", echo, "fixed"),
            flows.spawn("plan", echo, "planned"),
            flows.spawn("cost", echo, "priced", needs=["plan"]),
            flows.reduce("answer", "concat", ["fix", "cost"]),
        ],
    )


@pytest.mark.parametrize("said", ["bug", '{"branch": "bug"}', '```json\n{"branch": "bug"}\n```', "I think: bug."])
async def test_a_classifier_takes_one_branch_and_leaves_the_others_out(said):
    result = await carried_out(triage(said))
    assert statuses(result) == {"kind": "done", "fix": "done", "plan": "pruned", "cost": "pruned", "answer": "done"}
    assert result.outputs == {"kind": "bug", "fix": "fixed", "answer": "fixed"}
    assert result.nodes["kind"].branch == "bug"


async def test_a_classifier_is_asked_once_more_and_then_fails():
    result = await carried_out(triage("neither", '{"branch": "idea"}'))
    assert result.outputs["answer"] == "priced"
    result = await carried_out(triage("neither", "bug or idea"))
    assert statuses(result) == dict.fromkeys(("fix", "plan", "cost", "answer"), "skipped") | {"kind": "failed"}
    assert result.nodes["kind"].reason == "it chose no branch: it must name one of bug, idea"


# --- loop ---


async def test_a_loop_goes_round_until_it_is_done():
    def says(task: str) -> str:
        number = int(task.split("round ")[1].split()[0])
        return json.dumps({"done": number == 3, "output": f"draft {number}"})

    agent = listener("writer", says)
    flow = flows.Flow("polish", [flows.loop("draft", agent, "Improve {previous}", rounds=5)])
    result = await carried_out(flow)
    assert result.output == "draft 3"
    told = [request.items[0].content[0].text.splitlines()[0] for request in agent.model.requests]  # type: ignore[union-attr]
    assert told == ["Improve ", "Improve draft 1", "Improve draft 2"]


async def test_a_loop_is_capped():
    agent = speaker("writer", *[json.dumps({"done": False, "output": n}) for n in (1, 2)])
    result = await carried_out(flows.Flow("endless", [flows.loop("draft", agent, "Go on", rounds=2)]))
    assert (result.status, result.output) == ("completed", 2)


# --- map ---


@pytest.mark.parametrize("listed", ['["a", "b", "c"]', "a\nb\n\nc"])
async def test_a_map_has_a_child_for_each_item_that_came_up(listed):
    flow = flows.Flow(
        "mapped",
        [
            flows.spawn("find", speaker("finder", listed), "Find claims"),
            flows.map_over("check", "find", listener("checker", lambda task: task.upper()), "check {item}"),
            flows.map_over("sizes", "check", reducer="size"),
        ],
        reducers={"size": len},
    )
    result = await carried_out(flow)
    assert result.outputs["check"] == ["CHECK A", "CHECK B", "CHECK C"]
    assert result.output == [7, 7, 7]


async def test_a_map_over_the_input_may_have_nothing_to_do():
    flow = flows.Flow("empty", [flows.map_over("each", "input", listener("x", str), "{item}")])
    assert (await carried_out(flow, [])).output == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"a": 1}, 'it goes over a list, and was given {"a":1}'),
        (["a", "b", "c"], "3 items, and it takes 2 at the most: raise items (in a file: items_max)"),
    ],
)
async def test_a_map_says_what_it_cannot_go_over(given, why):
    flow = flows.Flow("odd", [flows.map_over("each", "input", listener("x", str), "{item}", items=2)])
    result = await carried_out(flow, given)
    assert (result.status, result.nodes["each"].reason) == ("failed", why)


class Unsteady:
    """Says of each task what it was told, from the attempt on that is named for it, and fails before."""

    def __init__(self, well_from: dict[str, int]) -> None:
        self.well_from = well_from
        self.tasks: list[str] = []

    def __call__(self, task: str) -> object:
        self.tasks.append(task)
        return task.upper() if self.tasks.count(task) >= self.well_from[task] else failure("invalid_request", "no")


async def test_a_map_that_is_tried_again_pays_only_for_the_items_that_did_not_end_well():
    says = Unsteady({"a": 1, "b": 3, "c": 1, "d": 2})
    flow = flows.Flow(
        "again", [flows.map_over("each", "input", listener("x", says), "{item}", retries=2, retry_wait=0)]
    )
    result = await carried_out(flow, ["a", "b", "c", "d"])
    assert result.output == ["A", "B", "C", "D"]
    assert {task: says.tasks.count(task) for task in "abcd"} == {"a": 1, "b": 3, "c": 1, "d": 2}


async def test_a_map_that_went_on_after_it_was_stopped_pays_only_for_the_items_that_were_not_there():
    says = Unsteady({"a": 1, "b": 1, "c": 2})
    flow = flows.Flow("again", [flows.map_over("each", "input", listener("x", says), "{item}")])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f", input=["a", "b", "c"])
        assert (await run.result()).nodes["each"].reason.startswith("items 3 did not end well")
        await run.session.wake()
        result = await run.result()
        await sound(run.session)
    assert result.output == ["A", "B", "C"]
    assert says.tasks.count("a") == says.tasks.count("b") == 1


# --- verify, and what follows from it ---


async def test_a_verdict_is_an_output_and_a_gate_may_rest_on_it():
    def flow(verdict: bool) -> flows.Flow:
        said = json.dumps({"pass": verdict, "reason": "because"})
        return flows.Flow(
            "checked",
            [
                flows.verify("check", speaker("checker", said), "Is it so?"),
                flows.gate("passed", when="args.check.pass", needs=["check"]),
                flows.spawn("ship", listener("shipper", lambda task: "shipped"), "Ship", needs=["passed", "check"]),
            ],
        )

    result = await carried_out(flow(True))
    assert result.outputs == {"check": {"pass": True, "reason": "because"}, "passed": True, "ship": "shipped"}
    result = await carried_out(flow(False))
    assert statuses(result) == {"check": "done", "passed": "pruned", "ship": "pruned"}
    assert result.status == "completed"
    assert result.nodes["passed"].reason == "args.check.pass does not hold"


async def test_a_condition_that_cannot_be_judged_fails():
    flow = flows.Flow("odd", [flows.gate("g", when="args.input.score > 3")])
    result = await carried_out(flow, {"points": 4})
    assert result.status == "failed"
    assert "cannot be judged" in result.nodes["g"].reason


# --- a person at a gate ---


@pytest.mark.parametrize(("answer", "ends"), [("yes", "done"), ("y", "done"), ("no", "pruned")])
async def test_a_gate_waits_for_a_person_across_a_restart(tmp_path, answer, ends):
    def flow() -> flows.Flow:
        return flows.Flow(
            "asked",
            [
                flows.spawn("draft", speaker("writer", "a draft"), "Write"),
                flows.gate("agree", "Send {draft}?", needs=["draft"]),
                flows.reduce("sent", "concat", ["agree"]),
            ],
        )

    async with windlass.open(tmp_path / "work.db") as runtime:
        result = await (await runtime.flow(flow(), "f")).result()
        assert (result.status, len(result.waiting_for)) == ("asked", 1)
    async with windlass.open(tmp_path / "work.db") as runtime:
        run = await runtime.flow(flow(), "f")
        (asked,) = only(await events_of(run.session), QuestionRequested)
        assert asked.body.questions[0].question == "Send a draft?"
        await run.session.answer(asked.question_id, answer)
        result = await run.result()
        assert (result.status, result.nodes["sent"].status) == ("completed", ends)


async def test_who_says_neither_yes_nor_no_at_a_gate_is_asked_again():
    flow = flows.Flow("asked", [flows.gate("agree", "Go on?")])
    async with windlass.open(":memory:") as runtime:
        run = await runtime.flow(flow, "f")
        for said, status in (("maybe", "asked"), ("Yes", "completed")):
            await run.result()
            asked = only(await events_of(run.session), QuestionRequested)[-1]
            await run.session.answer(asked.question_id, said)
            assert (await run.result()).status == status
        assert len(only(await events_of(run.session), QuestionRequested)) == 2


# --- tool ---


@windlass.tool(contract="pure")
def add(left: int, right: int) -> int:
    """Adds."""
    return left + right


async def test_a_tool_is_called_with_what_other_nodes_gave():
    flow = flows.Flow(
        "sums",
        [
            flows.tool("sum", "add", {"left": "{input.0}", "right": 2}),
            flows.reduce("said", "concat", ["sum"]),
        ],
        tools=[add],
    )
    assert (await carried_out(flow, [40])).output == "42"


async def test_a_tool_is_held_to_the_policy_and_a_person_may_agree():
    policy = windlass.Policy(rules=[windlass.ask("add")])
    flow = flows.Flow("asks", [flows.tool("sum", "add", {"left": 1, "right": 2})], tools=[add], policy=policy)
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        assert (await run.result()).status == "asked"
        (request,) = await run.session.requests()
        await run.session.approve(request)
        assert (await run.result()).output == 3


async def test_a_tool_that_fails_fails_its_node():
    @windlass.tool(contract="pure")
    def burst() -> str:
        """Fails."""
        raise windlass.ToolError("no more")

    flow = flows.Flow("bursts", [flows.tool("b", "burst")], tools=[burst])
    result = await carried_out(flow)
    assert (result.status, result.nodes["b"].reason) == ("failed", "no more")


# --- tournament ---


async def test_a_tournament_has_pairs_judged_until_one_is_left():
    def judged(task: str) -> str:
        one, other = task.split("Answer A:\n")[1].split("\n\nAnswer B:\n")
        return json.dumps({"winner": "A" if len(one) > len(other.splitlines()[0]) else "B"})

    writer = listener("writer", lambda task: "x" * int(task.splitlines()[2]))
    flow = flows.Flow(
        "best",
        [
            flows.spawn("outside", speaker("other", "xxxx"), "Write"),
            flows.tournament(
                "best", writer, "Write much.", ["1", "5", "3"], judge=listener("judge", judged), needs=["outside"]
            ),
        ],
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        assert (await run.result()).output == "xxxxx"
        begun = only(await events_of(run.session), ChildStarted)
        assert [event.agent for event in begun] == ["other", "writer", "writer", "writer", "judge", "judge", "judge"]


async def test_a_judge_that_cannot_be_read_fails_the_tournament():
    flow = flows.Flow("odd", [flows.tournament("t", speaker("w", "a", "b", "both"), "Write", ["1", "2"])])
    result = await carried_out(flow)
    assert result.nodes["t"].reason == "it must name one of A, B"


# --- schemas ---

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}


async def test_an_output_that_does_not_fit_is_asked_for_once_more():
    agent = speaker("teller", "no idea", '{"x": 3}')
    flow = flows.Flow(
        "typed",
        [
            flows.spawn("point", agent, "Where?", output=POINT),
            flows.spawn("next", listener("n", str), "{point.x}", needs=["point"]),
        ],
    )
    result = await carried_out(flow)
    assert result.outputs == {"point": {"x": 3}, "next": "3"}
    again = agent.model.requests[-1].items[0].content[0].text  # type: ignore[union-attr]
    assert "An earlier answer did not fit: the answer is not JSON" in again


async def test_an_output_that_never_fits_fails_its_node():
    flow = flows.Flow("typed", [flows.spawn("point", speaker("t", '{"x": "far"}', "{}"), "Where?", output=POINT)])
    result = await carried_out(flow)
    assert result.status == "failed"
    assert result.nodes["point"].reason.startswith("its output does not fit the schema: ")


# --- what a node waits for ---


async def test_a_quorum_starts_as_soon_as_enough_are_done():
    from windlass.testing.scripted import ScriptedModel

    from .test_flows import never

    hanging = windlass.Agent("hanging", ScriptedModel(never))
    flow = flows.Flow(
        "voted",
        [
            flows.spawn("a", speaker("one", "a"), "x"),
            flows.spawn("b", speaker("two", "b"), "x"),
            flows.spawn("c", hanging, "x"),
            flows.reduce("votes", "concat", ["a", "b", "c"], quorum=2),
        ],
        results=["votes"],
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        ended = await started(run.session, NodeFinished, count=3)
        assert {event.node for event in ended} == {"a", "b", "votes"}
        assert (await run.nodes())["votes"].output == "a\n\nb"


async def test_a_quorum_that_cannot_be_reached_is_skipped():
    from .test_flows import windlass_failure

    flow = flows.Flow(
        "voted",
        [
            flows.spawn("a", speaker("one", "a"), "x"),
            flows.spawn("b", speaker("two", windlass_failure()), "x"),
            flows.reduce("votes", "concat", ["a", "b"], quorum=2),
        ],
    )
    assert statuses(await carried_out(flow)) == {"a": "done", "b": "failed", "votes": "skipped"}


async def test_what_is_optional_is_done_without():
    from .test_flows import windlass_failure

    flow = flows.Flow(
        "lenient",
        [
            flows.spawn("a", speaker("one", "a"), "x"),
            flows.spawn("b", speaker("two", windlass_failure()), "x"),
            flows.reduce("end", "concat", ["a"], optional=["b"]),
        ],
    )
    result = await carried_out(flow)
    assert (result.status, result.output) == ("completed", "a")


# --- budgets and quarantine ---


async def test_a_node_is_told_what_is_left_and_no_more_is_used():
    agent = listener("teller", lambda task: task.splitlines()[-1])
    flow = flows.Flow(
        "frugal",
        [flows.spawn("a", agent, "x", sees_budget=True)],
        budget=windlass.Budget(tokens=100_000, children=3),
    )
    assert (await carried_out(flow)).output.startswith("[workflow budget] left: tokens 100000, children 3")


async def test_a_node_without_budget_left_fails_and_says_so():
    agent = listener("teller", str)
    flow = flows.Flow(
        "broke",
        [flows.spawn("a", agent, "x"), flows.spawn("b", agent, "x", needs=["a"])],
        budget=windlass.Budget(children=1),
    )
    result = await carried_out(flow)
    assert statuses(result) == {"a": "done", "b": "failed"}
    assert "no child sessions are left in the budget" in result.nodes["b"].reason


async def test_a_node_in_quarantine_has_children_that_only_read():
    wrote: list[str] = []

    @windlass.tool(traits=("write",))
    def write(text: str) -> str:
        """Writes."""
        wrote.append(text)
        return "written"

    from windlass.testing.scripted import call

    agent = speaker("reader", call("write", text="x"), "tried", tools=[write])
    flow = flows.Flow("safe", [flows.spawn("a", agent, "x", quarantine=True)])
    result = await carried_out(flow)
    assert (result.output, wrote) == ("tried", [])
