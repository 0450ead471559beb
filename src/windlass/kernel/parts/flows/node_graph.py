"""The graph of a workflow: its nodes, what each waits for, and whether it may begin.

Counted, never searched: what a node waits for is told to it by those that end. Knows nothing of calls and records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.values.graphs import FlowGraph, FlowNode

if TYPE_CHECKING:
    from windlass.kernel.parts.flows.nodes import Flow

Status = Literal[
    "waiting",
    "ready",
    "computing",
    "working",
    "returned",
    "pausing",
    "done",
    "failed",
    "skipped",
    "pruned",
    "cancelled",
]
AT_WORK = ("computing", "working", "returned")
UNDECIDED = ("waiting", "ready", "pausing", *AT_WORK)
AGAIN = ("failed", "skipped", "cancelled")
"""Ends that are open again if somebody has the workflow go on."""


class Node(msgspec.Struct, kw_only=True, gc=False):
    """One node, and how far it has got."""

    name: str
    wanted_by: list[str] = []
    """Those that need it, or wait for it."""
    undecided: int = 0
    """How many of those that it waits for have not ended."""
    good: int = 0
    """How many of those that it needs are done."""
    bad: int = 0
    """How many of those that it needs did not end well, or were never begun."""
    left_out: int = 0
    """How many of those that it needs were left out."""
    status: Status = "waiting"
    attempt: int = 0
    round: int = 0
    open: dict[str, int] = {}
    """The calls without a result, each with its place in the round."""
    results: list[list[int]] = []
    """Where the results of its calls are: by round, in call order."""
    unwell: list[int] = []
    """Those of them that say that a call did not end well."""
    kept: list[int] = []
    """Of a node that goes over items: where the results are that earlier attempts left, by item; 0 for an item without
    one that ended well. What this attempt calls is for these."""
    ok: bool = True
    """Whether all is well with this attempt so far."""
    output_seq: int | None = None
    branch: str = ""
    reason: str = ""
    cause: str = ""
    """What this attempt called did not end well: which child failed, and why; or why a call was not run or failed."""
    unsure: bool = False
    """Whether a call of this attempt may have done what it may do once, and nobody knows."""
    closed: bool = False
    """Whether it is a gate that lets nothing pass."""
    timer_id: str = ""


def begin_attempt(node: Node, attempt: int, *, keeps: bool) -> None:
    """A node is at work, with nothing of an attempt before; one that `keeps` has what ended well in that one."""
    if keeps and node.results:
        node.kept = _kept(node, node.results[0])
    node.status, node.attempt, node.round = "computing", attempt, 0
    node.results, node.unwell = [], []
    node.ok, node.output_seq, node.reason, node.cause, node.unsure = True, None, "", "", False


def _kept(node: Node, made: list[int]) -> list[int]:
    """What was kept, with what the calls of an attempt gave that were `made` for the items without a result."""
    well = iter([0 if seq in node.unwell else seq for seq in made])
    return [seq or next(well) for seq in node.kept] if node.kept else list(well)


def waited_for(spec: FlowNode) -> tuple[str, ...]:
    return (*spec.needs, *spec.optional)


def add(flow: Flow, specs: Iterable[FlowNode]) -> None:
    """Puts nodes into the graph; what they wait for is there already, or comes with them."""
    new = list(specs)
    for spec in new:
        flow.specs[spec.name] = spec
        flow.nodes[spec.name] = Node(name=spec.name)
        if spec.kind == "phase":
            flow.phases.append(spec.name)
    for spec in new:
        for name in waited_for(spec):
            flow.nodes[name].wanted_by.append(spec.name)
    flow.open += len(new)
    flow.unbegun += len(new)
    for spec in new:
        look_at(flow, flow.nodes[spec.name])


def put_before(flow: Flow, new: list[str], names: Iterable[str]) -> None:
    """Nodes that have not begun wait for new ones, too."""
    for name in names:
        spec = flow.specs[name]
        flow.specs[name] = msgspec.structs.replace(spec, needs=(*spec.needs, *new))
        for other in new:
            flow.nodes[other].wanted_by.append(name)
        look_at(flow, flow.nodes[name])


def look_at(flow: Flow, node: Node) -> None:
    """Counts anew what a node that has not begun waits for, and says what that comes to."""
    spec = flow.specs[node.name]
    ends = [flow.nodes[name].status for name in spec.needs]
    node.good = ends.count("done")
    node.left_out = ends.count("pruned")
    node.bad = sum(end in AGAIN for end in ends)
    node.undecided = len(ends) - node.good - node.left_out - node.bad
    node.undecided += sum(flow.nodes[name].status in UNDECIDED for name in spec.optional)
    judge(flow, node, spec)


def judge(flow: Flow, node: Node, spec: FlowNode) -> None:
    """Whether a node that waits may begin, or never will."""
    if node.status != "waiting":
        return
    needs = len(spec.needs)
    wanted = needs if spec.quorum is None else spec.quorum
    blocked = any(flow.nodes[name].closed for name in spec.needs) if node.left_out else False
    if blocked or (needs and node.left_out == needs):
        flow.falling[node.name] = "pruned"
    elif spec.quorum is None:
        if node.bad:
            flow.falling[node.name] = "skipped"
        elif node.undecided == 0:
            be_ready(flow, node)
    elif node.good >= wanted:
        be_ready(flow, node)
    elif needs - node.bad - node.left_out < wanted:
        flow.falling[node.name] = "skipped" if node.bad else "pruned"


def be_ready(flow: Flow, node: Node) -> None:
    node.status = "ready"
    flow.ready.append(node.name)


def decided(flow: Flow, ended: Node) -> None:
    """Tells those that wait for a node how it ended."""
    for name in ended.wanted_by:
        node, spec = flow.nodes[name], flow.specs[name]
        node.undecided -= 1
        if ended.name in spec.needs:
            node.good += ended.status == "done"
            node.left_out += ended.status == "pruned"
            node.bad += ended.status in AGAIN
        judge(flow, node, spec)
    if ended.status == "done" and ended.branch:
        branches = flow.specs[ended.name].branches
        taken = branches.get(ended.branch, ())
        for label, names in branches.items():
            for name in names:
                if label != ended.branch and name not in taken and flow.nodes[name].status in ("waiting", "ready"):
                    flow.falling[name] = "pruned"


def barred(flow: Flow, node: Node) -> bool:
    """Whether a gate that a node needs is closed by now, or a classifier that it needs took another branch. A node
    whose quorum was there before, or that is to begin anew, may be ready all the same."""
    return any(flow.nodes[need].closed or _took_another(flow, need, node.name) for need in flow.specs[node.name].needs)


def _took_another(flow: Flow, classifier: str, name: str) -> bool:
    """Whether a node is on branches of a classifier, and none of them was chosen."""
    branches, ended = flow.specs[classifier].branches, flow.nodes[classifier]
    if not branches or ended.status != "done" or name in branches.get(ended.branch, ()):
        return False
    return any(name in names for names in branches.values())


def over(flow: Flow) -> bool:
    """Whether every node has come to its end."""
    return flow.open == 0


def results(flow: Flow) -> tuple[str, ...]:
    """The nodes that the workflow is there for: those that it names, else those that no other node waits for."""
    named = flow.graph.results if flow.graph is not None else ()
    return named or tuple(name for name, node in flow.nodes.items() if not node.wanted_by)


def failed(flow: Flow) -> list[Node]:
    """The nodes that the workflow was there for and that did not end well."""
    return [flow.nodes[name] for name in results(flow) if flow.nodes[name].status in AGAIN]


def causes(flow: Flow) -> list[Node]:
    """The nodes that failed and because of which what the workflow was there for did not end well: those that are come
    to by needs alone, and the one because of which everything was stopped."""
    found: list[Node] = []
    waiting = [node.name for node in failed(flow)]
    seen = set(waiting)
    for name in waiting:
        node = flow.nodes[name]
        if node.status == "failed":
            found.append(node)
            continue
        ways = [need for need in flow.specs[name].needs if flow.nodes[need].status in AGAIN]
        if not ways and flow.stops:
            ways = [flow.stops]
        waiting += [way for way in ways if way not in seen]
        seen.update(ways)
    return found


def answer_seq(flow: Flow) -> int | None:
    """Where the output is of the one node that the workflow is there for, if it is done."""
    wanted = results(flow)
    node = flow.nodes[wanted[0]] if len(wanted) == 1 else None
    return node.output_seq if node is not None and node.status == "done" else None


def current(graph: FlowGraph, flow: Flow) -> FlowGraph:
    """The graph that a workflow began with, and all that was added to it."""
    return msgspec.structs.replace(graph, nodes=tuple(flow.specs.values()))


def locks(flow: Flow) -> dict[str, str]:
    """The tools that may not be used yet, each with the phase that unlocks it."""
    shut = [name for name in flow.phases if flow.nodes[name].status != "done"]
    return {tool: name for name in shut for tool in flow.specs[name].unlocks}
