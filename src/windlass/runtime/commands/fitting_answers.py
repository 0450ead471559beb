"""Whether an answer fits its question: a form by its schema, a choice by its options. Checked before it is sent on."""

from __future__ import annotations

from windlass.events.base import Command
from windlass.events.errors import Refused, UsageError
from windlass.events.questions import Answer, AnswerReceived, Question, QuestionBody, QuestionRequested
from windlass.events.values.blocks import JsonObject
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key


async def check_answer(command: Command, log: LogReader, key: Key, state: State) -> None:
    """Raises `Refused` with what is wrong if a command is an answer that does not fit the question that it names."""
    ask = state.asks.open.get(command.question_id) if isinstance(command, AnswerReceived) else None
    if ask is not None and isinstance(command, AnswerReceived):
        asked = (await log.events_at(key, (ask.seq,)))[ask.seq]
        if isinstance(asked, QuestionRequested) and asked.body is not None:
            check_fits(command, asked.body)


def check_fits(answer: AnswerReceived, asked: QuestionBody) -> None:
    """The same for a question that is at hand."""
    if answer.outcome != "answered":
        return
    if asked.form is not None:
        _check_form(answer, asked.form)
    answers = answer.body.answers if answer.body is not None else ()
    for given in answers if asked.questions else ():
        if given.index >= len(asked.questions):
            told = f"answer {given.index + 1} answers nothing: there are {len(asked.questions)} questions"
            raise Refused("malformed", f"question {answer.question_id}: {told}")
        _check_choice(answer.question_id, given, asked.questions[given.index])


def _check_form(answer: AnswerReceived, form: JsonObject) -> None:
    from windlass.tools.validator import Validator

    name, content = answer.question_id, answer.body.content if answer.body is not None else None
    if content is None:
        raise Refused("malformed", f"question {name} is a form: answer it with an object that fits its schema")
    try:
        wrong = Validator(form, f"question {name}").errors(content)
    except UsageError:
        return  # the schema is none, so nothing can be held against an answer
    if wrong:
        raise Refused("malformed", f"the answer to {name} does not fit its form: {'; '.join(wrong)}")


def _check_choice(name: str, given: Answer, question: Question) -> None:
    labels = [option.label for option in question.options]
    if not labels:
        return
    if len(given.selected) > 1 and not question.multi_select:
        raise Refused("malformed", f"question {name}: pick one of {', '.join(labels)}, not {len(given.selected)}")
    if question.free_text:
        return
    strange = [picked for picked in given.selected if picked not in labels]
    if given.text and not given.selected:
        strange = [given.text] if given.text not in labels else []
    if strange:
        raise Refused("malformed", f"question {name}: {strange[0]!r} is none of its options: {', '.join(labels)}")
