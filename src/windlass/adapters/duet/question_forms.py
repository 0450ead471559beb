"""What people are asked, as questions of the protocol, and their answers as commands.

An answer names its question by its text, so each text stands once. A call that needs a person's word is a question
too: allow or deny; any other words deny it, and the model reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from windlass.events.errors import UsageError
from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody, QuestionBody
from windlass.events.values.blocks import JsonObject
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.api.session import Session

Ask = PermissionAsk | QuestionAsk
ALLOW, DENY = "allow", "deny"
SUBJECT_CHARS_MAX = 2_000
"""How much is shown of what a call is about."""


async def open_asks(session: Session) -> list[Ask]:
    """All that people are asked, by the session and by those below it."""
    return [*await session.requests(), *await session.questions()]


class Put(NamedTuple):
    """One question as it is put, and what it is a part of."""

    form: JsonObject
    ask: Ask
    number: int = 0


def put(asks: Iterable[Ask]) -> dict[str, Put]:
    """The questions of all that is open, by their texts."""
    questions: dict[str, Put] = {}
    for ask in asks:
        for one in _of(ask):
            text, count = str(one.form["question"]), 1
            while text in questions:
                count += 1
                text = f"{one.form['question']} ({count})"
            questions[text] = one._replace(form={**one.form, "question": text})
    return questions


def _of(ask: Ask) -> list[Put]:
    if isinstance(ask, PermissionAsk):
        return [Put(_permission(ask), ask)]
    body = ask.body
    if ask.kind == "plan" and body.plan is not None:
        options = [{"label": label} for label in dict.fromkeys((APPROVE, *body.plan.actions, REJECT))]
        text = f"{body.plan.summary}\n\n{body.plan.content}".strip()
        return [Put({"question": text, "header": "plan", "options": options}, ask)]
    if ask.kind == "form":
        schema = msgspec.json.encode(body.form or {}).decode()
        text = f"{body.message}\n\nAnswer with a JSON object that fits {schema}".strip()
        return [Put({"question": text, "header": "form", "options": []}, ask)]
    return [Put(_choice(body, index), ask, index) for index in range(len(body.questions))]


def _choice(body: QuestionBody, index: int) -> JsonObject:
    asked = body.questions[index]
    options = [
        {"label": option.label, **({"description": option.description} if option.description else {})}
        for option in asked.options
    ]
    header = asked.header or (body.message if len(body.questions) > 1 else "")
    form: JsonObject = {"question": asked.question, "options": options}
    if header:
        form["header"] = header
    if asked.multi_select:
        form["multiSelect"] = True
    return form


def _permission(ask: PermissionAsk) -> JsonObject:
    shown = ask.subject if ask.subject is not None else msgspec.json.encode(ask.detail).decode() if ask.detail else ""
    if len(shown) > SUBJECT_CHARS_MAX:
        shown = f"{shown[:SUBJECT_CHARS_MAX]} … ({len(shown):,} characters)"
    why = f" ({ask.why})" if ask.why else ""
    options = [
        {"label": ALLOW, "description": "this call, as it is shown"},
        {"label": DENY, "description": "the model is told; words of your own deny it too, and are its reason"},
    ]
    return {"question": f"May {ask.tool} be called?{why} {shown}".strip(), "header": "permission", "options": options}


# --- answers --------------------------------------------------------------------------------------------------------


class Sorted(NamedTuple):
    """Answers: those to what is open, by what they answer, and those to nothing that is."""

    given: list[tuple[Ask, dict[int, tuple[JsonObject, str]]]]
    left: dict[str, str]


def sort_answers(answers: Mapping[str, str], asks: Iterable[Ask]) -> Sorted:
    """Answers by what they answer."""
    known = put(asks)
    given: dict[str, tuple[Ask, dict[int, tuple[JsonObject, str]]]] = {}
    left: dict[str, str] = {}
    for text, answer in answers.items():
        if (one := known.get(text)) is None:
            left[text] = answer
            continue
        name = one.ask.request_id if isinstance(one.ask, PermissionAsk) else one.ask.question_id
        given.setdefault(name, (one.ask, {}))[1][one.number] = (one.form, answer)
    return Sorted(list(given.values()), left)


async def give(session: Session, ask: Ask, answers: Mapping[int, tuple[JsonObject, str]], command_id: str) -> None:
    """Sends what was answered to one ask. Raises `Refused` or `UsageError` if it does not fit."""
    form, text = answers[min(answers)]
    if isinstance(ask, PermissionAsk):
        if text.strip().lower() == ALLOW:
            await session.approve(ask, command_id=command_id, actor=ACTOR)
        else:
            feedback = "" if text.strip().lower() == DENY else text
            await session.deny(ask, feedback, command_id=command_id, actor=ACTOR)
    elif ask.kind == "plan":
        labels = [str(option["label"]) for option in form["options"]]
        action = text if text in labels else REJECT
        body = AnswerBody(feedback="" if text in labels else text)
        await session.answer(ask, body, action=action, command_id=command_id, actor=ACTOR)
    elif ask.kind == "form":
        await session.answer(ask, AnswerBody(content=_object(text)), command_id=command_id, actor=ACTOR)
    else:
        said = tuple(_answer(index, form, text) for index, (form, text) in sorted(answers.items()))
        await session.answer(ask, AnswerBody(answers=said), command_id=command_id, actor=ACTOR)


ACTOR = "duet"


def _answer(index: int, form: JsonObject, text: str) -> Answer:
    """What was picked; of several with commas between them, if several may be; else words."""
    labels = [str(option["label"]) for option in form["options"]]
    picked = [piece.strip() for piece in text.split(",")] if form.get("multiSelect") else []
    if text in labels:
        return Answer(index=index, selected=(text,))
    if picked and all(piece in labels for piece in picked):
        return Answer(index=index, selected=tuple(picked))
    return Answer(index=index, text=text)


def _object(text: str) -> JsonObject:
    try:
        return msgspec.json.decode(text, type=dict)
    except (msgspec.DecodeError, RecursionError):
        raise UsageError("answer: this question is a form: answer it with a JSON object that fits its schema") from None


def as_prompt(answers: Mapping[str, str]) -> str:
    """Answers to what nobody asks any more, as words for the agent."""
    return "\n\n".join(f"Question: {question}\nAnswer: {answer}" for question, answer in answers.items())
