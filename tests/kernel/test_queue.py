"""Prompts while the session is busy: steer, follow up, the session's policy, and what becomes of the queue."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, Session, Settings, call, names
from windlass.events.commands import PromptBody, PromptReceived, QueueBody, QueueChanged, QueueEdited
from windlass.events.errors import Refused
from windlass.events.values.blocks import Text
from windlass.kernel.phases import Asked

HOUR = 3_600_000


def busy(phase, **changes):
    """A session in a phase, with its first prompt at work."""
    session = Session(policy=ASK_PAY, **changes)
    session.prompt("first", command_id="first")
    match phase:
        case "AwaitingTools":
            session.reply("", call("put"))
        case "BackingOff":
            session.model_fails()
        case "Asked":
            session.reply("", call("pay"))
            session.nobody()
        case "Asleep":
            session.reply("", call("wait", {"for_ms": HOUR}))
            session.reply("later")
        case "Idle":
            session.reply("done")
        case _:
            pass
    assert type(session.state.phase).__name__ == phase
    return session


def told(events):
    """What was done with a prompt, in one word."""
    operations = [event.operation for event in events if isinstance(event, QueueChanged)]
    if "run.started" in names(events):
        return "replaces" if "run.interrupted" in names(events) else "runs"
    return operations[0]


RUNS = {"Idle": "runs", "Asleep": "runs"}
ENQUEUE = {"AwaitingModel": "queued", "BackingOff": "queued", "AwaitingTools": "queued", "Asked": "queued"} | RUNS
STEER = {"AwaitingModel": "steering", "BackingOff": "steering", "AwaitingTools": "steering", "Asked": "runs"} | RUNS
INTERRUPT = {"AwaitingModel": "replaces", "BackingOff": "replaces", "AwaitingTools": "replaces", "Asked": "runs"} | RUNS
REJECT = dict.fromkeys(("AwaitingModel", "BackingOff", "AwaitingTools", "Asked"), "busy") | RUNS
TABLE = {"enqueue": ENQUEUE, "steer": STEER, "interrupt": INTERRUPT, "reject": REJECT}


@pytest.mark.parametrize(
    ("policy", "phase", "result"), [(p, phase, result) for p, row in TABLE.items() for phase, result in row.items()]
)
def test_the_policy_decides_about_a_prompt_that_says_nothing(policy, phase, result):
    session = busy(phase, settings=Settings(on_busy=policy))
    if result == "busy":
        with pytest.raises(Refused) as refusal:
            session.prompt("second")
        assert refusal.value.code == "busy"
    else:
        assert told(session.prompt("second")) == result


@pytest.mark.parametrize("policy", TABLE)
@pytest.mark.parametrize(("behavior", "row"), [("follow_up", ENQUEUE), ("steer", STEER)])
@pytest.mark.parametrize("phase", ENQUEUE)
def test_the_policy_is_only_a_default(policy, behavior, row, phase):
    session = busy(phase, settings=Settings(on_busy=policy))
    assert told(session.prompt("second", behavior=behavior)) == row[phase]


def test_a_follow_up_gets_a_run_of_its_own_when_its_turn_comes():
    session = busy("AwaitingModel")
    session.prompt("second", command_id="second")
    end = session.reply("one")
    assert names(end) == [
        "model.replied",
        "turn.finished",
        "run.completed",
        "queue.changed",
        "run.started",
        "turn.started",
        "model.requested",
    ]
    assert (end[2].commands, end[4].commands) == (("first",), ("second",))


def test_a_steering_prompt_joins_the_run_at_the_next_turn_and_ends_with_it():
    session = busy("AwaitingTools")
    session.prompt("hurry", behavior="steer", command_id="second")
    turn = session.finish()
    assert names(turn) == ["tool.finished", "turn.finished", "turn.started", "model.requested"]
    assert turn[2].absorbs == (10,)
    assert session.reply("fine")[-1].commands == ("first", "second")


def test_a_steering_prompt_that_comes_with_the_last_reply_is_still_answered():
    session = busy("AwaitingModel")
    session.prompt("and?", behavior="steer")
    assert names(session.reply("done")) == ["model.replied", "turn.finished", "turn.started", "model.requested"]


def test_what_steers_is_kept_in_the_history_when_the_run_stops_first():
    for stop in ("interrupt", "cancel"):
        session = busy("AwaitingModel")
        session.prompt("and?", behavior="steer", command_id="second")
        events = getattr(session, stop)()
        assert [e.operation for e in events if isinstance(e, QueueChanged)] == ["absorbed"]
        assert [ref.seq for ref in session.state.history.items] == [2, 6]
        assert events[-2].commands == ("first", "second")


def test_a_prompt_for_a_session_that_waits_for_answers_is_queued_behind_them():
    session = busy("Asked")
    request = next(iter(session.state.asks.open))
    session.prompt("second", command_id="second")
    assert isinstance(session.state.phase, Asked)
    session.approve(request)
    session.finish()
    assert names(session.reply("paid"))[2:5] == ["run.completed", "queue.changed", "run.started"]


def test_a_steering_prompt_gives_up_what_was_asked():
    session = busy("Asked")
    assert names(session.prompt("never mind", behavior="steer")) == [
        "prompt.received",
        "run.started",
        "permission.withdrawn",
        "tool.cancelled",
        "turn.finished",
        "turn.started",
        "model.requested",
    ]
    texts = [item.content[0].text for item in session.items()]
    assert texts[-2:] == ["not run: the user went on with something else", "never mind"]


def test_a_prompt_while_asleep_runs_and_goes_back_to_sleep_if_still_waiting():
    session = busy("Asleep")
    started = session.prompt("how is it going?")
    assert names(started) == ["prompt.received", "run.started", "turn.started", "model.requested"]
    end = session.reply("still waiting")
    assert names(end)[-1] == "run.slept"
    assert end[-1].wake_at_ms == HOUR + 1_000
    assert names(session.fire())[:2] == ["timer.fired", "run.started"]


def test_a_timer_that_fires_while_a_prompt_runs_counts_once_and_is_told():
    session = busy("Asleep")
    session.prompt("how is it going?")
    assert names(session.fire()) == ["timer.fired"]
    turn = session.reply("soon")
    assert names(turn) == ["model.replied", "turn.finished", "turn.started", "model.requested"]
    assert session.items()[-1].content == (Text(text="The timer that you set has fired."),)
    assert names(session.reply("it fired"))[-1] == "run.completed"


def test_a_prompt_overtakes_a_wait_for_the_provider():
    session = Session()
    session.prompt()
    session.model_fails("rate_limited", retry_after_ms=HOUR)
    assert names(session.prompt("now")) == [
        "prompt.received",
        "timer.cancelled",
        "run.started",
        "turn.started",
        "model.requested",
    ]


def test_follow_ups_wait_while_the_provider_wants_to_be_left_alone():
    session = busy("AwaitingModel")
    session.prompt("second")
    assert names(session.model_fails("rate_limited", retry_after_ms=HOUR))[-1] == "run.slept"
    assert session.state.queue.waiting == [6]
    session.fire()
    assert names(session.reply("at last"))[2:5] == ["run.completed", "queue.changed", "run.started"]


# --- held ---


@pytest.mark.parametrize(("stop", "held"), [("interrupt", True), ("fail", True), ("cancel", False)])
def test_after_an_interrupt_or_a_failure_the_queue_is_held_after_a_cancel_it_goes_on(stop, held):
    session = busy("AwaitingModel")
    session.prompt("second")
    session.prompt("third")
    end = session.model_fails("invalid_request") if stop == "fail" else getattr(session, stop)()
    assert session.state.queue.held == held
    assert ("run.started" in names(end)) == (not held)
    assert session.state.queue.waiting == ([6, 8] if held else [8])


@pytest.mark.parametrize("next_command", ["prompt", "wake", "run_tool", "signal"])
def test_the_next_command_lets_a_held_queue_go(next_command):
    session = busy("AwaitingModel")
    session.prompt("second")
    session.interrupt()
    match next_command:
        case "run_tool":
            session.run_tool("add")
            session.finish()
        case "signal":
            session.signal(urgency="high")
        case _:
            getattr(session, next_command)()
    while session.state.active and session.state.queue.waiting:
        session.reply("ok")
    assert (session.state.queue.held, session.state.queue.waiting) == (False, [])


def test_what_nobody_commanded_does_not_let_it_go():
    session = busy("AwaitingModel")
    session.prompt("second")
    session.interrupt()
    session.crash()
    assert (session.state.queue.held, session.state.queue.waiting) == (True, [6])


# --- editing ---


def edit(session, *order, **more):
    return session.take(QueueEdited(command_id=session.command(), order=order, **more))


def test_the_queue_may_be_put_in_another_order_shortened_and_rewritten():
    session = busy("AwaitingModel")
    for n in ("second", "third", "fourth"):
        session.prompt(n, command_id=n)
    body = QueueBody(edits={"i6": PromptBody(content=(Text(text="2nd"),))})
    events = edit(session, "i10", "i6", tokens={"i6": 77}, body=body)
    assert names(events) == [
        "queue.edited",
        "queue.changed",
        "queue.changed",
        "command.completed",
        "command.completed",
    ]
    assert (events[1].operation, events[1].prompt_ids) == ("dropped", ("i8",))
    assert (events[2].operation, events[2].prompt_ids) == ("edited", ("i10", "i6"))
    assert [event.command_id for event in events[3:]] == ["third", "k1"]
    assert (session.state.queue.waiting, session.state.queue.inputs[6].tokens) == ([10, 6], 77)


def test_a_rewritten_prompt_is_what_the_model_sees():
    session = busy("AwaitingModel")
    session.prompt("second")
    body = QueueBody(edits={"i6": PromptBody(content=(Text(text="2nd"),))})
    edit(session, "i6", tokens={"i6": 3}, body=body)
    session.reply("done")
    assert session.items()[-1].content == (Text(text="2nd"),)


@pytest.mark.parametrize("order", [("i6", "i6"), ("i999",), ("i2",)])
def test_only_what_waits_can_be_put_in_order(order):
    session = busy("AwaitingModel")
    session.prompt("second")
    with pytest.raises(Refused) as refusal:
        edit(session, *order)
    assert refusal.value.code == "unknown_prompt"


def test_an_emptied_queue_ends_the_commands_in_it():
    session = busy("AwaitingModel")
    session.prompt("second", command_id="second")
    edit(session)
    assert (session.state.queue.waiting, sorted(session.state.queue.inputs)) == ([], [])
    assert names(session.reply("done"))[-1] == "run.completed"


def test_the_queue_has_a_bound():
    session = busy("AwaitingModel", settings=Settings(queue_max=2))
    session.prompt("a")
    session.prompt("b", behavior="steer")
    with pytest.raises(Refused) as refusal:
        session.prompt("c")
    assert refusal.value.code == "queue_full"


def test_signals_do_not_fill_the_queue():
    session = Session(settings=Settings(queue_max=2))
    for _ in range(5):
        session.signal()
    assert names(session.prompt())[-1] == "model.requested"


def test_a_prompt_needs_content():
    session = Session()
    with pytest.raises(Refused, match="needs content"):
        session.take(PromptReceived(command_id="k"))
