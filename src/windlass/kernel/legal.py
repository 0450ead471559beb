"""When a fact may come. `LEGAL` says in which phases, `CHECKS` what else must hold; whatever is not listed is refused.

Nothing here changes the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import permissions as pe
from windlass.events import questions as qe
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events import turns as te
from windlass.events.base import Fact
from windlass.events.errors import Refused
from windlass.events.ids import prompt_id
from windlass.events.usage import ASIDE

from . import budgets, context
from . import state as st
from .state import Phase, State

STARTED: tuple[type[Phase], ...] = (
    st.Idle,
    st.Asked,
    st.Asleep,
    st.AwaitingModel,
    st.BackingOff,
    st.AwaitingTools,
    st.Compacting,
)
WORKING: tuple[type[Phase], ...] = (st.AwaitingModel, st.BackingOff, st.AwaitingTools, st.Compacting)
RESTING: tuple[type[Phase], ...] = (st.Idle, st.Asleep)
REQUESTING: tuple[type[Phase], ...] = (st.AwaitingModel, st.Compacting)
ASKABLE: tuple[type[Phase], ...] = (st.Asked, *WORKING)

LEGAL: dict[type[Fact], tuple[type[Phase], ...]] = {
    se.SessionStarted: (st.New,),
    se.SessionResumed: STARTED,
    se.SessionForked: STARTED,
    se.SessionShutDown: STARTED,
    se.ChangeReceived: STARTED,
    se.RewindReceived: RESTING,
    se.WorkspaceChanged: STARTED,
    se.InstructionsRendered: STARTED,
    se.NoticeGiven: STARTED,
    se.ContentErased: STARTED,
    re_.PromptReceived: STARTED,
    re_.WakeReceived: STARTED,
    re_.InterruptReceived: STARTED,
    re_.CancelReceived: STARTED,
    re_.QueueEdited: STARTED,
    re_.SignalReceived: STARTED,
    re_.CommandRefused: STARTED,
    re_.TimerFired: STARTED,
    te.ModelAsked: WORKING,
    te.ModelReplied: WORKING,
    te.ModelFailed: WORKING,
    ce.ToolPrepared: WORKING,
    ce.ToolFinished: WORKING,
    ce.ToolTimedOut: WORKING,
    ce.ToolSuspended: WORKING,
    ce.ToolAsked: WORKING,
    ce.ToolSettled: ASKABLE,
    ce.ResultReceived: ASKABLE,
    ce.CallReceived: STARTED,
    ce.MountReceived: STARTED,
    ce.UnmountReceived: STARTED,
    pe.PermissionApproved: ASKABLE,
    pe.PermissionDenied: ASKABLE,
    pe.ApproverMissed: WORKING,
    qe.AnswerReceived: ASKABLE,
    xe.CompactReceived: (*RESTING, *WORKING),
    xe.UndoReceived: RESTING,
    xe.ContextArchived: STARTED,
    xe.ContextPagedIn: STARTED,
}
"""In which phases a fact may come. Everything else is refused."""

ANSWERS = (pe.PermissionApproved, pe.PermissionDenied, qe.AnswerReceived, ce.ResultReceived, ce.ToolSettled)


def check(state: State, fact: Fact) -> None:
    """Raises `Refused` unless the fact may come now."""
    phases = LEGAL.get(type(fact))
    tag = str(fact.__struct_config__.tag)
    if phases is None:
        raise Refused("not_a_fact", f"{tag} is decided here, it cannot come from outside")
    extra = CHECKS.get(type(fact))
    if not isinstance(state.phase, phases):
        if extra is not None and isinstance(fact, ANSWERS):
            # Whoever answers too late is told what became of the request.
            extra(state, fact)
        raise Refused("wrong_phase", f"{tag} does not fit a session that is {type(state.phase).__name__.lower()}")
    if extra is not None:
        extra(state, fact)


def check_resumed(state: State, fact: se.SessionResumed | se.SessionForked) -> None:
    if isinstance(fact, se.SessionResumed) and fact.epoch <= state.epoch:
        raise Refused("stale_epoch", f"epoch {fact.epoch} is not newer than {state.epoch}")


def check_prompt(state: State, fact: re_.PromptReceived) -> None:
    waiting = sum(found.kind == "user" for found in state.inputs.values())
    if waiting >= state.settings.queue_max:
        raise Refused("queue_full", f"{waiting} prompts wait already: answer or edit the queue first")
    busy = state.active or bool(state.calls)
    if busy and fact.behavior is None and state.settings.on_busy == "reject":
        raise Refused("busy", "the session is busy and takes no prompts meanwhile")
    if fact.body is None:
        raise Refused("no_content", "a prompt needs content")


def check_request(state: State, fact: te.ModelReplied | te.ModelFailed) -> None:
    request = state.requests.get(fact.request_id)
    if request is None or request.epoch != state.epoch:
        raise Refused("stale", f"request {fact.request_id} is not open any more")
    if fact.lane != request.lane:
        raise Refused("malformed", f"request {fact.request_id} was made in the lane {request.lane!r}")
    if isinstance(fact, te.ModelReplied) and (fact.body is None or len(fact.body.calls) != fact.calls):
        raise Refused("malformed", "a reply needs its content, and as many calls as it says")


def check_asked(state: State, fact: te.ModelAsked) -> None:
    call = state.calls.get(fact.call_id) if fact.call_id is not None else None
    if fact.lane == "tool" and (call is None or call.status != "started" or call.epoch != state.epoch):
        raise Refused("stale", f"call {fact.call_id} is not running under this owner")
    if fact.call_id is not None and (call is None or call.status == "closed"):
        raise Refused("stale", f"call {fact.call_id} is not open")
    if fact.body is None:
        raise Refused("no_content", "a question to a model needs content")
    if sum(request.lane in ASIDE for request in state.requests.values()) >= st.ASIDES_MAX:
        raise Refused("too_many", f"{st.ASIDES_MAX} such requests are open already")
    limit = budgets.exhausted(state, fact.tokens, fact.model, budgets.WITHIN_A_TURN)
    if limit is not None:
        raise Refused("budget", f"the budget leaves no room for it: {limit.limit} of the {limit.scope}")


def check_archived(state: State, fact: xe.ContextArchived) -> None:
    if fact.paged_seq not in state.paged:
        raise Refused("stale", f"nothing that was paged out at {fact.paged_seq} waits for the archive")


def check_call(state: State, fact: Any) -> None:
    call = state.calls.get(fact.call_id)
    if call is None or call.status != "started" or call.epoch != state.epoch:
        raise Refused("stale", f"call {fact.call_id} is not running under this owner")
    if isinstance(fact, ce.ToolAsked):
        if fact.body is None:
            raise Refused("no_content", "a question needs content")
        if state.mode == "autopilot":
            raise Refused("no_approver", "nobody answers questions in autopilot")


def check_prepared(state: State, fact: ce.ToolPrepared) -> None:
    call = state.calls.get(fact.call_id)
    if call is None or call.status != "requested":
        raise Refused("stale", f"call {fact.call_id} does not wait to be prepared")
    if fact.body is None or fact.body.prepared.digest != fact.digest:
        raise Refused("malformed", "what was prepared must carry the digest it names")


def check_settled(state: State, fact: ce.ToolSettled) -> None:
    call = state.calls.get(fact.call_id)
    if call is None or call.status != "unknown":
        raise Refused("not_open", f"call {fact.call_id} is not waiting to be settled")


def check_result(state: State, fact: ce.ResultReceived) -> None:
    call = state.calls.get(fact.call_id)
    if call is None or call.status not in ("delegated", "suspended"):
        raise Refused("not_open", f"call {fact.call_id} is not waiting for a result from outside")


def check_user_call(state: State, fact: ce.CallReceived) -> None:
    if fact.tool not in state.tools:
        raise Refused("unknown_tool", f"there is no tool {fact.tool!r}")
    if fact.body is None:
        raise Refused("no_content", "a call needs its arguments")


def check_permission(state: State, fact: pe.PermissionApproved | pe.PermissionDenied) -> None:
    ask = state.asks.get(fact.request_id)
    if ask is None or ask.kind != "permission":
        before = state.answered.get(fact.request_id)
        raise Refused("not_open", f"request {fact.request_id} is not open" + (f": {before}" if before else ""))
    if isinstance(fact, pe.PermissionApproved) and fact.digest is not None and fact.digest != ask.digest:
        raise Refused("digest_changed", f"request {fact.request_id} is about something else than was approved")
    if isinstance(fact, pe.PermissionApproved) and fact.scope == "pattern" and not fact.pattern:
        raise Refused("no_pattern", "an approval for a pattern needs the pattern")


def check_missed(state: State, fact: pe.ApproverMissed) -> None:
    open_ids = set(state.asks) | {c.call_id for c in state.calls.values() if c.status == "delegated"}
    if not set(fact.request_ids) & open_ids:
        raise Refused("stale", "none of these requests is open")


def check_answer(state: State, fact: qe.AnswerReceived) -> None:
    ask = state.asks.get(fact.question_id)
    if ask is None or ask.kind != "question":
        before = state.answered.get(fact.question_id)
        raise Refused("not_open", f"question {fact.question_id} is not open" + (f": {before}" if before else ""))
    if ask.question_kind != "plan" and (fact.action is not None or fact.mode is not None):
        raise Refused("malformed", "only a plan is answered with an action or a mode")
    if ask.question_kind == "plan" and fact.outcome == "answered" and not fact.action:
        raise Refused("malformed", "a plan is answered with one of its actions")


def check_timer(state: State, fact: re_.TimerFired) -> None:
    if fact.timer_id not in state.timers:
        raise Refused("stale", f"timer {fact.timer_id} is not set")


def check_queue(state: State, fact: re_.QueueEdited) -> None:
    known = {prompt_id(seq) for seq in state.queue}
    strange = [name for name in (*fact.order, *fact.tokens) if name not in known]
    if strange or len(set(fact.order)) != len(fact.order):
        raise Refused("unknown_prompt", f"not in the queue, or named twice: {', '.join(strange) or fact.order}")
    edits = fact.body.edits if fact.body is not None else {}
    if set(edits) != set(fact.tokens):
        raise Refused("malformed", "each new text of a prompt needs its tokens, and only those")


def check_mount(state: State, fact: ce.MountReceived) -> None:
    if len(state.staged) >= st.STAGED_MAX:
        raise Refused("too_many", f"{st.STAGED_MAX} changes of the tool set wait already")
    if len(state.tools) + len(fact.tools) > st.TOOLS_MAX:
        raise Refused("too_many_tools", f"at most {st.TOOLS_MAX} tools")
    mounted = {spec.name for spec in fact.tools}
    taken = {spec.alias or spec.name: spec.name for spec in state.tools.values() if spec.name not in mounted}
    for spec in fact.tools:
        if spec.alias is not None and taken.get(spec.alias, spec.name) != spec.name:
            raise Refused("collision", f"the model-side name {spec.alias!r} is taken by {taken[spec.alias]!r}")


def check_unmount(state: State, fact: ce.UnmountReceived) -> None:
    if len(state.staged) >= st.STAGED_MAX:
        raise Refused("too_many", f"{st.STAGED_MAX} changes of the tool set wait already")
    missing = [name for name in fact.tools if name not in state.tools]
    if missing:
        raise Refused("unknown_tool", f"not mounted: {', '.join(missing)}")


def check_rewind(state: State, fact: se.RewindReceived) -> None:
    if fact.to_seq > state.seq:
        raise Refused("not_there", f"the log ends at {state.seq}")
    if any(ref.seq > fact.to_seq for ref in fact.restored):
        raise Refused("malformed", "what is restored must lie at or before the point rewound to")


def check_undo(state: State, fact: xe.UndoReceived) -> None:
    if state.compaction.count == 0:
        raise Refused("nothing_to_undo", "no compaction has happened")
    if not fact.restored:
        raise Refused("malformed", "the host must supply what was visible before the compaction")


def check_compact(state: State, fact: xe.CompactReceived) -> None:
    leaving, _ = context.older(state)
    if not leaving:
        raise Refused("too_short", "the history is too short to compact")


def check_change(state: State, fact: se.ChangeReceived) -> None:
    change = fact.change
    if isinstance(change, se.ChangePins):
        known = {ref.seq for ref in state.history}
        strange = [seq for seq in change.pin if seq not in known]
        if strange:
            raise Refused("not_there", f"no visible item at {strange}")
        if len(state.pinned) + len(change.pin) > st.PINS_MAX:
            raise Refused("too_many", f"at most {st.PINS_MAX} pins")
    if isinstance(change, se.ChangeGrants):
        strange_grants = [name for name in change.revoke if name not in state.grants]
        if strange_grants:
            raise Refused("not_there", f"no standing approval {', '.join(strange_grants)}")
    if isinstance(change, se.ChangeTask) and len(msgspec.json.encode(change.task)) > st.TASK_BYTES_MAX:
        raise Refused("too_large", f"a task state is at most {st.TASK_BYTES_MAX} bytes")
    if isinstance(change, se.ChangeMetadata) and any(
        len(key) + len(value or "") > st.METADATA_CHARS_MAX for key, value in change.metadata.items()
    ):
        raise Refused("too_large", f"one entry of the metadata is at most {st.METADATA_CHARS_MAX} characters")


CHECKS: dict[type[Fact], Callable[[State, Any], None]] = {
    se.SessionResumed: check_resumed,
    se.ChangeReceived: check_change,
    se.RewindReceived: check_rewind,
    re_.PromptReceived: check_prompt,
    re_.QueueEdited: check_queue,
    re_.TimerFired: check_timer,
    te.ModelAsked: check_asked,
    te.ModelReplied: check_request,
    te.ModelFailed: check_request,
    ce.ToolPrepared: check_prepared,
    ce.ToolFinished: check_call,
    ce.ToolTimedOut: check_call,
    ce.ToolSuspended: check_call,
    ce.ToolAsked: check_call,
    ce.ToolSettled: check_settled,
    ce.ResultReceived: check_result,
    ce.CallReceived: check_user_call,
    ce.MountReceived: check_mount,
    ce.UnmountReceived: check_unmount,
    pe.PermissionApproved: check_permission,
    pe.PermissionDenied: check_permission,
    pe.ApproverMissed: check_missed,
    qe.AnswerReceived: check_answer,
    xe.CompactReceived: check_compact,
    xe.UndoReceived: check_undo,
    xe.ContextArchived: check_archived,
}
