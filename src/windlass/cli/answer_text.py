"""The text of an answer: what a person typed, read as option numbers, a plan's action, a form or free text."""

from __future__ import annotations

import msgspec

from windlass.events.errors import UsageError
from windlass.events.questions import APPROVE, REJECT, Answer, AnswerBody, QuestionRequested

FORM_EXAMPLE = """'{"name": "Ada", "copies": 2}'"""
"""As a person writes it in a shell."""


def read_answer(event: QuestionRequested, text: str) -> tuple[AnswerBody, str | None]:
    """What a person typed, as an answer: option numbers, a plan's action, a form's JSON, or free text."""
    body = event.body
    if body is None or not text:
        return AnswerBody(), None
    if body.plan is not None:
        if text in (*body.plan.actions, APPROVE, REJECT):
            return AnswerBody(), text
        return AnswerBody(feedback=text), REJECT
    if body.form is not None:
        return AnswerBody(content=_form(text)), None
    picked = picks(text, [option.label for option in body.questions[0].options] if body.questions else [])
    if picked:
        return AnswerBody(answers=(Answer(index=0, selected=picked),)), None
    return AnswerBody(answers=(Answer(index=0, text=text),)), None


def _form(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        raise UsageError(f"{text!r}: a form is answered with a JSON object, such as {FORM_EXAMPLE}") from None


def picks(text: str, labels: list[str], *, several: bool = True) -> tuple[str, ...]:
    """The options that some numbers, or one label, name; none if the text is something else."""
    if text in labels:
        return (text,)
    numbers = [part.strip() for part in text.split(",")]
    if not labels or not all(part.isdecimal() for part in numbers):
        return ()
    if any(not 1 <= int(part) <= len(labels) for part in numbers):
        raise UsageError(f"{text!r}: the options are numbered 1 to {len(labels)}")
    if len(numbers) > 1 and not several:
        raise UsageError(f"{text!r}: pick one option")
    return tuple(labels[int(part) - 1] for part in dict.fromkeys(numbers))
