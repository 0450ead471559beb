"""What tools and judges ask of models: its own lanes, the same budgets, and no trace in the conversation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, MODEL, PRICE, Session, call, names
from windlass.events import turns as te
from windlass.events.blocks import Text
from windlass.events.errors import Refused
from windlass.events.failures import failure
from windlass.events.specs import Limits, Settings
from windlass.events.usage import Usage
from windlass.kernel import state as st
from windlass.kernel.effects import CallModel, RunTool

SMALL = msgspec.structs.replace(MODEL, max_output_tokens=1_000)


def asked(call_id: str | None = "c6.0", **more: Any) -> te.ModelAsked:
    values: dict[str, Any] = {
        "lane": "tool",
        "call_id": call_id,
        "model": SMALL,
        "tokens": 100,
        "body": te.AskBody(prompt="well?"),
    }
    return te.ModelAsked(**(values | more))


def running(**more):
    """A session in which `put` runs."""
    session = Session(model=SMALL, **more)
    session.prompt()
    session.reply("", call("put"))
    return session


def answered(request_id: str, **more: Any) -> te.ModelReplied:
    usage = Usage(input_tokens=100, output_tokens=50)
    body = te.ReplyBody(blocks=(Text(text="yes"),))
    values: dict[str, Any] = {
        "request_id": request_id,
        "lane": "tool",
        "finish": "stop",
        "usage": usage,
        "tokens": 50,
        "body": body,
    }
    return te.ModelReplied(**(values | more))


def failed(request_id: str, kind: Any = "overloaded", **more: Any) -> te.ModelFailed:
    values: dict[str, Any] = {
        "request_id": request_id,
        "lane": "tool",
        "failure": failure(kind, "no", retry_after_ms=None),
    }
    return te.ModelFailed(**(values | more))


def owed_models(session):
    return [(e.request_id, e.lane, e.asked_seq) for e in session.owed() if isinstance(e, CallModel)]


def test_the_intent_follows_the_question_and_is_owed_beside_the_tool():
    session = running()
    events = session.take(asked())
    assert names(events) == ["model.asked", "model.requested"]
    assert owed_models(session) == [("m11", "tool", 10)]
    assert [type(effect) for effect in session.owed()] == [CallModel, RunTool]
    assert isinstance(session.state.phase, st.AwaitingTools)


def test_an_answer_is_paid_for_and_changes_nothing_else():
    session = running()
    before = (session.items(), session.state.phase, session.state.run.attempts, session.state.measured_tokens)
    session.take(asked())
    assert names(session.take(answered("m11"))) == ["model.replied"]
    assert (session.items(), session.state.phase, session.state.run.attempts, session.state.measured_tokens) == before
    assert session.state.spent.usage == Usage(input_tokens=200, output_tokens=70)
    assert session.state.spent.cost_nanos == PRICE.cost_nanos(Usage(input_tokens=200, output_tokens=70))
    assert session.state.requests == {}


def test_the_price_is_that_of_the_model_that_was_asked():
    session = running()
    price = msgspec.structs.replace(PRICE, input=10**9)
    dear = msgspec.structs.replace(SMALL, name="test/dear", price=price)
    spent = session.state.spent.cost_nanos
    session.take(asked(model=dear))
    session.take(answered("m11", model="test/dear"))
    assert session.state.spent.cost_nanos - spent == price.cost_nanos(Usage(input_tokens=100, output_tokens=50))
    assert set(session.state.totals) == {"test/model", "test/dear"}


def test_what_is_under_way_cannot_be_promised_to_another():
    """Two calls ask at once: the second gets what the first leaves, the third gets nothing."""
    session = Session(model=SMALL, run_limits=Limits(tokens=2_100))
    session.prompt()
    session.reply("", call("put"), call("put", {"n": 2}), call("put", {"n": 3}), usage=Usage(input_tokens=100))
    first, second = (session.take(asked(f"c6.{n}"))[1] for n in range(2))
    assert (first.output_tokens, second.output_tokens) == (1_000, 500)
    with pytest.raises(Refused, match="the budget leaves no room for it: tokens of the run"):
        session.take(asked("c6.2"))


def test_the_turn_and_call_limits_do_not_stop_a_tool_that_already_runs():
    session = running(run_limits=Limits(turns=1, calls=1))
    assert names(session.take(asked())) == ["model.asked", "model.requested"]


@pytest.mark.parametrize(
    ("kind", "attempt", "planned"),
    [("overloaded", 1, True), ("overloaded", 6, False), ("invalid_request", 1, False), ("auth", 1, False)],
)
def test_a_failure_is_planned_again_for_whoever_asked_or_told(kind, attempt, planned):
    session = running()
    session.take(asked(attempt=attempt))
    events = session.take(failed("m11", kind, attempt=attempt))
    assert names(events) == (["model.failed", "retry.planned"] if planned else ["model.failed"])
    assert session.state.timers == {}, "whoever asked waits in its own process; no timer of the session is set"
    assert isinstance(session.state.phase, st.AwaitingTools)
    assert session.state.run.failure is None


def test_a_wait_that_outlasts_a_run_is_not_planned():
    session = running(settings=Settings(sleep_over_ms=1_000))
    session.take(asked())
    long = te.ModelFailed(request_id="m11", lane="tool", failure=failure("rate_limited", "no", retry_after_ms=90_000))
    assert names(session.take(long)) == ["model.failed"]


@pytest.mark.parametrize("end", ["finish", "interrupt", "cancel", "crash"])
def test_the_end_of_the_call_is_the_end_of_its_request_and_the_cost_is_booked(end):
    session = running()
    session.take(asked())
    spent = session.state.spent.cost_nanos
    getattr(session, end)()
    assert "m11" not in session.state.requests
    assert session.state.spent.cost_nanos - spent >= PRICE.cost_nanos(Usage(input_tokens=100, output_tokens=1_000))
    with pytest.raises(Refused):
        session.take(answered("m11"))


@pytest.mark.parametrize(
    ("fact", "code"),
    [
        (asked("c99.0"), "stale"),
        (asked(None), "stale"),
        (asked("c99.0", lane="judge"), "stale"),
        (asked(body=None), "no_content"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(fact, code):
    session = running()
    with pytest.raises(Refused) as refusal:
        session.take(fact)
    assert refusal.value.code == code


def test_only_so_many_may_be_open():
    session = running()
    for _ in range(st.ASIDES_MAX):
        session.take(asked())
    with pytest.raises(Refused, match="64 such requests are open already"):
        session.take(asked())


def test_an_outcome_names_its_lane():
    session = running()
    session.take(asked())
    with pytest.raises(Refused, match="was made in the lane 'tool'"):
        session.take(answered("m11", lane="main"))


def test_a_judge_may_ask_for_a_call_that_waits_and_for_none():
    session = Session(model=SMALL, policy=ASK_PAY)
    session.prompt()
    assert names(session.take(asked(None, lane="judge"))) == ["model.asked", "model.requested"]
    session.reply("", call("pay"))
    assert names(session.take(asked("c8.0", lane="judge")))[1:] == ["model.requested"]
    assert [lane for _, lane, _ in owed_models(session)] == ["judge", "judge"]


def test_nobody_asks_while_nothing_runs():
    with pytest.raises(Refused, match="does not fit a session that is idle"):
        Session(model=SMALL).take(asked(None, lane="judge"))
