"""The call machine: each call is requested, ruled on, perhaps asked about, allowed, started, and gets one result.

    requested ──(host prepares)──▶ prepared ─┬─▶ denied
        └────────(prepared in the reply)─────┤
                                             ├─▶ asked ──▶ allowed | denied
                                             └─▶ allowed ─▶ started ─▶ finished | timed out | unknown
                                                        ├─▶ delegated ─▶ result received
                                                        └─▶ resolved (by the kernel itself)

The order before a call never varies: parse, validate, hooks, gate, ask, start.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Decision
from windlass.events.blocks import JsonObject
from windlass.events.calls import (
    CallBody,
    CallReceived,
    DenialReason,
    RepeatWarned,
    ToolAllowed,
    ToolCancelled,
    ToolDelegated,
    ToolDenied,
    ToolPrepared,
    ToolRequested,
    ToolStarted,
)
from windlass.events.hooks import HookRuled, HookRuling
from windlass.events.ids import call_id, permission_id
from windlass.events.permissions import PermissionBody, PermissionRequested, PermissionWithdrawn, ToolDetail
from windlass.events.questions import QuestionWithdrawn
from windlass.events.specs import ToolSpec
from windlass.events.turns import ModelReplied, Prepared

from . import budgets, builtin, governance
from .state import Call, State

DETAIL_CHARS_MAX = 1_000
NAMES_SHOWN_MAX = 30
RAN = ("started", "suspended", "unknown", "delegated")
"""Where a call may have had effects already."""


def propose(state: State, fact: ModelReplied, seq: int) -> Iterator[Decision]:
    """Requests every call of the reply at `seq`, then rules on each that the host has prepared."""
    assert fact.body is not None
    truncated = fact.finish in ("length", "content_filter", "error")
    for proposed in fact.body.calls:
        call = proposed.call
        digest = proposed.prepared.digest if proposed.prepared is not None else ""
        yield ToolRequested(
            call_id=call_id(seq, call.ordinal),
            tool=call.tool,
            ordinal=call.ordinal,
            digest=digest,
            body=CallBody(args=call.args, text=call.text, malformed=call.malformed),
        )
    ruling = next((found for found in fact.hooks if found.denies and found.call_id is None), None)
    for proposed in fact.body.calls:
        call = proposed.call
        here = state.calls[call_id(seq, call.ordinal)]
        if ruling is not None:
            yield denied(here, "hook", ruling.message or f"the reply was denied by {ruling.hook_id}")
        elif call.malformed is not None or (call.args is None and call.text is None):
            yield denied(here, "malformed_arguments", call.error or "the arguments could not be read")
        elif truncated:
            yield denied(here, "truncated_reply", "the reply was cut off, so this call may be incomplete")
        elif call.ordinal >= state.settings.calls_per_turn_max:
            yield denied(here, "too_many_calls", f"at most {state.settings.calls_per_turn_max} calls in one reply")
        else:
            yield from rule(state, here, proposed.prepared, call.args, call.text)


def receive(state: State, fact: CallReceived, seq: int) -> Iterator[Decision]:
    """A person's own call: same gate, same log."""
    assert fact.body is not None
    name = call_id(seq, 0)
    prepared = fact.body.prepared
    yield ToolRequested(
        call_id=name,
        tool=fact.tool,
        digest=prepared.digest if prepared is not None else "",
        by_person=True,
        body=CallBody(args=fact.body.args),
    )
    yield from rule(state, state.calls[name], prepared, fact.body.args, None)


def prepared(state: State, fact: ToolPrepared) -> Iterator[Decision]:
    """The host has prepared a call: gate it now."""
    assert fact.body is not None
    call = state.calls[fact.call_id]
    yield from rule(state, call, fact.body.prepared, fact.body.args, fact.body.text, fact.hooks)


def rule(
    state: State,
    call: Call,
    found: Prepared | None,
    args: JsonObject | None,
    text: str | None,
    hooks: tuple[HookRuling, ...] = (),
) -> Iterator[Decision]:
    """Lets a call pass, asks about it, or denies it. A call that is not prepared waits for the host."""
    for ruling in hooks:
        yield HookRuled(ruling=ruling)
    denial = unavailable(state, call)
    if denial is not None:
        yield denied(call, *denial)
        return
    if found is None:
        return
    spec = state.tools[call.tool]
    denial = next((d for d in refusals(state, call, spec, found, hooks) if d is not None), None)
    if denial is not None:
        yield denied(call, *denial)
        return
    count = repeats(state, call)
    if count >= state.settings.repeat_stop:
        yield denied(call, "repeated", f"the same call was made {count} times; the run ends here", stop=True)
        return
    if count >= state.settings.repeat_deny:
        yield denied(call, "repeated", f"the same call was made {count} times; try something else")
        return
    if count >= state.settings.repeat_warn:
        yield RepeatWarned(call_id=call.call_id, count=count)
    if spec.runs == "kernel":
        yield from perform(state, call, spec, found, args or {})
    else:
        yield from gate(state, call, spec, found, args, text)


def perform(state: State, call: Call, spec: ToolSpec, found: Prepared, args: JsonObject) -> Iterator[Decision]:
    """The kernel's own tools change nothing but the session itself: a rule may deny them, nobody is asked."""
    verdict = governance.judge(state, spec, found)
    if verdict.action == "deny" and verdict.by == "rule":
        yield denied(call, "rules", verdict.reason or "the policy does not allow this", rule=verdict.rule)
        return
    yield ToolAllowed(call_id=call.call_id, by="kernel")
    yield from builtin.perform(state, call, args)


def gate(
    state: State, call: Call, spec: ToolSpec, found: Prepared, args: JsonObject | None, text: str | None
) -> Iterator[Decision]:
    """The policy's verdict on a call."""
    verdict = governance.judge(state, spec, found)
    if verdict.action == "allow":
        yield ToolAllowed(call_id=call.call_id, by=verdict.by, rule=verdict.rule)
    elif verdict.action == "deny":
        yield denied(call, "rules", verdict.reason or "the policy does not allow this", rule=verdict.rule)
    elif state.mode == "autopilot":
        yield denied(call, "no_approver", "this needs a person's approval and nobody is asked in autopilot")
    else:
        yield PermissionRequested(
            request_id=permission_id(state.seq + 1),
            call_id=call.call_id,
            tool=call.tool,
            kind=spec.kind,
            digest=governance.approval_digest(state, spec, found.digest),
            rule=verdict.rule,
            body=PermissionBody(
                detail=found.detail or ToolDetail(tool=call.tool, args=args, text=text), why=verdict.reason
            ),
        )


def unavailable(state: State, call: Call) -> tuple[DenialReason, str] | None:
    """Why a tool is not there to be called at all."""
    spec = state.tools.get(call.tool)
    if spec is None:
        names = [name for name, known in state.tools.items() if not known.deferred or name in state.loaded]
        shown = ", ".join(names[:NAMES_SHOWN_MAX]) or "none"
        return "unknown_tool", f"there is no tool {call.tool!r}; the tools are: {shown}"
    if spec.deferred and call.tool not in state.loaded:
        return "unavailable_tool", f"load {call.tool!r} before calling it"
    offered = state.run.options.tools if state.run is not None and state.run.options is not None else None
    if offered is not None and call.tool not in offered and spec.runs != "kernel" and not call.by_person:
        return "unavailable_tool", f"{call.tool!r} is not offered in this run"
    if state.turn is not None and state.turn.wrap_up and not call.by_person:
        return "budget", "no more calls: the run is at its limit, answer with what you have"
    return None


def refusals(
    state: State, call: Call, spec: ToolSpec, found: Prepared, hooks: tuple[HookRuling, ...]
) -> Iterator[tuple[DenialReason, str] | None]:
    """Each reason, in order, for which a call may not even be judged."""
    yield next((("hook", h.message or f"denied by {h.hook_id}") for h in hooks if h.denies), None)
    yield ("invalid_arguments", "; ".join(found.errors)) if found.errors else None
    yield ("content_excluded", found.excluded) if found.excluded is not None else None
    if state.mode == "plan" and not governance.reads_only(spec):
        yield "mode", "in plan mode only reading is allowed until the plan is approved"
    left = budgets.calls_left(state)
    yield ("budget", "the budget for tool calls is used up") if left is not None and left <= 0 else None


def repeats(state: State, call: Call) -> int:
    """How often this very call was made in this run, this one included."""
    if state.run is None or call.by_person or not call.digest:
        return 0
    return state.run.repeats.get(f"{call.tool}:{call.digest}", 0)


def denied(
    call: Call,
    reason: DenialReason,
    detail: str,
    *,
    rule: str = "",
    stop: bool = False,
    feedback_seq: int | None = None,
) -> ToolDenied:
    detail = detail if len(detail) <= DETAIL_CHARS_MAX else detail[:DETAIL_CHARS_MAX] + " …"
    return ToolDenied(
        call_id=call.call_id,
        reason=reason,
        rule=rule,
        detail=detail,
        stop=stop,
        feedback_seq=feedback_seq,
        tokens=len(detail) // 4 + 12,
    )


def dispatch(state: State) -> Iterator[Decision]:
    """Starts allowed calls while there are places: all at once, one by one, or alone where a tool is exclusive."""
    for call in [c for c in state.calls.values() if c.status == "allowed" or cut_off(state, c)]:
        spec = state.tools.get(call.tool)
        if spec is None:
            yield denied(call, "unavailable_tool", f"{call.tool!r} was taken away before it could run")
        elif spec.runs == "client":
            yield ToolDelegated(call_id=call.call_id)
        elif has_place(state, call, spec):
            yield ToolStarted(call_id=call.call_id, epoch=state.epoch, attempt=call.attempt + 1)


def cut_off(state: State, call: Call) -> bool:
    """Whether a call ran under an earlier owner, and is to run again when there is a place for it."""
    return call.status == "started" and call.epoch < state.epoch


def running(state: State) -> list[Call]:
    """The calls that this owner runs."""
    return [call for call in state.calls.values() if call.status == "started" and call.epoch == state.epoch]


def has_place(state: State, call: Call, spec: ToolSpec) -> bool:
    others = running(state)
    if not others:
        return _first_in_line(state, call, spec)
    if spec.exclusive or any(_exclusive(state, other) for other in others):
        return False
    if state.settings.tool_order == "sequential":
        return False
    return len(others) < state.settings.parallel_tools_max and _first_in_line(state, call, spec)


def _first_in_line(state: State, call: Call, spec: ToolSpec) -> bool:
    """One by one means in call order: a call waits for earlier ones that are not closed, asked-about ones included."""
    if state.settings.tool_order == "parallel" and not spec.exclusive:
        return True
    earlier = [c for c in state.calls.values() if c.ordinal < call.ordinal and c.source_seq == call.source_seq]
    return all(c.status == "closed" for c in earlier) or state.settings.tool_order == "parallel"


def _exclusive(state: State, call: Call) -> bool:
    spec = state.tools.get(call.tool)
    return spec is not None and spec.exclusive


def give_up(state: State, reason: str) -> Iterator[Decision]:
    """Closes everything that is open: asks are withdrawn, each call gets a result that says so."""
    for ask in list(state.asks.values()):
        if ask.kind == "permission":
            yield PermissionWithdrawn(request_id=ask.ask_id, reason=reason)  # type: ignore[arg-type]
        else:
            yield QuestionWithdrawn(question_id=ask.ask_id, reason=reason)  # type: ignore[arg-type]
    for call in state.open_calls():
        ran = call.status in RAN
        yield ToolCancelled(call_id=call.call_id, reason=reason, started=ran)  # type: ignore[arg-type]


def of_tools(state: State, names: tuple[str, ...]) -> list[Call]:
    """The open calls of some tools."""
    return [call for call in state.open_calls() if call.tool in names]


def take_away(state: State, gone: list[Call]) -> Iterator[Decision]:
    """Gives up calls whose tool is no longer there, and what was asked about them."""
    names = {call.call_id for call in gone}
    for ask in [ask for ask in state.asks.values() if ask.call_id in names]:
        if ask.kind == "permission":
            yield PermissionWithdrawn(request_id=ask.ask_id, reason="unmounted")
        else:
            yield QuestionWithdrawn(question_id=ask.ask_id, reason="superseded")
    for call in gone:
        yield ToolCancelled(call_id=call.call_id, reason="forced", started=call.status in RAN)


def owed_by_people(state: State) -> bool:
    """Whether every open call waits for a person or a client, and nobody is there now."""
    waiting = state.open_calls()
    return bool(waiting) and all(_parked(state, call) for call in waiting)


def _parked(state: State, call: Call) -> bool:
    match call.status:
        case "asked" | "answering":
            return call.ask_id is None or state.asks[call.ask_id].missed
        case "suspended" | "unknown":
            return True
        case "delegated":
            return call.missed
        case "allowed":
            # Waits in line behind a call that is itself parked (tools run one by one).
            return not running(state)
        case "started":
            return cut_off(state, call) and not running(state)
        case _:
            return False
