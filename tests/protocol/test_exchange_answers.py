"""Answers as plain data: what each kind of ask wants, what such data becomes, and what is no answer."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from windlass.events.questions import (
    Answer,
    AnswerBody,
    AnswerReceived,
    Option,
    Plan,
    Question,
    QuestionBody,
    QuestionKind,
)
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied
from windlass.protocol.exchanges.answers import answer_schema, answered, words_of
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk

PAY = PermissionAsk(session="s", request_id="p8", call_id="c7.0", tool="pay", digest="d", detail=None, why="ask pay")
COLOURS = (Option(label="red"), Option(label="blue"))
FORM = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}


def asking(kind: QuestionKind, **body: Any) -> QuestionAsk:
    return QuestionAsk(session="s", question_id="q8", call_id="c7.0", kind=kind, body=QuestionBody(**body))


ONE = asking("choice", questions=(Question(question="Which?", options=COLOURS, free_text=False),))
TWO = asking(
    "choice",
    questions=(Question(question="Which?", options=COLOURS, multi_select=True), Question(question="Why?")),
)
PORT = asking("form", message="Which port?", form=FORM)
PLAN = asking("plan", plan=Plan(summary="paint", content="1. paint"))


def command(ask: PermissionAsk | QuestionAsk, said: Any) -> Any:
    return answered(ask, said, command_id="k", actor="ada")


def test_a_yes_is_bound_to_what_was_shown_and_everything_else_is_a_no():
    yes = PermissionApproved(command_id="k", actor="ada", auth="token", request_id="p8", digest="d")
    assert command(PAY, {"approved": True}) == yes
    assert command(PAY, True) == yes
    no = command(PAY, {"approved": False, "feedback": "too much"})
    assert isinstance(no, PermissionDenied)
    assert (no.actor, no.auth, no.body.feedback if no.body else "") == ("ada", "token", "too much")
    assert isinstance(command(PAY, None), PermissionDenied)


@pytest.mark.parametrize(
    ("ask", "said", "body"),
    [
        (ONE, {"answer": "red"}, AnswerBody(answers=(Answer(index=0, selected=("red",)),))),
        (ONE, "blue", AnswerBody(answers=(Answer(index=0, selected=("blue",)),))),
        (
            TWO,
            {"answer_0": ["red", "green"], "answer_1": "It suits."},
            AnswerBody(answers=(Answer(index=0, selected=("red",), text="green"), Answer(index=1, text="It suits."))),
        ),
        (PORT, {"port": 80}, AnswerBody(content={"port": 80})),
    ],
)
def test_what_fits_the_schema_of_a_question_is_its_answer(ask: QuestionAsk, said: Any, body: AnswerBody):
    if isinstance(said, dict):
        jsonschema_rs.validate(answer_schema(ask), said)
    found = command(ask, said)
    assert found == AnswerReceived(command_id="k", actor="ada", auth="token", question_id="q8", body=body)
    assert words_of(ask)


def test_a_plan_is_approved_by_a_yes_alone_and_a_question_can_be_closed():
    assert command(PLAN, {"approved": True}).action == "approve"
    rejected = command(PLAN, {"approved": False, "feedback": "no red"})
    assert (rejected.action, rejected.body.feedback) == ("reject", "no red")
    assert "1. paint" in words_of(PLAN)
    assert command(ONE, None).outcome == "cancelled"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (PAY, "yes"),
        (PAY, {"approved": 1}),
        (PAY, {}),
        (PLAN, "approve"),
        (PORT, 80),
        (TWO, {"answer_0": ["red"]}),
        (ONE, 7),
    ],
)
def test_what_is_no_answer_is_refused(ask: PermissionAsk | QuestionAsk, said: Any):
    with pytest.raises(WireError):
        command(ask, said)
