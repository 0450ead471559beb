"""Runs: from a command to exactly one of six terminals, and what may go on from there."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, MODEL, Session, Settings, call, names, setup
from windlass.events.commands import QueueChanged
from windlass.events.errors import Refused
from windlass.events.runs import (
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
)
from windlass.events.sessions import SessionShutDown, SessionStarted
from windlass.events.turns import TurnStarted
from windlass.events.values.failures import failure
from windlass.events.values.setup import RunOptions
from windlass.events.values.usage import Usage
from windlass.kernel.owed import overview, waiting_words
from windlass.kernel.phases import Idle
from windlass.kernel.state import State

USED = Usage(input_tokens=100, output_tokens=20)


def test_start_is_setup_not_a_run():
    session = Session()
    assert session.names() == ["session.started"]
    assert isinstance(session.state.phase, Idle)
    assert session.owed() == ()


def test_a_second_start_is_refused():
    session = Session()
    with pytest.raises(Refused) as refusal:
        session.take(SessionStarted(command_id="k", session_id="s2", epoch=1, setup=setup()))
    assert (refusal.value.code, str(refusal.value)) == (
        "wrong_phase",
        "session.started does not fit a session that is idle",
    )


def test_nothing_but_a_start_fits_a_session_that_does_not_exist():
    session = Session(start=False)
    for told in (session.prompt, session.wake, session.interrupt, session.cancel, session.signal):
        with pytest.raises(Refused, match="session that is new"):
            told()
    assert session.lines == []
    assert session.state == State()


def test_a_decision_cannot_come_from_outside():
    session = Session()
    with pytest.raises(Refused) as refusal:
        session.take(QueueChanged(operation="held"))
    assert refusal.value.code == "not_a_fact"


def test_a_plain_run_completes_with_what_it_used_and_the_command_that_asked():
    session = Session()
    session.prompt(command_id="ask")
    assert session.reply("hello")[-1] == RunCompleted(
        run_id=session.ran(), stop="completed", commands=("ask",), usage=USED, cost_nanos=140_000, turns=1
    )


@pytest.mark.parametrize(
    ("finish", "terminal", "stop"),
    [
        ("stop", RunCompleted, "completed"),
        ("stop_sequence", RunCompleted, "completed"),
        ("other", RunCompleted, "completed"),
        ("length", RunCompleted, "max_tokens"),
        ("refusal", RunCompleted, "refused"),
        ("content_filter", RunFailed, "content_filtered"),
        ("error", RunFailed, "error"),
    ],
)
def test_how_a_model_stops_decides_how_the_run_ends(finish, terminal, stop):
    session = Session()
    session.prompt()
    last = session.reply("words", finish=finish)[-1]
    assert (type(last), last.stop) == (terminal, stop)


def test_a_pause_of_the_model_is_no_end():
    session = Session()
    session.prompt()
    assert names(session.reply("so far", finish="pause")) == [
        "model.replied",
        "turn.finished",
        "turn.started",
        "model.requested",
    ]


def test_each_way_to_end_is_one_event():
    completed, failed, cancelled, interrupted = Session(), Session(), Session(), Session()
    asked, slept = Session(policy=ASK_PAY), Session()
    for session in (completed, failed, cancelled, interrupted, asked, slept):
        session.prompt()
    asked.reply("", call("pay"))
    slept.reply("", call("wait", {"for_ms": 5_000}))
    ends = [
        completed.reply("x"),
        failed.model_fails("invalid_request"),
        cancelled.cancel(),
        interrupted.interrupt(),
        asked.nobody(),
        slept.reply("waiting"),
    ]
    found = [event for append in ends for event in append if isinstance(event, Terminal)]
    assert [type(end) for end in found] == [RunCompleted, RunFailed, RunCancelled, RunInterrupted, RunAsked, RunSlept]


def test_a_continuing_run_inherits_its_budget_and_says_what_it_continues():
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay"))[-1]
    session.nobody()
    started = next(e for e in session.approve(request.request_id) if isinstance(e, RunStarted))
    assert (started.continues, started.trigger, started.commands) == (session.ran(), "approval", ("k2",))
    state = session.state
    spent = state.budget.run_spent
    assert (state.run.first_run_id, spent.turns, spent.usage, state.turn.here) == (session.ran(), 1, USED, 0)


def test_a_new_prompt_opens_a_run_of_its_own():
    session = Session()
    session.prompt()
    session.reply("one")
    started = session.prompt()[1]
    assert isinstance(started, RunStarted)
    assert started.continues is None
    assert session.state.budget.run_spent.turns == 1
    assert session.state.budget.spent.turns == 2


def test_what_a_prompt_sets_holds_for_its_run_only():
    import msgspec

    other = msgspec.structs.replace(MODEL, name="test/other")
    session = Session()
    session.prompt(options=RunOptions(model=other))
    assert session.appends[-1][-1].model == "test/other"
    session.reply("done")
    requested = session.prompt()
    assert names(requested) == ["prompt.received", "run.started", "prefix.changed", "turn.started", "model.requested"]
    assert requested[2].reasons == ("model",)
    assert requested[-1].model == "test/model"


def test_a_failed_run_may_be_woken_and_keeps_its_prompt():
    session = Session()
    session.prompt("do it")
    end = session.model_fails("invalid_request")
    assert names(end) == ["model.failed", "turn.finished", "run.failed"]
    assert end[-1].failure == failure("invalid_request", "invalid_request happened")
    assert names(session.wake()) == ["wake.received", "run.started", "turn.started", "model.requested"]
    assert [item.key for item in session.items()] == ["2"]


def test_a_cancelled_run_is_closed_for_good_and_the_session_is_not():
    session = Session()
    session.prompt()
    session.cancel()
    assert names(session.wake()) == ["wake.received", "command.completed"]
    assert names(session.prompt()) == ["prompt.received", "run.started", "turn.started", "model.requested"]


def test_missing_credentials_park_the_run_until_somebody_goes_on():
    session = Session()
    session.prompt()
    end = session.model_fails("auth")
    assert names(end) == ["model.failed", "turn.finished", "run.asked"]
    assert (end[-1].stop, end[-1].waiting_for) == ("awaiting_credentials", ("credentials",))
    assert (overview(session.state).state, overview(session.state).waiting_for) == ("asked", ("credentials",))
    assert names(session.wake()) == ["wake.received", "run.started", "turn.started", "model.requested"]
    assert session.reply("now it works")[-1].stop == "completed"


def test_a_shutdown_adds_up_models_and_code():
    from windlass.events.sessions import CodeTotals, ModelTotals, SessionTotalled
    from windlass.events.workspace import FileChange

    session = Session()
    session.prompt()
    session.reply("", call("put"))
    session.finish(changes=(FileChange(path="a.py", operation="update", lines_added=3, lines_removed=1),))
    session.reply("done")
    assert session.take(SessionShutDown())[-1] == SessionTotalled(
        models=(ModelTotals(model="test/model", requests=2, usage=USED + USED, cost_nanos=280_000),),
        code=CodeTotals(lines_added=3, lines_removed=1, files=("a.py",)),
        current_model="test/model",
        started_ms=1_000,
    )


def test_the_overview_is_the_session_in_one_line():
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay"))[-1].request_id
    session.nobody()
    view = overview(session.state)
    assert (view.state, view.waiting_for, view.owed, view.next_wake_ms, view.agent) == (
        "asked",
        (request,),
        False,
        None,
        "clerk",
    )
    assert waiting_words(session.state) == (f"permission {request} (pay)",)


def test_turns_are_counted_over_the_session():
    session = Session(settings=Settings(turns_max=50))
    for expected in (1, 2, 3):
        started = session.prompt()
        assert [e.number for e in started if isinstance(e, TurnStarted)] == [expected]
        session.reply("ok")
