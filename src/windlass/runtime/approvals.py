"""Putting requests before people: what an approver is given, and what it may say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from windlass.events.base import Command
from windlass.events.errors import UsageError
from windlass.events.permissions import AnyDetail, FeedbackBody, PermissionApproved, PermissionDenied, Scope
from windlass.events.questions import Answer, AnswerBody, AnswerReceived, QuestionBody


class PermissionAsk(msgspec.Struct, frozen=True, kw_only=True):
    """A call that needs a person's word, with everything that will be done."""

    session: str
    request_id: str
    call_id: str
    tool: str
    digest: str
    detail: AnyDetail | None
    why: str = ""


class QuestionAsk(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person."""

    session: str
    question_id: str
    call_id: str
    kind: Literal["choice", "form", "plan"]
    body: QuestionBody


class Approve(msgspec.Struct, frozen=True, kw_only=True):
    """Yes: once, for the session, or for calls whose subject fits a pattern."""

    scope: Scope = "once"
    pattern: str | None = None


class Deny(msgspec.Struct, frozen=True, kw_only=True):
    """No, and what the model should know; `stop` ends the run."""

    feedback: str = ""
    stop: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a question."""

    body: AnswerBody
    outcome: Literal["answered", "declined", "cancelled"] = "answered"
    action: str | None = None


Verdict = Approve | Deny | Reply | str | bool | None
"""True and False are short for a plain yes and no, a text answers a question; None means that nobody is there now."""

Approver = Callable[[PermissionAsk | QuestionAsk], Awaitable[Verdict] | Verdict]
"""Asks whoever may answer. An async one may wait as long as it likes; the run waits for it. A plain function must
answer at once: everything waits for it."""


def command_for(
    asked: PermissionAsk | QuestionAsk, verdict: Verdict, *, command_id: str, actor: str = "approver"
) -> Command | None:
    """The command that says what the approver said; None where nobody was there."""
    if verdict is None:
        return None
    if isinstance(asked, QuestionAsk):
        if isinstance(verdict, str):
            verdict = Reply(body=AnswerBody(answers=(Answer(index=0, text=verdict),)))
        if isinstance(verdict, Reply):
            return AnswerReceived(
                command_id=command_id,
                actor=actor,
                question_id=asked.question_id,
                outcome=verdict.outcome,
                action=verdict.action,
                body=verdict.body,
            )
        declined = verdict is False or isinstance(verdict, Deny)
        return AnswerReceived(
            command_id=command_id,
            actor=actor,
            question_id=asked.question_id,
            outcome="declined" if declined else "answered",
            action="approve" if asked.kind == "plan" and not declined else None,
            body=AnswerBody(feedback=verdict.feedback if isinstance(verdict, Deny) else ""),
        )
    if not isinstance(verdict, bool | Approve | Deny):
        raise UsageError(f"an approver says True, False, Approve or Deny of a call, not {verdict!r}")
    if verdict is True or isinstance(verdict, Approve):
        given = verdict if isinstance(verdict, Approve) else Approve()
        return PermissionApproved(
            command_id=command_id,
            actor=actor,
            request_id=asked.request_id,
            scope=given.scope,
            pattern=given.pattern,
            digest=asked.digest,
        )
    refused = verdict if isinstance(verdict, Deny) else Deny()
    return PermissionDenied(
        command_id=command_id,
        actor=actor,
        request_id=asked.request_id,
        stop=refused.stop,
        body=FeedbackBody(feedback=refused.feedback) if refused.feedback else None,
    )
