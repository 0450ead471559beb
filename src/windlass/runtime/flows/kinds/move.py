"""What a kind of node is told, and what it may say: more calls, or its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from windlass.events.values.blocks import JsonObject
from windlass.events.values.graphs import FlowNode
from windlass.runtime.flows.outputs import Outcome
from windlass.runtime.flows.references import filled, named_in, text_of
from windlass.runtime.trees.specialists import SPAWN

from .model_answers import Misread, fitted

REASON_CHARS_MAX = 500


class Work(NamedTuple):
    """One node at work: what it is, what it was given, and what its calls gave so far, by rounds."""

    node: FlowNode
    values: Mapping[str, Any]
    """The input, and the outputs of those that it needs, by name, in the order in which it names them."""
    rounds: Sequence[Sequence[Outcome]]
    budget: str = ""
    """What is left of the budget, for those that are told."""
    functions: Mapping[str, Callable[..., Any]] = {}
    """Reducers by name."""
    kept: Sequence[Outcome | None] = ()
    """What earlier attempts gave, by item; None for those that did not end well. Empty if there is nothing of them."""

    @property
    def outputs(self) -> dict[str, Any]:
        """What it needs, without the input."""
        return {name: value for name, value in self.values.items() if name in (*self.node.needs, *self.node.optional)}


class Calls(NamedTuple):
    """The node makes calls; it is asked again when all of them have their results."""

    calls: Sequence[tuple[str, JsonObject]]


class Ended(NamedTuple):
    """The node has come to its end."""

    value: Any = None
    outcome: str = "done"
    branch: str = ""
    reason: str = ""


Move = Calls | Ended


def failed(reason: str) -> Ended:
    return Ended(outcome="failed", reason=reason[:REASON_CHARS_MAX])


def ended(work: Work, value: object) -> Ended:
    """The end with this output, if it fits the schema that the node names."""
    if work.node.output is None:
        return Ended(value)
    try:
        return Ended(fitted(value, work.node.output))
    except Misread as error:
        return failed(f"its output does not fit the schema: {error}")


def told(work: Work, text: str, *instructions: str, **more: Any) -> str:
    """A task as its child gets it: with what it speaks of in place, else followed by all that the node needs."""
    values = {**work.values, **more}
    parts = [filled(text, values)]
    outputs = work.outputs
    if not any(name in values for name, _ in named_in(text)):
        parts += [f"Output of {name}:\n{text_of(value)}" for name, value in outputs.items()]
        if not outputs and work.values.get("input") is not None:
            parts.append(f"Input:\n{text_of(work.values['input'])}")
    parts += [line for line in (*instructions, work.budget) if line]
    return "\n\n".join(parts)


def child(work: Work, task: str, agent: str = "") -> tuple[str, JsonObject]:
    """The call by which a child session carries out a task."""
    args: JsonObject = {"agent": agent or work.node.agent, "task": task}
    if work.node.limits:
        args["limits"] = dict(work.node.limits)
    return SPAWN, args


def why_not(outcome: Outcome) -> str:
    return text_of(outcome.value)
