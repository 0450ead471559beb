"""Which request and which option is meant: one that is named, the only one, and never the first of several."""

from __future__ import annotations

import pytest

import windlass
from windlass.cli.answer_text import picks, read_answer
from windlass.cli.open_requests import wanted_request
from windlass.events.errors import UsageError
from windlass.events.questions import AnswerBody, QuestionBody, QuestionRequested
from windlass.runtime.operate.log_point import Point, read_point
from windlass.runtime.operate.open_requests import Asker
from windlass.testing.scripted import ScriptedModel, call


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


async def asked(*cents: int) -> Point:
    """A session that waits for a permission for each of some calls."""
    turn = [call("pay", cents=each) for each in cents]
    agent = windlass.Agent(
        "clerk", model=ScriptedModel([turn]), tools=[pay], policy=windlass.Policy((windlass.ask("pay"),))
    )
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        return await read_point(runtime.store, session.key)


async def test_the_only_request_needs_no_name():
    point = await asked(1)
    (name,) = point.state.asks.open
    assert wanted_request([Asker(point=point)], None, "permission").request_id == name
    assert wanted_request([Asker(point=point)], name, "permission").request_id == name


async def test_of_several_requests_none_is_taken_by_itself():
    point = await asked(1, 2)
    first, second = point.state.asks.open
    with pytest.raises(UsageError) as caught:
        wanted_request([Asker(point=point)], None, "permission")
    assert str(caught.value) == f"several are open, say which: {first} (pay), {second} (pay)"
    assert wanted_request([Asker(point=point)], second, "permission").request_id == second
    with pytest.raises(UsageError, match=f"has no open permission 'p0'; open: {first} \\(pay\\), {second} \\(pay\\)"):
        wanted_request([Asker(point=point)], "p0", "permission")
    with pytest.raises(UsageError, match="is not waiting for a question"):
        wanted_request([Asker(point=point)], None, "question")


@pytest.mark.parametrize("wrong", ["0", "3", "00", "1,0", "0,1", "1,3"])
def test_a_number_that_is_no_option_is_refused(wrong: str):
    with pytest.raises(UsageError) as caught:
        picks(wrong, ["red", "blue"])
    assert str(caught.value) == f"{wrong!r}: the options are numbered 1 to 2"


@pytest.mark.parametrize(
    ("typed", "picked"),
    [
        ("1", ("red",)),
        ("2", ("blue",)),
        ("2,1", ("blue", "red")),
        ("1,1", ("red",)),
        ("red", ("red",)),
        ("neither", ()),
    ],
)
def test_numbers_and_labels_name_options(typed: str, picked: tuple[str, ...]):
    assert picks(typed, ["red", "blue"]) == picked


def test_of_one_answer_only_one_option_is_taken():
    with pytest.raises(UsageError, match="pick one option"):
        picks("1,2", ["red", "blue"], several=False)


def test_a_form_is_answered_with_an_object_and_whoever_writes_something_else_is_shown_one():
    asked = QuestionRequested(question_id="q9", call_id="c6.0", kind="form", body=QuestionBody(form={"type": "object"}))
    assert read_answer(asked, '{"amount": 5}') == (AnswerBody(content={"amount": 5}), None)
    for wrong in ("amount=5", "5", "[5]"):
        with pytest.raises(UsageError) as caught:
            read_answer(asked, wrong)
        example = """'{"name": "Ada", "copies": 2}'"""
        assert str(caught.value) == f"{wrong!r}: a form is answered with a JSON object, such as {example}"
