"""Attention: what becomes of a signal by its urgency and by what the session is busy with, as a table says."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.kernel.session import ASK_PAY, Session, call, names
from windlass.events.signals import SignalDisposed
from windlass.events.turns import ModelDropped, ModelRequested
from windlass.events.values.attention import URGENCIES, Attend, Attention, Busy, WhileBusy, always
from windlass.events.values.settings import Settings
from windlass.events.values.setup import Limits
from windlass.events.values.usage import Usage
from windlass.kernel import log
from windlass.kernel.phases import AwaitingModel, BackingOff

HOUR = 3_600_000
INTERRUPT = Attention(critical=always("interrupt"), high=always("interrupt"))


def busy(what: Busy, **changes: Any) -> Session:
    """A session that is busy with something."""
    session = Session(policy=ASK_PAY, **changes)
    if what == "resting":
        return session
    session.prompt()
    if what == "sleeping":
        session.reply("", call("wait", {"for_ms": HOUR}))
        session.reply("later")
    elif what == "tools":
        session.reply("", call("put"))
    elif what == "people":
        session.reply("", call("pay"))
        session.nobody()
    return session


def disposed(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.signal_id, event.disposition) for event in events if isinstance(event, SignalDisposed)]


def texts(session: Session) -> list[str]:
    return [getattr(item.content[0], "text", "") for item in session.items()]


def told(attend: Attend, what: Busy) -> str:
    """The disposition that an entry of the table stands for."""
    if attend in ("queue", "observe", "drop"):
        return {"queue": "queued", "observe": "observed", "drop": "dropped"}[attend]
    if what in ("resting", "sleeping"):
        return "run"
    return "interrupt" if attend == "interrupt" else "steer"


@pytest.mark.parametrize("what", get_args(Busy))
@pytest.mark.parametrize("attend", get_args(Attend))
def test_each_entry_of_the_table_is_what_becomes_of_the_signal(attend, what):
    for urgency in URGENCIES:
        row = WhileBusy(**{name: attend if name == what else "drop" for name in get_args(Busy)})
        rows: dict[str, Any] = {urgency: row}
        session = busy(what, settings=Settings(attention=Attention(**rows)))
        events = session.signal(urgency=urgency)
        found = next(event for event in events if isinstance(event, SignalDisposed))
        assert (found.disposition, found.busy) == (told(attend, what), what)


def test_a_signal_that_interrupts_drops_the_request_and_asks_again_with_itself():
    session = busy("model")
    first = next(iter(session.state.requests.open.values()))
    assert names(session.signal("fire", urgency="critical")) == [
        "signal.received",
        "signal.disposed",
        "model.dropped",
        "model.requested",
        "command.completed",
    ]
    asked = next(iter(session.state.requests.open.values()))
    assert asked.request_id != first.request_id
    assert [effect.effect_id for effect in session.owed()] == [asked.request_id]
    assert texts(session)[-1] == "[signal fire from outside] fire"
    assert names(session.reply("seen"))[-1] == "run.completed"
    assert session.state.turn.number == 1, "it is the same turn, asked once more"


def test_what_was_dropped_is_booked_as_an_estimate_in_full():
    session = busy("model")
    request = next(iter(session.state.requests.open.values()))
    dropped = next(e for e in session.signal(urgency="critical") if isinstance(e, ModelDropped))
    most = Usage(input_tokens=request.input_tokens, output_tokens=request.output_tokens, estimated=True)
    assert (dropped.request_id, dropped.usage) == (request.request_id, most)
    assert dropped.cost_nanos == request.reserved_nanos > 0
    assert (session.state.budget.spent.usage, session.state.budget.spent.cost_nanos) == (most, request.reserved_nanos)


def test_a_late_answer_to_what_was_dropped_is_refused():
    session = busy("model")
    first = next(iter(session.state.requests.open))
    session.signal(urgency="critical")
    assert first not in session.state.requests.open
    session.reply("ok")
    assert session.state.budget.spent.tally.estimates == 1


def test_a_request_is_not_dropped_if_the_budget_leaves_no_room_for_another():
    session = busy("model", limits=Limits(tokens=8_400))
    assert disposed(session.signal(urgency="critical"))[0][1] == "steer"
    assert len(session.state.requests.open) == 1


def test_one_turn_is_cut_off_a_few_times_and_no_more():
    session = busy("model", settings=Settings(attention=Attention(interrupts_max=2)))
    found = [disposed(session.signal(urgency="critical"))[0][1] for _ in range(4)]
    assert found == ["interrupt", "interrupt", "steer", "steer"]
    session.reply("seen")  # the two that steer bring a turn of their own, which may be cut off again
    assert disposed(session.signal(urgency="critical"))[0][1] == "interrupt"


def test_a_waiting_attempt_is_made_at_once_with_the_signal():
    session = busy("model")
    session.model_fails("server_error")
    assert isinstance(session.state.phase, BackingOff)
    assert names(session.signal("fire", urgency="critical"))[2:4] == ["timer.cancelled", "model.requested"]
    assert isinstance(session.state.phase, AwaitingModel)
    assert texts(session)[-1] == "[signal fire from outside] fire"


def test_a_summary_is_let_finish():
    session = Session()
    for _ in range(6):
        session.prompt("long " * 10)
        session.reply("so " * 10)
    session.compact()
    before = dict(session.state.requests.open)
    assert before, "a summary is being written"
    assert disposed(session.signal(urgency="critical"))[0][1] == "steer"
    assert session.state.requests.open == before


def test_calls_that_run_are_left_alone_unless_the_table_says_otherwise():
    session = busy("tools")
    session.signal("fire", urgency="critical")
    assert session.running() == ["c6.0"]
    session.finish()
    assert texts(session)[-1] == "[signal fire from outside] fire"

    session = busy("tools", settings=Settings(attention=INTERRUPT))
    stopped = session.signal("fire", urgency="critical")
    assert names(stopped)[2:] == [
        "tool.cancelled",
        "turn.finished",
        "command.completed",
        "turn.started",
        "model.requested",
    ]
    assert session.running() == []
    assert texts(session)[-1] == "[signal fire from outside] fire"


def test_a_call_that_must_not_run_twice_and_is_cut_off_has_an_unknown_outcome():
    session = Session(settings=Settings(attention=INTERRUPT))
    session.prompt()
    session.reply("", call("pay"))
    assert "tool.outcome_unknown" in names(session.signal(urgency="critical"))


def test_what_people_were_asked_is_withdrawn_if_the_table_says_so():
    session = busy("people", settings=Settings(attention=INTERRUPT))
    found = names(session.signal("fire", urgency="critical"))
    assert found[2] == "run.started"
    assert "permission.withdrawn" in found
    assert found[-1] == "model.requested"


def test_the_more_urgent_signal_enters_first_and_prompts_keep_their_place():
    session = Session()
    session.signal("one")
    session.signal("two")
    session.run_tool("add")
    session.signal("three", urgency="high")
    session.finish()
    assert texts(session)[-3:] == [f"[signal {name} from outside] {name}" for name in ("three", "one", "two")]


def test_the_queue_is_bounded_by_urgency():
    session = Session(settings=Settings(attention=Attention(high=always("queue"), queue_max=2)))
    session.signal("one")
    session.signal("two")
    assert [disposition for _, disposition in disposed(session.signal("three"))] == ["dropped"]
    urgent = session.signal("four", urgency="high")
    assert [disposition for _, disposition in disposed(urgent)] == ["dropped", "queued"]
    session.prompt("hello")
    said = [text for text in texts(session) if text.startswith("[signal")]
    assert said == ["[signal four from outside] four", "[signal one from outside] one"]


def test_a_crash_between_the_drop_and_the_answer_asks_again_with_the_signal():
    session = busy("model")
    session.signal("fire", urgency="critical")
    session.crash()
    assert texts(session)[-1] == "[signal fire from outside] fire"
    requested = [event for append in session.appends for event in append if isinstance(event, ModelRequested)]
    assert len(requested) == 3
    assert log.verify(session.lines).problems == []
