"""Workflows that a model writes: a tool by which an agent has a graph of its own carried out by its specialists, in a
child session, and gets what came of it. The graph is checked as a whole before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject
from windlass.events.values.graphs import FlowGraph
from windlass.events.values.tools import RUN_WORKFLOW
from windlass.tools.tool import AnyTool, Options, Tool

from .checks import problems_of
from .coordination import SUBMIT
from .reducers import REDUCERS

if TYPE_CHECKING:
    from windlass.runtime.api.agent import Agent

RESULTS = "results"
"""The node that gathers what several last nodes gave."""
PROBLEMS_SHOWN_MAX = 20
NOT_IN_NODES = (RUN_WORKFLOW, SUBMIT, "ask_user")
"""Tools of the agent that are none of its workflows'; those ask people by themselves."""
DESCRIPTION = (
    "Have a workflow of your own carried out by specialists, and get what came of it. Each node has a name, a kind "
    "(spawn, verify, classify, loop, map, tournament, reduce, gate, tool, phase), and what its kind needs: agent and "
    "task, or reducer and needs. `needs` names the nodes whose outputs it works on; a task may speak of them as "
    "{name}, and of your task as {input}. Nodes that need nothing of each other run side by side. The result is the "
    "output of the node that nobody needs; of several, the list of theirs. If anything is wrong, all of it is told "
    "and nothing starts."
)


def workflow_tool(agents: Sequence[Agent]) -> AnyTool:
    """The tool, for an agent with these specialists."""
    shown = "\n".join(f"- {agent.name}: {agent.description or agent.role}" for agent in agents)
    parameters: JsonObject = {
        "type": "object",
        "properties": {
            "nodes": {"type": "array", "minItems": 1, "items": {"type": "object"}, "description": "The graph."},
            "task": {"type": "string", "minLength": 1, "description": "What its nodes know as {input}."},
            "mode": {"type": "string", "enum": ["foreground", "background"]},
        },
        "required": ["nodes", "task"],
        "additionalProperties": False,
    }
    options = Options(
        name=RUN_WORKFLOW,
        description=f"{DESCRIPTION} Specialists:\n{shown}",
        parameters=parameters,
        runs="child",
        contract="idempotent",
    )
    return Tool(None, options)


def coordinator_of(agent: Agent) -> Agent:
    """The agent that the workflows of another one are bound to: the same specialists and tools, held to the same rules.
    What it does is in the log of each workflow."""
    from .flow import Flow
    from .steps import gate

    own = [tool for tool in agent.tools if getattr(tool, "name", tool) not in NOT_IN_NODES]
    rules = tuple(msgspec.structs.replace(rule, missing_ok=True) for rule in agent.policy.rules)
    flow = Flow(
        f"{agent.name}.workflow",
        [gate("nothing", "Go on?")],
        agents=list(agent.agents),
        tools=own,
        reducers={RESULTS: list},
        policy=msgspec.structs.replace(agent.policy, rules=rules),
        settings=agent.settings,
    )
    return flow.coordinator


def graph_in(args: JsonObject) -> FlowGraph:
    """The graph that a call was made with. Raises `UsageError` with all that is wrong with its nodes."""
    from .flow import graph_of
    from .flow_files import nodes_from
    from .steps import reduce

    nodes = nodes_from(args.get("nodes"))
    graph = graph_of(RUN_WORKFLOW, nodes)
    needed = {name for node in graph.nodes for name in (*node.needs, *node.optional)}
    last = [node.name for node in graph.nodes if node.name not in needed]
    if len(last) < 2 or any(node.name == RESULTS for node in graph.nodes):
        return graph
    gathered = reduce(RESULTS, RESULTS, last).node
    return msgspec.structs.replace(graph, nodes=(*graph.nodes, gathered))


def wrong_with(agent: Agent, args: Any) -> tuple[str, ...]:
    """All that is wrong with a graph that a model wrote; empty if it can be carried out."""
    coordinator, most = agent.workflows, agent.settings.nodes_max
    if coordinator is None or not isinstance(args, dict):
        return ()
    try:
        graph = graph_in(args)
    except UsageError as error:
        return tuple(str(error).splitlines()[:PROBLEMS_SHOWN_MAX])
    if len(graph.nodes) > most:
        return (f"{len(graph.nodes)} nodes, and {most} are the most (nodes_max): let a map make them while it runs",)
    flow = coordinator.flow
    problems = problems_of(graph, flow.agents_by_name(), flow.tools_by_name(), {**REDUCERS, RESULTS: list})
    return tuple(problems[:PROBLEMS_SHOWN_MAX])
