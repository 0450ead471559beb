"""What rules say of the session itself: its role, its place in the tree, and how far it is trusted.

Everything is read off what is on record: who the session belongs to and how far its folder is trusted stands with the
policy that is in force, put there by the runtime and by nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.values.policy import Policy, RoleMeant, Rule, Trust

if TYPE_CHECKING:
    from windlass.kernel.state import State


def is_root(state: State) -> bool:
    """Whether no other session started this one. A fork of a child is none: it stands where the child stands."""
    return state.depth == 0


def fits(state: State, rule: Rule) -> bool | None:
    """Whether a rule holds in such a session; None if an older log does not say."""
    said = [_has_role(state, rule.roles) if rule.roles else True, _has_trust(state, rule.trust) if rule.trust else True]
    return False if False in said else None if None in said else True


def _has_role(state: State, roles: tuple[RoleMeant, ...]) -> bool | None:
    if "root" in roles and is_root(state):
        return True
    others = [role for role in roles if role != "root"]
    role = state.gate.policy.role
    return None if role is None and others else role in others


def _has_trust(state: State, trust: tuple[Trust, ...]) -> bool | None:
    if "quarantined" in trust and state.labels.quarantined:
        return True
    others = [word for word in trust if word != "quarantined"]
    trusted = state.gate.policy.trusted
    if trusted is None and others:
        return None
    return ("trusted" if trusted else "untrusted") in others


def rules_here(state: State) -> Policy:
    """The policy with the rules that may hold in such a session, as rules that hold in any."""
    policy = state.gate.policy
    if not any(rule.roles or rule.trust for rule in policy.rules):
        return policy
    kept = (rule for rule in policy.rules if fits(state, rule) is not False)
    plain = tuple(msgspec.structs.replace(rule, roles=(), trust=()) for rule in kept)
    return msgspec.structs.replace(policy, rules=plain)
