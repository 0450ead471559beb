"""What people and clients are asked, as events: permissions, questions, forms and plans, and that they are answered."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.questions import APPROVE, AnswerBody, AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.tools.permissions import (
    HookDetail,
    McpDetail,
    MemoryDetail,
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
    ReadDetail,
    ShellDetail,
    ToolDetail,
    UrlDetail,
    WriteDetail,
)
from windlass.events.values.blocks import JsonObject
from windlass.protocol.question_forms import form_of
from windlass.runtime.streams.record import Record

from . import tool_forms
from .fold import Fold, Form, Opened, Said, without_none

PLAN_ACTIONS = ("exit_only", "interactive", "autopilot")
"""How a plan may be taken up there."""
ACTIONS = {"answered": "accept", "declined": "decline", "cancelled": "cancel"}


# --- permissions --------------------------------------------------------------------------------------------------


def permission_requested(fold: Fold, record: Record, event: PermissionRequested) -> Iterator[Said]:
    fold.permissions[event.request_id] = event
    data = {"requestId": event.request_id, "permissionRequest": permission_form(fold, event)}
    said = Said("permission.requested", data)
    fold.open[event.request_id] = Opened(said, record.seq)
    yield said


def permission_form(fold: Fold, event: PermissionRequested) -> JsonObject:
    """What is asked about, whole."""
    detail = event.body.detail if event.body is not None else None
    why = event.body.why if event.body is not None else ""
    of_call = {"toolCallId": event.call_id}
    match detail:
        case ShellDetail():
            return of_call | _shell(detail, why, event.session_offered)
        case WriteDetail():
            return of_call | without_none(
                kind="write",
                intention=detail.intention or why,
                fileName=detail.path,
                diff=detail.diff,
                newFileContents=detail.new_content,
                canOfferSessionApproval=event.session_offered and detail.session_approval_offered,
            )
        case ReadDetail():
            return of_call | {"kind": "read", "intention": detail.intention or why, "path": detail.path}
        case McpDetail():
            return of_call | without_none(
                kind="mcp",
                serverName=detail.server,
                toolName=detail.tool,
                toolTitle=detail.title or detail.tool,
                args=detail.args,
                readOnly=detail.read_only,
            )
        case UrlDetail():
            return of_call | {"kind": "url", "intention": detail.intention or why, "url": detail.url}
        case MemoryDetail():
            return of_call | {
                "kind": "memory",
                "subject": detail.subject,
                "fact": detail.fact,
                "citations": detail.citations,
            }
        case HookDetail():
            message = detail.message or None
            return of_call | without_none(kind="hook", toolName=detail.tool, toolArgs=detail.args, hookMessage=message)
        case ToolDetail() | None:
            args = detail.args if detail is not None else None
            told = fold.descriptions.get(event.tool, "")
            return of_call | without_none(kind="custom-tool", toolName=event.tool, toolDescription=told, args=args)


def _shell(detail: ShellDetail, why: str, offered: bool) -> JsonObject:
    return without_none(
        kind="shell",
        fullCommandText=detail.command,
        intention=detail.intention or why,
        commands=[{"identifier": one.identifier, "readOnly": one.read_only} for one in detail.commands],
        possiblePaths=list(detail.paths),
        possibleUrls=[{"url": url} for url in detail.urls],
        hasWriteFileRedirection=detail.writes_by_redirect,
        canOfferSessionApproval=offered and detail.session_approval_offered,
        warning=detail.warning,
    )


def approved(fold: Fold, record: Record, event: PermissionApproved) -> Iterator[Said]:
    for name in (event.request_id, *(covered.request_id for covered in event.also)):
        asked = fold.permissions.get(name)
        result: JsonObject = {"kind": "approved"}
        if event.scope != "once" and asked is not None:
            result = {"kind": "approved-for-session", "approval": _approval(asked)}
        yield from _completed(fold, name, result)


def _approval(asked: PermissionRequested) -> JsonObject:
    """What a standing approval is for."""
    detail = asked.body.detail if asked.body is not None else None
    match detail:
        case ShellDetail():
            return {"kind": "commands", "commandIdentifiers": [one.identifier for one in detail.commands]}
        case WriteDetail() | ReadDetail() | MemoryDetail():
            return {"kind": asked.kind}
        case McpDetail():
            return {"kind": "mcp", "serverName": detail.server, "toolName": detail.tool}
        case _:
            return {"kind": "custom-tool", "toolName": asked.tool}


def refused(fold: Fold, record: Record, event: PermissionDenied) -> Iterator[Said]:
    feedback = event.body.feedback if event.body is not None else None
    for name in (event.request_id, *event.also):
        yield from _completed(fold, name, without_none(kind="denied-interactively-by-user", feedback=feedback))


def withdrawn(fold: Fold, record: Record, event: PermissionWithdrawn) -> Iterator[Said]:
    yield from _completed(fold, event.request_id, {"kind": "cancelled", "reason": event.reason})


def _completed(fold: Fold, request_id: str, result: JsonObject) -> Iterator[Said]:
    asked = fold.permissions.pop(request_id, None)
    if fold.open.pop(request_id, None) is not None:
        call = asked.call_id if asked is not None else None
        yield Said("permission.completed", without_none(requestId=request_id, toolCallId=call, result=result))


# --- questions ----------------------------------------------------------------------------------------------------


def question_requested(fold: Fold, record: Record, event: QuestionRequested) -> Iterator[Said]:
    if not event.inside:
        yield from tool_forms.begun(fold, event.call_id)
    fold.questions[event.question_id] = event
    said = question_form(event)
    fold.open[event.question_id] = Opened(said, record.seq)
    yield said


def question_form(event: QuestionRequested) -> Said:
    """A question with its choices, a form, or a plan; several questions are a form too."""
    body, asked = event.body, {"requestId": event.question_id, "toolCallId": event.call_id}
    if body is not None and body.plan is not None:
        plan = {"summary": body.plan.summary, "planContent": body.plan.content, "actions": list(PLAN_ACTIONS)}
        data = {"requestId": event.question_id, **plan, "recommendedAction": "interactive"}
        return Said("exit_plan_mode.requested", data)
    if body is not None and (body.form is not None or len(body.questions) > 1):
        message = body.message or "; ".join(one.question for one in body.questions)
        form = {"mode": "form", "requestedSchema": form_of(body)}
        return Said("elicitation.requested", {**asked, "message": message, **form})
    question = body.questions[0] if body is not None and body.questions else None
    choices = [option.label for option in question.options] if question is not None else []
    data = without_none(
        **asked,
        question=question.question if question is not None else (body.message if body is not None else ""),
        choices=choices or None,
        allowFreeform=question.free_text if question is not None else True,
    )
    return Said("user_input.requested", data)


def answered(fold: Fold, record: Record, event: AnswerReceived) -> Iterator[Said]:
    body = event.body or AnswerBody()
    asked = fold.questions.pop(event.question_id, None)
    opened = fold.open.pop(event.question_id, None)
    if asked is None or opened is None:
        return
    yield _answer(opened.said.kind, event, body)
    if not asked.inside:
        ok = event.outcome == "answered"
        yield from tool_forms.complete(fold, asked.call_id, True, _text(body) if ok else event.outcome)


def _answer(kind: str, event: AnswerReceived, body: AnswerBody) -> Said:
    name = {"requestId": event.question_id}
    if kind == "user_input.requested":
        freeform = bool(body.answers) and body.answers[0].text is not None
        return Said("user_input.completed", {**name, "answer": _text(body), "wasFreeform": freeform})
    if kind == "elicitation.requested":
        content = body.content if event.outcome == "answered" else None
        data = without_none(**name, action=ACTIONS[event.outcome], content=content)
        return Said("elicitation.completed", data)
    approved = event.action == APPROVE
    chosen = (event.mode or "interactive") if approved else None
    data = without_none(**name, approved=approved, selectedAction=chosen, feedback=body.feedback or None)
    return Said("exit_plan_mode.completed", data)


def _text(body: AnswerBody) -> str:
    words = [answer.text if answer.text is not None else ", ".join(answer.selected) for answer in body.answers]
    return "\n".join(words) or body.feedback


def question_withdrawn(fold: Fold, record: Record, event: QuestionWithdrawn) -> Iterator[Said]:
    fold.questions.pop(event.question_id, None)
    opened = fold.open.pop(event.question_id, None)
    if opened is not None:
        yield Said(opened.said.kind.replace("requested", "completed"), {"requestId": event.question_id})


FORMS: dict[type[Event], Form] = {
    PermissionRequested: permission_requested,
    PermissionApproved: approved,
    PermissionDenied: refused,
    PermissionWithdrawn: withdrawn,
    QuestionRequested: question_requested,
    AnswerReceived: answered,
    QuestionWithdrawn: question_withdrawn,
}
