"""Retries: the plan is data, computed here; a transient failure pauses a run and never strands the work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from tests.kernel.session import Session, Settings, call, names
from windlass.events.errors import Refused
from windlass.events.timers import TimerFired
from windlass.events.turns import ModelFailed, RetryPlan, RetryPlanned
from windlass.events.values.failures import RETRYABLE_KINDS, failure
from windlass.events.values.setup import Limits
from windlass.kernel.effects import CallModel, SetTimer
from windlass.kernel.parts import retries
from windlass.kernel.phases import BackingOff


def plan_of(events):
    return next(event.plan for event in events if isinstance(event, RetryPlanned))


def failing(kind="server_error", sample=0.5, **changes):
    session = Session(**changes)
    session.prompt()
    return session, session.take(
        ModelFailed(request_id=session.requested(), failure=failure(kind, "no"), sample=sample)
    )


def test_a_failure_that_may_pass_is_tried_again_when_its_timer_fires():
    session, events = failing()
    assert names(events) == ["model.failed", "retry.planned"]
    assert session.owed() == (SetTimer(effect_id="w7", timer_id="w7", at_ms=1_500, kind="retry"),)
    assert names(session.fire()) == ["timer.fired", "model.requested"]
    assert [(e.request_id, e.attempt) for e in session.owed() if isinstance(e, CallModel)] == [
        (session.requested(1), 2)
    ]
    assert session.reply("at last")[-1].stop == "completed"


def test_the_plan_doubles_up_to_its_cap_and_then_the_run_fails():
    session, events = failing(settings=Settings(retry_cap_ms=3_000))
    plans = [plan_of(events)]
    for _ in range(4):
        session.fire()
        plans.append(plan_of(session.model_fails()))
    assert [(p.attempt, p.attempts_max, p.computed_ms) for p in plans] == [
        (2, 6, 500),
        (3, 6, 1_000),
        (4, 6, 2_000),
        (5, 6, 3_000),
        (6, 6, 3_000),
    ]
    session.fire()
    end = session.model_fails()
    assert names(end) == ["model.failed", "turn.finished", "run.failed"]
    assert (end[-1].stop, end[-1].cause) == ("retries_exhausted", "retries_exhausted")
    assert end[-1].failure.message == "gave up after 6 attempts: server_error happened"


@pytest.mark.parametrize(("sample", "waits"), [(0.0, 450), (0.25, 475), (0.5, 500), (0.75, 525)])
def test_jitter_comes_from_the_fact(sample, waits):
    _, events = failing(sample=sample)
    assert plan_of(events).chosen_ms == waits


@pytest.mark.parametrize(
    ("kind", "hint", "plan"),
    [
        (
            "rate_limited",
            None,
            RetryPlan(attempt=2, attempts_max=6, computed_ms=500, chosen_ms=1_000, floor_applied=True),
        ),
        ("rate_limited", 7_000, RetryPlan(attempt=2, attempts_max=6, computed_ms=500, chosen_ms=7_000, hint_ms=7_000)),
        ("rate_limited", 10, RetryPlan(attempt=2, attempts_max=6, computed_ms=500, chosen_ms=500, hint_ms=10)),
        ("overloaded", None, RetryPlan(attempt=2, attempts_max=6, computed_ms=500, chosen_ms=500)),
        ("server_error", -5, RetryPlan(attempt=2, attempts_max=6, computed_ms=500, chosen_ms=500, hint_ms=-5)),
    ],
)
def test_a_hint_of_the_server_wins_where_it_is_longer(kind, hint, plan):
    session = Session()
    session.prompt()
    if hint is not None and hint < 0:
        assert retries.delay(session.state, failure(kind, "x", retry_after_ms=hint), 1, 0.5, 5).chosen_ms == 500
        return
    assert plan_of(session.model_fails(kind, retry_after_ms=hint)) == plan


def test_a_long_wait_ends_the_run_asleep_and_the_timer_goes_on_with_it():
    session = Session()
    session.prompt(command_id="ask")
    end = session.model_fails("rate_limited", retry_after_ms=24 * 3_600_000)
    assert names(end) == ["model.failed", "retry.planned", "turn.finished", "run.slept"]
    assert (end[-1].wake_at_ms, end[-1].failure.kind, end[-1].commands) == (86_401_000, "rate_limited", ("ask",))
    assert [type(effect) for effect in session.owed()] == [SetTimer]
    assert names(session.fire()) == ["timer.fired", "run.started", "turn.started", "model.requested"]
    assert session.appends[-1][-1].attempt == 2


def test_attempts_are_counted_over_sleeps():
    session = Session(settings=Settings(retries_max=2))
    session.prompt()
    for _ in range(2):
        assert names(session.model_fails("rate_limited", retry_after_ms=120_000))[-1] == "run.slept"
        session.fire()
    assert names(session.model_fails("rate_limited", retry_after_ms=120_000))[-1] == "run.failed"


def test_a_time_budget_caps_the_wait():
    session = Session(run_limits=Limits(time_ms=5_000))
    session.prompt()
    session.at_ms += 3_000
    events = session.model_fails("rate_limited", retry_after_ms=30_000)
    assert (plan_of(events).chosen_ms, plan_of(events).capped_by_budget) == (2_000, True)


def test_another_attempt_needs_its_budget_too():
    session = Session(run_limits=Limits(tokens=17_000))
    session.prompt()
    from windlass.events.values.usage import Usage

    session.take(
        ModelFailed(
            request_id=session.requested(),
            failure=failure("truncated_reply", "cut"),
            usage=Usage(input_tokens=10, output_tokens=16_900),
        )
    )
    end = session.fire()
    assert names(end) == ["timer.fired", "budget.stopped", "turn.finished", "run.completed"]
    assert end[-1].stop == "token_budget"


@pytest.mark.parametrize("kind", ["invalid_request", "permission", "invalid_model", "unsupported", "quota_exhausted"])
def test_what_will_not_pass_is_never_tried_again(kind):
    _, events = failing(kind)
    assert names(events) == ["model.failed", "turn.finished", "run.failed"]
    assert events[-1].stop == "error"


@pytest.mark.parametrize("kind", sorted(RETRYABLE_KINDS))
def test_every_kind_that_may_pass_is_planned(kind):
    session, events = failing(kind)
    assert names(events) == ["model.failed", "retry.planned"]
    assert isinstance(session.state.phase, BackingOff)


def test_a_wake_makes_the_next_attempt_now():
    session, _ = failing()
    assert names(session.wake()) == ["wake.received", "timer.cancelled", "model.requested", "command.completed"]
    with pytest.raises(Refused, match="timer w7 is not set"):
        session.take(TimerFired(timer_id="w7"))


def test_a_good_reply_forgets_the_failures_before_it():
    session, _ = failing()
    session.fire()
    session.reply("", call("add"))
    session.finish()
    assert plan_of(session.model_fails()).attempt == 2


def test_a_summary_is_tried_again_by_the_same_plan_a_bounded_number_of_times():
    session = Session(settings=Settings(keep_exchanges=1))
    for n in range(3):
        session.prompt(f"{n}", tokens=500)
        session.reply(f"{n}")
    session.compact()
    plans = []
    for _ in range(2):
        events = session.model_fails("overloaded")
        assert names(events) == ["model.failed", "retry.planned"]
        plans.append((plan_of(events).attempt, plan_of(events).attempts_max))
        assert names(session.fire()) == ["timer.fired", "model.requested"]
        assert session.appends[-1][-1].lane == "compact"
    assert plans == [(2, 3), (3, 3)]
    assert names(session.model_fails("overloaded")) == [
        "model.failed",
        "compaction.failed",
        "context.truncated",
        "run.completed",
    ]


def test_a_long_wait_for_a_summary_is_not_worth_it():
    session = Session(settings=Settings(keep_exchanges=1))
    for n in range(3):
        session.prompt(f"{n}", tokens=500)
        session.reply(f"{n}")
    session.compact()
    assert names(session.model_fails("rate_limited", retry_after_ms=3_600_000)) == [
        "model.failed",
        "compaction.failed",
        "context.truncated",
        "run.completed",
    ]


@given(draw.integers(1, 6), draw.floats(0, 1), draw.one_of(draw.none(), draw.integers(0, 10**7)))
def test_a_plan_never_waits_less_than_the_hint_nor_more_than_the_cap_without_one(attempt, sample, hint):
    session = Session()
    session.prompt()
    chosen = retries.delay(session.state, failure("overloaded", "x", retry_after_ms=hint), attempt, sample, 5)
    assert chosen.chosen_ms >= (hint or 0)
    assert chosen.chosen_ms <= max(hint or 0, 33_000)
