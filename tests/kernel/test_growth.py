"""Workflows that grow, in the kernel alone: whatever is killed when, each node is added and begun once; and the rig that
says so finds what is planted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.events.errors import Refused
from windlass.events.trees.children import ChildStarted
from windlass.events.trees.flows import NodeFinished, NodeStarted
from windlass.events.trees.growth import MilestoneAdvanced, NodesAdded, NodesReceived
from windlass.events.values.graphs import FlowNode
from windlass.kernel.effects import ComputeNode, StartChild
from windlass.kernel.parts.flows import growth, node_graph, program
from windlass.testing.invariants import Broken, Checker

from .test_flows import MANY, World, node

GRAPH = (
    node("plan", quarantine=True),
    node("choose", kind="classify", branches={"left": ("one",), "right": ("two",)}),
    node("one", "choose"),
    node("two", "choose"),
    node("check", "plan", kind="phase"),
    node("end", "check", kind="reduce", optional=("one", "two")),
)
MORE = (node("part"), node("sum", "part", kind="reduce"))


class Growing(World):
    """A world whose coordinator adds nodes as soon as it is at work, and whose classifier goes left."""

    def perform(self, effect: Any) -> None:
        if isinstance(effect, StartChild) and self.flow.calls.get(effect.call_id) == "plan":
            self.submit(effect.child_id, MORE, before=("end",))
        if isinstance(effect, ComputeNode) and effect.node == "choose":
            self.compute(effect, branch="left")
        else:
            super().perform(effect)

    def submit(self, child: str, more: tuple[FlowNode, ...], **options: Any) -> None:
        if "part" not in self.flow.nodes:
            name = f"nodes:{child}"
            self.session.take(NodesReceived(command_id=name, nodes=more, session=child, **options))

    def checked(self) -> Checker:
        checker = Checker()
        for event in self.session.events():
            checker.feed(event)
        return checker


def test_no_kill_has_a_node_added_or_begun_twice():
    whole = Growing(*GRAPH).run()
    for dies_at in range(2, len(whole.session.lines)):
        world = Growing(*GRAPH, seed=dies_at).run(dies_at=dies_at)
        world.sound()
        events = list(world.session.events())
        assert world.statuses() == {
            "plan": "done", "choose": "done", "one": "done", "two": "pruned", "check": "done", "end": "done",
            "part": "done", "sum": "done",
        }  # fmt: skip
        begun = [event.node for event in events if isinstance(event, NodeStarted)]
        assert sorted(begun) == ["check", "choose", "end", "one", "part", "plan", "sum"]
        (added,) = [event for event in events if isinstance(event, NodesAdded)]
        assert (added.names, added.node, added.quarantine) == (("part", "sum"), "plan", True)
        assert begun.index("end") > begun.index("sum"), "the end waits for what was added"
        (advanced,) = [event for event in events if isinstance(event, MilestoneAdvanced)]
        assert advanced.node == "check"
        reads = [event.quarantine for event in events if isinstance(event, ChildStarted)]
        assert sorted(reads) == [False, True, True], "the child of what was added only reads"


def test_what_a_child_adds_that_is_not_at_work_is_refused():
    world = Growing(*GRAPH)
    with pytest.raises(Refused, match="the node that adds these is not at work"):
        world.submit("s1~c99.0", MORE)
    with pytest.raises(Refused, match="65 nodes at once, and 64 are the most"):
        world.submit("", tuple(node(f"n{number}") for number in range(65)))


# --- planted bugs ---


def begins_a_node_again(patch: pytest.MonkeyPatch) -> None:
    _goes_on_behind(patch, "done")


def runs_what_is_left_out(patch: pytest.MonkeyPatch) -> None:
    _goes_on_behind(patch, "pruned")
    # Else it is left out again when it is to begin, for ever.
    patch.setattr(node_graph, "barred", lambda flow, node: False)


def _goes_on_behind(patch: pytest.MonkeyPatch, status: str) -> None:
    """A node that came to such an end is taken for one that has not begun."""
    tells = node_graph.decided

    def decided(flow: Any, ended: Any) -> None:
        tells(flow, ended)
        if ended.status == status and ended.name in ("two", "plan"):
            flow.open += 1
            flow.unbegun += 1
            node_graph.be_ready(flow, ended)

    patch.setattr(node_graph, "decided", decided)


def loses_an_output(patch: pytest.MonkeyPatch) -> None:
    ends = program.end_attempt

    def end_attempt(*given: Any) -> Any:
        for event in ends(*given):
            yield msgspec.structs.replace(event, output_seq=None) if isinstance(event, NodeFinished) else event

    patch.setattr(program, "end_attempt", end_attempt)


def forgets_the_quota(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(growth, "left", lambda state: 10_000)


def forgets_the_quarantine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(growth, "quarantined", lambda state, fact: False)


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (begins_a_node_again, "what is done stays done"),
        (runs_what_is_left_out, "what is left out never runs"),
        (loses_an_output, "no output is lost"),
        (forgets_the_quota, "a workflow grows within its quota"),
        (forgets_the_quarantine, "a quarantine is inherited"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_of_workflows_is_found(plant, rule, monkeypatch):
    if plant is forgets_the_quota:
        monkeypatch.setattr("tests.kernel.test_flows.MANY", msgspec.structs.replace(MANY, nodes_max=len(GRAPH) + 1))
    plant(monkeypatch)
    world = Growing(*GRAPH)
    for _ in range(200):
        effects = world.effects()
        if not effects:
            break
        world.perform(world.chance.choice(effects))
    with pytest.raises(Broken) as caught:
        world.checked()
    assert caught.value.rule == rule
