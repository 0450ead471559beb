"""A workflow as a value: its graph, and the code that its nodes need. Checked when it is made."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.graphs import FlowGraph, FlowNode, OnFailure
from windlass.events.values.policy import Policy
from windlass.events.values.settings import Settings
from windlass.runtime.api.agent import Agent, Budget

from .checks import problems_of
from .no_model import NoModel
from .reducers import Reducer
from .steps import Step

if TYPE_CHECKING:
    from windlass.runtime.api.approvals import Approver
    from windlass.runtime.hooks.hook import Hook

CHILDREN_MAX = 100_000
"""How many child sessions a workflow may start, unless its budget says less."""


class BadFlow(UsageError):
    """A graph that could not be carried out. `problems` names each node and what to do about it."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        super().__init__(
            f"the workflow {name!r} cannot be carried out:\n" + "\n".join(f"- {told}" for told in problems)
        )
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Flow:
    """A workflow: nodes, and what they are carried out with. Holds no state: any number of sessions may run it."""

    name: str
    """What binds its sessions to this code."""
    steps: Sequence[Step]
    """The nodes, as the functions in `windlass.flows` make them."""
    agents: Sequence[Agent] = ()
    """Agents that nodes speak of by name, beside those that they were given."""
    tools: Sequence[Any] = ()
    """What nodes may call: functions, tools, names of built-in ones."""
    reducers: Mapping[str, Reducer] = field(default_factory=dict)
    """Functions that nodes speak of by name: each takes the list of outputs that its node needs; of a map, one item."""
    policy: Policy = Policy()
    """What its tools may do; its child sessions are held to what it denies and asks about."""
    budget: Budget = Budget()
    """What it may use over its whole life, all child sessions together."""
    on_failure: OnFailure = "continue"
    """If a node fails: what does not need it goes on, or everything stops."""
    parallel: int = 16
    """How many nodes may be at work at the same time."""
    results: Sequence[str] = ()
    """The nodes that it is there for; those that nobody needs, if none are named."""
    settings: Settings = Settings()
    """The numbers that its session runs by; what `parallel` says stands above them."""
    quarantine: bool = False
    """Whether it and all its child sessions may only read."""
    approver: Approver | None = field(default=None, compare=False)
    """Who is asked at gates and by policies; without one, it waits."""
    hooks: Sequence[Hook] = field(default=(), compare=False)
    """Code of one's own at named points."""

    def __post_init__(self) -> None:
        for step in self.steps:
            if not isinstance(step, Step):
                raise UsageError(f"workflow {self.name!r}: a node is made by windlass.flows, not {type(step).__name__}")
        problems = problems_of(self.graph, self.agents_by_name(), self.tools_by_name(), self.reducers)
        if problems:
            raise BadFlow(self.name, problems)

    @functools.cached_property
    def graph(self) -> FlowGraph:
        """The graph as the log keeps it. What a classifier leads to needs the classifier."""
        return graph_of(
            self.name,
            [step.node for step in self.steps],
            on_failure=self.on_failure,
            parallel_max=self.parallel,
            results=tuple(self.results),
        )

    def agents_by_name(self) -> dict[str, Agent]:
        """The agents of all nodes. Raises `UsageError` if two have one name."""
        agents: dict[str, Agent] = {}
        for agent in (*self.agents, *(agent for step in self.steps for agent in step.agents)):
            known = agents.setdefault(agent.name, agent)
            if not known.is_like(agent):
                raise UsageError(f"workflow {self.name!r}: two agents are named {agent.name!r}")
        return agents

    def tools_by_name(self) -> dict[str, Any]:
        """The tools that nodes may call."""
        from windlass.runtime.bind.builtin_tools import resolved

        return {tool.name: tool for tool in resolved(list(self.tools))}

    @functools.cached_property
    def coordinator(self) -> Agent:
        """The agent that its sessions are bound to: it has no model, and does what the graph says."""
        asks = any(node.kind == "gate" and not node.when for node in self.graph.nodes)
        return Agent(
            name=self.name,
            model=NoModel(),
            tools=[*self.tools, *(["ask_user"] if asks and "ask_user" not in self.tools else [])],
            agents=list(self.agents_by_name().values()),
            policy=self.policy,
            session_budget=self.budget,
            settings=msgspec.structs.replace(
                self.settings,
                children_open_max=self.parallel,
                children_max=CHILDREN_MAX,
                parallel_tools_max=self.parallel,
            ),
            approver=self.approver,
            hooks=self.hooks,
            quarantine=self.quarantine,
            flow=self,
        )


def graph_of(name: str, given: Sequence[FlowNode], **more: Any) -> FlowGraph:
    """A graph of nodes as the log keeps it. Raises `UsageError` for values that no graph can have."""
    graph = FlowGraph(nodes=with_classifiers(given), **more)
    try:
        return known_types.convert(msgspec.to_builtins(graph), FlowGraph)
    except msgspec.ValidationError as error:
        raise UsageError(f"workflow {name!r}: {error}") from None


def with_classifiers(nodes: Sequence[FlowNode]) -> tuple[FlowNode, ...]:
    """Nodes, those that a classifier leads to with the classifier among what they need."""
    led: dict[str, list[str]] = {}
    for node in nodes:
        for names in node.branches.values():
            for name in names:
                led.setdefault(name, []).append(node.name)
    return tuple(_behind(node, led.get(node.name, ())) for node in nodes)


def _behind(node: FlowNode, classifiers: Sequence[str]) -> FlowNode:
    """A node with the classifiers that lead to it among what it needs."""
    more = tuple(name for name in classifiers if name not in (node.name, *node.needs, *node.optional))
    return msgspec.structs.replace(node, needs=(*more, *node.needs)) if more else node
