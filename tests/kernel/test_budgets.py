"""Budgets: reserved before a request, settled after it, never passed; waiting spends no time."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as draw

from tests.kernel.session import ASK_PAY, MODEL, PRICE, Session, Settings, call, names
from windlass.events.budgets import BudgetStopped, BudgetWarned
from windlass.events.changes import ChangeModel
from windlass.events.tools.calls import ToolDenied
from windlass.events.turns import ModelRequested
from windlass.events.values.setup import Limits, RunOptions
from windlass.events.values.usage import Usage
from windlass.kernel.effects import CallModel, RunTool

SMALL = msgspec.structs.replace(MODEL, max_output_tokens=1_000)
UNPRICED = msgspec.structs.replace(MODEL, price=None)


def requests(session):
    return [event for event in session.events() if isinstance(event, ModelRequested)]


def stopped(events):
    return [(e.limit, e.scope, e.used, e.allowed) for e in events if isinstance(e, BudgetStopped)]


def test_a_request_reserves_what_it_may_cost_at_the_most():
    session = Session(model=SMALL)
    session.prompt(tokens=100)
    (request,) = requests(session)
    assert (request.input_tokens, request.output_tokens) == (100, 1_000)
    assert request.reserved_nanos == PRICE.cost_nanos(Usage(input_tokens=100, output_tokens=1_000)) == 2_100_000


def test_what_a_reply_used_is_settled_at_the_price_of_the_model_that_was_asked():
    session = Session()
    session.prompt()
    dear = msgspec.structs.replace(MODEL, name="test/dear", price=msgspec.structs.replace(PRICE, input=10**9))
    session.change(ChangeModel(model=dear))
    end = session.reply("x", usage=Usage(input_tokens=100, output_tokens=10))
    assert end[-1].cost_nanos == 120_000


def test_money_shrinks_what_may_be_written_and_then_ends_the_run():
    session = Session(model=SMALL, run_limits=Limits(cost_nanos=3_000_000))
    session.prompt(tokens=100)
    assert requests(session)[-1].output_tokens == 1_000
    session.reply("", call("add"), usage=Usage(input_tokens=100, output_tokens=900))
    session.finish()
    # 1,900,000 are spent. 1,100,000 less the input leave 450 tokens of output: half of the most, the next step is 250.
    assert requests(session)[-1].output_tokens == 256
    session.reply("", call("add", {"n": 2}), usage=Usage(input_tokens=200, output_tokens=256))
    end = session.finish()
    assert stopped(end) == [("money", "run", 2_612_000, 3_000_000)]
    assert (names(end)[-1], end[-1].stop, end[-1].cause) == ("run.completed", "money_budget", "budget_exhausted")


def test_unknown_prices_fail_closed_where_money_is_limited():
    session = Session(model=UNPRICED, limits=Limits(cost_nanos=10**12))
    end = session.prompt()
    assert names(end) == ["prompt.received", "run.started", "budget.stopped", "queue.changed", "run.failed"]
    assert (end[-1].stop, end[-1].failure.kind) == ("money_budget", "price_unknown")
    free = Session(model=UNPRICED)
    free.prompt()
    assert free.reply("fine")[-1].cost_nanos == 0


def test_tokens_are_a_hard_limit_of_a_run_and_of_a_session():
    session = Session(run_limits=Limits(tokens=1_000), limits=Limits(tokens=2_000))
    session.prompt(tokens=50)
    session.reply("", call("add"), usage=Usage(input_tokens=50, output_tokens=800))
    assert stopped(session.finish()) == [("tokens", "run", 850, 1_000)]
    session.prompt(tokens=50)
    session.reply("", call("add"), usage=Usage(input_tokens=500, output_tokens=400))
    assert stopped(session.finish()) == [("tokens", "run", 900, 1_000)]
    assert stopped(session.prompt(tokens=50)) == [("tokens", "session", 1_750, 2_000)]
    assert session.state.queue.waiting == []


def test_a_prompt_that_met_a_spent_budget_stays_in_the_history():
    session = Session(limits=Limits(turns=1))
    session.prompt("one")
    session.reply("done")
    end = session.prompt("two")
    assert names(end) == [
        "prompt.received",
        "run.started",
        "budget.warned",
        "budget.stopped",
        "queue.changed",
        "run.completed",
    ]
    assert [ref.seq for ref in session.state.history.items] == [2, 6, 9]


def test_turns_and_calls_end_in_a_wrap_up_turn():
    for limits, limit in ((Limits(turns=1), "turns"), (Limits(calls=1), "calls")):
        session = Session(run_limits=limits, settings=Settings(budget_warn=1.0))
        session.prompt()
        session.reply("", call("add"))
        events = session.finish()
        assert [e.limit for e in events if isinstance(e, BudgetStopped)] == [limit]
        assert names(events)[-2:] == ["turn.started", "model.requested"]
        end = session.reply("so far I have this")
        assert names(end)[-1] == "run.completed"
        assert end[-1].stop == {"turns": "max_turns", "calls": "call_budget"}[limit]


def test_calls_past_the_limit_are_denied_one_by_one():
    session = Session(run_limits=Limits(calls=2))
    session.prompt()
    events = session.reply("", call("add"), call("add", {"n": 1}), call("add", {"n": 2}))
    assert [(e.call_id, e.reason) for e in events if isinstance(e, ToolDenied)] == [(session.called(2), "budget")]


def test_a_prompt_may_bring_its_own_limits():
    session = Session(run_limits=Limits(turns=9))
    session.prompt(options=RunOptions(limits=Limits(turns=1)))
    session.reply("", call("add"))
    assert [e.allowed for e in session.finish() if isinstance(e, BudgetStopped)] == [1]


def test_a_warning_is_given_once_per_limit_and_scope():
    session = Session(run_limits=Limits(turns=5), limits=Limits(turns=10), settings=Settings(budget_warn=0.6))
    for _ in range(2):
        session.prompt()
        for n in range(4):
            session.reply("", call("add", {"n": n}))
            session.finish()
        session.reply("done")
    warned = [(e.limit, e.scope, e.used, e.allowed) for e in session.events() if isinstance(e, BudgetWarned)]
    assert warned == [("turns", "run", 3, 5), ("turns", "session", 6, 10), ("turns", "run", 3, 5)]


# --- time ---


def test_time_is_spent_by_models_and_tools():
    session = Session(run_limits=Limits(time_ms=10_000))
    session.prompt()
    session.at_ms += 4_000
    session.reply("", call("add"))
    assert session.state.budget.spent.active_ms == 4_000
    (effect,) = session.owed()
    assert isinstance(effect, RunTool)
    assert effect.timeout_ms == 6_000
    session.at_ms += 7_000
    end = session.finish()
    assert stopped(end) == [("time", "run", 11_000, 10_000)]
    assert (end[-1].stop, end[-1].cause) == ("time_budget", "time_budget_exceeded")


def test_waiting_for_people_timers_and_owners_spends_no_time():
    session = Session(policy=ASK_PAY, run_limits=Limits(time_ms=10_000))
    hour = 3_600_000
    session.prompt()
    session.at_ms += 1_000
    request = session.reply("", call("pay"))[-1].request_id
    session.at_ms += hour
    session.approve(request)
    assert session.state.budget.spent.active_ms == 1_000
    session.at_ms += 1_000
    session.finish()
    session.model_fails("rate_limited", retry_after_ms=30_000)
    session.fire()
    assert session.state.budget.spent.active_ms == 2_000
    session.at_ms += 100 * hour
    session.crash()
    assert session.state.budget.spent.active_ms == 2_000
    session.reply("", call("wait", {"for_ms": 5 * hour}))
    session.reply("later")
    session.fire()
    assert session.state.budget.spent.active_ms == 2_000
    assert session.state.active
    (effect,) = session.owed()
    assert isinstance(effect, CallModel)
    assert effect.timeout_ms == 8_000


def test_a_clock_that_goes_back_gives_no_time_back():
    session = Session()
    session.prompt()
    session.at_ms += 5_000
    session.reply("", call("add"))
    session.at_ms -= 3_600_000
    session.finish()
    assert session.state.budget.spent.active_ms == 5_000
    assert session.state.now_ms == 6_000


# --- what providers report ---


def test_usage_that_nobody_reported_is_estimated():
    session = Session()
    session.prompt(tokens=70)
    session.reply("x", usage=Usage())
    assert session.state.budget.spent.usage == Usage(input_tokens=70, output_tokens=20, estimated=True)


def test_negative_usage_gives_no_budget_back():
    session = Session()
    session.prompt()
    session.reply("x", usage=Usage(input_tokens=-5_000, output_tokens=6_000))
    assert session.state.budget.spent.usage.output_tokens == 6_000
    assert session.state.budget.spent.usage.input_tokens == 0
    assert session.state.budget.spent.cost_nanos >= 0


def test_a_request_that_was_lost_is_booked_in_full_before_the_next():
    session = Session(model=SMALL, run_limits=Limits(cost_nanos=5_000_000))
    session.prompt(tokens=100)
    assert names(session.crash())[-1] == "model.requested"
    assert session.state.budget.spent.cost_nanos == 2_100_000
    assert names(session.crash())[-1] == "model.requested"
    end = session.crash()
    assert stopped(end) == [("money", "run", 4_812_000, 5_000_000)]
    assert names(end) == ["session.resumed", "budget.stopped", "turn.finished", "run.completed"]


@settings(max_examples=150, deadline=None)
@given(draw.data())
def test_money_is_never_overspent_while_replies_stay_within_their_reservation(data):
    limit = data.draw(draw.integers(0, 30_000_000))
    session_limit = data.draw(draw.one_of(draw.none(), draw.integers(0, 30_000_000)))
    model = msgspec.structs.replace(MODEL, max_output_tokens=data.draw(draw.integers(1, 4_000)))
    session = Session(model=model, run_limits=Limits(cost_nanos=limit), limits=Limits(cost_nanos=session_limit))
    spent_by_run: dict[str, int] = {}
    for turn in range(12):
        if not session.state.active:
            session.prompt(tokens=data.draw(draw.integers(0, 800)))
        if not session.state.requests.open:
            continue
        request = next(iter(session.state.requests.open.values()))
        fate = data.draw(draw.sampled_from(["reply", "reply", "reply", "crash", "fail", "interrupt"]))
        if fate == "crash":
            session.crash()
        elif fate == "interrupt":
            session.interrupt()
        else:
            usage = Usage(
                input_tokens=data.draw(draw.integers(0, request.input_tokens)),
                output_tokens=data.draw(draw.integers(0, request.output_tokens)),
            )
            if fate == "fail":
                session.model_fails("invalid_request")
            else:
                session.reply("", call("add", {"n": turn}), usage=usage, tokens=0)
                session.finish()
        spent = session.state.budget.run_spent
        spent_by_run[session.state.run.first_run_id] = spent.cost_nanos
        open_nanos = sum(found.reserved_nanos for found in session.state.requests.open.values())
        assert spent.cost_nanos + open_nanos <= limit
        if session_limit is not None:
            assert session.state.budget.spent.cost_nanos + open_nanos <= session_limit
    assert sum(spent_by_run.values()) <= session.state.budget.spent.cost_nanos
