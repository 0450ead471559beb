"""Putting requests before people: what an approver is given, and what it may say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from windlass.events.base import Auth, Command, Event
from windlass.events.errors import UsageError
from windlass.events.questions import (
    APPROVE,
    REJECT,
    Answer,
    AnswerBody,
    AnswerReceived,
    QuestionBody,
    QuestionRequested,
)
from windlass.events.tools.labels import Provenance
from windlass.events.tools.permissions import (
    AnyDetail,
    Changed,
    Covered,
    FeedbackBody,
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    Scope,
)
from windlass.events.values.access import SandboxTerms


class PermissionAsk(msgspec.Struct, frozen=True, kw_only=True):
    """A call that needs a person's word, with everything that will be done."""

    session: str
    request_id: str
    call_id: str
    tool: str
    digest: str
    detail: AnyDetail | None
    why: str = ""
    subject: str | None = None
    """What a pattern is matched against."""
    changed: tuple[Changed, ...] = ()
    """Why it is asked again: what has changed since it was asked or allowed before."""
    replaces: str | None = None
    """The request that was withdrawn for this one."""
    by_pattern: bool = True
    """Whether it can be approved by a pattern."""
    session_offered: bool = True
    """Whether it can be approved for the whole session."""
    group: str = ""
    """The first request of those that it is alike to."""
    also: tuple[PermissionAsk, ...] = ()
    """Further requests of the same reply that are alike. A plain yes or no is for this one alone, so that nobody
    approves what they did not see; `Approve(together=True)` and `Deny(together=True)` are for all of them."""
    joins: tuple[str, ...] = ()
    """The labels that it would bring together with a way out, if it would; an approval for later calls does not
    speak of that."""
    sources: tuple[tuple[Provenance, str], ...] = ()
    """Where each of them came from: what brought it, and what that call was about."""
    sandbox: SandboxTerms | None = None
    """Where a command would run, and what it would be given beyond that; None for what runs in no sandbox."""


class QuestionAsk(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person."""

    session: str
    question_id: str
    call_id: str
    kind: Literal["choice", "form", "plan"]
    body: QuestionBody


class Approve(msgspec.Struct, frozen=True, kw_only=True):
    """Yes: once, for the session, or for calls whose subject fits a pattern. The last two hold for `for_ms`, or as long
    as `Settings.grant_ms` says; `by` is who said it, and `auth` how that is known."""

    scope: Scope = "once"
    pattern: str | None = None
    for_ms: int | None = None
    by: str = ""
    auth: Auth = "none"
    together: bool = False
    """Whether it is for all that was asked together."""


class Deny(msgspec.Struct, frozen=True, kw_only=True):
    """No, and what the model should know; `stop` ends the run. `by` is who said it, and `auth` how that is known."""

    feedback: str = ""
    stop: bool = False
    by: str = ""
    auth: Auth = "none"
    together: bool = False
    """Whether it is for all that was asked together."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a question. `by` is who gave it, and `auth` how that is known."""

    body: AnswerBody
    outcome: Literal["answered", "declined", "cancelled"] = "answered"
    action: str | None = None
    by: str = ""
    auth: Auth = "none"


Verdict = Approve | Deny | Reply | str | bool | None
"""True and False are short for a plain yes and no, a text answers a question; None means that nobody is there now."""

Approver = Callable[[PermissionAsk | QuestionAsk], Awaitable[Verdict] | Verdict]
"""Asks whoever may answer. An async one may wait as long as it likes; the run waits for it. A plain function must
answer at once: everything waits for it."""


def asked_of(session: str, event: Event) -> PermissionAsk | QuestionAsk | None:
    """A recorded request as an approver gets it; None for another event, and for one whose content was erased."""
    if isinstance(event, PermissionRequested):
        body = event.body
        return PermissionAsk(
            session=session,
            request_id=event.request_id,
            call_id=event.call_id,
            tool=event.tool,
            digest=event.digest,
            detail=body.detail if body is not None else None,
            why=body.why if body is not None else "",
            subject=body.subject if body is not None else None,
            changed=event.changed,
            replaces=event.replaces,
            by_pattern=event.by_pattern,
            session_offered=event.session_offered,
            group=event.group,
            joins=event.joins,
            sandbox=event.sandbox,
        )
    if isinstance(event, QuestionRequested) and event.body is not None:
        return QuestionAsk(
            session=session, question_id=event.question_id, call_id=event.call_id, kind=event.kind, body=event.body
        )
    return None


def command_for(
    asked: PermissionAsk | QuestionAsk, verdict: Verdict, *, command_id: str, actor: str = "approver"
) -> Command | None:
    """The command that says what the approver said; None if nobody was there."""
    if verdict is None:
        return None
    if isinstance(asked, QuestionAsk):
        if not isinstance(verdict, bool | str | Approve | Deny | Reply):
            raise UsageError(f"an approver says True, False, a text or a Reply to a question, not {verdict!r}")
        return _answer(asked, _reply(asked, verdict), command_id, actor)
    if not isinstance(verdict, bool | Approve | Deny):
        raise UsageError(f"an approver says True, False, Approve or Deny of a call, not {verdict!r}")
    if verdict is True or isinstance(verdict, Approve):
        given = verdict if isinstance(verdict, Approve) else Approve()
        return PermissionApproved(
            command_id=command_id,
            actor=given.by or actor,
            auth=given.auth,
            request_id=asked.request_id,
            scope="pattern" if given.pattern is not None and given.scope == "once" else given.scope,
            pattern=given.pattern,
            digest=asked.digest,
            for_ms=given.for_ms,
            also=tuple(Covered(request_id=one.request_id, digest=one.digest) for one in _also(asked, given)),
        )
    refused = verdict if isinstance(verdict, Deny) else Deny()
    return PermissionDenied(
        command_id=command_id,
        actor=refused.by or actor,
        auth=refused.auth,
        request_id=asked.request_id,
        stop=refused.stop,
        also=tuple(one.request_id for one in _also(asked, refused)),
        body=FeedbackBody(feedback=refused.feedback) if refused.feedback else None,
    )


def _also(asked: PermissionAsk, said: Approve | Deny) -> tuple[PermissionAsk, ...]:
    """The further requests that an answer is for."""
    return asked.also if said.together else ()


def together(asks: Sequence[PermissionAsk | QuestionAsk]) -> list[PermissionAsk | QuestionAsk]:
    """Requests as they are put before a person: those that are alike as one, in the place of the first."""
    groups: dict[tuple[str, str], list[PermissionAsk | QuestionAsk]] = {}
    for ask in asks:
        own = ask.question_id if isinstance(ask, QuestionAsk) else ask.group or ask.request_id
        groups.setdefault((ask.session, own.rpartition("/")[2]), []).append(ask)
    requests: list[PermissionAsk | QuestionAsk] = []
    for first, *others in groups.values():
        also = tuple(ask for ask in others if isinstance(ask, PermissionAsk))
        alone = isinstance(first, QuestionAsk) or not also
        requests.append(first if alone else msgspec.structs.replace(first, also=also))
    return requests


def _reply(asked: QuestionAsk, verdict: Approve | Deny | Reply | str | bool) -> Reply:
    """What was said to a question, as an answer to it. A plan is approved by a plain yes or by its action, never by
    words."""
    if isinstance(verdict, Reply):
        return verdict
    if isinstance(verdict, str):
        if asked.kind == "plan":
            approved = verdict == APPROVE
            return Reply(body=AnswerBody(feedback="" if approved else verdict), action=APPROVE if approved else REJECT)
        return Reply(body=AnswerBody(answers=(Answer(index=0, text=verdict),)))
    if isinstance(verdict, Deny):
        return Reply(body=AnswerBody(feedback=verdict.feedback), outcome="declined", by=verdict.by, auth=verdict.auth)
    if verdict is False:
        return Reply(body=AnswerBody(), outcome="declined")
    said = verdict if isinstance(verdict, Approve) else Approve()
    return Reply(body=AnswerBody(), action=APPROVE if asked.kind == "plan" else None, by=said.by, auth=said.auth)


def _answer(asked: QuestionAsk, reply: Reply, command_id: str, actor: str) -> AnswerReceived:
    return AnswerReceived(
        command_id=command_id,
        actor=reply.by or actor,
        auth=reply.auth,
        question_id=asked.question_id,
        outcome=reply.outcome,
        action=reply.action,
        body=reply.body,
    )
