"""Nodes as they are written in Python: each function makes one, with the agents whose code it needs."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.graphs import INPUT, FlowNode

if TYPE_CHECKING:
    from windlass.runtime.api.agent import Agent, Budget


RETRY_WAIT_S = 1.0
"""How long a node pauses before it is tried again the first time, unless it says otherwise."""
LISTS = {"needs": "names", "optional": "names", "entrants": "tasks", "unlocks": "names"}
"""What a node lists, and of what."""


class Step(NamedTuple):
    """A node, and the agents that it was given as such."""

    node: FlowNode
    agents: tuple[Agent, ...] = ()


class Common(TypedDict, total=False):
    """What any node may say."""

    optional: Sequence[str]
    """Nodes that it waits for and does without if they do not end well."""
    quorum: int | None
    """How many of those that it needs are enough; it starts as soon as they are there."""
    retries: int
    """How often it is tried again."""
    retry_wait: float | datetime.timedelta
    """Seconds that it pauses before it is tried again, twice as long before each further time: 1 unless said
    otherwise."""
    timeout: float | datetime.timedelta | None
    """Seconds that an attempt may take."""
    output: Any
    """The type of its output, or its JSON Schema."""


class Needing(Common, total=False):
    """What a node may say that need not need any other."""

    needs: Sequence[str]
    """The nodes whose outputs it works on."""


class OfChild(Needing, total=False):
    """What a node may say whose work child sessions do."""

    budget: Budget | None
    """What each of its child sessions may use at the most."""
    quarantine: bool
    """Whether its child sessions may only read."""
    sees_budget: bool
    """Whether it is told what is left of the budget."""


def spawn(name: str, agent: str | Agent, task: str, **more: Unpack[OfChild]) -> Step:
    """An agent carries out a task in a child session of its own; its answer is the output."""
    return _made(name, "spawn", (agent,), more, task=task)


def verify(name: str, agent: str | Agent, task: str, **more: Unpack[OfChild]) -> Step:
    """An agent judges something; the output is its verdict, `{"pass": …, "reason": …}` if it has no other type."""
    return _made(name, "verify", (agent,), more, task=task)


def classify(
    name: str, agent: str | Agent, task: str, branches: Mapping[str, Sequence[str]], **more: Unpack[OfChild]
) -> Step:
    """An agent chooses one of several branches: the nodes of the others are left out. The output is the choice."""
    if not isinstance(branches, Mapping):
        raise UsageError(f"node {name!r}: branches says where each answer leads: write branches={{'yes': ['node'], …}}")
    taken = {label: _listed(name, f"branches[{label!r}]", names) for label, names in branches.items()}
    return _made(name, "classify", (agent,), more, task=task, branches=taken)


def loop(name: str, agent: str | Agent, task: str, *, rounds: int = 5, **more: Unpack[OfChild]) -> Step:
    """An agent works on a task again and again, each time with what came of it before (`{previous}`), until it says
    that it is done, or `rounds` times."""
    return _made(name, "loop", (agent,), more, task=task, rounds_max=rounds)


def map_over(
    name: str,
    over: str = INPUT,
    agent: str | Agent = "",
    task: str = "",
    *,
    reducer: str = "",
    items: int = 100,
    **more: Unpack[OfChild],
) -> Step:
    """An agent carries out a task for each item (`{item}`) of a node's output, or of the input; or a function does. The
    output is the list of what they gave. At most `items` of them."""
    needs = list(_listed(name, "needs", more.get("needs", ())))
    if over != INPUT and over not in needs:
        more["needs"] = [over, *needs]
    return _made(name, "map", (agent,), more, task=task, over=over, reducer=reducer, items_max=items)


def tournament(
    name: str,
    agent: str | Agent,
    task: str,
    entrants: Sequence[str] = (),
    *,
    judge: str | Agent = "",
    **more: Unpack[OfChild],
) -> Step:
    """Entrants (tasks for the agent, and the outputs of what it needs) meet in pairs before a judge until one is left,
    which is the output."""
    step = _made(name, "tournament", (agent, judge), more, task=task, entrants=entrants)
    return step._replace(node=msgspec.structs.replace(step.node, judge=_name(judge)))


def phase(
    name: str,
    agent: str | Agent,
    task: str,
    *,
    judge: str | Agent = "",
    when: str = "",
    rounds: int = 3,
    unlocks: Sequence[str] = (),
    **more: Unpack[OfChild],
) -> Step:
    """A milestone: an agent works on it until its output passes a check, by a judge or by a condition (`args.output`),
    `rounds` times at the most. What needs it waits for that; tools that it `unlocks` may not be used before."""
    step = _made(name, "phase", (agent, judge), more, task=task, when=when, rounds_max=rounds, unlocks=unlocks)
    return step._replace(node=msgspec.structs.replace(step.node, judge=_name(judge)))


def reduce(name: str, reducer: str, needs: Sequence[str], **more: Unpack[Common]) -> Step:
    """A pure function makes one output out of those that it needs: `dedupe_lines`, `merge_json_arrays`, `concat`,
    `count`, or one of the flow's own."""
    return _made(name, "reduce", (), {**more, "needs": needs}, reducer=reducer)


def tool(name: str, tool: str, args: Mapping[str, Any] | None = None, **more: Unpack[Needing]) -> Step:
    """A tool of the flow is called; what it gives is the output."""
    given: Any = tool
    if not isinstance(given, str):
        named = getattr(given, "name", None) or getattr(given, "__name__", "NAME")
        raise UsageError(f"node {name!r}: tool is a name: write {named!r}, and give the tool to Flow(tools=[...])")
    if args is not None and not isinstance(args, Mapping):
        raise UsageError(f"node {name!r}: args is a table of the tool's arguments, not {args!r}")
    return _made(name, "tool", (), more, tool=tool, args=dict(args or {}))


def gate(name: str, question: str = "", *, when: str = "", **more: Unpack[Needing]) -> Step:
    """What needs it goes on if a person says yes to the question, or if a condition holds: a CEL expression in which
    `args` has the input and the outputs that it needs, such as `args.check.pass`."""
    return _made(name, "gate", (), more, question=question, when=when)


def _made(name: str, kind: str, agents: Sequence[str | Agent], more: Mapping[str, Any], **fields: Any) -> Step:
    """A node. Raises `UsageError` for values that no node can have."""
    from windlass.runtime.api.agent import Agent, Budget

    given: dict[str, Any] = {**more, **fields}
    timeout, budget, output = given.pop("timeout", None), given.pop("budget", None), given.pop("output", None)
    try:
        if timeout is not None:
            given["timeout_ms"] = _milliseconds(timeout)
        given.update(retry_wait_of(given))
    except (TypeError, ValueError) as error:
        raise UsageError(f"node {name!r}: a time is a number of seconds or a timedelta: {error}") from None
    if budget is not None and not isinstance(budget, Budget):
        raise UsageError(f"node {name!r}: budget is a Budget, not {budget!r}")
    if budget is not None:
        limits = msgspec.structs.asdict(budget.limits())
        given["limits"] = {key: most for key, most in limits.items() if most is not None}
    if output is not None:
        given["output"] = dict(output) if isinstance(output, Mapping) else _schema(output)
    if agents and _name(agents[0]):
        given["agent"] = _name(agents[0])
    return Step(_node(name, kind, given), tuple(agent for agent in agents if isinstance(agent, Agent)))


def retry_wait_of(given: dict[str, Any]) -> dict[str, int]:
    """The pause before a node is tried again, taken out of what was written; a node that is not tried again has
    none. Raises `TypeError` or `ValueError` for what is no time."""
    pause = given.pop("retry_wait", None)
    if pause is None and not given.get("retries"):
        return {}
    return {"retry_wait_ms": _milliseconds(RETRY_WAIT_S if pause is None else pause)}


def _milliseconds(time: float | datetime.timedelta) -> int:
    return round(float(time.total_seconds() if isinstance(time, datetime.timedelta) else time) * 1000)


def _listed(name: str, field: str, names: Sequence[str]) -> tuple[str, ...]:
    """Texts that a node names. One text alone is a list of its letters to Python, which nobody means."""
    if isinstance(names, str):
        raise UsageError(f"node {name!r}: {field} is a list of {LISTS.get(field, 'names')}: write {field}=[{names!r}]")
    if not isinstance(names, Iterable):
        raise UsageError(f"node {name!r}: {field} is a list of {LISTS.get(field, 'names')}, not {names!r}")
    return tuple(names)


def _node(name: str, kind: str, given: Mapping[str, Any]) -> FlowNode:
    listed = {field: _listed(name, field, given[field]) for field in LISTS if field in given}
    try:
        node = FlowNode(name=name, kind=kind, **{**given, **listed})  # type: ignore[arg-type]
        return known_types.convert(msgspec.to_builtins(node), FlowNode)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"node {name!r}: {error}") from None


def _name(agent: str | Agent) -> str:
    return agent if isinstance(agent, str) else agent.name


def _schema(kind: Any) -> dict[str, Any]:
    from windlass.runtime.bind.structured_output import schema_of

    return schema_of(kind)
