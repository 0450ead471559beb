"""Worlds of workflows: no rule is broken in any, the hard places are reached, and planted bugs are found."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import Any

import msgspec
import pytest

from windlass.events.trees.flows import NodeFinished, NodeStarted
from windlass.kernel.parts.flows import node_graph, nodes, program
from windlass.runtime.api.agent import Agent
from windlass.runtime.flows import flow, steps
from windlass.testing.simulator import simulate, world
from windlass.testing.simulator.chance import Chance
from windlass.testing.simulator.model import SimModel
from windlass.testing.simulator.tools import perform
from windlass.testing.simulator.trees.agents import WINDOW, tree_of
from windlass.testing.simulator.world import World
from windlass.tools.context import ToolContext
from windlass.tools.tool import tool

from .scenes import KEY, Scene
from .worlds import first_failure, not_reached, places_of

WORLDS = 20
CHUNK = 10
WORLDS_MAX = 300
LONG_WORLDS = 2_000
OWN_WORLDS = 15
CONCURRENT = 100
HARD_PLACES = (
    *("node_done", "node_failed", "node_skipped", "node_pruned", "node_cancelled"),
    *("node_retried", "node_paused", "node_stopped_interrupted", "node_stopped_cancelled"),
    *("begun_by_a_quorum", "done_without_an_optional", "all_places_taken", "grew", "grew_before_others"),
    *("stopped_with_nodes_done", "flow_went_on", "reopened_after_a_failure", "flow_carried_out"),
    *("crash_in_append_kept", "crash_in_append_lost", "crash_tool_open", "lost_acknowledgement", "two_owners"),
)


@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_world_of_workflows_breaks_a_rule(first):
    assert places_of("flows", first, first + CHUNK)["node_done"]


def test_every_hard_place_of_workflows_was_reached():
    assert not_reached("flows", HARD_PLACES, most=WORLDS_MAX) == []


@pytest.mark.long
def test_two_thousand_worlds_of_workflows_break_no_rule():
    found = places_of("flows", WORLDS, WORLDS + LONG_WORLDS)
    assert [place for place in HARD_PLACES if not found[place]] == []


def written(chance: Chance) -> dict[str, Any]:
    """A workflow as a model in a tree of sessions writes it."""
    nodes = [
        {"name": "first", "kind": "spawn", "agent": "first", "task": "do {input}"},
        {"name": "look", "kind": "tool", "tool": "look", "args": {"n": 1}},
        {"name": "both", "kind": "reduce", "reducer": "concat", "needs": ["first", "look"]},
    ]
    return {"task": "a plan", "nodes": nodes[: 1 + chance.below(3)]}


def test_no_world_breaks_a_rule_in_which_models_write_their_own_workflows(monkeypatch):
    def writing(own: World) -> list[Agent]:
        root = tree_of(own)
        model = SimModel(own, WINDOW, spawns=("first",), eager=0.3, ways={"run_workflow": written})
        return [dataclasses.replace(root, tools=(*root.tools, "run_workflow"), model=model)]

    monkeypatch.setitem(world.AGENTS, "trees", writing)
    found: Counter[str] = Counter()
    for seed in range(OWN_WORLDS):
        found += simulate(seed, kind="trees").places
    assert found["flow_carried_out"]
    assert found["child_2_deep"]


def forgets_how_often_a_node_was_begun(patch: pytest.MonkeyPatch) -> None:
    starts = program.start

    def start(*given: Any) -> NodeStarted:
        return msgspec.structs.replace(starts(*given), attempt=1)

    patch.setattr(program, "start", start)


def begins_before_its_needs_have_ended(patch: pytest.MonkeyPatch) -> None:
    judges = node_graph.judge

    def judge(graph: nodes.Flow, node: node_graph.Node, spec: Any) -> None:
        judges(graph, node, spec)
        if node.status == "waiting" and node.name not in graph.falling and node.good and spec.quorum is None:
            node_graph.be_ready(graph, node)

    patch.setattr(node_graph, "judge", judge)


def takes_a_quorum_for_one_less(patch: pytest.MonkeyPatch) -> None:
    judges = node_graph.judge

    def judge(graph: nodes.Flow, node: node_graph.Node, spec: Any) -> None:
        if spec.quorum is not None and spec.quorum > 1:
            spec = msgspec.structs.replace(spec, quorum=spec.quorum - 1)
        judges(graph, node, spec)

    patch.setattr(node_graph, "judge", judge)


def does_not_wait_for_what_is_optional(patch: pytest.MonkeyPatch) -> None:
    judges = node_graph.judge

    def judge(graph: nodes.Flow, node: node_graph.Node, spec: Any) -> None:
        waiting = [name for name in spec.optional if graph.nodes[name].status in node_graph.UNDECIDED]
        undecided, node.undecided = node.undecided, node.undecided - len(waiting)
        judges(graph, node, spec)
        node.undecided = undecided

    patch.setattr(node_graph, "judge", judge)


def carries_out_the_branch_that_was_not_taken(patch: pytest.MonkeyPatch) -> None:
    decides = node_graph.decided

    def decided(graph: nodes.Flow, ended: node_graph.Node) -> None:
        branch, ended.branch = ended.branch, ""
        decides(graph, ended)
        ended.branch = branch

    patch.setattr(node_graph, "decided", decided)
    lets_begin_what_is_shut_off(patch)


def lets_a_closed_gate_pass(patch: pytest.MonkeyPatch) -> None:
    ends = program.end_attempt

    def end_attempt(state: Any, node: node_graph.Node) -> Any:
        if not node.closed:
            yield from ends(state, node)
            return
        yield NodeFinished(node=node.name, status="done", attempt=node.attempt, output_seq=node.output_seq)

    patch.setattr(program, "end_attempt", end_attempt)
    lets_begin_what_is_shut_off(patch)


def lets_begin_what_is_shut_off(patch: pytest.MonkeyPatch) -> None:
    """What is told too late is not seen when a node has its place, either."""
    patch.setattr(node_graph, "barred", lambda flow, node: False)


def has_too_many_at_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(program, "may_start", lambda state: bool(state.flow.ready) and state.flow.graph is not None)


def forgets_those_that_wait(patch: pytest.MonkeyPatch) -> None:
    """Who waits for a node that failed is not told."""
    decides = node_graph.decided

    def decided(graph: nodes.Flow, ended: node_graph.Node) -> None:
        if ended.status != "failed":
            decides(graph, ended)

    patch.setattr(node_graph, "decided", decided)


def leaves_the_calls_of_a_late_node_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(program, "give_up", lambda state, left: iter(()))


def forgets_what_is_done_if_it_is_stopped(patch: pytest.MonkeyPatch) -> None:
    starts_over = nodes.start_over

    def start_over(state: Any, node: node_graph.Node) -> None:
        starts_over(state, node)
        for name in state.flow.specs[node.name].needs:
            state.flow.nodes[name].status = "waiting"

    patch.setattr(nodes, "start_over", start_over)


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (forgets_how_often_a_node_was_begun, "each attempt of a node is begun once"),
        (begins_before_its_needs_have_ended, "a node begins when what it needs is there"),
        (takes_a_quorum_for_one_less, "a node begins when what it needs is there"),
        (does_not_wait_for_what_is_optional, "a node begins when what it needs is there"),
        (carries_out_the_branch_that_was_not_taken, "a node begins when what it needs is there"),
        (lets_a_closed_gate_pass, "a node begins when what it needs is there"),
        (has_too_many_at_work, "nodes have their places"),
        (forgets_those_that_wait, "not at an end"),
        (forgets_what_is_done_if_it_is_stopped, "what is done stays done"),
        (leaves_the_calls_of_a_late_node_open, "what is open is somebody's"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_of_workflows_is_found(plant, rule, monkeypatch):
    plant(monkeypatch)
    failure = first_failure("flows")
    assert f"windlass sim {failure.seed} --flows --trace" in str(failure)
    assert rule in str(failure)


@tool(contract="idempotent")
async def slowly(ctx: ToolContext, n: int) -> Any:
    "Takes a while."
    await asyncio.sleep(5 + n / 10)
    return await perform(ctx, "slowly", n)


def test_a_hundred_nodes_at_work_are_each_done_once_though_their_process_dies():
    wide = flow.Flow(
        "sim",
        [
            *(steps.tool(f"n{number}", "slowly", {"n": number}) for number in range(CONCURRENT)),
            steps.reduce("all", "count", [f"n{number}" for number in range(CONCURRENT)]),
        ],
        tools=[slowly],
        parallel=CONCURRENT,
    )
    scene = Scene(kind="flows")
    scene.world.agent = wide.coordinator

    def at_work() -> int:
        return len(scene.world.watch.logs[KEY].state.flow.calls)

    async def story(scene: Scene) -> None:
        first = await scene.runner()
        await first.call(lambda: first.begin(KEY.session))
        await scene.until("tool.finished")
        assert at_work() > CONCURRENT / 2
        scene.crash(first)
        second = await scene.runner()
        await second.call(lambda: second.begin(KEY.session))
        await scene.until("run.completed", seconds=120)

    scene.play(story)
    ends = [event for event in scene.events() if isinstance(event, NodeFinished)]
    assert sorted(event.node for event in ends) == sorted(["all", *(f"n{number}" for number in range(CONCURRENT))])
    assert {event.status for event in ends} == {"done"}
    begun = [(event.node, event.attempt) for event in scene.events() if isinstance(event, NodeStarted)]
    assert len(begun) == len(set(begun)) == CONCURRENT + 1
