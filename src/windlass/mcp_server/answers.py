"""Answers that come as the call of a tool: from a model, that is, and so never a yes to what it asked for itself.

Whoever may begin work may answer questions here and say no. A yes to a call or a plan comes from a person, through an
elicitation or another door; by a call only from a client that may not begin work, such as one that watches others.
"""

from __future__ import annotations

from typing import Any

import anyio

from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.api.session import Session
from windlass.server.problems import Problem

from .arguments import GiveAnswer
from .caller import Caller
from .desk import ask_id

BY_PEOPLE = (
    "an approval comes from a person, not from a model: have the client ask (wait does, if the client supports "
    "elicitation), or a person approve in a terminal: windlass approve"
)


async def give_answer(session: Session, given: GiveAnswer, caller: Caller) -> dict[str, Any]:
    """Answers what is open. Raises `Problem` for a yes that is not this caller's to give."""
    asks = await session.runtime.host.views.asked(session.key)
    ask = next((one for one in asks if ask_id(one) == given.request_id), None)
    if ask is None:
        open_now = ", ".join(ask_id(one) for one in asks) or "nothing"
        raise Problem(404, "not_open", f"{given.request_id[:80]!r} is not open here: {open_now} is")
    if given.decision == "approve" and not caller.approves_by_call:
        raise Problem(403, "by_people", BY_PEOPLE)
    with anyio.CancelScope(shield=True):
        if isinstance(ask, PermissionAsk):
            await _rule(session, ask, given, caller)
        else:
            await _reply(session, ask, given, caller)
    return {"session_id": session.session_id, "request_id": given.request_id, "decision": given.decision}


async def _rule(session: Session, ask: PermissionAsk, given: GiveAnswer, caller: Caller) -> None:
    who: dict[str, Any] = {"actor": caller.model, "auth": caller.auth}
    match given.decision:
        case "approve":
            if given.digest is None:
                raise Problem(422, "malformed", "$.digest: say what you approve: its digest", path="$.digest")
            await session.approve(ask.request_id, digest=given.digest, **who)
        case "deny" | "decline":
            await session.deny(ask, given.text or "", **who)
        case _:
            raise Problem(422, "malformed", "$.decision: a call is approved or denied, not answered", path="$.decision")


async def _reply(session: Session, ask: QuestionAsk, given: GiveAnswer, caller: Caller) -> None:
    who: dict[str, Any] = {"actor": caller.model, "auth": caller.auth}
    declined = given.decision in ("deny", "decline")
    if ask.kind == "plan":
        action = APPROVE if given.decision == "approve" else REJECT
        await session.answer(ask.question_id, AnswerBody(feedback=given.text or ""), action=action, **who)
    elif declined:
        await session.answer(ask.question_id, AnswerBody(feedback=given.text or ""), outcome="declined", **who)
    else:
        await session.answer(ask.question_id, _body(given), **who)


def _body(given: GiveAnswer) -> AnswerBody:
    if given.content is not None:
        return AnswerBody(content=given.content)
    return AnswerBody(answers=(Answer(index=0, text=given.text, selected=given.selected),))
