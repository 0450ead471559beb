"""What is asked of people: permissions for calls, and questions. Each is answered once, or withdrawn.

permission.requested ──▶ open ──▶ permission.approved | permission.denied
question.requested   ──▶ open ──▶ answer.received
                             └──▶ permission.withdrawn | question.withdrawn   stopped, superseded, unmounted,
                                                                              or the tool that asked is gone
approver.missed: nobody is there. The run ends asked if nothing else goes on; in autopilot the call is denied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.changes import ModeChanged
from windlass.events.errors import Refused
from windlass.events.questions import (
    APPROVE,
    REJECT,
    AnswerReceived,
    QuestionKind,
    QuestionRequested,
    QuestionWithdrawn,
)
from windlass.events.sessions import SessionForked, SessionImported, SessionResumed
from windlass.events.tasks import PlanChanged, TaskChanged
from windlass.events.tools.calls import ToolAllowed
from windlass.events.tools.permissions import (
    ApproverMissed,
    GrantsChanged,
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
    RequestKind,
)
from windlass.events.values.access import NO_ACCESS, Access
from windlass.events.values.ids import grant_id
from windlass.events.values.policy import Grant
from windlass.kernel.effects import AskPerson
from windlass.kernel.part import Answers, Decisions, Open, Part, Row, Why, bounded
from windlass.kernel.parts import runs
from windlass.kernel.parts.machines import program as parked
from windlass.kernel.parts.tools import calls, gate, kernel_tools, labels
from windlass.kernel.parts.trees import grants, worktrees
from windlass.kernel.phases import ASKABLE, WORKING, Asked, AwaitingTools

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


ANSWERED_MAX = 64
WORKTREE = "worktree"
"""What asks if no call does."""
HOOK = "hook:"
"""How the names of those begin who answer and are no people."""


class Ask(msgspec.Struct, kw_only=True, gc=False):
    """A question to a person that is open."""

    ask_id: str
    call_id: str
    seq: int
    kind: Literal["permission", "question"]
    tool: str = ""
    permission_kind: RequestKind = "tool"
    question_kind: QuestionKind = "choice"
    digest: str = ""
    rule: str = ""
    group: str = ""
    by_pattern: bool = True
    session_offered: bool = True
    access: Access | None = None
    """What the call would be given beyond its sandbox."""
    inside: bool = False
    """Asked by a tool that is running; it dies with it."""
    missed: bool = False
    carried: bool = False
    """Open at the origin of this fork, and still open here."""


class Asks(msgspec.Struct, kw_only=True, gc=False):
    """What was asked of people, and what became of the last of it."""

    open: dict[str, Ask] = {}
    answered: dict[str, str] = {}


# --- verbs --------------------------------------------------------------------------------------------------------


def drop(state: State, ask_id: str) -> None:
    """Its call has been ruled on or is over: nothing is asked about it any more."""
    state.asks.open.pop(ask_id, None)


def remember(state: State, ask_id: str, what: str) -> None:
    """Keeps what became of a request, for whoever answers it too late."""
    state.asks.answered[ask_id] = what
    bounded(state.asks.answered, ANSWERED_MAX)


def withdrawn(ask: Ask, reason: str) -> PermissionWithdrawn | QuestionWithdrawn:
    if ask.kind == "permission":
        return PermissionWithdrawn(request_id=ask.ask_id, reason=reason)  # type: ignore[arg-type]
    return QuestionWithdrawn(question_id=ask.ask_id, reason=reason)  # type: ignore[arg-type]


def withdraw_inside(state: State, call_id: str, reason: Literal["superseded", "unknown_outcome"]) -> Decisions:
    """Questions that a running tool asked die with it."""
    for ask in [ask for ask in state.asks.open.values() if ask.call_id == call_id and ask.inside]:
        yield QuestionWithdrawn(question_id=ask.ask_id, reason=reason)


def withdraw_changed(state: State, call: Call) -> Decisions:
    """What was asked about a call that is judged again."""
    if call.ask_id is not None:
        yield PermissionWithdrawn(request_id=call.ask_id, reason="changed")


def withdraw_unmounted(state: State, call_ids: set[str]) -> Decisions:
    """What was asked about calls whose tool is no longer there."""
    for ask in [ask for ask in state.asks.open.values() if ask.call_id in call_ids]:
        yield withdrawn(ask, "unmounted" if ask.kind == "permission" else "superseded")


def carried_calls(state: State) -> set[str]:
    """The calls that stay open in a fork, since the people who were asked about them may answer here too."""
    return {ask.call_id for ask in state.asks.open.values() if ask.carried}


# --- fold ---------------------------------------------------------------------------------------------------------


def permission_requested(state: State, event: PermissionRequested) -> None:
    calls.asked_about(state, event.call_id, event.request_id, PermissionRequested, event.joins, event.counts)
    state.asks.open[event.request_id] = Ask(
        ask_id=event.request_id,
        call_id=event.call_id,
        seq=state.seq,
        kind="permission",
        tool=event.tool,
        permission_kind=event.kind,
        digest=event.digest,
        rule=event.rule,
        group=event.group,
        by_pattern=event.by_pattern,
        session_offered=event.session_offered,
        access=event.sandbox.opened if event.sandbox is not None else None,
    )


def permission_approved(state: State, event: PermissionApproved) -> None:
    runs.join(state, event.command_id)
    gate.answered(state, denied=False)
    for name in answered_by(event):
        remember(state, name, f"approved by {event.actor or 'someone'}")
        ask = state.asks.open[name]
        calls.approved(state, ask.call_id, ask.digest)


def permission_denied(state: State, event: PermissionDenied) -> None:
    runs.join(state, event.command_id)
    for name in answered_by(event):
        remember(state, name, f"denied by {event.actor or 'someone'}")
    if not event.actor.startswith(HOOK):
        gate.answered(state, denied=True)


def permission_withdrawn(state: State, event: PermissionWithdrawn) -> None:
    ask = state.asks.open.pop(event.request_id)
    remember(state, event.request_id, f"withdrawn: {event.reason}")
    calls.no_longer_asked(state, ask.call_id, event.request_id, again=event.reason == "changed")


def approver_missed(state: State, event: ApproverMissed) -> None:
    for name in event.request_ids:
        if name in state.asks.open:
            state.asks.open[name].missed = True
        else:
            calls.client_missed(state, name)


def question_requested(state: State, event: QuestionRequested) -> None:
    if not event.inside and event.call_id:
        calls.asked_about(state, event.call_id, event.question_id, QuestionRequested)
    state.asks.open[event.question_id] = Ask(
        ask_id=event.question_id,
        call_id=event.call_id,
        seq=state.seq,
        kind="question",
        question_kind=event.kind,
        inside=event.inside,
        tool=state.calls.by_id[event.call_id].tool
        if event.call_id
        else grants.BUDGET
        if event.question_id == state.grants.question
        else WORKTREE,
    )


def _about(state: State, event: QuestionRequested) -> str:
    """What a question is about that no call asked."""
    return grants.BUDGET if event.question_id == state.grants.question else WORKTREE


def answer_received(state: State, event: AnswerReceived) -> None:
    runs.join(state, event.command_id)
    ask = state.asks.open[event.question_id]
    remember(state, event.question_id, f"answered by {event.actor or 'someone'}")
    if ask.inside or not ask.call_id:
        del state.asks.open[event.question_id]
    else:
        calls.close(state, ask.call_id, max(event.tokens, 8))


def question_withdrawn(state: State, event: QuestionWithdrawn) -> None:
    ask = state.asks.open.pop(event.question_id)
    remember(state, event.question_id, f"withdrawn: {event.reason}")
    calls.no_longer_asked(state, ask.call_id, event.question_id)
    if not ask.call_id:
        worktrees.question_gone(state)


def session_resumed(state: State, event: SessionResumed) -> None:
    """The new owner has its own people; they are asked again, under the same ids."""
    if state.active:
        for ask in state.asks.open.values():
            ask.missed = False


def carried_over(state: State, event: SessionForked | SessionImported) -> None:
    """What is asked by a running tool dies with it; all else may stay open in a fork, if nothing but people and tools
    was waited for."""
    wanted = event.keeps_open if isinstance(event, SessionForked) else event.moved
    keeps = wanted and isinstance(state.phase, Asked | AwaitingTools)
    for ask in state.asks.open.values():
        ask.carried = ask.missed = keeps and not ask.inside and bool(ask.call_id)


# --- when, and what follows ---------------------------------------------------------------------------------------


def answered_by(fact: PermissionApproved | PermissionDenied) -> tuple[str, ...]:
    """The requests that an answer is for, the one that it names first."""
    if isinstance(fact, PermissionApproved):
        return (fact.request_id, *(covered.request_id for covered in fact.also))
    return (fact.request_id, *fact.also)


def check_permission(state: State, fact: PermissionApproved | PermissionDenied) -> None:
    names = answered_by(fact)
    if len(set(names)) < len(names):
        raise Refused("malformed", f"an answer names each request once, not {', '.join(names)}")
    for name in names:
        ask = state.asks.open.get(name)
        if ask is None or ask.kind != "permission":
            before = state.asks.answered.get(name)
            raise Refused("not_open", f"request {name} is not open" + (f": {before}" if before else ""))
    ask = state.asks.open[fact.request_id]
    for covered in fact.also if isinstance(fact, PermissionApproved) else ():
        if covered.digest != state.asks.open[covered.request_id].digest:
            raise Refused("digest_changed", f"request {covered.request_id} is about something else than was approved")
    if isinstance(fact, PermissionApproved) and fact.digest is None:
        raise Refused("no_digest", f"an approval says what it approves: give the digest of request {fact.request_id}")
    if isinstance(fact, PermissionApproved) and fact.digest != ask.digest:
        raise Refused("digest_changed", f"request {fact.request_id} is about something else than was approved")
    if isinstance(fact, PermissionApproved) and fact.scope != "once":
        labels.check_free(state, "only this one call can be approved")
    if isinstance(fact, PermissionApproved) and fact.scope == "session" and not ask.session_offered:
        told = "it is asked about each time, or is not known and shown whole"
        raise Refused("not_offered", f"request {fact.request_id} cannot be approved for the session: {told}")
    if isinstance(fact, PermissionApproved) and fact.scope == "pattern" and not fact.pattern:
        raise Refused("no_pattern", "an approval for a pattern needs the pattern")
    if isinstance(fact, PermissionApproved) and fact.scope == "pattern" and not _fits_pattern(state, ask, fact):
        told = "not all that the call touches is known, or no line of text stands for it"
        raise Refused("no_pattern", f"request {fact.request_id} cannot be approved by a pattern: {told}")


def _fits_pattern(state: State, ask: Ask, fact: PermissionApproved) -> bool:
    """A pattern may be given for a call that is known whole, or that it names by the digest of its arguments."""
    return ask.by_pattern or fact.pattern == state.calls.by_id[ask.call_id].digest


def check_missed(state: State, fact: ApproverMissed) -> None:
    delegated = {call.call_id for call in state.calls.by_id.values() if call.status == "delegated"}
    if not set(fact.request_ids) & (set(state.asks.open) | delegated):
        raise Refused("stale", "none of these requests is open")


def check_answer(state: State, fact: AnswerReceived) -> None:
    ask = state.asks.open.get(fact.question_id)
    if ask is None or ask.kind != "question":
        before = state.asks.answered.get(fact.question_id)
        raise Refused("not_open", f"question {fact.question_id} is not open" + (f": {before}" if before else ""))
    if ask.question_kind != "plan" and (fact.action is not None or fact.mode is not None):
        raise Refused("malformed", "only a plan is answered with an action or a mode")
    if ask.question_kind == "plan" and fact.outcome == "answered" and not fact.action:
        raise Refused("malformed", f"a plan is answered with one of its actions: {APPROVE}, {REJECT} or another")
    if fact.mode is not None and fact.action != APPROVE:
        raise Refused("malformed", f"a mode goes with the action {APPROVE!r}: everything else keeps plan mode")


def on_approved(state: State, fact: PermissionApproved) -> Decisions:
    asked = [state.asks.open[name] for name in answered_by(fact)]
    agreed = [(ask.ask_id, state.calls.by_id[ask.call_id], ask.access) for ask in asked]
    yield from runs.resume(state, "approval", fact.command_id)
    for name, call, access in agreed:
        if call.tool not in state.toolset.tools:
            yield calls.denied(call, "unavailable_tool", f"{call.tool!r} is not there any more")
        else:
            yield ToolAllowed(
                call_id=call.call_id, by="person", rule=name, joins=call.joins, counts=call.counts, access=access
            )
    _, first, opened = agreed[0]
    if fact.scope != "once" and first.tool in state.toolset.tools:
        pattern = fact.pattern if fact.scope == "pattern" else None
        grant = Grant(
            grant_id=grant_id(state.seq), tool=first.tool, pattern=pattern, by=fact.actor, access=opened or NO_ACCESS
        )
        yield GrantsChanged(added=(gate.bound(state, grant, fact.for_ms),))


def on_denied(state: State, fact: PermissionDenied) -> Decisions:
    feedback = state.seq if fact.body else None
    refused = [state.calls.by_id[state.asks.open[name].call_id] for name in answered_by(fact)]
    yield from runs.resume(state, "approval", fact.command_id)
    for call in refused:
        yield calls.denied(call, "person", "a person denied this", stop=fact.stop, feedback_seq=feedback)
    if fact.stop:
        yield from runs.interrupt(state)


def on_answer(state: State, fact: AnswerReceived) -> Decisions:
    answered_seq = state.seq
    yield from runs.resume(state, "answer", fact.command_id)
    if worktrees.is_asked(state, fact):
        yield from worktrees.on_answer(state, fact)
    yield from parked.answered(state, fact, answered_seq)
    if fact.outcome != "answered" or fact.action is None:
        return
    if fact.body is not None and fact.body.edited is not None:
        yield PlanChanged(operation="update")
        plan = fact.body.edited[: kernel_tools.TEXT_CHARS_MAX]
        yield TaskChanged(task=msgspec.structs.replace(state.task.current, plan=plan), fields=("plan",))
    if fact.action != APPROVE or state.setup.mode != "plan":
        return
    mode = fact.mode or "interactive"
    if mode != state.setup.mode and not state.labels.quarantined:
        yield ModeChanged(previous=state.setup.mode, mode=mode)


def on_missed(state: State, fact: ApproverMissed) -> Decisions:
    """In autopilot nobody is waited for, not even for what was asked before it began."""
    if not state.unattended:
        return
    for ask in [ask for ask in state.asks.open.values() if ask.missed and not ask.inside]:
        if not ask.call_id:
            about_budget = ask.ask_id == state.grants.question
            yield from grants.on_nobody(state) if about_budget else worktrees.on_nobody(state, ask.ask_id)
            continue
        call = state.calls.by_id[ask.call_id]
        yield calls.denied(call, "no_approver", "nobody is there to answer this in autopilot")


# --- what is open -------------------------------------------------------------------------------------------------


def stop(state: State, why: Why) -> Decisions:
    for ask in list(state.asks.open.values()):
        if not (ask.carried and why == "not_carried_over"):
            yield withdrawn(ask, why)


def owes(state: State) -> Iterable[AskPerson]:
    if not state.active:
        return ()
    groups: dict[str, list[Ask]] = {}
    for ask in state.asks.open.values():
        if not ask.missed:
            groups.setdefault(ask.group or ask.ask_id, []).append(ask)
    return [_together(group) for group in groups.values() if not _grows(state, group[0])]


def _together(group: list[Ask]) -> AskPerson:
    """Requests that are alike are put before a person as one; if they become more or fewer, that is another effect."""
    first, *others = group
    also = tuple(ask.ask_id for ask in others)
    name = "+".join((first.ask_id, *also))
    return AskPerson(effect_id=name, ask_id=first.ask_id, kind=first.kind, call_id=first.call_id, also=also)


def _grows(state: State, ask: Ask) -> bool:
    """Whether the host still looks at calls of the same reply and tool, which may be asked about together with it."""
    here = state.calls.by_id.get(ask.call_id)
    if ask.kind != "permission" or here is None or here.by_person:
        return False
    return any(
        call.status == "requested" and call.tool == here.tool and call.source_seq == here.source_seq
        for call in state.calls.by_id.values()
    )


def opens(state: State) -> Iterable[Open]:
    return [
        Open(kind=ask.kind, open_id=ask.ask_id, by="people", seq=ask.seq, tool=ask.tool)
        for ask in state.asks.open.values()
    ]


def needs(state: State) -> list[int]:
    return [ask.seq for ask in state.asks.open.values()]


PERMISSION = Answers(field="request_id", kind="permission", word="permission")
QUESTION = Answers(field="question_id", kind="question", word="question")

PART = Part(
    name="asks",
    facts={
        PermissionApproved: Row(
            when=ASKABLE, check=check_permission, answers=PERMISSION, fold=permission_approved, then=on_approved
        ),
        PermissionDenied: Row(
            when=ASKABLE, check=check_permission, answers=PERMISSION, fold=permission_denied, then=on_denied
        ),
        AnswerReceived: Row(when=ASKABLE, check=check_answer, answers=QUESTION, fold=answer_received, then=on_answer),
        ApproverMissed: Row(when=WORKING, check=check_missed, fold=approver_missed, then=on_missed),
    },
    decisions={
        PermissionRequested: permission_requested,
        PermissionWithdrawn: permission_withdrawn,
        QuestionRequested: question_requested,
        QuestionWithdrawn: question_withdrawn,
    },
    hears={SessionResumed: session_resumed, SessionForked: carried_over, SessionImported: carried_over},
    stop=stop,
    keeps=lambda state: state.asks.open,
    owes=owes,
    opens=opens,
    needs=needs,
)
