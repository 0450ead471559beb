"""Interrupt and cancel: they land in every phase, keep what is finished, and leave a history that providers accept."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, Session, Settings, call, names
from windlass.events.runs import InterruptReceived, PartialBody
from windlass.events.tools.calls import ResultBody, ToolCancelled, ToolFinished, ToolSuspended
from windlass.events.values.blocks import Text
from windlass.events.values.items import AssistantItem
from windlass.events.values.usage import Usage
from windlass.kernel.phases import Idle
from windlass.testing.invariants import check_items

HOUR = 3_600_000


def idle(session):
    session.reply("done")


def interrupted(session):
    session.interrupt()


def awaiting_model(session):
    pass


def backing_off(session):
    session.model_fails()


def sleeping_for_a_provider(session):
    session.model_fails("rate_limited", retry_after_ms=HOUR)


def awaiting_tools(session):
    session.reply("", call("add"), call("pay"), call("ui"))
    session.finish(session.called(), "kept")


def asked(session):
    session.reply("", call("pay"), call("ui"))
    session.nobody()


def awaiting_credentials(session):
    session.model_fails("auth")


def asleep(session):
    session.reply("", call("wait", {"for_ms": HOUR}))
    session.reply("later")


def compacting(session):
    session.reply("x")
    for n in range(3):
        session.prompt(f"{n}")
        session.reply(f"{n}")
    session.compact()


def backing_off_from_a_summary(session):
    compacting(session)
    session.model_fails()


def settling(session):
    session.reply("", call("risky"))
    session.crash()


PLACES = [
    idle,
    interrupted,
    awaiting_model,
    backing_off,
    sleeping_for_a_provider,
    awaiting_tools,
    asked,
    awaiting_credentials,
    asleep,
    compacting,
    backing_off_from_a_summary,
    settling,
]

INTERRUPTED = {
    "idle": ["interrupt.received", "command.completed"],
    "interrupted": ["interrupt.received", "command.completed"],
    "awaiting_model": ["interrupt.received", "turn.finished", "run.interrupted", "command.completed"],
    "backing_off": ["interrupt.received", "turn.finished", "run.interrupted", "command.completed"],
    "sleeping_for_a_provider": ["interrupt.received", "timer.cancelled", "command.completed"],
    "awaiting_tools": [
        "interrupt.received",
        "permission.withdrawn",
        "tool.cancelled",
        "tool.cancelled",
        "turn.finished",
        "run.interrupted",
        "command.completed",
    ],
    "asked": [
        "interrupt.received",
        "run.started",
        "permission.withdrawn",
        "tool.cancelled",
        "tool.cancelled",
        "turn.finished",
        "run.interrupted",
        "command.completed",
    ],
    "awaiting_credentials": ["interrupt.received", "command.completed"],
    "asleep": ["interrupt.received", "timer.cancelled", "command.completed"],
    "compacting": ["interrupt.received", "compaction.failed", "run.interrupted", "command.completed"],
    "backing_off_from_a_summary": ["interrupt.received", "compaction.failed", "run.interrupted", "command.completed"],
    "settling": [
        "interrupt.received",
        "run.started",
        "tool.cancelled",
        "turn.finished",
        "run.interrupted",
        "command.completed",
    ],
}

CANCELLED = {
    "idle": ["cancel.received", "command.completed"],
    "interrupted": ["cancel.received", "run.started", "run.cancelled", "command.completed"],
    "awaiting_model": ["cancel.received", "turn.finished", "run.cancelled", "command.completed"],
    "backing_off": ["cancel.received", "turn.finished", "run.cancelled", "command.completed"],
    "sleeping_for_a_provider": [
        "cancel.received",
        "timer.cancelled",
        "run.started",
        "run.cancelled",
        "command.completed",
    ],
    "awaiting_tools": [
        "cancel.received",
        "permission.withdrawn",
        "tool.cancelled",
        "tool.cancelled",
        "turn.finished",
        "run.cancelled",
        "command.completed",
    ],
    "asked": [
        "cancel.received",
        "run.started",
        "permission.withdrawn",
        "tool.cancelled",
        "tool.cancelled",
        "turn.finished",
        "run.cancelled",
        "command.completed",
    ],
    "awaiting_credentials": ["cancel.received", "run.started", "run.cancelled", "command.completed"],
    "asleep": ["cancel.received", "run.started", "timer.cancelled", "run.cancelled", "command.completed"],
    "compacting": ["cancel.received", "compaction.failed", "run.cancelled", "command.completed"],
    "backing_off_from_a_summary": ["cancel.received", "compaction.failed", "run.cancelled", "command.completed"],
    "settling": [
        "cancel.received",
        "run.started",
        "tool.cancelled",
        "turn.finished",
        "run.cancelled",
        "command.completed",
    ],
}


def at(place):
    session = Session(policy=ASK_PAY, settings=Settings(keep_exchanges=1))
    session.prompt()
    place(session)
    return session


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_an_interrupt_lands_everywhere(place):
    session = at(place)
    assert names(session.interrupt()) == INTERRUPTED[place.__name__]
    check_items(session.items())
    assert not session.state.active
    assert session.verify().problems == []


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_cancel_lands_everywhere_and_leaves_nothing_open(place):
    session = at(place)
    assert names(session.cancel()) == CANCELLED[place.__name__]
    check_items(session.items())
    assert isinstance(session.state.phase, Idle)
    assert (
        session.state.calls.by_id,
        session.state.asks.open,
        session.state.timers.open,
        session.state.requests.open,
    ) == ({}, {}, {}, {})
    assert session.owed() == ()
    assert names(session.wake()) == ["wake.received", "command.completed"]


@pytest.mark.parametrize("stop", ["interrupt", "cancel"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("next_step", ["prompt", "wake", "crash", "interrupt", "cancel"])
def test_the_session_is_usable_after_it(place, stop, next_step):
    session = at(place)
    getattr(session, stop)()
    getattr(session, next_step)()
    if not session.state.active:
        session.prompt("again", behavior="steer")
    assert session.state.active
    session.reply("fine")
    check_items(session.items())
    assert session.verify().problems == []


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_it_is_level_triggered_a_second_one_finds_nothing_more_to_do(place):
    session = at(place)
    session.cancel()
    assert names(session.cancel()) == ["cancel.received", "command.completed"]
    assert names(session.interrupt()) == ["interrupt.received", "command.completed"]


def test_what_is_finished_is_kept_and_the_rest_gets_a_result_that_says_what_happened():
    session = at(awaiting_tools)
    session.interrupt()
    results = [item.content for item in session.results()]
    assert results == [
        (Text(text="kept"),),
        (Text(text="interrupted by the user"),),
        (Text(text="interrupted by the user; it had started, so it may have had effects"),),
    ]


def test_what_the_model_had_written_is_kept_and_its_use_is_booked():
    session = Session()
    session.prompt("write")
    session.take(
        InterruptReceived(
            command_id="stop",
            tokens=12,
            usage=Usage(input_tokens=10, output_tokens=12, estimated=True),
            body=PartialBody(text="Once upon a"),
        )
    )
    assert session.items()[-1] == AssistantItem(key="6", content=(Text(text="Once upon a"),))
    assert session.state.budget.spent.usage == Usage(input_tokens=10, output_tokens=12, estimated=True)
    session.prompt("go on")
    assert [item.key for item in session.items()] == ["2", "6", "10"]


def test_an_interrupted_run_goes_on_by_a_wake_and_is_asked_to():
    session = Session()
    session.prompt()
    session.interrupt("half a sen")
    started = session.wake()
    assert names(started) == ["wake.received", "run.started", "turn.started", "model.requested"]
    assert (started[1].continues, started[2].notes) == (session.ran(), ("continue",))


def test_outcomes_that_arrive_after_the_stop_are_refused():
    from windlass.events.errors import Refused

    session = at(awaiting_tools)
    running = session.running()
    session.interrupt()
    assert running == []
    session = Session()
    session.prompt()
    session.reply("", call("put"))
    session.interrupt()
    with pytest.raises(Refused):
        session.take(ToolFinished(call_id=session.called(), body=ResultBody()))


def test_a_suspended_call_and_one_to_be_settled_are_given_up_with_a_warning():
    session = Session()
    session.prompt()
    session.reply("", call("put"), call("add"))
    session.take(ToolSuspended(call_id=session.called()))
    events = session.cancel()
    assert [(e.call_id, e.started) for e in events if isinstance(e, ToolCancelled)] == [
        (session.called(), True),
        (session.called(1), True),
    ]
