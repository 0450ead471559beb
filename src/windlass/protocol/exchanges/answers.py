"""Answers to what a session asks of people, for protocols that send them as plain data: what such an answer looks like,
and the command that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.events.base import Command
from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody, Question
from windlass.events.values.blocks import JsonObject
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.approvals import Approve, Deny, PermissionAsk, QuestionAsk, Reply, Verdict, command_for

Ask = PermissionAsk | QuestionAsk

APPROVED, FEEDBACK, ANSWER = "approved", "feedback", "answer"


def ask_id(ask: Ask) -> str:
    """What an ask is called by."""
    return ask.request_id if isinstance(ask, PermissionAsk) else ask.question_id


def as_own(ask: Ask, name: str) -> Ask:
    """An ask of a child as that child knows it, by its own name."""
    if isinstance(ask, PermissionAsk):
        return msgspec.structs.replace(ask, request_id=name)
    return msgspec.structs.replace(ask, question_id=name)


def words_of(ask: Ask) -> str:
    """What a person is told, in a line or a few."""
    if isinstance(ask, PermissionAsk):
        return f"May {ask.tool!r} run?" + (f" {ask.why}" if ask.why else "")
    body = ask.body
    said = [body.message, *(question.question for question in body.questions)]
    if body.plan is not None:
        said += [body.plan.summary, body.plan.content]
    return "\n".join(dict.fromkeys(filter(None, said))) or "The agent asks something."


def answer_schema(ask: Ask) -> JsonObject:
    """The JSON Schema of an answer."""
    if isinstance(ask, PermissionAsk) or ask.kind == "plan":
        words = "What the agent is told, if not"
        properties = {APPROVED: {"type": "boolean"}, FEEDBACK: {"type": "string", "description": words}}
        return {"type": "object", "properties": properties, "required": [APPROVED]}
    if ask.kind == "form":
        return ask.body.form or {"type": "object"}
    names = answer_names(ask)
    fields = {name: _field(question) for name, question in zip(names, ask.body.questions, strict=True)}
    return {
        "type": "object",
        "properties": fields or {ANSWER: {"type": "string"}},
        "required": list(fields) or [ANSWER],
    }


def answer_names(ask: QuestionAsk) -> list[str]:
    """What the answers to its questions are called."""
    count = len(ask.body.questions)
    return [ANSWER] if count == 1 else [f"{ANSWER}_{index}" for index in range(count)]


def _field(question: Question) -> JsonObject:
    labels = [option.label for option in question.options]
    picked: JsonObject = {"type": "string", "enum": labels} if labels and not question.free_text else {"type": "string"}
    if labels and question.free_text:
        picked["examples"] = labels
    field = {"type": "array", "items": picked} if question.multi_select else picked
    return {**field, "description": question.question}


def answered(ask: Ask, said: Any, *, command_id: str, actor: str) -> Command:
    """The command of an answer. `None` is that whoever was asked does not answer: a call is denied then, a question
    closed. Raises `WireError` for what is none."""
    command = command_for(ask, _verdict(ask, said, actor), command_id=command_id)
    assert command is not None, "there is a verdict"
    return command


def _verdict(ask: Ask, said: Any, actor: str) -> Verdict:
    if isinstance(ask, PermissionAsk):
        yes, feedback = _decision(said) if said is not None else (False, "")
        return Approve(by=actor, auth="token") if yes else Deny(feedback=feedback, by=actor, auth="token")
    if said is None:
        return Reply(body=AnswerBody(), outcome="cancelled", by=actor, auth="token")
    if ask.kind == "plan":
        yes, feedback = _decision(said)
        body, action = AnswerBody(feedback=feedback), APPROVE if yes else REJECT
        return Reply(body=body, action=action, by=actor, auth="token")
    if ask.kind == "form":
        if not isinstance(said, dict):
            raise WireError("$", "the answer to a form is an object with its fields")
        return Reply(body=AnswerBody(content=said), by=actor, auth="token")
    return Reply(body=AnswerBody(answers=tuple(_answers(ask, said))), by=actor, auth="token")


def _decision(said: Any) -> tuple[bool, str]:
    """Only a plain yes is one."""
    given = said if isinstance(said, Mapping) else {APPROVED: said}
    yes, feedback = given.get(APPROVED), given.get(FEEDBACK)
    if not isinstance(yes, bool):
        raise WireError(f"$.{APPROVED}", "say true or false")
    return yes, feedback if isinstance(feedback, str) else ""


def _answers(ask: QuestionAsk, said: Any) -> list[Answer]:
    names = answer_names(ask)
    given = said if isinstance(said, Mapping) else {names[0] if names else ANSWER: said}
    if not names:
        return [Answer(index=0, text=_text(given.get(ANSWER)))]
    answers = []
    for index, (name, question) in enumerate(zip(names, ask.body.questions, strict=True)):
        labels = {option.label for option in question.options}
        values = given.get(name)
        texts = [_text(value) for value in (values if isinstance(values, list) else [values])]
        words = "\n".join(text for text in texts if text not in labels)
        answers.append(Answer(index=index, selected=tuple(t for t in texts if t in labels), text=words or None))
    return answers


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WireError(f"$.{ANSWER}", "answer with a text")
    return value
