"""What is wrong with a graph, before it starts: each line names the node and says what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.events.values.graphs import INPUT, FlowGraph, FlowNode
from windlass.kernel.parts.flows.nodes import CALLS_MAX, ROUNDS_MAX
from windlass.kernel.parts.tools.policy_rules import matches

from .reducers import REDUCERS
from .reference_checks import condition_problems, reference_problems, schema_problems
from .references import ITEM, PREVIOUS

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
NODES_MAX = 10_000
OF_CHILD = ("spawn", "verify", "classify", "loop", "tournament", "phase")
SHOWN_MAX = 8


def problems_of(
    graph: FlowGraph,
    agents: Mapping[str, Any],
    tools: Mapping[str, Any],
    reducers: Mapping[str, Any],
    *,
    unread: Iterable[str] = (),
) -> list[str]:
    """All that is wrong with a graph; empty if it can be carried out. `unread` are nodes that are there and could not
    be read: others may need them. An agent that could not be read is None."""
    names = [node.name for node in graph.nodes]
    if not names and not list(unread):
        return ["it has no nodes: give it at least one"]
    if len(names) > NODES_MAX:
        return [f"it has {len(names)} nodes, and {NODES_MAX} are the most: let a map make them while it runs"]
    problems = list(_names(names))
    by_name: dict[str, FlowNode] = {}
    for node in (*graph.nodes, *(FlowNode(name=name) for name in unread)):
        by_name.setdefault(node.name, node)
    for node in graph.nodes:
        problems += [f"{node.name}: {told}" for told in _node(node, by_name, set(agents), tools, reducers)]
        problems += [f"{node.name}: {told}" for told in _unlocks(node, agents, tools)] if node.unlocks else []
    strange = [name for name in graph.results if name not in by_name]
    problems += [f"results: there is no node {name!r}{_meant(name, by_name)}" for name in strange]
    return [*dict.fromkeys(problems), *_cycles(by_name)]


def _names(names: list[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        if not NAME.fullmatch(name):
            yield f"{name!r}: a node's name is 1 to 64 letters, digits and '_', and begins with a letter"
        elif name in (INPUT, ITEM, PREVIOUS):
            yield f"{name}: this name stands for something else: give the node another one"
        elif names.count(name) > 1:
            yield f"{name}: {names.count(name)} nodes have this name: give each its own"


def _node(
    node: FlowNode,
    nodes: Mapping[str, FlowNode],
    agents: set[str],
    tools: Mapping[str, Any],
    reducers: Mapping[str, Any],
) -> Iterator[str]:
    """What is wrong with one node."""
    for name in (*node.needs, *node.optional):
        if name not in nodes:
            yield f"it needs {name!r}, which is no node{_meant(name, nodes)}"
        elif (*node.needs, *node.optional).count(name) > 1:
            yield f"it needs {name!r} twice: name it once"
            break
    if node.quorum is not None and node.quorum > len(node.needs):
        yield f"it would never begin: quorum is {node.quorum} and it needs {len(node.needs)} nodes: lower one of them"
    yield from reference_problems(node, nodes)
    yield from schema_problems(node, nodes)
    if node.kind in OF_CHILD or (node.kind == "map" and not node.reducer):
        yield from _child(node, agents)
    yield from KINDS[node.kind](node, nodes, tools, {**REDUCERS, **reducers})


def _child(node: FlowNode, agents: set[str]) -> Iterator[str]:
    there = ", ".join(sorted(agents)) or "none"
    for name in dict.fromkeys((node.agent, *([node.judge] if node.judge else []))):
        if not name:
            yield "it needs an agent: name one"
        elif name not in agents:
            yield f"there is no agent {name!r}: there are {there}"
    if not node.task and not node.entrants:
        yield "it needs a task: say what is to be done"


def _reduce(node: FlowNode, nodes: Any, tools: Any, reducers: Mapping[str, Any]) -> Iterator[str]:
    if node.reducer not in reducers:
        yield f"there is no reducer {node.reducer!r}: there are {', '.join(sorted(reducers))}"
    if not node.needs and not node.optional:
        yield "it has nothing to reduce: say which nodes it needs"


def _classify(node: FlowNode, nodes: Mapping[str, FlowNode], tools: Any, reducers: Any) -> Iterator[str]:
    if len(node.branches) < 2:
        yield "it needs at least two branches to choose from"
    for label, names in node.branches.items():
        for name in names:
            if name not in nodes:
                yield f"its branch {label!r} leads to {name!r}, which is no node{_meant(name, nodes)}"
            elif name == node.name:
                yield f"its branch {label!r} leads to itself"


def _loop(node: FlowNode, nodes: Any, tools: Any, reducers: Any) -> Iterator[str]:
    if node.rounds_max > ROUNDS_MAX:
        yield f"it may go round {ROUNDS_MAX} times at the most, not {node.rounds_max}"


def _map(node: FlowNode, nodes: Mapping[str, FlowNode], tools: Any, reducers: Mapping[str, Any]) -> Iterator[str]:
    if node.over != INPUT and node.over not in node.needs:
        yield f"it goes over {node.over!r}, which it does not need: name a node that it needs, or {INPUT!r}"
    if node.items_max > CALLS_MAX:
        yield f"it may take {CALLS_MAX} items at the most, not {node.items_max}"
    if node.reducer and node.reducer not in reducers:
        yield f"there is no reducer {node.reducer!r}: there are {', '.join(sorted(reducers))}"


def _tournament(node: FlowNode, nodes: Any, tools: Any, reducers: Any) -> Iterator[str]:
    if len(node.entrants) + len(node.needs) < 2:
        yield "it needs at least two entrants: tasks, or nodes whose outputs compete"
    if len(node.entrants) > CALLS_MAX:
        yield f"it may have {CALLS_MAX} entrants at the most, not {len(node.entrants)}"


def _tool(node: FlowNode, nodes: Any, tools: Mapping[str, Any], reducers: Any) -> Iterator[str]:
    tool = tools.get(node.tool)
    if tool is None:
        yield f"there is no tool {node.tool!r}: there are {', '.join(sorted(tools)) or 'none'}"
        return
    schema = tool.text.parameters
    known = schema.get("properties", {})
    for name in node.args:
        if name not in known and schema.get("additionalProperties") is False:
            yield f"{node.tool} takes no {name!r}: it takes {', '.join(known) or 'nothing'}"
    for name in schema.get("required", ()):
        if name not in node.args:
            yield f"{node.tool} needs {name!r}: add it to args"


def _gate(node: FlowNode, nodes: Mapping[str, FlowNode], tools: Any, reducers: Any) -> Iterator[str]:
    if bool(node.question) == bool(node.when):
        yield "a gate needs either a question for a person or a condition (when=...)"
    elif node.when:
        yield from condition_problems(node, nodes)


def _phase(node: FlowNode, nodes: Mapping[str, FlowNode], tools: Any, reducers: Any) -> Iterator[str]:
    if bool(node.judge) == bool(node.when):
        yield "a phase needs either a judge or a condition over its output (when='args.output …')"
    if node.when:
        yield from condition_problems(node, nodes)
    if node.rounds_max * 2 > ROUNDS_MAX:
        yield f"it may be worked on {ROUNDS_MAX // 2} times at the most, not {node.rounds_max}"


def _unlocks(node: FlowNode, agents: Mapping[str, Any], tools: Mapping[str, Any]) -> Iterator[str]:
    """Tools that a phase is to unlock and that nobody has: nothing would be locked. Which tools MCP servers have is
    known once they are reached."""
    if any(agent is None or agent.mcp_config is not None for agent in agents.values()):
        return
    there = {**tools, **{name: None for agent in agents.values() for name in _tools_of(agent)}}
    for name in node.unlocks:
        if not any(matches(name, tool) for tool in there):
            yield f"it unlocks {name!r}, a tool that no agent and no node here has{_meant(name, there)}"


def _tools_of(agent: Any) -> Iterator[str]:
    """The tools of an agent, and of the specialists that it may have work for it."""
    yield from (spec.name for spec in agent.toolset.specs)
    for other in agent.agents:
        yield from _tools_of(other)


def _nothing(node: FlowNode, nodes: Any, tools: Any, reducers: Any) -> Iterator[str]:
    return iter(())


KINDS: dict[str, Any] = {
    "spawn": _nothing,
    "verify": _nothing,
    "classify": _classify,
    "loop": _loop,
    "map": _map,
    "tournament": _tournament,
    "reduce": _reduce,
    "tool": _tool,
    "gate": _gate,
    "phase": _phase,
}


def _cycles(nodes: Mapping[str, FlowNode]) -> Iterator[str]:
    """Every circle of nodes that wait for themselves, and those behind them, which would never begin."""
    left = {name: {need for need in (*node.needs, *node.optional) if need in nodes} for name, node in nodes.items()}
    _peel(left)
    while left:
        ring = _ring(left)
        yield f"{ring[0]}: it waits for itself: {' needs '.join((*ring, ring[0]))}: take one of these needs away"
        for name in ring:
            del left[name]
        for needs in left.values():
            needs.difference_update(ring)
        behind = _peel(left)
        if behind:
            more = f" ({len(behind) - 1} more behind it)" if len(behind) > 1 else ""
            yield f"{behind[0]}: it would never begin, because it waits for {ring[0]}: break the circle first{more}"


def _peel(left: dict[str, set[str]]) -> list[str]:
    """Takes away what waits for nothing that is left, again and again; gives it in the order of the graph."""
    wanted_by: dict[str, list[str]] = {}
    for name, needs in left.items():
        for need in needs:
            wanted_by.setdefault(need, []).append(name)
    order = list(left)
    free = [name for name, needs in left.items() if not needs]
    gone = set(free)
    while free:
        name = free.pop()
        del left[name]
        for other in wanted_by.get(name, ()):
            left[other].discard(name)
            if not left[other]:
                free.append(other)
                gone.add(other)
    return [name for name in order if name in gone]


def _ring(left: Mapping[str, set[str]]) -> list[str]:
    """A circle among nodes each of which waits for another of them."""
    seen: list[str] = []
    name = next(iter(left))
    while name not in seen:
        seen.append(name)
        name = sorted(left[name])[0]
    return seen[seen.index(name) :]


def _meant(name: str, nodes: Mapping[str, Any]) -> str:
    """The names that a wrong one may stand for."""
    import difflib

    close = difflib.get_close_matches(name, list(nodes), n=1)
    return f": did you mean {close[0]!r}?" if close else f": there are {', '.join(list(nodes)[:SHOWN_MAX]) or 'none'}"
