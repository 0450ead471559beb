"""What tools and judges ask of models: its own lanes, the same budgets, and no trace in the conversation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, MODEL, PRICE, Session, call, names
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolSettled, ToolTimedOut
from windlass.events.turns import AskBody, ModelAsked, ModelFailed, ModelReplied, ReplyBody
from windlass.events.values.blocks import Text
from windlass.events.values.failures import failure
from windlass.events.values.settings import Settings
from windlass.events.values.setup import Limits
from windlass.events.values.usage import Usage
from windlass.kernel.effects import CallModel, RunTool
from windlass.kernel.parts.requests import ASIDES_MAX
from windlass.kernel.phases import AwaitingTools

SMALL = msgspec.structs.replace(MODEL, max_output_tokens=1_000)


def asked(session: Session, **more: Any) -> ModelAsked:
    """Of the session's first call, unless told otherwise."""
    values: dict[str, Any] = {
        "lane": "tool",
        "call_id": None if "call_id" in more else session.called(),
        "model": SMALL,
        "tokens": 100,
        "body": AskBody(prompt="well?"),
    }
    return ModelAsked(**(values | more))


def running(**more):
    """A session in which `put` runs."""
    session = Session(model=SMALL, **more)
    session.prompt()
    session.reply("", call("put"))
    return session


def answered(request_id: str, **more: Any) -> ModelReplied:
    usage = Usage(input_tokens=100, output_tokens=50)
    body = ReplyBody(blocks=(Text(text="yes"),))
    values: dict[str, Any] = {
        "request_id": request_id,
        "lane": "tool",
        "finish": "stop",
        "usage": usage,
        "tokens": 50,
        "body": body,
    }
    return ModelReplied(**(values | more))


def failed(request_id: str, kind: Any = "overloaded", **more: Any) -> ModelFailed:
    values: dict[str, Any] = {
        "request_id": request_id,
        "lane": "tool",
        "failure": failure(kind, "no", retry_after_ms=None),
    }
    return ModelFailed(**(values | more))


def owed_models(session):
    return [(e.request_id, e.lane, e.asked_seq) for e in session.owed() if isinstance(e, CallModel)]


def test_the_intent_follows_the_question_and_is_owed_beside_the_tool():
    session = running()
    events = session.take(asked(session))
    assert names(events) == ["model.asked", "model.requested"]
    assert owed_models(session) == [(session.requested(1), "tool", session.state.seq - 1)]
    assert [type(effect) for effect in session.owed()] == [CallModel, RunTool]
    assert isinstance(session.state.phase, AwaitingTools)


def test_an_answer_is_paid_for_and_changes_nothing_else():
    session = running()
    before = (
        session.items(),
        session.state.phase,
        session.state.requests.attempts,
        session.state.history.measured_tokens,
    )
    session.take(asked(session))
    assert names(session.take(answered(session.requested(1)))) == ["model.replied"]
    assert (
        session.items(),
        session.state.phase,
        session.state.requests.attempts,
        session.state.history.measured_tokens,
    ) == before
    assert session.state.budget.spent.usage == Usage(input_tokens=200, output_tokens=70)
    assert session.state.budget.spent.cost_nanos == PRICE.cost_nanos(Usage(input_tokens=200, output_tokens=70))
    assert session.state.requests.open == {}


def test_the_price_is_that_of_the_model_that_was_asked():
    session = running()
    price = msgspec.structs.replace(PRICE, input=10**9)
    dear = msgspec.structs.replace(SMALL, name="test/dear", price=price)
    spent = session.state.budget.spent.cost_nanos
    session.take(asked(session, model=dear))
    session.take(answered(session.requested(1), model="test/dear"))
    assert session.state.budget.spent.cost_nanos - spent == price.cost_nanos(Usage(input_tokens=100, output_tokens=50))
    assert set(session.state.budget.totals) == {"test/model", "test/dear"}


def test_what_is_under_way_cannot_be_promised_to_another():
    """Two calls ask at once: the second gets what the first leaves, the third gets nothing."""
    session = Session(model=SMALL, run_limits=Limits(tokens=2_100))
    session.prompt()
    session.reply("", call("put"), call("put", {"n": 2}), call("put", {"n": 3}), usage=Usage(input_tokens=100))
    first, second = (session.take(asked(session, call_id=session.called(n)))[1] for n in range(2))
    assert (first.output_tokens, second.output_tokens) == (1_000, 500)
    with pytest.raises(Refused, match="the budget leaves no room for it: tokens of the run"):
        session.take(asked(session, call_id=session.called(2)))


def test_the_turn_and_call_limits_do_not_stop_a_tool_that_already_runs():
    session = running(run_limits=Limits(turns=1, calls=1))
    assert names(session.take(asked(session))) == ["model.asked", "model.requested"]


@pytest.mark.parametrize(
    ("kind", "attempt", "planned"),
    [("overloaded", 1, True), ("overloaded", 6, False), ("invalid_request", 1, False), ("auth", 1, False)],
)
def test_a_failure_is_planned_again_for_whoever_asked_or_told(kind, attempt, planned):
    session = running()
    session.take(asked(session, attempt=attempt))
    events = session.take(failed(session.requested(1), kind, attempt=attempt))
    assert names(events) == (["model.failed", "retry.planned"] if planned else ["model.failed"])
    assert session.state.timers.open == {}, "whoever asked waits in its own process; no timer of the session is set"
    assert isinstance(session.state.phase, AwaitingTools)
    assert session.state.requests.failure is None


def test_a_wait_that_outlasts_a_run_is_not_planned():
    session = running(settings=Settings(sleep_over_ms=1_000))
    session.take(asked(session))
    long = ModelFailed(
        request_id=session.requested(1), lane="tool", failure=failure("rate_limited", "no", retry_after_ms=90_000)
    )
    assert names(session.take(long)) == ["model.failed"]


@pytest.mark.parametrize("end", ["finish", "interrupt", "cancel", "crash"])
def test_the_end_of_the_call_is_the_end_of_its_request_and_the_cost_is_booked(end):
    session = running()
    session.take(asked(session))
    spent = session.state.budget.spent.cost_nanos
    getattr(session, end)()
    assert session.requested(1) not in session.state.requests.open
    assert session.state.budget.spent.cost_nanos - spent >= PRICE.cost_nanos(
        Usage(input_tokens=100, output_tokens=1_000)
    )
    with pytest.raises(Refused):
        session.take(answered(session.requested(1)))


def test_what_a_call_asked_that_ran_out_of_time_is_not_asked_on_while_a_person_is_to_say_what_became_of_it():
    session = Session(model=SMALL)
    session.prompt()
    session.reply("", call("risky"))
    session.take(asked(session))
    session.take(ToolTimedOut(call_id=session.called(), timeout_ms=5, settle=True))
    assert owed_models(session) == []
    assert session.state.requests.open == {}
    session.take(ToolSettled(command_id="s", call_id=session.called(), outcome="did_not_happen"))
    assert [lane for _, lane, _ in owed_models(session)] == ["main"]
    assert session.verify().problems == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"call_id": "c99.0"}, "stale"),
        ({"call_id": None}, "stale"),
        ({"call_id": "c99.0", "lane": "judge"}, "stale"),
        ({"body": None}, "no_content"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(given, code):
    session = running()
    with pytest.raises(Refused) as refusal:
        session.take(asked(session, **given))
    assert refusal.value.code == code


def test_only_so_many_may_be_open():
    session = running()
    for _ in range(ASIDES_MAX):
        session.take(asked(session))
    with pytest.raises(Refused, match="64 such requests are open already"):
        session.take(asked(session))


def test_an_outcome_names_its_lane():
    session = running()
    session.take(asked(session))
    with pytest.raises(Refused, match="was made in the lane 'tool'"):
        session.take(answered(session.requested(1), lane="main"))


def test_a_judge_may_ask_for_a_call_that_waits_and_for_none():
    session = Session(model=SMALL, policy=ASK_PAY)
    session.prompt()
    assert names(session.take(asked(session, call_id=None, lane="judge"))) == ["model.asked", "model.requested"]
    session.reply("", call("pay"))
    assert names(session.take(asked(session, lane="judge")))[1:] == ["model.requested"]
    assert [lane for _, lane, _ in owed_models(session)] == ["judge", "judge"]


def test_nobody_asks_while_nothing_runs():
    session = Session(model=SMALL)
    with pytest.raises(Refused, match="does not fit a session that is idle"):
        session.take(asked(session, call_id=None, lane="judge"))
