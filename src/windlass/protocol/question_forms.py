"""Questions of a session as forms that clients of other protocols fill in, and what they said as answers."""

from __future__ import annotations

from typing import Any

from windlass.events.errors import Refused, UsageError
from windlass.events.questions import Answer, AnswerBody, QuestionBody
from windlass.events.values.blocks import JsonObject
from windlass.runtime.api.session import Session


def form_of(body: QuestionBody | None) -> JsonObject:
    """The schema of a form; of questions, a field for each."""
    if body is not None and body.form is not None:
        made: JsonObject = {"type": "object", "properties": body.form.get("properties") or {}}
        needed = body.form.get("required")
        return made if needed is None else {**made, "required": needed}
    fields: JsonObject = {}
    for at, question in enumerate(body.questions if body is not None else ()):
        field: JsonObject = {"type": "string", "title": question.header or question.question}
        if question.options and not question.free_text:
            field["enum"] = [option.label for option in question.options]
        fields[f"q{at}"] = field
    return {"type": "object", "properties": fields, "required": list(fields)}


async def answer_form(session: Session, question_id: str, given: dict[str, Any], fields: int, actor: str) -> bool:
    """Answers a form, or so many questions that were put as one. Whether this was the answer that counts."""
    if given.get("action") != "accept":
        outcome = "cancelled" if given.get("action") == "cancel" else "declined"
        return await answered(session, question_id, AnswerBody(), actor, outcome=outcome)
    content = given.get("content") or {}
    if not fields:
        return await answered(session, question_id, AnswerBody(content=content), actor)
    said = tuple(Answer(index=at, text=str(content.get(f"q{at}", ""))) for at in range(fields))
    return await answered(session, question_id, AnswerBody(answers=said), actor)


async def answered(session: Session, question_id: str, body: AnswerBody, actor: str, **more: Any) -> bool:
    """Gives an answer. Whether it counted: somebody else may have been quicker."""
    try:
        await session.answer(question_id, body, actor=actor, **more)
    except Refused as refusal:
        if refusal.code == "not_open":
            return False
        raise UsageError(f"this answer does not fit: {refusal}") from refusal
    return True
