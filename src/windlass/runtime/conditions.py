"""Conditions of policies: expressions over a call's arguments, evaluated here so that the kernel need not.

The kernel learns only which rules held and which could not be judged; the latter are asked about.
"""

from __future__ import annotations

from windlass.events.blocks import JsonObject
from windlass.events.errors import UsageError
from windlass.events.specs import Policy
from windlass.kernel.governance import matches


def judged(policy: Policy, tool: str, args: JsonObject) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The rules with a condition that hold for a call, and those whose condition could not be judged."""
    held: list[int] = []
    unjudged: list[int] = []
    for index, rule in enumerate(policy.rules):
        if rule.when is None or not matches(rule.tool, tool):
            continue
        verdict = evaluate(rule.when, args)
        if verdict is None:
            unjudged.append(index)
        elif verdict:
            held.append(index)
    return tuple(held), tuple(unjudged)


def evaluate(expression: str, args: JsonObject) -> bool | None:
    """Whether an expression holds for some arguments; None where it cannot be said, also because it cannot be read."""
    from .expressions import Expression

    try:
        return Expression.of(expression).holds({"args": args})
    except UsageError:
        return None
