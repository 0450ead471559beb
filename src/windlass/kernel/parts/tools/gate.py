"""The gate: whether a call passes, is asked about, or is denied. Every call goes through it, whoever made it.

    available? ─▶ hooks, arguments, exclusions, mode, budget ─▶ repeat fuse ─▶ the policy's verdict
       │no                    │no                                  │too often      │
       ▼                      ▼                                    ▼               ├─ allow ─▶ allowed
    denied                 denied                               denied             ├─ ask ───▶ asked (autopilot: denied)
                                                                                   └─ deny ──▶ denied
The verdict is pure: conditions were evaluated by the host, and the fact says which of them held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.changes import ChangeGrants, ModeChanged, PolicyChanged
from windlass.events.errors import Refused
from windlass.events.hooks import HookRuled, HookRuling
from windlass.events.runs import RunStarted
from windlass.events.sessions import SessionForked, SessionResumed, SessionStarted
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
from windlass.events.values.blocks import JsonObject
from windlass.events.values.ids import permission_id
from windlass.events.values.label_words import word
from windlass.events.values.policy import Grant, Policy
from windlass.events.values.setup import Chosen, SessionOptions
from windlass.events.values.tools import ToolSpec
from windlass.kernel.part import Decisions, Part
from windlass.kernel.parts import budgets, runs, skills
from windlass.kernel.parts.tools import calls, kernel_tools, labels, policy_rules, repeats, rule_limits, verdicts
from windlass.kernel.parts.trees import listening_grants

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


GRANTS_MAX = 256
NAMES_SHOWN_MAX = 30
ENOUGH = "this needs a person's approval, and people have denied what this run asked"


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
        barred = event.mode == "plan" and not policy_rules.reads_only(spec)
        return ("mode",) if barred or any(policy_rules.speaks_of(rule, spec) for rule in by_mode) else ()

    if event.mode == "plan" or by_mode:
        calls.judge_again(state, differs)


def sandbox_changed(state: State) -> None:
    """The session has another sandbox: calls that were to run in the one before are judged again."""
    calls.judge_again(state, lambda spec: ("sandbox",) if policy_rules.runs_in_sandbox(spec) else ())


def session_resumed(state: State, event: SessionResumed) -> None:
    if event.options is not None:
        restrained(state, event.options)


def session_forked(state: State, event: SessionForked) -> None:
    if event.held is not None:
        restrained(state, event.held)


def restrained(state: State, options: SessionOptions) -> None:
    """The session may do less from here on: what was let pass before, or is asked about, is judged again."""
    only_reads, keeps_files = options.quarantine, options.isolation == "read_only"
    about = [rule for rule in state.gate.policy.rules if rule.trust or "quarantined" in (rule.when or "")]

    def differs(spec: ToolSpec) -> tuple[Changed, ...]:
        barred = only_reads and not policy_rules.reads_only(spec)
        barred = barred or (keeps_files and not policy_rules.leaves_files(spec))
        ruled = only_reads and any(policy_rules.speaks_of(rule, spec) for rule in about)
        return ("labels",) if barred or ruled else ()

    if only_reads or keeps_files:
        calls.judge_again(state, differs)


def only_reads(specialist: Chosen | None) -> bool:
    """Whether a specialist that runs a session may only read."""
    return specialist is not None and specialist.only_reads


def reading_changed(state: State) -> None:
    """Whether the session may only read is otherwise now: calls that do more are judged again."""
    calls.judge_again(state, lambda spec: () if policy_rules.leaves_files(spec) else ("mode",))


def labels_joined(state: State, event: LabelsJoined) -> None:
    """Calls that were judged before the session saw this are judged again if a rule speaks of such labels."""
    now = {name for provenance in event.labels for name in (provenance.label, word(provenance.label))}
    by_label = [rule for rule in state.gate.policy.rules if now & set(rule.labels)]
    if by_label:
        calls.judge_again(
            state, lambda spec: ("labels",) if any(policy_rules.speaks_of(r, spec) for r in by_label) else ()
        )


def tools_changed(state: State, before: dict[str, ToolSpec], now: dict[str, ToolSpec]) -> None:
    """The tools are others now: calls that were judged by what they were and have not begun are judged again. Under
    another alias other rules may speak of a tool."""
    policy = state.gate.policy

    def differs(spec: ToolSpec) -> tuple[Changed, ...]:
        old, new = before.get(spec.name), now[spec.name]
        reached = old is not None and policy_rules.rules_of(policy, old) != policy_rules.rules_of(policy, new)
        return (*policy_rules.differences(old, new), *(("rules",) if reached else ()))

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
        if grant.session:
            listening_grants.check_added(state, grant)
        elif grant.tool not in state.toolset.tools:
            raise Refused(
                "unknown_tool", f"a standing approval is for one tool by its name; there is no {grant.tool!r}"
            )


def bound(state: State, grant: Grant, for_ms: int | None = None) -> Grant:
    """A standing approval as it may stand: of the tool as it is now, and for a time. A session outside is granted what
    it may say until that is taken back, unless a time is named."""
    if grant.session:
        return msgspec.structs.replace(grant, digest="", rules="")
    spec = state.toolset.tools[grant.tool]
    at_ms = state.now_ms + (state.setup.settings.grant_ms if for_ms is None else for_ms)
    if grant.expires_ms is not None:
        at_ms = grant.expires_ms
    rules = policy_rules.rules_digest(state.gate.policy, spec)
    return msgspec.structs.replace(grant, digest=policy_rules.tool_digest(spec), rules=rules, expires_ms=at_ms)


def forked(state: State) -> Decisions:
    """Standing approvals were given to the session that they were given in."""
    if state.gate.grants:
        yield GrantsChanged(revoked=tuple(state.gate.grants))


# --- the way of a call --------------------------------------------------------------------------------------------


def rule(
    state: State,
    call: Call,
    prepared: Prepared | None,
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
    if prepared is None:
        return
    spec = state.toolset.tools[call.tool]
    denial = refusal(state, call, spec, prepared, hooks)
    if denial is not None:
        yield calls.denied(call, *denial)
        return
    if not call.outdated:
        yield from fuse(state, call)
        if call.status == "closed":
            return
    if spec.runs == "kernel":
        yield from perform(state, call, spec, prepared, args or {})
    else:
        yield from judged(
            state, call, spec, prepared, args, text, next((ruling for ruling in hooks if ruling.asks), None)
        )


def fuse(state: State, call: Call) -> Decisions:
    """The repeat fuse: a call that was made too often is denied."""
    count, settings = repeats.of_call(state, call), state.setup.settings
    if count >= settings.repeat_stop:
        yield calls.denied(call, "repeated", f"the same call was made {count} times; the run ends here", stop=True)
    elif count >= settings.repeat_deny:
        yield calls.denied(call, "repeated", f"the same call was made {count} times; try something else")
    elif count >= settings.repeat_warn:
        yield RepeatWarned(call_id=call.call_id, count=count)


def perform(state: State, call: Call, spec: ToolSpec, prepared: Prepared, args: JsonObject) -> Decisions:
    """The kernel's own tools change nothing but the session itself: a rule may deny them, nobody is asked."""
    verdict = verdicts.judge(state, spec, prepared)
    if verdict.action == "deny" and verdict.by == "rule":
        yield calls.denied(call, "rules", verdict.reason or "the policy does not allow this", rule=verdict.rule)
        return
    yield ToolAllowed(call_id=call.call_id, by="kernel", counts=rule_limits.counted(state, spec, prepared))
    yield from kernel_tools.perform(state, call, args)


def judged(
    state: State,
    call: Call,
    spec: ToolSpec,
    prepared: Prepared,
    args: JsonObject | None,
    text: str | None,
    wanted: HookRuling | None,
) -> Decisions:
    """The policy's verdict on a call; `wanted` is the hook that wants a person asked about it, if one does."""
    verdict, joins = verdicts.together(state, spec, prepared, verdicts.judge(state, spec, prepared))
    by_hook = wanted if verdict.action == "allow" else None
    if by_hook is not None:
        reason = by_hook.message or f"the hook {by_hook.hook_id} wants that"
        verdict = verdicts.Verdict(action="ask", by=verdict.by, rule=verdict.rule, reason=reason)
    counts = rule_limits.counted(state, spec, prepared)
    if verdict.action == "allow":
        access = verdicts.opened_by(state, spec, prepared, verdict)
        yield ToolAllowed(
            call_id=call.call_id, by=verdict.by, rule=verdict.rule, joins=joins, counts=counts, access=access
        )
        return
    if verdict.action == "deny":
        yield calls.denied(call, "rules", verdict.reason or "the policy does not allow this", rule=verdict.rule)
        return
    digest = verdicts.approval_digest(state, spec, prepared.digest + prepared.basis, joins, prepared.sandbox)
    if call.approval and call.approval == digest:
        # A person said yes to this very call, and nothing that they were shown has changed.
        access = prepared.sandbox.opened if prepared.sandbox is not None else None
        yield ToolAllowed(
            call_id=call.call_id, by="person", rule=call.ruled_by, joins=joins, counts=counts, access=access
        )
    elif state.unattended:
        yield calls.denied(call, "no_approver", "this needs a person's approval and nobody is asked in autopilot")
    elif verdicts.asked_enough(state) and not call.by_person:
        told = f"{ENOUGH}, {state.gate.denials} times in a row: go on without it, or end and say what you would need"
        yield calls.denied(call, "asked_enough", told, rule=verdict.rule)
    else:
        kind: RequestKind = "hook" if by_hook is not None and prepared.detail is None else spec.kind
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
            by_pattern=by_hook is None and prepared.exact and bool(prepared.subject) and not _each_time(prepared),
            session_offered=by_hook is None and _session_offered(prepared),
            sandbox=prepared.sandbox,
            body=PermissionBody(
                detail=prepared.detail or _detail(call, args, text, by_hook),
                why=verdict.reason,
                subject=prepared.subject,
            ),
        )


def _detail(call: Call, args: JsonObject | None, text: str | None, by_hook: HookRuling | None) -> AnyDetail:
    """What is shown of a call whose tool does not say."""
    if by_hook is None:
        return ToolDetail(tool=call.tool, args=args, text=text)
    return HookDetail(tool=call.tool, hook_id=by_hook.hook_id, message=by_hook.message, args=args, text=text)


def _session_offered(prepared: Prepared) -> bool:
    """Whether a person may answer for later calls of the tool as well: they are shown this one whole, and it is like
    the others."""
    return not _each_time(prepared) and getattr(prepared.detail, "session_approval_offered", True)


def _each_time(prepared: Prepared) -> bool:
    """Whether somebody is asked about such a call whatever stands for it."""
    return prepared.sensitive is not None or prepared.unclear is not None


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
    state: State, call: Call, spec: ToolSpec, prepared: Prepared, hooks: tuple[HookRuling, ...]
) -> tuple[DenialReason, str] | None:
    """The first reason for which a call may not even be judged."""
    for ruling in hooks:
        if ruling.denies:
            return "hook", ruling.message or f"denied by {ruling.hook_id}"
        if ruling.asks and spec.runs == "kernel":
            return "hook", f"{ruling.hook_id} wants a person asked, and nobody is asked about {call.tool!r}"
    if prepared.errors:
        return "invalid_arguments", "; ".join(prepared.errors)
    if prepared.excluded is not None:
        return "content_excluded", prepared.excluded
    if state.labels.quarantined and not policy_rules.reads_only(spec):
        return "quarantine", "the session is quarantined: only reading is allowed"
    if state.setup.options.isolation == "read_only" and not policy_rules.leaves_files(spec):
        return "isolation", "this child session works read-only, and the tool does not say that it only reads"
    if only_reads(state.setup.options.specialist) and not policy_rules.leaves_files(spec):
        return "isolation", "the specialist that runs this session only reads, and the tool does not say that it does"
    if state.setup.mode == "plan" and not policy_rules.reads_only(spec):
        return "mode", "in plan mode only reading is allowed until the plan is approved"
    if state.skills.active and not call.by_person and (why := skills.denies(state, spec, prepared)) is not None:
        return "skill", why
    left = budgets.calls_left(state) if not call.paid_for else None
    if left is not None and left <= 0:
        return "budget", "the budget for tool calls is used up"
    return None


def _other_rules(before: Policy, now: Policy, spec: ToolSpec) -> tuple[Changed, ...]:
    return ("rules",) if policy_rules.rules_of(before, spec) != policy_rules.rules_of(now, spec) else ()


PART = Part(
    name="gate",
    decisions={PolicyChanged: policy_changed, GrantsChanged: grants_changed, HookRuled: hook_ruled},
    hears={
        SessionStarted: session_started,
        SessionResumed: session_resumed,
        SessionForked: session_forked,
        ModeChanged: mode_changed,
        RunStarted: run_started,
        LabelsJoined: labels_joined,
    },
    forked=forked,
)
