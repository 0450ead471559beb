"""The gate's judgement: which verdict a policy gives on a call. Pure: conditions were evaluated by the host, and the
fact says which of them held."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Literal

import msgspec

from windlass.events.blocks import Value
from windlass.events.specs import Policy, Rule, ToolSpec
from windlass.events.turns import Prepared

from .state import State

READING_KINDS = frozenset({"read"})


class Verdict(Value, frozen=True, kw_only=True):
    """What the gate says, and which line said it."""

    action: Literal["allow", "ask", "deny"]
    by: Literal["rule", "default", "grant"]
    rule: str = ""
    reason: str = ""


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in glob), re.DOTALL)


def matches(glob: str, name: str) -> bool:
    """Whether a name fits a glob of `*` and `?`. Case matters."""
    return _pattern(glob).fullmatch(name) is not None


def reads_only(spec: ToolSpec) -> bool:
    """Whether a tool says that it changes nothing: this is what plan mode lets pass."""
    if spec.runs == "kernel":
        return True
    return spec.contract == "pure" and not set(spec.traits) - {"read"}


def judge(state: State, spec: ToolSpec, prepared: Prepared) -> Verdict:
    """Deny beats ask beats allow; a condition that could not be judged is asked about; then the default."""
    found: dict[str, Verdict] = {}
    unclear_denial: Verdict | None = None
    for index, rule in enumerate(state.policy.rules):
        if not matches(rule.tool, spec.name) or (rule.kinds and spec.kind not in rule.kinds):
            continue
        name = rule.name or f"rule {index + 1}"
        if rule.when is not None and index in prepared.unjudged:
            unclear = Verdict(action="ask", by="rule", rule=name, reason=f"cannot judge: {rule.when}")
            found.setdefault("ask", unclear)
            if rule.action == "deny":
                unclear_denial = unclear_denial or unclear
        elif rule.when is None or index in prepared.matched:
            found.setdefault(rule.action, Verdict(action=rule.action, by="rule", rule=name, reason=rule.reason))
    if "deny" in found:
        return found["deny"]
    if unclear_denial is not None:
        # A standing approval may not speak over a denial that nobody could check.
        return unclear_denial
    granted = _granted(state, spec, prepared)
    if granted is not None:
        return granted
    return found.get("ask") or found.get("allow") or _default(state.policy, spec)


def _granted(state: State, spec: ToolSpec, prepared: Prepared) -> Verdict | None:
    for grant in state.grants.values():
        if not matches(grant.tool, spec.name):
            continue
        if grant.pattern is None or _covers(grant.pattern, prepared):
            return Verdict(action="allow", by="grant", rule=grant.grant_id)
    return None


def _covers(pattern: str, prepared: Prepared) -> bool:
    """Whether a standing approval speaks of this very call. One without a subject fits by its digest alone."""
    if pattern == prepared.digest:
        return True
    return prepared.subject is not None and matches(pattern, prepared.subject)


def _default(policy: Policy, spec: ToolSpec) -> Verdict:
    if policy.default != "standard":
        return Verdict(action=policy.default, by="default", rule=f"default {policy.default}")
    if spec.source == "author" or reads_only(spec) or spec.kind in READING_KINDS:
        return Verdict(action="allow", by="default", rule="standard")
    return Verdict(action="ask", by="default", rule="standard")


def policy_digest(policy: Policy) -> str:
    """The digest by which a policy is known."""
    return hashlib.blake2b(msgspec.json.encode(policy, order="deterministic"), digest_size=12).hexdigest()


def approval_digest(state: State, spec: ToolSpec, args_digest: str) -> str:
    """What an approval is bound to: the tool as it is, the arguments as they are, the policy as it stands."""
    text = f"{spec.name}\n{spec.digest}\n{args_digest}\n{policy_digest(state.policy)}"
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def describe(rule: Rule) -> str:
    """A rule in words."""
    condition = f" when {rule.when}" if rule.when else ""
    return f"{rule.action} {rule.tool}{condition}"
