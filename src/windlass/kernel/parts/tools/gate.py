"""The gate: whether a call passes, is asked about, or is denied. Every call goes through it, whoever made it.

    available? ─▶ hooks, arguments, exclusions, mode, budget ─▶ repeat fuse ─▶ the policy's verdict
       │no                    │no                                  │too often      │
       ▼                      ▼                                    ▼               ├─ allow ─▶ allowed
    denied                 denied                               denied             ├─ ask ───▶ asked (autopilot: denied)
                                                                                   └─ deny ──▶ denied
The verdict is pure: conditions were evaluated by the host, and the fact says which of them held.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.changes import ChangeGrants, ModeChanged, PolicyChanged
from windlass.events.errors import Refused
from windlass.events.hooks import HookRuled, HookRuling
from windlass.events.runs import RunStarted
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import DenialReason, RepeatWarned, ToolAllowed
from windlass.events.tools.labels import LabelsJoined
from windlass.events.tools.permissions import (
    AnyDetail,
    Changed,
    GrantsChanged,
    HookDetail,
    PermissionBody,
    PermissionRequested,
    RequestKind,
    ToolDetail,
)
from windlass.events.turns import Prepared
from windlass.events.values.access import NO_ACCESS, PARTS, Access, SandboxTerms
from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.ids import permission_id
from windlass.events.values.label_words import sound, word
from windlass.events.values.specs import Grant, Policy, Rule, ToolSpec, Trait
from windlass.kernel.part import Decisions, Part
from windlass.kernel.parts import budgets, runs, skills
from windlass.kernel.parts.tools import calls, kernel_tools, labels, repeats, rule_limits

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


GRANTS_MAX = 256
NAMES_SHOWN_MAX = 30
JUDGED_BY = (
    "paths", "writes", "hosts", "commands", "traits", "modes", "sources", "labels", "rate", "quota", "quota_per",
    "known_only", "confined",
)  # fmt: skip
"""What a rule may say beside tool, kinds and condition."""
NARROWED_BY = tuple(name for name in JUDGED_BY if name not in ("paths", "sources", "known_only"))
"""What leaves calls to which a rule about paths does not speak."""
PLAIN_DENIAL = Rule(action="deny")
ENOUGH = "this needs a person's approval, and people have denied what this run asked"
READING_KINDS = frozenset({"read"})

Outlook = Literal["allowed", "asked", "denied"]
"""What would become of a call."""


class Verdict(Value, frozen=True, kw_only=True):
    """What the gate says, and which line said it."""

    action: Literal["allow", "ask", "deny"]
    by: Literal["rule", "default", "grant"]
    rule: str = ""
    reason: str = ""


class Gate(msgspec.Struct, kw_only=True, gc=False):
    """What calls are judged by."""

    policy: Policy = Policy()
    grants: dict[str, Grant] = {}
    counts: dict[str, rule_limits.Count] = {}
    """By the digest of the rule."""
    denials: int = 0
    """How many requests of this run people denied in a row."""


def session_started(state: State, event: SessionStarted) -> None:
    state.gate.policy = event.setup.policy


def policy_changed(state: State, event: PolicyChanged) -> None:
    before = state.gate.policy
    state.gate.policy = event.policy
    calls.judge_again(state, lambda spec: _other_rules(before, event.policy, spec))


def mode_changed(state: State, event: ModeChanged) -> None:
    by_mode = [rule for rule in state.gate.policy.rules if rule.modes or "session" in (rule.when or "")]

    def differs(spec: ToolSpec) -> tuple[Changed, ...]:
        barred = event.mode == "plan" and not reads_only(spec)
        return ("mode",) if barred or any(speaks_of(rule, spec) for rule in by_mode) else ()

    if event.mode == "plan" or by_mode:
        calls.judge_again(state, differs)


def sandbox_changed(state: State) -> None:
    """The session has another sandbox: calls that were to run in the one before are judged again."""
    calls.judge_again(state, lambda spec: ("sandbox",) if runs_in_sandbox(spec) else ())


def labels_joined(state: State, event: LabelsJoined) -> None:
    """Calls that were judged before the session saw this are judged again if a rule speaks of such labels."""
    now = {name for found in event.labels for name in (found.label, word(found.label))}
    by_label = [rule for rule in state.gate.policy.rules if now & set(rule.labels)]
    if by_label:
        calls.judge_again(state, lambda spec: ("labels",) if any(speaks_of(r, spec) for r in by_label) else ())


def tools_changed(state: State, before: dict[str, ToolSpec], now: dict[str, ToolSpec]) -> None:
    """The tools are others now: calls that were judged by what they were and have not begun are judged again. Under
    another alias other rules may speak of a tool."""
    policy = state.gate.policy

    def differs(spec: ToolSpec) -> tuple[Changed, ...]:
        old, new = before.get(spec.name), now[spec.name]
        reached = old is not None and rules_of(policy, old) != rules_of(policy, new)
        return (*differences(old, new), *(("rules",) if reached else ()))

    calls.judge_again(state, differs)


def grants_changed(state: State, event: GrantsChanged) -> None:
    grants = state.gate.grants
    for grant in event.added:
        grants[grant.grant_id] = grant
    for name in event.revoked:
        grants.pop(name, None)
    while len(grants) > GRANTS_MAX:
        del grants[next(iter(grants))]


def run_started(state: State, event: RunStarted) -> None:
    if runs.counted_anew(event):
        state.gate.denials = 0
        rule_limits.count_run_anew(state.gate.counts)


def passed(state: State, rules: tuple[str, ...]) -> None:
    """A call has passed that these rules with a limit count."""
    rule_limits.count(state.gate.counts, rules, state.now_ms)


def answered(state: State, *, denied: bool) -> None:
    """A person said yes or no to what the run asked."""
    state.gate.denials = state.gate.denials + 1 if denied else 0


def asked_enough(state: State) -> bool:
    """Whether people have said no so often in a row that the run asks nothing more."""
    most = state.setup.settings.denials_max
    return 0 < most <= state.gate.denials


def hook_ruled(state: State, event: HookRuled) -> None:
    ruling = event.ruling
    if not ruling.denies or not state.active:
        return
    if ruling.fatal or ruling.point in ("before_model", "after_model"):
        # There is nothing smaller than the run that a denied reply could be taken out of.
        runs.must_end(state, "hook_denied")


def check_grants(state: State, change: ChangeGrants) -> None:
    if change.add:
        labels.check_free(state, "no standing approval can be given")
    strange = [name for name in change.revoke if name not in state.gate.grants]
    if strange:
        standing = ", ".join(state.gate.grants) or "none"
        raise Refused("not_there", f"no standing approval {', '.join(strange)}: there are {standing}")
    for grant in change.add:
        if grant.tool not in state.toolset.tools:
            raise Refused(
                "unknown_tool", f"a standing approval is for one tool by its name; there is no {grant.tool!r}"
            )


def bound(state: State, grant: Grant, for_ms: int | None = None) -> Grant:
    """A standing approval as it may stand: of the tool as it is now, and for a time."""
    spec = state.toolset.tools[grant.tool]
    at_ms = state.now_ms + (state.setup.settings.grant_ms if for_ms is None else for_ms)
    if grant.expires_ms is not None:
        at_ms = grant.expires_ms
    rules = rules_digest(state.gate.policy, spec)
    return msgspec.structs.replace(grant, digest=tool_digest(spec), rules=rules, expires_ms=at_ms)


def forked(state: State) -> Decisions:
    """Standing approvals were given to the session that they were given in."""
    if state.gate.grants:
        yield GrantsChanged(revoked=tuple(state.gate.grants))


# --- the way of a call --------------------------------------------------------------------------------------------


def rule(
    state: State,
    call: Call,
    found: Prepared | None,
    args: JsonObject | None,
    text: str | None,
    hooks: tuple[HookRuling, ...] = (),
) -> Decisions:
    """Lets a call pass, asks about it, or denies it. A call that is not prepared waits for the host."""
    for ruling in hooks:
        yield HookRuled(ruling=ruling)
    denial = unavailable(state, call)
    if denial is not None:
        yield calls.denied(call, *denial)
        return
    if found is None:
        return
    spec = state.toolset.tools[call.tool]
    denial = refusal(state, call, spec, found, hooks)
    if denial is not None:
        yield calls.denied(call, *denial)
        return
    if not call.outdated:
        yield from fuse(state, call)
        if call.status == "closed":
            return
    if spec.runs == "kernel":
        yield from perform(state, call, spec, found, args or {})
    else:
        yield from judged(state, call, spec, found, args, text, next((ruling for ruling in hooks if ruling.asks), None))


def fuse(state: State, call: Call) -> Decisions:
    """The repeat fuse: a call that was made too often is denied."""
    count, settings = repeats.of_call(state, call), state.setup.settings
    if count >= settings.repeat_stop:
        yield calls.denied(call, "repeated", f"the same call was made {count} times; the run ends here", stop=True)
    elif count >= settings.repeat_deny:
        yield calls.denied(call, "repeated", f"the same call was made {count} times; try something else")
    elif count >= settings.repeat_warn:
        yield RepeatWarned(call_id=call.call_id, count=count)


def perform(state: State, call: Call, spec: ToolSpec, found: Prepared, args: JsonObject) -> Decisions:
    """The kernel's own tools change nothing but the session itself: a rule may deny them, nobody is asked."""
    verdict = judge(state, spec, found)
    if verdict.action == "deny" and verdict.by == "rule":
        yield calls.denied(call, "rules", verdict.reason or "the policy does not allow this", rule=verdict.rule)
        return
    yield ToolAllowed(call_id=call.call_id, by="kernel", counts=rule_limits.counted(state, spec, found))
    yield from kernel_tools.perform(state, call, args)


def judged(
    state: State,
    call: Call,
    spec: ToolSpec,
    found: Prepared,
    args: JsonObject | None,
    text: str | None,
    wanted: HookRuling | None,
) -> Decisions:
    """The policy's verdict on a call; `wanted` is the hook that wants a person asked about it, if one does."""
    verdict, joins = together(state, spec, found, judge(state, spec, found))
    by_hook = wanted if verdict.action == "allow" else None
    if by_hook is not None:
        reason = by_hook.message or f"the hook {by_hook.hook_id} wants that"
        verdict = Verdict(action="ask", by=verdict.by, rule=verdict.rule, reason=reason)
    counts = rule_limits.counted(state, spec, found)
    if verdict.action == "allow":
        access = opened_by(state, spec, found, verdict)
        yield ToolAllowed(
            call_id=call.call_id, by=verdict.by, rule=verdict.rule, joins=joins, counts=counts, access=access
        )
        return
    if verdict.action == "deny":
        yield calls.denied(call, "rules", verdict.reason or "the policy does not allow this", rule=verdict.rule)
        return
    digest = approval_digest(state, spec, found.digest + found.basis, joins, found.sandbox)
    if call.approval and call.approval == digest:
        # A person said yes to this very call, and nothing that they were shown has changed.
        access = found.sandbox.opened if found.sandbox is not None else None
        yield ToolAllowed(
            call_id=call.call_id, by="person", rule=call.ruled_by, joins=joins, counts=counts, access=access
        )
    elif state.setup.mode == "autopilot":
        yield calls.denied(call, "no_approver", "this needs a person's approval and nobody is asked in autopilot")
    elif asked_enough(state) and not call.by_person:
        told = f"{ENOUGH}, {state.gate.denials} times in a row: go on without it, or end and say what you would need"
        yield calls.denied(call, "asked_enough", told, rule=verdict.rule)
    else:
        kind: RequestKind = "hook" if by_hook is not None and found.detail is None else spec.kind
        yield PermissionRequested(
            request_id=permission_id(state.seq + 1),
            call_id=call.call_id,
            tool=call.tool,
            kind=kind,
            digest=digest,
            rule=verdict.rule,
            changed=call.outdated,
            replaces=call.replaced_ask,
            counts=counts,
            joins=joins,
            group=_group(state, call, kind, verdict.rule),
            by_pattern=by_hook is None and found.exact and bool(found.subject) and not _each_time(found),
            session_offered=by_hook is None and _session_offered(found),
            sandbox=found.sandbox,
            body=PermissionBody(
                detail=found.detail or _detail(call, args, text, by_hook),
                why=verdict.reason,
                subject=found.subject,
            ),
        )


def _detail(call: Call, args: JsonObject | None, text: str | None, by_hook: HookRuling | None) -> AnyDetail:
    """What is shown of a call whose tool does not say."""
    if by_hook is None:
        return ToolDetail(tool=call.tool, args=args, text=text)
    return HookDetail(tool=call.tool, hook_id=by_hook.hook_id, message=by_hook.message, args=args, text=text)


def _session_offered(found: Prepared) -> bool:
    """Whether a person may answer for later calls of the tool as well: they are shown this one whole, and it is like
    the others."""
    return not _each_time(found) and getattr(found.detail, "session_approval_offered", True)


def _each_time(found: Prepared) -> bool:
    """Whether somebody is asked about such a call whatever stands for it."""
    return found.sensitive is not None or found.unclear is not None


def _group(state: State, call: Call, kind: RequestKind, rule: str) -> str:
    """The open request that one about a call is put before a person together with, if there is one like it."""
    for ask in state.asks.open.values():
        other = state.calls.by_id.get(ask.call_id)
        alike = (ask.kind, ask.tool, ask.permission_kind, ask.rule) == ("permission", call.tool, kind, rule)
        if alike and other is not None and other.source_seq == call.source_seq and not call.by_person:
            return ask.group or ask.ask_id
    return ""


STATE_TOOLS = ("run_state", "poll_state")
"""What the states of a machine run their programs with. Nobody else may: what its author wrote is not asked about."""


def unavailable(state: State, call: Call) -> tuple[DenialReason, str] | None:
    """Why a tool is not there to be called at all."""
    spec = state.toolset.tools.get(call.tool)
    if spec is None:
        names = [
            name for name, known in state.toolset.tools.items() if not known.deferred or name in state.toolset.loaded
        ]
        shown = ", ".join(names[:NAMES_SHOWN_MAX]) or "none"
        return "unknown_tool", f"there is no tool {call.tool!r}; the tools are: {shown}"
    has_machine = state.machine.given is not None or state.setup.routing == "auto"
    if has_machine and call.tool in STATE_TOOLS and not call.state:
        return "unavailable_tool", f"{call.tool!r} is called by the states of a machine alone"
    if spec.deferred and call.tool not in state.toolset.loaded and not call.state:
        return "unavailable_tool", f"load {call.tool!r} before calling it"
    offered = state.run.options.tools if state.run.options is not None else None
    if offered is not None and call.tool not in offered and spec.runs != "kernel" and not call.by_person:
        return "unavailable_tool", f"{call.tool!r} is not offered in this run"
    if state.turn.wrap_up and not call.by_person:
        return "budget", "no more calls: the run is at its limit, answer with what you have"
    return None


def refusal(
    state: State, call: Call, spec: ToolSpec, found: Prepared, hooks: tuple[HookRuling, ...]
) -> tuple[DenialReason, str] | None:
    """The first reason for which a call may not even be judged."""
    for ruling in hooks:
        if ruling.denies:
            return "hook", ruling.message or f"denied by {ruling.hook_id}"
        if ruling.asks and spec.runs == "kernel":
            return "hook", f"{ruling.hook_id} wants a person asked, and nobody is asked about {call.tool!r}"
    if found.errors:
        return "invalid_arguments", "; ".join(found.errors)
    if found.excluded is not None:
        return "content_excluded", found.excluded
    if state.labels.quarantined and not reads_only(spec):
        return "quarantine", "the session is quarantined: only reading is allowed"
    if state.setup.options.isolation == "read_only" and not leaves_files(spec):
        return "isolation", "this child session works read-only, and the tool does not say that it only reads"
    if state.setup.mode == "plan" and not reads_only(spec):
        return "mode", "in plan mode only reading is allowed until the plan is approved"
    if state.skills.active and not call.by_person and (why := skills.denies(state, spec, found)) is not None:
        return "skill", why
    left = budgets.calls_left(state) if not call.paid_for else None
    if left is not None and left <= 0:
        return "budget", "the budget for tool calls is used up"
    return None


# --- the verdict --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    # Each star takes as little as it can and never gives back, so that many of them cannot make a long name costly.
    first, *rest = ("".join("." if c == "?" else re.escape(c) for c in piece) for piece in glob.split("*"))
    between = "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece)
    return re.compile(first + between + (f".*{rest[-1]}" if rest else ""), re.DOTALL)


def matches(glob: str, name: str) -> bool:
    """Whether a name fits a glob of `*` and `?`. Case matters."""
    return _pattern(glob).fullmatch(name) is not None


def speaks_of(rule: Rule, spec: ToolSpec) -> bool:
    """Whether a rule is about a tool. A denial or a question reaches it by the name that models see as well; a
    permission does not, since whoever mounts a tool chooses that name."""
    if rule.kinds and spec.kind not in rule.kinds:
        return False
    if rule.sources and not any(matches(glob, spec.source) for glob in rule.sources):
        return False
    if matches(rule.tool, spec.name):
        return True
    return rule.action != "allow" and spec.alias is not None and matches(rule.tool, spec.alias)


def reads_only(spec: ToolSpec) -> bool:
    """Whether a tool says that it changes nothing: this is what plan mode lets pass."""
    if spec.runs == "kernel":
        return True
    return spec.contract == "pure" and not set(spec.traits) - {"read"}


def leaves_files(spec: ToolSpec) -> bool:
    """Whether a tool says that it changes no files: this is what a child that works read-only may call. What a child of
    it does is held to the same."""
    if reads_only(spec) or spec.runs == "child":
        return True
    return bool(spec.traits) and not set(spec.traits) - {"read", "egress"}


def unseen_by(policy: Policy, spec: ToolSpec) -> tuple[str, ...]:
    """Globs of what calls of a tool must not see, whichever way they come to it: what no model may see, and paths that
    a rule denies to the tool whatever else holds."""
    globs = [*policy.exclude]
    for rule in policy.rules:
        if rule.action == "deny" and rule.paths and speaks_of(rule, spec) and _denies_whatever_holds(rule):
            globs += rule.paths
    return tuple(dict.fromkeys(globs)) if globs else ()


def _denies_whatever_holds(rule: Rule) -> bool:
    return rule.when is None and all(getattr(rule, name) == getattr(PLAIN_DENIAL, name) for name in NARROWED_BY)


def runs_in_sandbox(spec: ToolSpec) -> bool:
    """Whether all that a tool does happens in the session's sandbox: the built-in tools that run commands. What an
    author's own tool does, nobody can say."""
    return spec.source == "builtin" and spec.kind == "shell" and spec.runs == "host"


def is_conditional(rule: Rule) -> bool:
    """Whether the host must look at a call to say whether a rule holds."""
    return rule.when is not None or bool(rule.paths or rule.writes or rule.hosts or rule.commands)


def holds(state: State, rule: Rule, index: int, spec: ToolSpec, prepared: Prepared) -> bool | None:
    """Whether a rule that speaks of a tool holds for a call of it; None if that could not be judged."""
    if not rule_limits.within_limits(state, rule):
        return False
    return holds_but_for_limits(state, rule, index, spec, prepared)


def holds_but_for_limits(state: State, rule: Rule, index: int, spec: ToolSpec, prepared: Prepared) -> bool | None:
    """The same, whatever was counted."""
    if rule.modes and state.setup.mode not in rule.modes:
        return False
    if rule.confined and not prepared.confined:
        return False
    if rule.traits and not _traits_fit(rule, spec.traits if prepared.traits is None else prepared.traits):
        return False
    if rule.labels and not set(rule.labels) & _labels_met(state, spec, prepared):
        return False
    if not is_conditional(rule):
        return True
    return None if index in prepared.unjudged else index in prepared.matched


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
    found: dict[str, Verdict] = {}
    unclear_denial: Verdict | None = None
    for index, rule in enumerate(state.gate.policy.rules):
        if not speaks_of(rule, spec):
            continue
        name = rule.name or f"rule {index + 1}"
        held = holds(state, rule, index, spec, prepared)
        if held is None:
            unclear = Verdict(action="ask", by="rule", rule=name, reason=f"cannot judge: {_condition(rule)}")
            found.setdefault("ask", unclear)
            if rule.action == "deny":
                unclear_denial = unclear_denial or unclear
        elif held:
            found.setdefault(rule.action, Verdict(action=rule.action, by="rule", rule=name, reason=rule.reason))
    if "deny" in found:
        return found["deny"]
    if unclear_denial is not None:
        # A standing approval may not speak over a denial that nobody could check.
        return unclear_denial
    ordinary = found.get("ask") or found.get("allow") or _default(state.gate.policy, spec)
    said = _granted(state, spec, prepared) or ordinary
    return _stricter(prepared, _with_access(state, spec, prepared, said))


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
    if grant.tool != spec.name or grant.digest != tool_digest(spec):
        return False
    if grant.rules and grant.rules != rules_digest(state.gate.policy, spec):
        return False
    return grant.expires_ms is None or state.now_ms < grant.expires_ms


def standing(state: State) -> tuple[Grant, ...]:
    """The standing approvals that are in force."""
    tools = state.toolset.tools
    grants = state.gate.grants.values()
    return tuple(grant for grant in grants if grant.tool in tools and in_force(state, grant, tools[grant.tool]))


def _covers(pattern: str, prepared: Prepared) -> bool:
    """Whether a standing approval speaks of this very call. One without a subject fits by its digest alone."""
    if pattern == prepared.digest:
        return True
    return prepared.exact and bool(prepared.subject) and matches(pattern, prepared.subject or "")


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
            if rule.action == "allow" and speaks_of(rule, spec) and holds(state, rule, index, spec, prepared)
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
    if spec.source == "author" or reads_only(spec) or spec.kind in READING_KINDS:
        return Verdict(action="allow", by="default", rule="standard")
    return Verdict(action="ask", by="default", rule="standard")


def verdict_on(state: State, spec: ToolSpec, prepared: Prepared) -> tuple[Outlook, str]:
    """What would become of a call in a state, and which line says so. Changes nothing."""
    if prepared.errors:
        return "denied", "; ".join(prepared.errors)
    if prepared.excluded is not None:
        return "denied", prepared.excluded
    if state.setup.mode == "plan" and not reads_only(spec):
        return "denied", "plan mode"
    if state.labels.quarantined and not reads_only(spec):
        return "denied", "quarantine"
    if state.setup.options.isolation == "read_only" and not leaves_files(spec):
        return "denied", "isolation"
    if state.skills.active and skills.denies(state, spec, prepared) is not None:
        return "denied", "an active skill"
    said, _ = together(state, spec, prepared, judge(state, spec, prepared))
    if spec.runs == "kernel":
        # The kernel's own tools touch nothing but the session: only a rule may deny them, and nobody is asked.
        denied = said.action == "deny" and said.by == "rule"
        return ("denied", said.rule) if denied else ("allowed", "kernel")
    if said.action == "ask" and state.setup.mode == "autopilot":
        return "denied", "nobody is asked in autopilot"
    if said.action == "ask" and asked_enough(state):
        return "denied", "nobody is asked again in this run"
    outlooks: dict[str, Outlook] = {"allow": "allowed", "ask": "asked", "deny": "denied"}
    return outlooks[said.action], said.rule


# --- what a verdict rests on ----------------------------------------------------------------------------------------


def tool_digest(spec: ToolSpec) -> str:
    """The digest of what a tool does and takes, how it may be repeated and what it touches; prose is not part of it."""
    rests_on = (spec.name, spec.code or spec.digest, spec.schema, spec.contract, *_traits(spec))
    return hashlib.blake2b(msgspec.json.encode(rests_on), digest_size=12).hexdigest()


def _traits(spec: ToolSpec) -> tuple[object, ...]:
    return (spec.traits, spec.kind, spec.labels, spec.source, spec.runs)


def differences(before: ToolSpec | None, now: ToolSpec) -> tuple[Changed, ...]:
    """What of a tool matters to a verdict and is another one now."""
    if before is None:
        return ("code",)
    told_apart = bool(before.code and now.code)
    found: list[tuple[Changed, bool]] = [
        ("code", before.code != now.code if told_apart else before.digest != now.digest),
        ("schema", told_apart and before.schema != now.schema),
        ("contract", before.contract != now.contract),
        ("traits", _traits(before) != _traits(now)),
    ]
    return tuple(what for what, differs in found if differs)


def rules_of(policy: Policy, spec: ToolSpec) -> tuple[object, ...]:
    """The lines of a policy that judge a tool, without what they are called; what holds if none of them does; and what
    nobody may see, whoever agrees."""
    lines = [(rule.action, rule.tool, rule.kinds, rule.when, *_more(rule)) for rule in _about(policy, spec)]
    excluded = [("exclude", *sorted(policy.exclude))] if policy.exclude else []
    together = [("trifecta", policy.trifecta)] if policy.trifecta != "ask" else []
    return (policy.default, *lines, *excluded, *together)


def _about(policy: Policy, spec: ToolSpec) -> list[Rule]:
    return [rule for rule in policy.rules if speaks_of(rule, spec)]


def _more(rule: Rule) -> list[object]:
    """What else a rule says, by the names of its fields: older rules are digested as they always were."""
    plain = Rule(action=rule.action)
    said = ((name, getattr(rule, name)) for name in JUDGED_BY)
    return [(name, value) for name, value in said if value != getattr(plain, name)]


def rules_digest(policy: Policy, spec: ToolSpec) -> str:
    """The digest of the lines of a policy that judge a tool."""
    return hashlib.blake2b(msgspec.json.encode(rules_of(policy, spec)), digest_size=12).hexdigest()


def _other_rules(before: Policy, now: Policy, spec: ToolSpec) -> tuple[Changed, ...]:
    return ("rules",) if rules_of(before, spec) != rules_of(now, spec) else ()


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
    rests_on = (tool_digest(spec), args_digest, rules_of(state.gate.policy, spec), *further)
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


def describe(rule: Rule) -> str:
    """A rule in words."""
    return " ".join([rule.action, rule.tool, *_conditions(rule)])


def _conditions(rule: Rule) -> Iterator[str]:
    """What a rule asks of a call beside its tool, in words."""
    lists = (
        ("of kind", rule.kinds), ("from", rule.sources), ("that does", rule.traits), ("in mode", rule.modes),
        ("on", rule.paths), ("writing", rule.writes), ("to", rule.hosts), ("running", rule.commands),
        ("with label", rule.labels),
    )  # fmt: skip
    for relation, given in lists:
        if given:
            yield f"{relation} {', '.join(given)}"
    if rule.known_only:
        yield "as far as is known"
    if rule.confined:
        yield "in a sandbox"
    if rule.when:
        yield f"when {rule.when}"
    bound = "at most" if rule.action == "allow" else "after"
    if rule.rate is not None:
        yield f"{bound} {rule.rate.calls} in {_time(rule.rate.per_ms)}"
    if rule.quota is not None:
        yield f"{bound} {rule.quota} in the {rule.quota_per}"


def _time(ms: int) -> str:
    for unit, size in (("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def _condition(rule: Rule) -> str:
    """What of a rule could not be judged."""
    return rule.when if rule.when and len(list(_conditions(rule))) == 1 else " ".join(_conditions(rule))


PART = Part(
    name="gate",
    decisions={PolicyChanged: policy_changed, GrantsChanged: grants_changed, HookRuled: hook_ruled},
    hears={
        SessionStarted: session_started,
        ModeChanged: mode_changed,
        RunStarted: run_started,
        LabelsJoined: labels_joined,
    },
    forked=forked,
)
