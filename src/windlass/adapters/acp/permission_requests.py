"""What an editor asks its person for us: whether a call may run, whether a plan is good, what to choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.events.errors import Refused
from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody
from windlass.events.tools.permissions import WriteDetail
from windlass.events.values.blocks import JsonObject
from windlass.events.values.policy import WorkMode
from windlass.protocol.permission_words import changes, detail_text, terms_said
from windlass.protocol.question_forms import answered
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.api.session import Session

from .view.call_forms import about
from .view.content_forms import text_form
from .view.diff_forms import diffs_of
from .view.fold import Fold
from .view.session_forms import ALWAYS

ACTOR = "acp"
ONCE, SESSION, SUBJECT, REJECTED, REFUSED = "allow", "allow-session", "allow-subject", "reject", "reject-tool"
SUBJECT_CHARS_MAX = 80
CHOICE = "choice-"
"""How the options of a question are called, by their place."""
CHOICES_MAX = 20
NOT_EXACT = frozenset("*?\n\r\t")
"""What in a subject would make an approval of it one of more than it."""
REFUSED_BEFORE = "the user has refused every call of this tool in this session"


class PlanOption(NamedTuple):
    """One way to take a plan: how it is offered, and what it means."""

    name: str
    kind: str
    mode: WorkMode | None


PLAN_OPTIONS = {
    "plan-interactive": PlanOption("Approve, and ask as usual", "allow_once", "interactive"),
    "plan-autopilot": PlanOption("Approve, and ask nobody from here on", "allow_always", "autopilot"),
    "plan-reject": PlanOption("Keep planning", "reject_once", None),
}


def option(option_id: str, name: str, kind: str) -> JsonObject:
    """One of the answers to choose from."""
    return {"optionId": option_id, "name": name, "kind": kind}


# --- permissions --------------------------------------------------------------------------------------------------


def permission_params(fold: Fold, ask: PermissionAsk) -> JsonObject:
    """A call that needs a person's word, with what it would do."""
    content = diffs_of(ask.detail, fold.cwd)
    words = "\n\n".join(_words(ask, shown=bool(content)))
    if words:
        content.append({"type": "content", "content": text_form(words)})
    call = about(fold, ask.call_id)
    if below(ask.request_id):  # a call of a child session: its own log has it
        call = {"toolCallId": ask.request_id, "title": ask.tool, "kind": "other"}
    return {"toolCall": {**call, "status": "pending", "content": content}, "options": permission_options(ask)}


def below(ask_id: str) -> bool:
    """Whether it is asked in a child session: by the id that the session knows it by."""
    return "/" in ask_id


def _words(ask: PermissionAsk, *, shown: bool) -> Iterator[str]:
    """What an approval is for, whole, and what whoever gives it should know. Of what is shown as differences, only what
    it is about."""
    if ask.changed:
        yield f"asked again: {changes(ask.changed)}"
    detail = ask.detail
    if isinstance(detail, WriteDetail) and shown:
        yield detail.intention
    elif detail is not None:
        yield detail_text(detail)
    if ask.sandbox is not None:
        yield terms_said(ask.sandbox)
    if ask.joins:
        yield f"this would bring together what should stay apart: {', '.join(ask.joins)}"
    if ask.why:
        yield f"why this is asked: {ask.why}"


def permission_options(ask: PermissionAsk) -> list[JsonObject]:
    """What can be said, each with how far it reaches. Of a child session's call only this one is spoken of: what
    reaches further would hold in the child."""
    made = [option(ONCE, "Allow this call", "allow_once")]
    if below(ask.request_id):
        return [*made, option(REJECTED, "Reject this call", "reject_once")]
    subject = exact_subject(ask)
    if subject is not None:
        made.append(option(SUBJECT, f"Allow {ask.tool} for exactly '{subject}' in this session", "allow_always"))
    if ask.session_offered:
        made.append(option(SESSION, f"Allow every call of {ask.tool} in this session", "allow_always"))
    made.append(option(REJECTED, "Reject this call", "reject_once"))
    made.append(option(REFUSED, f"Reject every call of {ask.tool} in this session", "reject_always"))
    return made


def exact_subject(ask: PermissionAsk) -> str | None:
    """What later calls can be compared with as a whole; None if a line does not say it exactly."""
    subject = ask.subject
    if not ask.by_pattern or not subject or len(subject) > SUBJECT_CHARS_MAX or NOT_EXACT & set(subject):
        return None
    return subject


async def answer_permission(session: Session, ask: PermissionAsk, chosen: str) -> None:
    """Gives the answer, to the call as it was shown. Somebody else may have been quicker."""
    try:
        match chosen:
            case "allow":
                await session.approve(ask, actor=ACTOR)
            case "allow-session":
                await session.approve(ask, scope="session", actor=ACTOR)
            case "allow-subject":
                await session.approve(ask, pattern=exact_subject(ask), actor=ACTOR)
            case "reject-tool":
                await session.deny(ask, REFUSED_BEFORE, actor=ALWAYS)
            case _:
                await session.deny(ask, actor=ACTOR)
    except Refused as refusal:
        if refusal.code != "not_open":
            raise


# --- questions ----------------------------------------------------------------------------------------------------


def question_params(fold: Fold, ask: QuestionAsk) -> JsonObject | None:
    """A plan, or a question with its choices, as something to choose from; None if only words answer it."""
    body = ask.body
    if body.plan is not None:
        call = {**about(fold, ask.call_id), "kind": "switch_mode", "title": body.plan.summary or "A plan"}
        content = [{"type": "content", "content": text_form(body.plan.content)}]
        options = [option(name, given.name, given.kind) for name, given in PLAN_OPTIONS.items()]
        return {"toolCall": {**call, "content": content}, "options": options}
    question = body.questions[0] if len(body.questions) == 1 else None
    if question is None or question.multi_select or not 0 < len(question.options) <= CHOICES_MAX:
        return None
    options = [option(f"{CHOICE}{at}", one.label, "allow_once") for at, one in enumerate(question.options)]
    call = {**about(fold, ask.call_id), "title": question.question}
    return {"toolCall": call, "options": [*options, option(REJECTED, "Do not answer", "reject_once")]}


async def answer_question(session: Session, ask: QuestionAsk, chosen: str) -> None:
    """Gives the answer that was chosen."""
    plan = PLAN_OPTIONS.get(chosen)
    if plan is not None:
        action = APPROVE if plan.mode is not None else REJECT
        await answered(session, ask.question_id, AnswerBody(), ACTOR, action=action, mode=plan.mode)
        return
    at = chosen.removeprefix(CHOICE)
    options = ask.body.questions[0].options if ask.body.questions else ()
    if chosen == REJECTED or not at.isdecimal() or int(at) >= len(options):
        await answered(session, ask.question_id, AnswerBody(), ACTOR, outcome="declined")
        return
    said = Answer(index=0, selected=(options[int(at)].label,))
    await answered(session, ask.question_id, AnswerBody(answers=(said,)), ACTOR)


def question_text(ask: QuestionAsk) -> str:
    """A question in words."""
    body = ask.body
    words = [body.message, *(question.question for question in body.questions), body.url or ""]
    return "\n".join(word for word in words if word)
