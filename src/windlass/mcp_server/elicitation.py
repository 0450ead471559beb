"""Requests to people as forms that a client shows, and what its person said as answers to them.

A form shows everything that would be done, or it is not shown: nobody approves what they did not see. A yes holds for
the one call that was shown, never for later ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import Refused
from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody, Question
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.api.session import Session

from .caller import Caller
from .desk import Ask, Words

if TYPE_CHECKING:
    from mcp_types import ElicitResult

SHOWN_CHARS_MAX = 20_000
"""What is longer cannot be judged in a dialogue: it is answered in a terminal."""
PRIMITIVES = ("string", "number", "integer", "boolean")
CHOICE = "choice"
WORDS = "words"
DECISION = "decision"
FEEDBACK = "feedback"

Schema = dict[str, Any]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is asked to show: a message, and the fields to be filled in."""

    message: str
    schema: Schema


def form_of(ask: Ask, words: Words) -> Form | None:
    """The form of a request; None if it cannot be shown whole, or has none that clients know."""
    message = words.asked(ask)
    if len(message) > SHOWN_CHARS_MAX or _is_gone(ask):
        return None
    fields = _fields(ask)
    if fields is None:
        return None
    properties, required = fields
    schema = {"type": "object", "properties": properties, "required": required}
    return Form(message=message, schema=schema)


def _is_gone(ask: Ask) -> bool:
    """Whether what would be done is not known any more: its content was erased."""
    return isinstance(ask, PermissionAsk) and ask.detail is None


def _fields(ask: Ask) -> tuple[Schema, list[str]] | None:
    if isinstance(ask, PermissionAsk):
        return _decision("Allow exactly this call?", ["approve", "deny"]), [DECISION]
    if ask.kind == "plan":
        return _decision("Carry out this plan?", [APPROVE, REJECT]), [DECISION]
    if ask.kind == "form":
        return _flat(ask.body.form)
    fields: Schema = {}
    for index, question in enumerate(ask.body.questions):
        fields |= _question(index, question)
    return (fields, []) if fields else None


def _decision(title: str, values: list[str]) -> Schema:
    return {
        DECISION: {"type": "string", "title": title, "enum": values},
        FEEDBACK: {"type": "string", "title": "What the agent is told, if not", "maxLength": 2_000},
    }


def _flat(form: Any) -> tuple[Schema, list[str]] | None:
    """A form as it is, if it has nothing but plain fields: clients know no others."""
    properties = form.get("properties") if isinstance(form, dict) else None
    if not isinstance(properties, dict) or not properties:
        return None
    plain = {"type", "title", "description", "default", "enum", "minimum", "maximum", "minLength", "maxLength"}
    for field in properties.values():
        if not isinstance(field, dict) or field.get("type") not in PRIMITIVES or set(field) - plain:
            return None
    required = form.get("required", [])
    return properties, [name for name in required if name in properties] if isinstance(required, list) else []


def _question(index: int, question: Question) -> Schema:
    title = (question.header or question.question)[:200]
    fields: Schema = {}
    labels = [option.label for option in question.options]
    if labels and question.multi_select:
        items = {"type": "string", "enum": labels}
        fields[f"{CHOICE}_{index}"] = {"type": "array", "title": title, "items": items}
    elif labels:
        fields[f"{CHOICE}_{index}"] = {"type": "string", "title": title, "enum": labels}
    if not labels or question.free_text:
        fields[f"{WORDS}_{index}"] = {"type": "string", "title": title if not labels else "Or in your own words"}
    return fields


async def answer(session: Session, ask: Ask, said: ElicitResult, caller: Caller) -> bool:
    """Has a session told what a person said to a request that was shown. Whether there was an answer: one who closes
    a form has said nothing, and one who comes second is passed over."""
    if said.action == "cancel":
        return False
    content: Mapping[str, Any] = said.content or {}
    try:
        if isinstance(ask, PermissionAsk):
            return await _rule(session, ask, said.action, content, caller)
        return await _reply(session, ask, said.action, content, caller)
    except Refused as refused:
        if refused.code == "not_open":
            return True
        raise


async def _rule(session: Session, ask: PermissionAsk, action: str, content: Mapping[str, Any], caller: Caller) -> bool:
    """Approves or denies a call. Only the word itself is a yes: a form that was sent without it is not."""
    who: dict[str, Any] = {"actor": caller.person, "auth": caller.auth}
    decision = content.get(DECISION)
    if action == "accept" and decision == "approve":
        await session.approve(ask, **who)
        return True
    if action == "accept" and decision != "deny":
        return False
    await session.deny(ask, _text(content.get(FEEDBACK)), **who)
    return True


async def _reply(session: Session, ask: QuestionAsk, action: str, content: Mapping[str, Any], caller: Caller) -> bool:
    who: dict[str, Any] = {"actor": caller.person, "auth": caller.auth}
    if action != "accept":
        await session.answer(ask.question_id, AnswerBody(), outcome="declined", **who)
    elif ask.kind == "plan":
        decision = content.get(DECISION)
        if decision not in (APPROVE, REJECT):
            return False
        await session.answer(ask.question_id, AnswerBody(feedback=_text(content.get(FEEDBACK))), action=decision, **who)
    elif ask.kind == "form":
        await session.answer(ask.question_id, AnswerBody(content=dict(content)), **who)
    else:
        await session.answer(ask.question_id, AnswerBody(answers=_answers(ask, content)), **who)
    return True


def _answers(ask: QuestionAsk, content: Mapping[str, Any]) -> tuple[Answer, ...]:
    answers: list[Answer] = []
    for index in range(len(ask.body.questions)):
        chosen = content.get(f"{CHOICE}_{index}")
        selected = tuple(chosen) if isinstance(chosen, list) else (chosen,) if isinstance(chosen, str) else ()
        words = content.get(f"{WORDS}_{index}")
        if selected or words:
            answers.append(Answer(index=index, selected=selected, text=_text(words) or None))
    return tuple(answers)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
