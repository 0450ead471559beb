"""Nodes of a workflow in the kernel alone: each begins when it may, ends once, and no kill has anything done twice."""

from __future__ import annotations

import collections
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.session import HELPER, TOOLS, Session, names
from tests.runtime.support import only
from windlass.events.errors import Refused
from windlass.events.runs import RunCompleted, RunFailed
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import ToolFinished, ToolStarted, ToolTimedOut
from windlass.events.trees.children import ChildBody, ChildFinished, ChildStarted, Used
from windlass.events.trees.flows import (
    FlowBody,
    FlowReceived,
    NodeBody,
    NodeCall,
    NodeComputed,
    NodeFinished,
    NodeRetried,
    NodeStarted,
)
from windlass.events.turns import Prepared
from windlass.events.values.blocks import Text
from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.events.values.ids import child_end_id
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.kernel.effects import ComputeNode, SetTimer, StartChild
from windlass.kernel.phases import Asked, AwaitingTools
from windlass.testing.invariants import Checker

MANY = Settings(children_open_max=100, losses_max=10_000)


class World:
    """Carries out a graph by hand: each effect is performed in an order that a seed decides."""

    def __init__(
        self, *nodes: FlowNode, seed: int = 0, fails: tuple[str, ...] = (), policy: Policy | None = None, **graph: Any
    ) -> None:
        made = FlowGraph(nodes=tuple(nodes), **graph)
        self.session = Session(
            tools=(*TOOLS, HELPER), settings=MANY, flow=made, policy=policy if policy is not None else Policy()
        )
        self.chance = random.Random(seed)
        self.fails = fails
        self.session.take(FlowReceived(command_id="go", body=FlowBody(input="x")))

    @property
    def flow(self) -> Any:
        return self.session.state.flow

    def effects(self) -> list[Any]:
        return [effect for effect in self.session.owed() if not isinstance(effect, SetTimer)]

    def perform(self, effect: Any) -> None:
        """What an effect comes to: a spawn makes one call, anything else computes its output."""
        if isinstance(effect, StartChild):
            self.end_child(effect)
            return
        spec, node = self.flow.specs[effect.node], self.flow.nodes[effect.node]
        if spec.kind == "spawn" and not node.results:
            self.compute(effect, "helper")
        else:
            self.compute(effect, outcome="failed" if effect.node in self.fails else "done")

    def compute(self, effect: ComputeNode, *tools: str, **more: Any) -> list[Any]:
        calls = tuple(
            NodeCall(tool=tool, prepared=Prepared(digest=f"{effect.node}{n}")) for n, tool in enumerate(tools)
        )
        return self.session.take(
            NodeComputed(
                node=effect.node,
                attempt=effect.attempt,
                round=effect.round,
                calls=len(calls),
                body=NodeBody(calls=calls, output=effect.node),
                **more,
            )
        )

    def end_child(self, effect: StartChild, *, ok: bool | None = None) -> None:
        node = self.flow.calls.get(effect.call_id, "")
        body = ChildBody(content=(Text(text=node),))
        well = node not in self.fails if ok is None else ok
        self.session.take(
            ChildFinished(
                command_id=child_end_id(effect.child_id),
                child_id=effect.child_id,
                call_id=effect.call_id,
                ok=well,
                status="completed" if well else "error",
                used=Used(),
                body=body,
            )
        )

    def run(self, *, dies_at: int | None = None) -> World:
        """Goes on until nothing is owed; its owner dies once so many appends are written."""
        while effects := self.effects():
            if dies_at is not None and len(self.session.lines) >= dies_at:
                dies_at = None
                self.session.crash()
                continue
            self.perform(self.chance.choice(effects))
        return self

    def statuses(self) -> dict[str, str]:
        return {name: node.status for name, node in self.flow.nodes.items()}

    def sound(self) -> None:
        assert self.session.verify().problems == []
        checker = Checker()
        for event in self.session.events():
            checker.feed(event)
        checker.rest(self.session.state)


def node(name: str, *needs: str, **more: Any) -> FlowNode:
    return FlowNode(name=name, kind=more.pop("kind", "spawn"), needs=needs, **more)


DIAMOND = (node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c", kind="reduce"))


def test_what_is_ready_starts_with_the_command_and_the_rest_when_it_may():
    world = World(*DIAMOND)
    assert names(world.session.appends[-1]) == ["flow.received", "run.started", "node.started"]
    (effect,) = world.effects()
    assert effect == ComputeNode(effect_id="a/1.0", node="a", attempt=1, round=0)
    assert isinstance(world.session.state.phase, AwaitingTools)
    told = names(world.compute(effect, "helper"))
    assert told == ["node.computed", "tool.requested", "tool.allowed", "child.started"]
    (child,) = world.effects()
    world.end_child(child)
    assert names(world.session.appends[-1]) == [
        "child.finished",
        "command.completed",
        "node.finished",
        "node.started",
        "node.started",
    ]
    world.run().sound()
    assert names(world.session.appends[-1]) == ["node.computed", "node.finished", "run.completed"]
    assert set(world.statuses().values()) == {"done"}


def test_a_node_whose_call_is_denied_has_failed_and_what_needs_it_does_not_begin():
    world = World(node("a"), node("b", "a"), policy=Policy(rules=(Rule(action="deny", tool="helper"),)))
    (effect,) = world.effects()
    told = names(world.compute(effect, "helper"))
    assert "tool.denied" in told
    assert "child.started" not in told
    world.run().sound()
    assert world.statuses()["a"] == "failed"
    assert not any(isinstance(event, NodeStarted) and event.node == "b" for event in world.session.events())


@pytest.mark.parametrize("fails", [(), ("b",)])
def test_no_kill_has_a_child_or_a_node_begun_twice(fails):
    whole = World(*DIAMOND, fails=fails).run()
    length = len(whole.session.lines)
    assert length >= 8
    for seed in range(3):
        for dies_at in range(2, length):
            world = World(*DIAMOND, seed=seed, fails=fails).run(dies_at=dies_at)
            world.sound()
            assert world.statuses() == whole.statuses()
            begun = collections.Counter(event.child_id for event in world.session._all(ChildStarted))
            assert set(begun.values()) == {1}
            assert len(begun) == len(whole.session._all(ChildStarted))
            started = collections.Counter((e.node, e.attempt) for e in world.session._all(NodeStarted))
            assert set(started.values()) == {1}
            ended = collections.Counter(event.node for event in world.session._all(NodeFinished))
            assert set(ended.values()) == {1}
            assert world.session.folded() == world.session.state


def test_what_comes_too_late_or_twice_is_refused():
    world = World(*DIAMOND)
    (effect,) = world.effects()
    world.compute(effect, "helper")
    with pytest.raises(Refused, match="nobody waits for the node a"):
        world.compute(effect, "helper")
    with pytest.raises(Refused, match="nobody waits for the node z"):
        world.compute(ComputeNode(effect_id="z", node="z", attempt=1, round=0))


def test_more_calls_than_may_be_made_are_refused():
    world = World(node("a"))
    (effect,) = world.effects()
    with pytest.raises(Refused, match="256 calls at once"):
        world.compute(effect, *["helper"] * 257)


def test_a_second_start_of_a_finished_flow_is_refused_and_no_other_session_is_one():
    world = World(node("a", kind="tool")).run()
    with pytest.raises(Refused, match="has run"):
        world.session.take(FlowReceived(command_id="again", body=FlowBody()))
    with pytest.raises(Refused, match="is no workflow"):
        Session().take(FlowReceived(command_id="go", body=FlowBody()))
    with pytest.raises(Refused, match="is a workflow"):
        world.session.prompt()


def test_a_flow_whose_child_waits_for_a_person_waits_too():
    from windlass.events.trees.children import ChildMoved

    world = World(node("a"), node("b"))
    for effect in world.effects():
        world.compute(effect, "helper")
    for number, child in enumerate(list(world.effects())):
        assert isinstance(child, StartChild)
        world.session.take(
            ChildMoved(
                command_id=f"m{number}",
                child_id=child.child_id,
                call_id=child.call_id,
                child_seq=5,
                status="asked",
                waiting_for=("p4",),
            )
        )
        assert isinstance(world.session.state.phase, Asked if number else AwaitingTools)
    assert world.effects() == []


def test_an_interrupt_leaves_what_is_done_and_a_wake_begins_the_rest_anew():
    world = World(*DIAMOND)
    world.compute(world.effects()[0], "helper")
    world.end_child(world.effects()[0])
    assert "node.stopped" in names(world.session.interrupt())
    assert world.statuses() == {"a": "done", "b": "ready", "c": "ready", "d": "waiting"}
    assert [effect for effect in world.effects() if isinstance(effect, ComputeNode)] == []
    world.session.wake()
    world.run().sound()
    assert set(world.statuses().values()) == {"done"}


def test_a_fork_has_what_was_open_to_do_itself():
    world = World(*DIAMOND)
    world.compute(world.effects()[0], "helper")
    branch = world.session.fork(world.session.state.seq)
    assert {name: node.status for name, node in branch.state.flow.nodes.items()}["a"] == "ready"
    assert branch.state.flow.calls == {}


def test_the_time_of_a_node_ends_with_it():
    world = World(node("a", timeout_ms=1_000, retries=1), node("b", "a", kind="reduce"))
    world.compute(world.effects()[0], "helper")
    assert names(world.session.fire()) == [
        "timer.fired",
        "node.retried",
        "child.stopped",
        "tool.cancelled",
        "node.started",
    ]
    world.session.fire()
    assert world.statuses() == {"a": "failed", "b": "skipped"}
    assert world.session.state.timers.open == {}
    assert len(world.session._all(RunFailed)) == 1
    for child in [effect for effect in world.effects() if isinstance(effect, StartChild)]:
        world.end_child(child)
    world.sound()


def test_results_that_a_map_has_are_kept_for_its_next_attempts_unless_these_ask_for_all():
    world = World(node("m", kind="map", retries=9))

    def attempt(*oks: bool) -> list[bool]:
        """Has the node make a call for each of these; whether there is a result by item, when the next one begins."""
        if oks:
            world.compute(world.effects()[0], *["helper"] * len(oks))
        for ok in oks:
            world.end_child(world.effects()[0], ok=ok)
        world.compute(world.effects()[0], outcome="failed")
        return [bool(seq) for seq in world.flow.nodes["m"].kept]

    assert attempt(False, False, False) == [False, False, False]
    assert attempt(False, True, False) == [False, True, False]
    assert attempt(True, False) == [True, True, False]
    kept = world.flow.nodes["m"].kept
    assert attempt(False) == [True, True, False]
    assert world.flow.nodes["m"].kept == kept
    assert attempt(True, False, True) == [True, False, True]  # as older logs have it: a call for every item again
    assert attempt(True) == [True, True, True]
    assert attempt() == [True, True, True]
    assert world.session.folded() == world.session.state
    world.sound()


# --- any graph ---


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[FlowNode, ...], tuple[str, ...], str]:
    """A graph without circles, those of its nodes that fail, and what becomes of the rest then."""
    made: list[FlowNode] = []
    for number in range(draw(st.integers(1, 9))):
        earlier = [before.name for before in made]
        waits = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=4)) if earlier else []
        split = draw(st.integers(0, len(waits)))
        quorum = draw(st.none() | st.integers(1, split)) if split else None
        made.append(
            FlowNode(
                name=f"n{number}",
                kind=draw(st.sampled_from(("spawn", "reduce"))),
                needs=tuple(waits[:split]),
                optional=tuple(waits[split:]),
                quorum=quorum,
                retries=draw(st.integers(0, 1)),
            )
        )
    fails = draw(st.lists(st.sampled_from([each.name for each in made]), unique=True))
    return tuple(made), tuple(fails), draw(st.sampled_from(("continue", "stop")))


def expected(nodes: tuple[FlowNode, ...], fails: tuple[str, ...]) -> dict[str, str]:
    """How each node ends, looked at one after the other: what the kernel finds out bit by bit."""
    ends: dict[str, str] = {}
    for spec in nodes:
        good = sum(ends[name] == "done" for name in spec.needs)
        enough = good >= (len(spec.needs) if spec.quorum is None else spec.quorum)
        ends[spec.name] = ("failed" if spec.name in fails else "done") if enough else "skipped"
    return ends


@settings(max_examples=60)
@given(graphs(), st.integers(0, 1_000), st.integers(1, 4))
def test_any_graph_ends_as_its_needs_say_in_any_order(drawn, seed, parallel):
    nodes, fails, on_failure = drawn
    world = World(*nodes, seed=seed, fails=fails, parallel_max=parallel, on_failure=on_failure)
    most = 0
    while effects := [effect for effect in world.effects() if not _stopping(world, effect)]:
        most = max(most, world.flow.at_work)
        world.perform(world.chance.choice(effects))
    for effect in world.effects():
        world.end_child(effect, ok=False)
    world.sound()
    assert most <= parallel
    assert world.session.folded() == world.session.state
    if on_failure == "continue":
        assert world.statuses() == expected(nodes, fails)
    else:
        wrong = {name for name, end in world.statuses().items() if end not in ("done", "skipped", "cancelled")}
        assert wrong <= set(fails)
    sinks = [spec.name for spec in nodes if not any(spec.name in (*n.needs, *n.optional) for n in nodes)]
    well = all(world.statuses()[name] == "done" for name in sinks)
    assert len(world.session._all(RunCompleted if well else RunFailed)) == 1
    assert (world.flow.at_work, world.flow.unbegun, world.flow.open, world.flow.calls) == (0, 0, 0, {})


def _stopping(world: World, effect: Any) -> bool:
    return isinstance(effect, StartChild) and world.session.state.children.open[effect.call_id].stopping


def test_a_step_costs_what_is_connected_to_the_node_and_not_the_graph(monkeypatch):
    """The nodes that are looked at for one end, in a graph that is a hundred times larger: the same."""
    from windlass.kernel.parts.flows import node_graph

    def looked_at(size: int) -> int:
        wide = [node("a", kind="reduce"), node("b", "a", kind="reduce")]
        wide += [node(f"w{n}", "a" if n < 3 else "b", kind="reduce") for n in range(size)]
        world = World(*wide, parallel_max=1)
        count = 0
        judged = node_graph.judge

        def counting(*args: Any) -> None:
            nonlocal count
            count += 1
            judged(*args)

        with monkeypatch.context() as patched:
            patched.setattr(node_graph, "judge", counting)
            world.perform(world.effects()[0])
        return count

    assert looked_at(10) == looked_at(1_000) == 4


def test_a_quorum_that_cannot_be_reached_because_a_branch_was_not_taken_is_left_out():
    world = World(
        node("which", kind="classify", branches={"a": ("one",), "b": ("other",)}),
        node("one", "which", kind="reduce"),
        node("other", "which", kind="reduce"),
        node("both", "one", "other", kind="reduce", quorum=2),
    )
    (effect,) = world.effects()
    world.compute(effect, branch="a")
    world.run()
    assert world.statuses() == {"which": "done", "one": "done", "other": "pruned", "both": "pruned"}
    assert isinstance(world.session.events()[-1], RunCompleted)
    world.sound()


def test_a_call_that_waits_for_the_place_of_a_child_that_is_stopped_begins_when_that_has_ended():
    session = Session(
        tools=(*TOOLS, HELPER),
        settings=Settings(children_open_max=1, losses_max=10_000),
        flow=FlowGraph(nodes=(node("late", timeout_ms=1_000, retries=1),)),
    )
    world = World.__new__(World)
    world.session, world.chance, world.fails = session, random.Random(0), ()
    session.take(FlowReceived(command_id="go", body=FlowBody(input="x")))
    world.perform(world.effects()[0])
    (first,) = [effect for effect in world.effects() if isinstance(effect, StartChild)]
    session.fire()
    world.perform(next(effect for effect in world.effects() if isinstance(effect, ComputeNode)))
    assert session.state.active, "it waits for the place, and not for people"
    world.end_child(first, ok=False)
    (second,) = [effect for effect in world.effects() if isinstance(effect, StartChild)]
    world.end_child(second)
    assert world.statuses() == {"late": "done"}
    world.sound()


def compute_next(world: World, name: str, **more: Any) -> list[str]:
    """Has a node of the workflow end, or make calls; what was told."""
    effect = next(effect for effect in world.effects() if isinstance(effect, ComputeNode) and effect.node == name)
    return names(world.compute(effect, *more.pop("tools", ()), **more))


SHUT = {
    "a gate": (node("way", kind="gate"), {"outcome": "closed"}),
    "a classifier": (
        node("way", kind="classify", branches={"here": ("first",), "there": ("late",)}),
        {"branch": "here"},
    ),
}
EITHER = (node("first", kind="tool"), node("late", "way", "first", quorum=1, retries=1))


@pytest.mark.parametrize("shut", SHUT)
def test_a_node_that_waits_for_a_place_is_left_out_when_its_way_is_shut_meanwhile(shut):
    way, answer = SHUT[shut]
    world = World(*EITHER, way, parallel_max=1)
    compute_next(world, "first")
    assert world.statuses() == {"first": "done", "late": "ready", "way": "computing"}
    compute_next(world, "way", **answer)
    assert world.statuses()["late"] == "pruned"
    assert isinstance(world.session.events()[-1], RunCompleted)
    world.sound()


@pytest.mark.parametrize("shut", SHUT)
def test_a_node_that_failed_behind_a_way_that_was_shut_meanwhile_is_not_tried_again(shut):
    way, answer = SHUT[shut]
    world = World(*EITHER, way)
    compute_next(world, "first")
    compute_next(world, "way", **answer)
    assert world.statuses()["late"] == "computing", "what has begun goes on"
    assert compute_next(world, "late", outcome="failed")[:3] == ["node.computed", "node.retried", "node.finished"]
    assert world.statuses()["late"] == "pruned"
    world.sound()


@pytest.mark.parametrize("shut", SHUT)
def test_a_node_that_was_stopped_behind_a_way_that_was_shut_meanwhile_does_not_begin_anew(shut):
    way, answer = SHUT[shut]
    world = World(*EITHER, way)
    compute_next(world, "first")
    compute_next(world, "way", **answer)
    world.session.interrupt()
    world.session.wake()
    assert (world.effects(), world.statuses()["late"]) == ([], "pruned")
    world.sound()


def cut(world: World, how: str) -> list[Any]:
    """The call that node a has made is cut off while its tool runs."""
    (running,) = world.session.state.open_calls()
    assert running.status == "started"
    if how == "its owner dies":
        return world.session.crash()
    if how == "its tool takes too long":
        return world.session.take(ToolTimedOut(call_id=running.call_id, timeout_ms=1))
    (due,) = world.session.state.timers.open.values()
    return world.session.take(TimerFired(timer_id=due.timer_id))


CUTS = ("its owner dies", "its tool takes too long", "the time of its node is over")


@pytest.mark.parametrize("how", CUTS)
def test_what_may_be_done_once_is_not_done_again_by_a_retry(how):
    world = World(node("a", kind="tool", tool="pay", retries=2, timeout_ms=1_000), node("b", "a"))
    (effect,) = world.effects()
    world.compute(effect, "pay")
    cut(world, how)
    world.run()
    events = world.session.events()
    assert (len(only(events, ToolStarted)), only(events, NodeRetried)) == (1, [])
    assert world.statuses() == {"a": "failed", "b": "skipped"}
    assert only(events, NodeFinished)[0].reason.endswith("it may have happened, so it is not tried again")
    world.sound()


@pytest.mark.parametrize("how", CUTS)
def test_what_may_be_done_again_is_done_again(how):
    world = World(node("a", kind="tool", tool="put", retries=2, timeout_ms=1_000))
    (effect,) = world.effects()
    world.compute(effect, "put")
    came = names(cut(world, how))
    assert came[-1] == ("tool.started" if how == "its owner dies" else "node.started")
    world.sound()


def test_what_a_person_said_did_not_happen_is_tried_again():
    world = World(node("a", kind="tool", tool="risky", retries=1))
    (effect,) = world.effects()
    world.compute(effect, "risky")
    (running,) = world.session.state.open_calls()
    cut(world, "its owner dies")
    assert names(world.session.settle(running.call_id, "did_not_happen"))[-2:] == ["node.retried", "node.started"]
    world.sound()


def test_what_a_person_has_yet_to_settle_is_not_tried_again_when_its_time_is_over():
    world = World(node("a", kind="tool", tool="risky", retries=1, timeout_ms=1_000))
    (effect,) = world.effects()
    world.compute(effect, "risky")
    cut(world, "its owner dies")
    (due,) = world.session.state.timers.open.values()
    world.session.take(TimerFired(timer_id=due.timer_id))
    assert world.statuses() == {"a": "failed"}
    world.sound()


def test_a_failure_that_is_known_is_tried_again():
    world = World(node("a", kind="tool", tool="pay", retries=1))
    for _ in range(2):
        (effect,) = world.effects()
        world.compute(effect, "pay")
        (running,) = world.session.state.open_calls()
        world.session.take(ToolFinished(call_id=running.call_id, ok=False))
    assert len(only(world.session.events(), NodeRetried)) == 1
    assert world.statuses() == {"a": "failed"}
    world.sound()


def at_work_on(tool: str) -> tuple[World, str]:
    """A node whose tool runs, and its call."""
    world = World(node("a", kind="tool", tool=tool), node("b", "a", kind="reduce"))
    (effect,) = world.effects()
    world.compute(effect, tool)
    (running,) = world.session.state.open_calls()
    return world, running.call_id


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
def test_what_a_person_says_of_a_call_that_was_stopped_is_the_output_of_its_node(how):
    world, running = at_work_on("risky")
    came = names(getattr(world.session, how)())
    assert "node.stopped" not in came
    assert "run.asked" in came
    world.session.settle(running, "happened")
    world.run()
    assert world.statuses() == {"a": "done", "b": "done"}
    assert len(only(world.session.events(), ToolStarted)) == 1
    world.sound()


def test_a_call_that_is_given_up_before_a_person_has_settled_it_is_not_made_again():
    world, _ = at_work_on("risky")
    world.session.interrupt()
    world.session.interrupt()
    assert world.statuses()["a"] == "failed"
    world.sound()


def test_what_may_be_done_once_has_failed_if_it_was_stopped_and_begins_again_only_when_somebody_says_so():
    world, _ = at_work_on("pay")
    assert "node.finished" in names(world.session.interrupt())
    assert world.flow.nodes["a"].reason == "the outcome of pay is not known: it was stopped"
    assert world.effects() == []
    world.session.wake()
    assert world.flow.nodes["a"].status == "computing"
    world.sound()


def test_what_may_be_done_again_is_stopped_and_begins_anew():
    world, _ = at_work_on("put")
    assert "node.stopped" in names(world.session.interrupt())
    world.session.wake()
    assert world.flow.nodes["a"].status == "computing"
    world.sound()
