"""The call machine: each call is requested, ruled on, perhaps asked about, allowed, started, and gets one result.

    requested ──(host prepares)──▶ prepared ─┬─▶ denied
      ▲ └────────(prepared in the reply)─────┤
      │                                      ├─▶ asked ──▶ allowed | denied
      └──(reconsidered: what it was judged   │
          by changed before it could start)  └─▶ allowed ─┬─▶ started ─▶ finished | timed out | suspended | unknown
                                                          │             | a background job (see `jobs`)
                                                          ├─▶ delegated ─▶ result received
                                                          ├─▶ child ─▶ child finished (see `children`)
                                                          └─▶ resolved, or answering a question (by the kernel)

The order before a call never varies: parse, validate, hooks, gate (see `gate`), ask, start. A verdict holds as long as
what it rests on: tool, rules, mode and standing approval; if one of them is another one before the call could start,
the call goes back to the beginning. However it ends, it is closed once, by the event that is its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.base import Event
from windlass.events.errors import Refused
from windlass.events.hooks import HookRuled
from windlass.events.questions import QuestionRequested
from windlass.events.sessions import SessionResumed
from windlass.events.tools.calls import (
    CallReceived,
    DenialReason,
    ResultReceived,
    ToolAllowed,
    ToolAsked,
    ToolCancelled,
    ToolDelegated,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolPrepared,
    ToolReconsidered,
    ToolRequested,
    ToolResolved,
    ToolSettled,
    ToolStarted,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobStarted
from windlass.events.tools.permissions import Changed, PermissionRequested
from windlass.events.trees.children import ChildStarted
from windlass.events.values.access import Access
from windlass.events.values.ids import question_id
from windlass.events.values.policy import Trait
from windlass.events.values.setup import ItemRef, Spawning
from windlass.events.values.tools import Contract, ToolSpec
from windlass.events.workspace import FilesKept
from windlass.kernel.part import Answers, Decisions, Misfit, Part, Row
from windlass.kernel.parts import (
    asks,
    budgets,
    children,
    requests,
    runs,
    turns,
    workspace,
)
from windlass.kernel.parts.context import history
from windlass.kernel.parts.flows import nodes
from windlass.kernel.parts.machines import states
from windlass.kernel.parts.tools import call_proposals, dispatch, gate, labels, open_calls, repeats
from windlass.kernel.phases import ASKABLE, STARTED, WORKING, AwaitingTools, Between

if TYPE_CHECKING:
    from windlass.kernel.state import State


DETAIL_CHARS_MAX = 1_000
CUT_OFF = "it was started before and cut off, so it may have had effects already; it is not run again"
CANCELLED_TOKENS = 24
UNKNOWN_TOKENS = 40
SETTLED_TOKENS = 24

CallStatus = Literal[
    "requested",
    "prepared",
    "asked",
    "allowed",
    "started",
    "delegated",
    "suspended",
    "unknown",
    "answering",
    "child",
    "closed",
]

MOVES: dict[type[Event], tuple[tuple[CallStatus, ...], CallStatus]] = {
    # event             from                                       to
    ToolPrepared:       (("requested",),                           "prepared"),
    PermissionRequested:(("requested", "prepared"),                "asked"),
    ToolAllowed:        (("requested", "prepared", "asked"),       "allowed"),
    ToolStarted:        (("allowed", "started", "unknown"),        "started"),
    ToolReconsidered:   (("asked", "allowed", "started"),          "requested"),
    ToolDelegated:      (("allowed",),                             "delegated"),
    ChildStarted:       (("allowed",),                             "child"),
    QuestionRequested:  (("allowed",),                             "answering"),
    ToolSuspended:      (("started",),                             "suspended"),
    ToolOutcomeUnknown: (("started", "delegated"),                 "unknown"),
    ToolTimedOut:       (("started",),                             "unknown"),
    ToolSettled:        (("unknown",),                             "allowed"),
}  # fmt: skip
"""How a call moves while it is open; each of the rest closes it."""

UNBEGUN = ("asked", "allowed", "started", "unknown")
"""Where a verdict must still hold when the call starts, or starts again."""


class Call(msgspec.Struct, kw_only=True, gc=False):
    """One tool call on its way to its one result."""

    call_id: str
    tool: str
    ordinal: int
    source_seq: int
    status: CallStatus = "requested"
    by_person: bool = False
    """Whether it belongs to no reply: a person made it, a node of a workflow, or a state of a machine."""
    node: str = ""
    state: str = ""
    error: str = ""
    """What was wrong with it, in a word of its tool."""
    changed_seq: int | None = None
    """Where hooks changed the arguments."""
    prepared_seq: int | None = None
    """Where the host said apart from the reply what it found out."""
    digest: str = ""
    epoch: int = 0
    attempt: int = 0
    contract: Contract | None = None
    """The strictest contract that it was started under; None before it has begun."""
    settle: bool = False
    """Whether a tool that it was started under wants an unknown outcome settled."""
    ask_id: str | None = None
    replaced_ask: str | None = None
    """The request that was withdrawn because something changed."""
    approval: str = ""
    """What a person said yes to."""
    ruled_by: str = ""
    """The line, request or standing approval that let it pass."""
    granted_by: str | None = None
    """The standing approval that let it pass, if one did."""
    outdated: tuple[Changed, ...] = ()
    """What has changed since it was judged."""
    labels: tuple[str, ...] = ()
    """What its result will be marked with, beside what its tool's results are."""
    traits: tuple[Trait, ...] | None = None
    """What it does, if that is less than its tool can do."""
    spawning: Spawning | None = None
    """What it says about the child session that it starts."""
    joins: tuple[str, ...] = ()
    """The labels that it joins with a way out, as whoever let it pass or is asked about it was told."""
    access: Access | None = None
    """What whoever let it pass opened of its sandbox."""
    paid_for: bool = False
    """Whether it is counted in the budget for calls."""
    counts: tuple[str, ...] = ()
    """The rules with a limit that count it once it passes."""
    counted: bool = False
    missed: bool = False
    closed_seq: int | None = None
    tokens: int = 0
    bytes: int = 0


class Calls(msgspec.Struct, kw_only=True, gc=False):
    """The calls of the open turn and those that people made, closed ones too until their turn is over."""

    by_id: dict[str, Call] = {}


# --- verbs --------------------------------------------------------------------------------------------------------


def moved(state: State, call_id: str, event: type[Event]) -> Call:
    """Moves a call on by the table."""
    call = state.calls.by_id[call_id]
    before, after = MOVES[event]
    if call.status not in before:
        raise Misfit(f"{call_id} is {call.status}")
    call.status = after
    return call


def close(state: State, call_id: str, tokens: int, size: int = 0, *, ok: bool = True) -> None:
    """Gives a call its one result: the event being folded now."""
    call = state.calls.by_id[call_id]
    if call.status == "closed":
        raise Misfit(f"{call_id} has a result already")
    if state.requests.open:
        requests.lose_those_of_call(state, call_id)
    call.status = "closed"
    call.closed_seq = state.seq
    call.tokens = tokens
    call.bytes = size
    if call.ask_id is not None:
        asks.drop(state, call.ask_id)
        call.ask_id = None
    if state.children.open:
        children.call_closed(state, call_id)
    if call.node:
        del state.calls.by_id[call_id]
        nodes.call_closed(state, call, ok)
    elif call.state:
        del state.calls.by_id[call_id]
        states.call_closed(state, call, ok)
    elif call.by_person:
        close_persons(state, call)


def close_persons(state: State, call: Call) -> None:
    """What a person ran becomes a note of its own; it belongs to no reply."""
    del state.calls.by_id[call.call_id]
    history.add(
        state, ItemRef(seq=state.seq, kind="note", tokens=call.tokens + 16, bytes=call.bytes, part=call.call_id)
    )
    if not state.turn.open and isinstance(state.phase, AwaitingTools) and not state.calls.by_id:
        runs.between(state)


def into_history(state: State, call_ids: list[str]) -> None:
    """The results of a turn that is over enter the history, in call order."""
    by_id = state.calls.by_id
    for name in call_ids:
        call = by_id.pop(name)
        seq = call.closed_seq
        if seq is None:
            raise Misfit(f"{name} has no result")
        history.push(state, ItemRef(seq=seq, kind="result", tokens=call.tokens, bytes=call.bytes, part=name))


def asked_about(
    state: State,
    call_id: str,
    ask_id: str,
    event: type[PermissionRequested | QuestionRequested],
    joins: tuple[str, ...] = (),
    counts: tuple[str, ...] = (),
) -> None:
    """A person is asked about a call, or a question that the call is."""
    call = moved(state, call_id, event)
    call.joins, call.counts = joins, counts
    call.ask_id = ask_id
    call.outdated = ()


def judge_again(state: State, differs: Callable[[ToolSpec], tuple[Changed, ...]]) -> None:
    """Marks the calls whose verdict rests on something that is another one now; `differs` says what of a tool is."""
    for call in state.calls.by_id.values():
        spec = state.toolset.tools.get(call.tool)
        if call.status in UNBEGUN and spec is not None:
            call.outdated = tuple(dict.fromkeys((*call.outdated, *differs(spec))))


def approved(state: State, call_id: str, digest: str) -> None:
    """A person said yes to a call as it was shown to them."""
    state.calls.by_id[call_id].approval = digest


def no_longer_asked(state: State, call_id: str, ask_id: str, *, again: bool = False) -> None:
    call = state.calls.by_id.get(call_id)
    if call is not None and call.ask_id == ask_id:
        call.ask_id = None
        call.replaced_ask = ask_id if again else None


def client_missed(state: State, call_id: str) -> None:
    """No client is there for a call, if there is such a call."""
    if call_id in state.calls.by_id:
        state.calls.by_id[call_id].missed = True


# --- fold ---------------------------------------------------------------------------------------------------------


def tool_requested(state: State, event: ToolRequested) -> None:
    name, by_person = event.call_id, event.by_person or bool(event.node or event.state)
    source = None if by_person else turns.asked_for(state, name)
    state.calls.by_id[name] = Call(
        call_id=name,
        tool=event.tool,
        ordinal=event.ordinal,
        source_seq=source if source is not None else int(name[1:].partition(".")[0]),
        by_person=by_person,
        node=event.node,
        state=event.state,
        digest=event.digest,
        labels=event.labels,
        traits=event.traits,
        spawning=event.spawning,
    )
    if event.node:
        nodes.call_requested(state, event.node, name, event.ordinal)
    elif by_person:
        if event.state:
            states.call_requested(state, name)
        if isinstance(state.phase, Between):
            state.phase = runs.AWAITING_TOOLS
    elif event.digest:
        repeats.count(state, event.tool, event.digest)


def tool_prepared(state: State, event: ToolPrepared) -> None:
    call = moved(state, event.call_id, ToolPrepared)
    if not call.by_person and not call.digest:
        repeats.count(state, call.tool, event.digest)
    call.digest, call.labels, call.traits = event.digest, event.labels, event.traits
    call.spawning = event.spawning
    call.prepared_seq = state.seq
    if event.changed:
        call.changed_seq = state.seq


def tool_allowed(state: State, event: ToolAllowed) -> None:
    call = moved(state, event.call_id, ToolAllowed)
    if not call.paid_for:
        budgets.spend_call(state)
        call.paid_for = True
    if event.counts and not call.counted:
        gate.passed(state, event.counts)
        call.counted = True
    call.ruled_by, call.joins, call.access = event.rule, event.joins, event.access
    call.granted_by = event.rule if event.by == "grant" else None
    call.outdated = ()
    if call.ask_id is not None:
        asks.drop(state, call.ask_id)
        call.ask_id = None


def tool_reconsidered(state: State, event: ToolReconsidered) -> None:
    """It goes back to the beginning, with the arguments that it was made with; hooks see it again."""
    call = moved(state, event.call_id, ToolReconsidered)
    call.outdated = event.changed
    call.changed_seq = call.granted_by = None
    if call.paid_for and not call.attempt:
        budgets.give_back_call(state)
        call.paid_for = False


def tool_denied(state: State, event: ToolDenied) -> None:
    call = state.calls.by_id[event.call_id]
    if event.reason in ("malformed_arguments", "truncated_reply", "unknown_tool") and not call.by_person:
        turns.call_unreadable(state)
    if event.stop and event.reason == "repeated":
        runs.must_end(state, "repeated")
    if call.node:
        nodes.failed_below(state, event.call_id, f"denied: {event.detail or event.reason}"[: nodes.CAUSE_CHARS_MAX])
    close(state, event.call_id, event.tokens, ok=False)


def tool_started(state: State, event: ToolStarted) -> None:
    call = moved(state, event.call_id, ToolStarted)
    if state.requests.open:
        requests.lose_those_of_call(state, event.call_id)
    call.epoch = event.epoch
    call.attempt = event.attempt
    call.missed = False
    call.contract, call.settle = dispatch.terms(call, state.toolset.tools.get(call.tool))
    labels.begun(state, call)


def tool_delegated(state: State, event: ToolDelegated) -> None:
    labels.begun(state, moved(state, event.call_id, ToolDelegated))


def tool_finished(state: State, event: ToolFinished) -> None:
    if event.labels:
        marked(state, event)
    if event.error_code is not None:
        state.calls.by_id[event.call_id].error = event.error_code
    if event.failure is not None and not event.ok:
        nodes.failed_below(state, event.call_id, event.failure.message[: nodes.CAUSE_CHARS_MAX])
    close(state, event.call_id, event.tokens, event.bytes, ok=event.ok)


def marked(state: State, event: ToolFinished | ToolTimedOut | ToolSuspended | ResultReceived | JobStarted) -> None:
    """What came of a call carries labels that were not known before."""
    labels.meet(state, event.labels, event.call_id, state.calls.by_id[event.call_id].tool)


def tool_timed_out(state: State, event: ToolTimedOut) -> None:
    if event.labels:
        marked(state, event)
    if event.settle:
        moved(state, event.call_id, ToolTimedOut)
        requests.lose_those_of_call(state, event.call_id)
    else:
        nodes.unsure(state, state.calls.by_id[event.call_id], "it did not end within its time")
        close(state, event.call_id, event.tokens, ok=False)


def tool_suspended(state: State, event: ToolSuspended) -> None:
    if event.labels:
        marked(state, event)
    moved(state, event.call_id, ToolSuspended)
    requests.lose_those_of_call(state, event.call_id)


def tool_resolved(state: State, event: ToolResolved) -> None:
    close(state, event.call_id, event.tokens, ok=event.ok)


def tool_cancelled(state: State, event: ToolCancelled) -> None:
    close(state, event.call_id, CANCELLED_TOKENS, ok=False)


def tool_outcome_unknown(state: State, event: ToolOutcomeUnknown) -> None:
    if event.settle:
        moved(state, event.call_id, ToolOutcomeUnknown)
        requests.lose_those_of_call(state, event.call_id)
    else:
        nodes.unsure(state, state.calls.by_id[event.call_id], "it was cut off")
        close(state, event.call_id, UNKNOWN_TOKENS, ok=False)


def tool_settled(state: State, event: ToolSettled) -> None:
    runs.join(state, event.command_id)
    moved(state, event.call_id, ToolSettled)
    if event.outcome != "run_again":
        close(state, event.call_id, max(event.tokens, SETTLED_TOKENS), ok=event.outcome == "happened")


def result_received(state: State, event: ResultReceived) -> None:
    runs.join(state, event.command_id)
    if event.labels:
        marked(state, event)
    close(state, event.call_id, event.tokens, event.bytes, ok=event.ok)


def call_received(state: State, event: CallReceived) -> None:
    runs.join(state, event.command_id)


def session_resumed(state: State, event: SessionResumed) -> None:
    """The new owner has its own clients; they are asked again."""
    if state.active:
        for call in state.calls.by_id.values():
            call.missed = False


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_running(
    state: State, fact: ToolFinished | ToolTimedOut | ToolSuspended | ToolAsked | FilesKept | JobStarted
) -> None:
    call = state.calls.by_id.get(fact.call_id)
    if call is None or call.status != "started" or call.epoch != state.epoch:
        raise Refused("stale", f"call {fact.call_id} is not running under this owner")


def check_tool_asked(state: State, fact: ToolAsked) -> None:
    check_running(state, fact)
    if fact.body is None:
        raise Refused("no_content", "a question needs content")
    if state.unattended:
        raise Refused("no_approver", "nobody answers questions in autopilot")


def check_prepared(state: State, fact: ToolPrepared) -> None:
    call = state.calls.by_id.get(fact.call_id)
    if call is None or call.status != "requested":
        raise Refused("stale", f"call {fact.call_id} does not wait to be prepared")
    if fact.body is None or fact.body.prepared.digest != fact.digest:
        raise Refused("malformed", "what was prepared must carry the digest it names")
    prepared = fact.body.prepared
    if (prepared.labels, prepared.traits, prepared.spawning) != (fact.labels, fact.traits, fact.spawning):
        raise Refused("malformed", "what was prepared must carry the labels, traits and child it names")


def check_settled(state: State, fact: ToolSettled) -> None:
    call = state.calls.by_id.get(fact.call_id)
    if call is None or call.status != "unknown":
        raise Refused("not_open", f"call {fact.call_id} is not waiting to be settled")


def check_result(state: State, fact: ResultReceived) -> None:
    call = state.calls.by_id.get(fact.call_id)
    if call is None or call.status not in ("delegated", "suspended"):
        raise Refused("not_open", f"call {fact.call_id} is not waiting for a result from outside")


def check_received(state: State, fact: CallReceived) -> None:
    if fact.tool not in state.toolset.tools:
        raise Refused("unknown_tool", f"there is no tool {fact.tool!r}")
    if fact.body is None:
        raise Refused("no_content", "a call needs its arguments")


def on_finished(state: State, fact: ToolFinished) -> Decisions:
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    yield from on_outcome(state, fact)


def on_outcome(state: State, fact: ToolFinished | ResultReceived | ToolTimedOut) -> Decisions:
    yield from asks.withdraw_inside(state, fact.call_id, "superseded")
    yield from workspace.changed_files(fact)


def on_result(state: State, fact: ResultReceived) -> Decisions:
    yield from runs.resume(state, "result", fact.command_id)
    yield from on_outcome(state, fact)


def on_suspended(state: State, fact: ToolSuspended) -> Decisions:
    yield from workspace.changed_files(fact)


def on_tool_asked(state: State, fact: ToolAsked) -> Decisions:
    form = fact.body.form if fact.body is not None else None
    yield QuestionRequested(
        question_id=question_id(state.seq + 1),
        call_id=fact.call_id,
        kind="form" if form is not None else "choice",
        inside=True,
        body=fact.body,
    )


def on_settled(state: State, fact: ToolSettled) -> Decisions:
    yield from runs.resume(state, "settle", fact.command_id)


def denied(
    call: Call,
    reason: DenialReason,
    detail: str,
    *,
    rule: str = "",
    stop: bool = False,
    feedback_seq: int | None = None,
) -> ToolDenied:
    """The result of a call that is not run, or not again."""
    if call.attempt:
        detail += f" ({CUT_OFF})"
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


OUTCOME = Answers(field="call_id", kind="settle", word="call")
RESULT = Answers(field="call_id", kind="client", word="call")

PART = Part(
    name="calls",
    facts={
        ToolPrepared: Row(when=WORKING, check=check_prepared, fold=tool_prepared, then=call_proposals.on_prepared),
        ToolFinished: Row(when=WORKING, check=check_running, fold=tool_finished, then=on_finished),
        ToolTimedOut: Row(when=WORKING, check=check_running, fold=tool_timed_out, then=on_outcome),
        ToolSuspended: Row(when=WORKING, check=check_running, fold=tool_suspended, then=on_suspended),
        ToolAsked: Row(when=WORKING, check=check_tool_asked, then=on_tool_asked),
        FilesKept: Row(when=WORKING, check=check_running),
        ToolSettled: Row(when=ASKABLE, check=check_settled, answers=OUTCOME, fold=tool_settled, then=on_settled),
        ResultReceived: Row(when=ASKABLE, check=check_result, answers=RESULT, fold=result_received, then=on_result),
        CallReceived: Row(when=STARTED, check=check_received, fold=call_received, then=call_proposals.on_received),
    },
    decisions={
        ToolRequested: tool_requested,
        ToolAllowed: tool_allowed,
        ToolReconsidered: tool_reconsidered,
        ToolDenied: tool_denied,
        ToolStarted: tool_started,
        ToolDelegated: tool_delegated,
        ToolResolved: tool_resolved,
        ToolCancelled: tool_cancelled,
        ToolOutcomeUnknown: tool_outcome_unknown,
    },
    hears={SessionResumed: session_resumed},
    stop=open_calls.stop,
    taken_over=open_calls.taken_over,
    keeps=lambda state: state.calls.by_id,
    owes=open_calls.owes,
    opens=open_calls.opens,
    needs=open_calls.needs,
    works=open_calls.works,
    reserves=open_calls.reserves,
)
