"""Policies in few words: rules by tool name, with conditions, and two presets."""

from __future__ import annotations

from typing import Literal

from windlass.events.specs import PermissionKind, Policy, Rule

from .expressions import Expression


def _rule(
    action: Literal["allow", "ask", "deny"],
    tool: str,
    when: str | None,
    reason: str,
    kinds: tuple[PermissionKind, ...],
) -> Rule:
    if when is not None:
        Expression.of(when)
    return Rule(action=action, tool=tool, when=when, reason=reason, kinds=kinds, name=f"{action} {tool}")


def allow(
    tool: str = "*", *, when: str | None = None, reason: str = "", kinds: tuple[PermissionKind, ...] = ()
) -> Rule:
    """Lets calls of matching tools pass. `when` is a CEL expression over `args`."""
    return _rule("allow", tool, when, reason, kinds)


def ask(tool: str = "*", *, when: str | None = None, reason: str = "", kinds: tuple[PermissionKind, ...] = ()) -> Rule:
    """Has a person asked before calls of matching tools. Beats `allow`."""
    return _rule("ask", tool, when, reason, kinds)


def deny(tool: str = "*", *, when: str | None = None, reason: str = "", kinds: tuple[PermissionKind, ...] = ()) -> Rule:
    """Refuses calls of matching tools. Beats everything."""
    return _rule("deny", tool, when, reason, kinds)


ALLOW_ALL = Policy(default="allow")
"""Everything may be done without asking."""

READ_ONLY = Policy(rules=(Rule(action="allow", kinds=("read",), name="reading"),), default="deny")
"""Only reading."""


def explain(policy: Policy) -> str:
    """A policy in words, in the order in which it is judged."""
    lines = []
    for action in ("deny", "ask", "allow"):
        for rule in policy.rules:
            if rule.action == action:
                kinds = f" of kind {', '.join(rule.kinds)}" if rule.kinds else ""
                when = f" when {rule.when}" if rule.when else ""
                why = f" ({rule.reason})" if rule.reason else ""
                lines.append(f"{action} {rule.tool}{kinds}{when}{why}")
    default = {
        "standard": "otherwise: the author's own tools and reading are allowed, everything else is asked about",
        "allow": "otherwise: allowed",
        "ask": "otherwise: asked about",
        "deny": "otherwise: denied",
    }[policy.default]
    return "\n".join([*lines, default])
