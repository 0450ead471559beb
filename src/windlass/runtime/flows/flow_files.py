"""Workflows out of files: JSON or YAML, plain data, checked as a whole. Nothing in a file is run."""

from __future__ import annotations

import difflib
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.graphs import FlowNode
from windlass.runtime.api.agent import Agent, Budget
from windlass.runtime.bind.builtin_tools import resolved
from windlass.tools.types.wrong_fields import wrong_field

from .checks import problems_of
from .flow import BadFlow, Flow, graph_of
from .reducers import Reducer
from .steps import Step, retry_wait_of

WRONG = re.compile(r"at `\$\.(\w+)")
"""Which field a value was wrong in, as the decoder says it."""
FILE_BYTES_MAX = 1_000_000
SMALLER = {"a workflow": "let a map make nodes while it runs"}
SUFFIXES = (".json", ".yaml", ".yml")
TOP = ("name", "agents", "nodes", "tools", "budget", "on_failure", "parallel", "results", "quarantine")
OF_AGENT = ("model", "instructions", "role", "description", "tools", "knowledge")
"""What a file may say of an agent: words, and names of built-in tools."""
IN_SECONDS = {"timeout_ms": "timeout", "retry_wait_ms": "retry_wait"}
"""What a file says in seconds."""
NODE_FIELDS = tuple(IN_SECONDS.get(name, name) for name in FlowNode.__struct_fields__)
"""What a file may say of a node."""


def load_flow(
    path: str | os.PathLike[str],
    *,
    agents: Sequence[Agent] = (),
    tools: Sequence[Any] = (),
    reducers: Mapping[str, Reducer] | None = None,
    model: str | None = None,
) -> Flow:
    """The workflow that a file describes. `agents`, `tools` and `reducers` are code that it may name; an agent that is
    given here takes the place of one in the file, and `model` that of the models which it names none for. Raises
    `BadFlow` with all that is wrong."""
    return flow_from(values_in(path), str(path), agents=agents, tools=tools, reducers=reducers or {}, model=model)


def values_in(
    path: str | os.PathLike[str], what: str = "a workflow", holds: str = "name, agents and nodes"
) -> dict[str, Any]:
    """What stands in a file of something. Raises `UsageError` if it cannot be read."""
    name = pathlib.Path(path)
    if name.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{name}: the file of {what} ends in {', '.join(SUFFIXES)}")
    try:
        with name.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(f"{name}: larger than {FILE_BYTES_MAX:,} bytes: {SMALLER.get(what, 'make it smaller')}")
    try:
        text = data.decode()
        values = msgspec.json.decode(text) if name.suffix.lower() == ".json" else _yaml(text)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{name}: {what} is a table with {holds}")
    return values


def _yaml(text: str) -> Any:
    """A YAML text, without what refers to another place of it: a few lines could stand for any number."""
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise ValueError("anchors and aliases are not taken: write it out")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None


def flow_from(
    values: Mapping[str, Any],
    place: str,
    *,
    agents: Sequence[Agent] = (),
    tools: Sequence[Any] = (),
    reducers: Mapping[str, Reducer] | None = None,
    model: str | None = None,
) -> Flow:
    """The same of values that were read already."""
    name = str(values.get("name") or pathlib.Path(place).stem)
    problems = [unknown("key", key, TOP) for key in values if key not in TOP]
    steps = _steps(values.get("nodes"), problems)
    given = {agent.name: agent for agent in agents}
    listed = values.get("agents") or {}
    if not isinstance(listed, Mapping):
        problems.append("agents: a table is wanted: the name of each, and what it is")
        listed = {}
    for key, told in listed.items():
        if key not in given and (made := _agent(str(key), told, model, problems)) is not None:
            given[made.name] = made
    budget = _budget(values.get("budget") or {}, problems)
    more = {key: values[key] for key in ("on_failure", "parallel", "results", "quarantine") if key in values}
    named = [*(values.get("tools") or ()), *tools]
    if problems:
        known = {str(key): given.get(str(key)) for key in (*given, *listed)}
        raise BadFlow(name, [*problems, *_more_problems(name, values, steps, known, named, reducers or {})])
    return Flow(name, steps, agents=list(given.values()), tools=named, reducers=reducers or {}, budget=budget, **more)


def _more_problems(
    name: str,
    values: Mapping[str, Any],
    steps: Sequence[Step],
    agents: Mapping[str, Agent | None],
    tools: Sequence[Any],
    reducers: Mapping[str, Reducer],
) -> list[str]:
    """What is wrong with the graph of a file that could not be read as a whole: all of it is told at once."""
    listed = values.get("nodes")
    read = {step.node.name for step in steps}
    tables = [given for given in listed if isinstance(given, Mapping)] if isinstance(listed, list) else []
    there = [str(meant_by["name"]) for given in tables if (meant_by := as_meant(given, NODE_FIELDS)).get("name")]
    if not read and not there:
        return []
    try:
        graph = graph_of(name, [step.node for step in steps], results=tuple(values.get("results") or ()))
        known = {tool.name: tool for tool in resolved(list(tools))}
    except (UsageError, TypeError) as error:
        return [str(error)]
    return problems_of(graph, agents, known, reducers, unread=[each for each in there if each not in read])


def nodes_from(listed: Any) -> tuple[FlowNode, ...]:
    """Nodes as a model wrote them. Raises `UsageError` with all that is wrong with them."""
    problems: list[str] = []
    steps = _steps(listed, problems)
    if problems:
        raise UsageError("\n".join(problems))
    return tuple(step.node for step in steps)


def _steps(listed: Any, problems: list[str]) -> list[Step]:
    if not isinstance(listed, list):
        problems.append("nodes: a list is wanted, each with name, kind, and what it does")
        return []
    steps = []
    for number, given in enumerate(listed, start=1):
        if not isinstance(given, Mapping):
            problems.append(f"node {number}: a table of fields is wanted, such as name, kind, agent and task")
            continue
        where = str(given.get("name") or f"node {number}")
        problems += [f"{where}: {unknown('field', key, NODE_FIELDS)}" for key in given if key not in NODE_FIELDS]
        steps += _step(where, as_meant(given, NODE_FIELDS), problems)
    return steps


def unknown(what: str, key: Any, there: Sequence[str]) -> str:
    """What is said of a word that a file may not use."""
    close = meant(key, there)
    return f"unknown {what} {key!r}: {f'did you mean {close!r}?' if close else 'there are ' + ', '.join(there)}"


def meant(key: Any, there: Sequence[str]) -> str:
    """The word that a wrong one stands for, most likely; empty if that cannot be said."""
    return next(iter(difflib.get_close_matches(str(key), there, n=1)), "")


def as_meant(given: Mapping[Any, Any], there: Sequence[str]) -> dict[str, Any]:
    """Fields with what wrong words most likely stand for, so that whatever else is wrong can be told at once. The wrong
    words themselves have been told."""
    known = {key: value for key, value in given.items() if key in there}
    for key, value in given.items():
        if key not in there and (name := meant(key, there)):
            known.setdefault(name, value)
    return known


def _step(where: str, given: dict[str, Any], problems: list[str]) -> list[Step]:
    """The node that a file describes; none, and all that is wrong with its values, if it describes none."""
    told = len(problems)
    for name in IN_SECONDS.values():
        if not isinstance(given.get(name), float | int | None):
            problems.append(f"{where}: {name} {given.pop(name)!r}: give a number of seconds, such as 90")
    seconds = given.pop("timeout", None)
    sound = len(problems) == told
    while True:
        try:
            if seconds is not None:
                given["timeout_ms"], seconds = round(float(seconds) * 1000), None
            given.update(retry_wait_of(given))
            step = Step(known_types.convert(given, FlowNode))
            return [step] if sound else []
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            what = wrong_field(error, FlowNode) if isinstance(error, msgspec.ValidationError) else str(error)
            problems.append(f"{where}: {what}")
            wrong = WRONG.search(str(error))
            if wrong is None or given.pop(wrong[1], None) is None:
                return []
            sound = False


def _agent(name: str, told: Any, model: str | None, problems: list[str]) -> Agent | None:
    fields = dict(told) if isinstance(told, Mapping) else {}
    if not isinstance(told, Mapping):
        problems.append(f"agent {name}: a table is wanted: there are {', '.join(OF_AGENT)}")
        return None
    for key in [key for key in fields if key not in OF_AGENT]:
        problems.append(f"agent {name}: {unknown('field', key, OF_AGENT)}")
        del fields[key]
    fields["model"] = fields.get("model") or model
    try:
        return Agent(name, **fields)
    except (UsageError, TypeError) as error:
        problems.append(f"agent {name}: {error}")
        return None


def _budget(given: Any, problems: list[str]) -> Budget:
    try:
        return Budget(**given)
    except (UsageError, TypeError) as error:
        problems.append(f"budget: {error}")
        return Budget()
