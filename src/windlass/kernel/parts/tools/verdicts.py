"""The policy's verdict on a call: what the rules, the standing approvals and the labels of a session say taken
together, and whether a verdict that was given still stands. Changes nothing."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.tools.permissions import Changed
from windlass.events.turns import Prepared
from windlass.events.values.access import NO_ACCESS, PARTS, Access, SandboxTerms
from windlass.events.values.blocks import Value
from windlass.events.values.label_words import sound, word
from windlass.events.values.policy import Grant, Policy, Rule, Trait
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts import skills
from windlass.kernel.parts.tools import labels, policy_rules, rule_limits, rule_sessions, rule_words
from windlass.kernel.parts.trees import listening_grants

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State

READING_KINDS = frozenset({"read"})
Outlook = Literal["allowed", "asked", "denied"]
"""What would become of a call."""


class Verdict(Value, frozen=True, kw_only=True):
    """What the gate says, and which line said it."""

    action: Literal["allow", "ask", "deny"]
    by: Literal["rule", "default", "grant"]
    rule: str = ""
    reason: str = ""


def asked_enough(state: State) -> bool:
    """Whether people have said no so often in a row that the run asks nothing more."""
    most = state.setup.settings.denials_max
    return 0 < most <= state.gate.denials


def holds(state: State, rule: Rule, index: int, spec: ToolSpec, prepared: Prepared) -> bool | None:
    """Whether a rule that speaks of a tool holds for a call of it; None if that could not be judged."""
    if not rule_limits.within_limits(state, rule):
        return False
    return holds_but_for_limits(state, rule, index, spec, prepared)


def holds_but_for_limits(state: State, rule: Rule, index: int, spec: ToolSpec, prepared: Prepared) -> bool | None:
    """The same, whatever was counted."""
    here = rule_sessions.fits(state, rule)
    if here is False or (rule.modes and state.setup.mode not in rule.modes):
        return False
    if rule.confined and not prepared.confined:
        return False
    if rule.traits and not _traits_fit(rule, spec.traits if prepared.traits is None else prepared.traits):
        return False
    if rule.labels and not set(rule.labels) & _labels_met(state, spec, prepared):
        return False
    if policy_rules.is_conditional(rule):
        if index not in prepared.unjudged:
            return index in prepared.matched and here
        return None
    return here


def _traits_fit(rule: Rule, traits: tuple[Trait, ...]) -> bool:
    """A permission must cover all that a call does, and somebody must have said what that is."""
    if rule.action == "allow":
        return bool(traits) and set(traits) <= set(rule.traits)
    return bool(set(traits) & set(rule.traits))


def _labels_met(state: State, spec: ToolSpec, prepared: Prepared) -> set[str]:
    """The labels of what the session has seen and of what a call would bring, each also by its word alone."""
    met = {*labels.current(state), *map(sound, labels.brought(spec, prepared.labels))}
    return met | {word(label) for label in met}


def judge(state: State, spec: ToolSpec, prepared: Prepared) -> Verdict:
    """Deny beats ask beats allow; a condition that could not be judged is asked about; then the default."""
    by_rule, final = ruled(state, spec, prepared)
    if final and by_rule is not None:
        return by_rule
    said = _granted(state, spec, prepared) or by_rule or _default(state.gate.policy, spec)
    return _stricter(prepared, _with_access(state, spec, prepared, said))


def ruled(state: State, spec: ToolSpec, prepared: Prepared) -> tuple[Verdict | None, bool]:
    """What the rules alone say, and whether nothing else may speak over it: a denial, or one that nobody could
    check."""
    verdicts: dict[str, Verdict] = {}
    unclear_denial: Verdict | None = None
    for index, rule in enumerate(state.gate.policy.rules):
        if not policy_rules.speaks_of(rule, spec):
            continue
        name = rule.name or f"rule {index + 1}"
        held = holds(state, rule, index, spec, prepared)
        if held is None:
            unclear = Verdict(action="ask", by="rule", rule=name, reason=f"cannot judge: {rule_words.condition(rule)}")
            verdicts.setdefault("ask", unclear)
            if rule.action == "deny":
                unclear_denial = unclear_denial or unclear
        elif held:
            verdicts.setdefault(rule.action, Verdict(action=rule.action, by="rule", rule=name, reason=rule.reason))
    if "deny" in verdicts:
        return verdicts["deny"], True
    if unclear_denial is not None:
        # A standing approval may not speak over a denial that nobody could check.
        return unclear_denial, True
    return verdicts.get("ask") or verdicts.get("allow"), False


def _stricter(prepared: Prepared, ordinary: Verdict) -> Verdict:
    """The verdict on a call that somebody is to see each time: neither a rule nor a standing approval speaks for it,
    and what is denied anyway stays denied."""
    if ordinary.action == "deny":
        return ordinary
    if prepared.sensitive is not None:
        return Verdict(action="ask", by="default", rule="sensitive", reason=prepared.sensitive)
    if prepared.unclear is not None:
        return Verdict(action="ask", by="default", rule="unclear", reason=f"cannot judge: {prepared.unclear}")
    return ordinary


def together(state: State, spec: ToolSpec, prepared: Prepared, said: Verdict) -> tuple[Verdict, tuple[str, ...]]:
    """What becomes of a verdict if the call would bring untrusted input, private data and a way out together, and the
    labels that it would join so. An allow rule and an ordinary standing approval do not speak of that."""
    joins = labels.joins(state, spec, prepared.labels, prepared.traits)
    if not joins or said.action == "deny":
        return said, joins
    if said.by == "grant" and state.gate.grants[said.rule].trifecta:
        return said, joins
    why = labels.objection(state, joins, spec, prepared.traits)
    why = f"{said.reason}; {why}" if said.action == "ask" and said.reason else why
    action: Literal["ask", "deny"] = "deny" if state.gate.policy.trifecta == "deny" else "ask"
    return Verdict(action=action, by="default", rule="trifecta", reason=why), joins


def _granted(state: State, spec: ToolSpec, prepared: Prepared) -> Verdict | None:
    for grant in state.gate.grants.values():
        if not in_force(state, grant, spec):
            continue
        if not grant.access.covers(_asked_access(prepared)):
            continue
        if grant.pattern is None or _covers(grant.pattern, prepared):
            return Verdict(action="allow", by="grant", rule=grant.grant_id)
    return None


def in_force(state: State, grant: Grant, spec: ToolSpec) -> bool:
    """Whether a standing approval still speaks of a tool: it and the rules about it are what they were when it was
    approved, and its time is not over."""
    if grant.tool != spec.name or grant.digest != policy_rules.tool_digest(spec):
        return False
    if grant.rules and grant.rules != policy_rules.rules_digest(state.gate.policy, spec):
        return False
    return grant.expires_ms is None or state.now_ms < grant.expires_ms


def standing(state: State) -> tuple[Grant, ...]:
    """The standing approvals that are in force."""
    tools = state.toolset.tools
    grants = state.gate.grants.values()
    calls = tuple(grant for grant in grants if grant.tool in tools and in_force(state, grant, tools[grant.tool]))
    return (*calls, *listening_grants.standing(state))


def _covers(pattern: str, prepared: Prepared) -> bool:
    """Whether a standing approval speaks of this very call. One without a subject fits by its digest alone."""
    if pattern == prepared.digest:
        return True
    return prepared.exact and bool(prepared.subject) and policy_rules.matches(pattern, prepared.subject or "")


def _asked_access(prepared: Prepared) -> Access:
    """What a call asks for in so many words that its sandbox does not give to all."""
    terms = prepared.sandbox
    return terms.asked if terms is not None and terms.confines else NO_ACCESS


def _with_access(state: State, spec: ToolSpec, prepared: Prepared, said: Verdict) -> Verdict:
    """What becomes of a permission for a call that asks for more than its sandbox gives: it must speak of that."""
    asked = _asked_access(prepared)
    if asked is NO_ACCESS or said.action != "allow":
        return said
    if (opened_by(state, spec, prepared, said) or NO_ACCESS).covers(asked):
        return said
    return Verdict(
        action="ask", by="default", rule="access", reason=f"it asks for more than its sandbox gives: {asked.said}"
    )


def opened_by(state: State, spec: ToolSpec, prepared: Prepared, said: Verdict) -> Access | None:
    """What a permission opens of a call's sandbox: a standing approval what was agreed to with it, a rule what it
    speaks of. None if nothing is to be opened."""
    terms = prepared.sandbox
    if terms is None or not terms.confines or terms.access == NO_ACCESS:
        return None
    if said.by == "grant":
        granted = state.gate.grants[said.rule].access
        parts = tuple(part for part in PARTS if granted.covers(terms.access.only((part,))))
    else:
        rules = [
            rule
            for index, rule in enumerate(state.gate.policy.rules)
            if rule.action == "allow"
            and policy_rules.speaks_of(rule, spec)
            and holds(state, rule, index, spec, prepared)
        ]
        parts = tuple(part for part in PARTS if any(_opens(rule, part) for rule in rules))
    opened = terms.access.only(parts)
    return opened if opened != NO_ACCESS else None


def _opens(rule: Rule, part: str) -> bool:
    """Whether a permission that holds for a call speaks of a part of what its sandbox may open."""
    match part:
        case "hosts":
            return bool(rule.hosts)
        case "writable":
            return bool(rule.writes or rule.paths)
    return bool(rule.paths)


def _default(policy: Policy, spec: ToolSpec) -> Verdict:
    if policy.default != "standard":
        return Verdict(action=policy.default, by="default", rule=f"default {policy.default}")
    if spec.source == "author" or policy_rules.reads_only(spec) or spec.kind in READING_KINDS:
        return Verdict(action="allow", by="default", rule="standard")
    return Verdict(action="ask", by="default", rule="standard")


def verdict_on(state: State, spec: ToolSpec, prepared: Prepared) -> tuple[Outlook, str]:
    """What would become of a call in a state, and which line says so. Changes nothing."""
    if prepared.errors:
        return "denied", "; ".join(prepared.errors)
    if prepared.excluded is not None:
        return "denied", prepared.excluded
    if state.setup.mode == "plan" and not policy_rules.reads_only(spec):
        return "denied", "plan mode"
    if state.labels.quarantined and not policy_rules.reads_only(spec):
        return "denied", "quarantine"
    if state.setup.options.isolation == "read_only" and not policy_rules.leaves_files(spec):
        return "denied", "isolation"
    if state.skills.active and skills.denies(state, spec, prepared) is not None:
        return "denied", "an active skill"
    said, _ = together(state, spec, prepared, judge(state, spec, prepared))
    if spec.runs == "kernel":
        # The kernel's own tools touch nothing but the session: only a rule may deny them, and nobody is asked.
        denied = said.action == "deny" and said.by == "rule"
        return ("denied", said.rule) if denied else ("allowed", "kernel")
    if said.action == "ask" and state.unattended:
        return "denied", "nobody is asked in autopilot"
    if said.action == "ask" and asked_enough(state):
        return "denied", "nobody is asked again in this run"
    outlooks: dict[str, Outlook] = {"allow": "allowed", "ask": "asked", "deny": "denied"}
    return outlooks[said.action], said.rule


def approval_digest(
    state: State,
    spec: ToolSpec,
    args_digest: str,
    joins: tuple[str, ...] = (),
    sandbox: SandboxTerms | None = None,
) -> str:
    """What an approval is bound to: what the tool does and takes, its arguments, the rules that judge it, the labels
    that it would join with a way out, if it would, and the sandbox that it would run in, with what it would be given
    there."""
    further = [*([joins] if joins else []), *([sandbox] if sandbox is not None else [])]
    rests_on = (policy_rules.tool_digest(spec), args_digest, policy_rules.rules_of(state.gate.policy, spec), *further)
    return hashlib.blake2b(msgspec.json.encode(rests_on), digest_size=12).hexdigest()


def outdated(state: State, call: Call) -> tuple[Changed, ...]:
    """What has changed since a call was judged, if it may not start on that verdict any more."""
    if call.outdated:
        return call.outdated
    if labels.outdated(state, call):
        return ("labels",)
    if call.granted_by is None:
        return ()
    grant, spec = state.gate.grants.get(call.granted_by), state.toolset.tools.get(call.tool)
    stands = grant is not None and spec is not None and in_force(state, grant, spec)
    return () if stands else ("grant",)
