"""Questions and plans that clients are asked by requests of their own, and what becomes of their answers."""

from __future__ import annotations

from typing import Any

from windlass.events.errors import Refused, UsageError
from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody
from windlass.events.values.specs import WorkMode
from windlass.runtime.api.session import Session

from .rpc_peer import PeerGone, RpcError
from .seat import Seat
from .view.fold import Said

USER_INPUT, PLAN = "user_input.requested", "exit_plan_mode.requested"
ASKED = frozenset({USER_INPUT, PLAN})
ANSWERED = frozenset({"user_input.completed", "exit_plan_mode.completed"})
ACTOR = "copilot"


def is_for(seat: Seat, said: Said) -> bool:
    """Whether a client wants to be asked."""
    return (said.kind == USER_INPUT and seat.answers_questions) or (said.kind == PLAN and seat.answers_plans)


async def ask(session: Session, seat: Seat, said: Said) -> None:
    """Asks one client, and answers with what it says. A client that cannot answer leaves the question open."""
    asked = {name: value for name, value in said.data.items() if name != "requestId"}
    method = "userInput.request" if said.kind == USER_INPUT else "exitPlanMode.request"
    try:
        given = await seat.peer.ask(method, {"sessionId": seat.session_id, **asked})
    except (RpcError, PeerGone):
        return
    if not isinstance(given, dict):
        return
    if said.kind == USER_INPUT:
        await answer_input(session, said.data["requestId"], given)
    else:
        await answer_plan(session, said.data["requestId"], given)


async def answer_input(session: Session, question_id: str, given: dict[str, Any]) -> bool:
    """Answers a question with a choice or with words. Whether this was the answer that counts."""
    text = str(given.get("answer", ""))
    said = Answer(index=0, text=text) if given.get("wasFreeform") else Answer(index=0, selected=(text,))
    return await answered(session, question_id, AnswerBody(answers=(said,)))


async def answer_plan(session: Session, question_id: str, given: dict[str, Any]) -> bool:
    """Approves a plan, in the mode that was chosen, or sends it back. Whether this was the answer that counts."""
    body = AnswerBody(feedback=str(given.get("feedback") or ""))
    mode: WorkMode = "autopilot" if str(given.get("selectedAction")).startswith("autopilot") else "interactive"
    if given.get("approved"):
        return await answered(session, question_id, body, action=APPROVE, mode=mode)
    return await answered(session, question_id, body, action=REJECT)


async def answer_form(session: Session, question_id: str, given: dict[str, Any], fields: int) -> bool:
    """Answers a form, or the several questions that were put as one. Whether this was the answer that counts."""
    if given.get("action") != "accept":
        outcome = "cancelled" if given.get("action") == "cancel" else "declined"
        return await answered(session, question_id, AnswerBody(), outcome=outcome)
    content = given.get("content") or {}
    if not fields:
        return await answered(session, question_id, AnswerBody(content=content))
    said = tuple(Answer(index=at, text=str(content.get(f"q{at}", ""))) for at in range(fields))
    return await answered(session, question_id, AnswerBody(answers=said))


async def answered(session: Session, question_id: str, body: AnswerBody, **more: Any) -> bool:
    """Gives an answer. Whether it counted: somebody else may have been quicker."""
    try:
        await session.answer(question_id, body, actor=ACTOR, **more)
    except Refused as refusal:
        if refusal.code == "not_open":
            return False
        raise UsageError(f"this answer does not fit: {refusal}") from refusal
    return True
