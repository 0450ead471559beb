"""Timers, wakes and signals: what happens when a time comes, or when something outside happens."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, Session, call, names
from windlass.events.commands import CommandCompleted
from windlass.events.errors import Refused
from windlass.events.runs import WakeReceived
from windlass.events.signals import SignalDisposed, SignalReceived
from windlass.events.timers import TimerFired
from windlass.events.values.attention import Attention
from windlass.events.values.blocks import Text
from windlass.kernel.effects import SetTimer
from windlass.kernel.owed import overview
from windlass.kernel.parts.signals import SHOWN_MAX
from windlass.kernel.parts.timers import TIMERS_MAX
from windlass.kernel.phases import Asked

HOUR = 3_600_000


def asleep():
    session = Session()
    session.prompt()
    session.reply("", call("wait", {"for_ms": HOUR, "note": "check the mail"}))
    session.reply("later")
    return session


def texts(session):
    return [item.content[0].text for item in session.items()]


def test_a_timer_is_owed_until_it_fires_and_a_run_sleeps_until_then():
    session = asleep()
    assert session.owed() == (SetTimer(effect_id="w9", timer_id="w9", at_ms=HOUR + 1_000, kind="wait"),)
    assert (overview(session.state).state, overview(session.state).next_wake_ms) == ("sleeping", HOUR + 1_000)
    session.crash()
    assert [effect.effect_id for effect in session.owed()] == ["w9"]
    fired = session.fire()
    assert names(fired) == ["timer.fired", "run.started", "turn.started", "model.requested"]
    assert fired[1].continues == session.ran()
    assert texts(session)[-1] == "The timer that you set has fired."


def test_a_timer_that_fires_twice_counts_once():
    session = asleep()
    session.fire()
    before = session.state.seq
    with pytest.raises(Refused) as refusal:
        session.take(TimerFired(timer_id="w9"))
    assert (refusal.value.code, session.state.seq) == ("stale", before)


def test_several_timers_are_slept_for_in_turn():
    session = Session()
    session.prompt()
    session.reply("", call("wait", {"for_ms": 2 * HOUR}), call("wait", {"for_ms": HOUR}))
    assert session.reply("later")[-1].wake_at_ms == HOUR + 1_000
    later, sooner = session.state.timers.open
    session.fire(sooner)
    assert list(session.state.timers.open) == [later]
    assert session.reply("again")[-1].wake_at_ms == 2 * HOUR + 1_000
    session.fire()
    assert names(session.reply("done"))[-1] == "run.completed"


def test_a_timer_waits_with_the_session_for_an_answer():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("wait", {"for_ms": HOUR}), call("pay"))
    session.nobody()
    assert names(session.fire()) == ["timer.fired"]
    assert isinstance(session.state.phase, Asked)
    request = next(iter(session.state.asks.open))
    session.deny(request)
    assert texts(session)[-1] == "The timer that you set has fired."


def test_completing_the_task_cancels_what_was_waited_for():
    session = Session()
    session.prompt()
    session.reply("", call("wait", {"for_ms": HOUR}))
    assert names(session.reply("", call("complete_task", {"summary": "no need"})))[-3:] == [
        "turn.finished",
        "timer.cancelled",
        "run.completed",
    ]
    assert session.state.timers.open == {}


def test_timers_have_a_bound():
    session = Session()
    session.prompt()
    session.reply("", *[call("wait", {"for_ms": n + 1}) for n in range(TIMERS_MAX)])
    session.reply("", call("wait", {"for_ms": 5}))
    assert texts(session)[-1] == "that time is past, too far away, or too many timers are set"


# --- wake ---


def test_a_wake_performs_the_step_that_is_scheduled_next():
    session = asleep()
    woken = session.wake()
    assert names(woken) == ["wake.received", "timer.cancelled", "run.started", "turn.started", "model.requested"]
    assert texts(session)[-1] == "You were woken before the time that you set."
    assert session.reply("ok")[-1].commands == ("k2",)


def test_a_wake_makes_a_sleeping_retry_now():
    session = Session()
    session.prompt()
    session.model_fails("rate_limited", retry_after_ms=HOUR)
    assert names(session.wake()) == [
        "wake.received",
        "timer.cancelled",
        "run.started",
        "turn.started",
        "model.requested",
    ]


@pytest.mark.parametrize(
    ("place", "note"),
    [
        ("idle", "nothing to wake"),
        ("working", "the session is at work already"),
        ("asked", "the session waits for an answer"),
    ],
)
def test_a_wake_with_nothing_scheduled_is_a_no_op_with_one_terminal(place, note):
    session = Session(policy=ASK_PAY)
    if place != "idle":
        session.prompt()
    if place == "asked":
        session.reply("", call("pay"))
        session.nobody()
    assert session.wake() == [
        WakeReceived(command_id=f"k{2 if place != 'idle' else 1}"),
        CommandCompleted(command_id=f"k{2 if place != 'idle' else 1}", note=note),
    ]


def test_a_wake_goes_on_with_a_held_queue():
    session = Session()
    session.prompt()
    session.prompt("second")
    session.cancel()
    session.interrupt()
    assert names(session.wake())[:2] == ["wake.received", "run.started"]


# --- signals ---


def disposed(events):
    return next(event.disposition for event in events if isinstance(event, SignalDisposed))


@pytest.mark.parametrize(
    ("urgency", "idle", "working", "asked"),
    [
        ("critical", "run", "interrupt", "steer"),
        ("high", "run", "steer", "steer"),
        ("normal", "queued", "queued", "queued"),
        ("low", "observed", "observed", "observed"),
    ],
)
def test_urgency_decides_what_is_done_with_a_signal(urgency, idle, working, asked):
    session = Session(policy=ASK_PAY)
    assert disposed(session.signal(urgency=urgency)) == idle
    session = Session(policy=ASK_PAY)
    session.prompt()
    assert disposed(session.signal(urgency=urgency)) == working
    session.reply("", call("pay"))
    session.nobody()
    assert disposed(session.signal(urgency=urgency)) == asked


def test_an_urgent_signal_runs_a_session_that_rests():
    session = Session()
    started = session.signal("disk_full", source="host", urgency="critical")
    assert names(started) == ["signal.received", "signal.disposed", "run.started", "turn.started", "model.requested"]
    assert texts(session) == ["[signal disk_full from host] disk_full"]
    assert session.reply("cleaned")[-1].commands == ("k1",)


def test_an_urgent_signal_wakes_a_session_that_sleeps_and_it_goes_back_to_sleep():
    session = asleep()
    assert names(session.signal(urgency="high"))[2] == "run.started"
    assert names(session.reply("noted"))[-1] == "run.slept"


def test_an_ordinary_signal_waits_for_a_turn_that_something_else_brings():
    session = Session()
    assert names(session.signal("mail")) == ["signal.received", "signal.disposed", "command.completed"]
    session.run_tool("add")
    assert names(session.finish()) == ["tool.finished", "run.completed"]
    session.prompt("hello")
    assert texts(session)[-2:] == ["[signal mail from outside] mail", "hello"]


def test_a_signal_with_a_known_key_is_a_duplicate():
    session = Session()
    assert disposed(session.signal(dedupe_key="a")) == "queued"
    assert disposed(session.signal(dedupe_key="a", urgency="critical")) == "duplicate"
    assert disposed(session.signal(dedupe_key="b")) == "queued"
    assert len(session.state.queue.inputs) == 2


def test_signals_that_nobody_reads_are_dropped_in_the_end():
    session = Session()
    most = Attention().queue_max
    found = [disposed(session.signal()) for _ in range(most + 2)]
    assert found == ["queued"] * most + ["dropped"] * 2
    shown = [disposed(session.signal(urgency="low")) for _ in range(SHOWN_MAX * 2)]
    assert set(shown) == {"observed"}
    assert len(session.state.signals.shown) == SHOWN_MAX


def test_a_signal_that_was_only_shown_is_in_the_state_and_not_in_the_history():
    session = Session()
    session.signal("weather", urgency="low")
    assert [(s.kind, s.urgency) for s in session.state.signals.shown] == [("weather", "low")]
    assert session.items() == []


def test_a_signal_without_content_left_still_says_its_kind():
    session = Session()
    session.take(SignalReceived(command_id="k", kind="mail", source="imap", urgency="high"))
    assert session.items()[0].content == (Text(text="[signal mail from imap]"),)
