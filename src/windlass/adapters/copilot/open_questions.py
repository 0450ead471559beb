"""Questions and plans that clients are asked by requests of their own, and what becomes of their answers."""

from __future__ import annotations

from typing import Any

from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody
from windlass.events.values.policy import WorkMode
from windlass.protocol.json_rpc.rpc_peer import PeerGone, RpcError
from windlass.protocol.question_forms import answered
from windlass.runtime.api.session import Session

from .client_session import Seat
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
    return await answered(session, question_id, AnswerBody(answers=(said,)), ACTOR)


async def answer_plan(session: Session, question_id: str, given: dict[str, Any]) -> bool:
    """Approves a plan, in the mode that was chosen, or sends it back. Whether this was the answer that counts."""
    body = AnswerBody(feedback=str(given.get("feedback") or ""))
    mode: WorkMode = "autopilot" if str(given.get("selectedAction")).startswith("autopilot") else "interactive"
    if given.get("approved"):
        return await answered(session, question_id, body, ACTOR, action=APPROVE, mode=mode)
    return await answered(session, question_id, body, ACTOR, action=REJECT)
