"""Going back: a rewind changes what is visible, a fork is a new session; neither takes back what was spent or done."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, Session, call, names
from windlass.events.errors import Refused
from windlass.events.runs import RunInterrupted, Terminal
from windlass.events.sessions import RewindReceived, SessionRewound
from windlass.events.stored import codec
from windlass.events.tools.calls import ToolCancelled
from windlass.kernel import log
from windlass.kernel.phases import Asked, Idle
from windlass.testing.invariants import Checker, check_items

HOUR = 3_600_000


def texts(session):
    return [item.content[0].text for item in session.items()]


def rewind(session, to_seq):
    kept = [line for line in session.lines if codec.decode(line, bodies=False).last_seq <= to_seq]
    there = log.visible(log.fold_lines(kept))
    return session.take(RewindReceived(command_id=session.command(), to_seq=to_seq, restored=there))


def talk(session, count):
    for n in range(count):
        session.prompt(f"q{n}")
        session.reply(f"a{n}")
    return list(session.ends)


def test_a_rewind_makes_an_earlier_history_visible_and_spends_nothing_back():
    session = Session()
    ends = talk(session, 3)
    spent = session.state.budget.spent.cost_nanos
    events = rewind(session, ends[2])
    assert names(events) == ["rewind.received", "session.rewound", "command.completed"]
    rewound = events[1]
    assert isinstance(rewound, SessionRewound)
    assert (rewound.to_seq, rewound.items_before, rewound.items_after) == (8, 6, 2)
    assert texts(session) == ["q0", "a0"]
    assert (session.state.budget.spent.cost_nanos, session.state.turn.number) == (spent, 3)
    requested = session.prompt("other")
    assert names(requested) == ["prompt.received", "run.started", "prefix.changed", "turn.started", "model.requested"]
    assert requested[2].reasons == ("rewind",)


def test_clear_is_a_rewind_to_the_start():
    session = Session()
    talk(session, 2)
    rewind(session, 0)
    assert session.items() == []
    assert session.state.budget.spent.turns == 2


def test_a_rewound_session_has_nothing_to_wake():
    session = Session()
    session.prompt()
    session.interrupt()
    rewind(session, 1)
    assert names(session.wake()) == ["wake.received", "command.completed"]


def test_approvals_and_grants_are_not_rewound():
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay"))[-1].request_id
    session.approve(request, scope="session")
    session.finish()
    session.reply("paid")
    rewind(session, 1)
    session.prompt("again")
    assert names(session.reply("", call("pay")))[-1] == "tool.started"


@pytest.mark.parametrize("phase", ["AwaitingModel", "AwaitingTools", "Asked"])
def test_a_session_at_work_is_not_rewound(phase):
    session = Session(policy=ASK_PAY)
    session.prompt()
    if phase == "AwaitingTools":
        session.reply("", call("add"))
    if phase == "Asked":
        session.reply("", call("pay"))
        session.nobody()
    with pytest.raises(Refused) as refusal:
        rewind(session, 1)
    assert refusal.value.code == "wrong_phase"


def test_what_is_restored_must_lie_before_the_point():
    session = Session()
    talk(session, 1)
    command = session.command()
    with pytest.raises(Refused, match="the log ends at"):
        session.take(RewindReceived(command_id=command, to_seq=999))
    late = tuple(session.state.history.items)
    with pytest.raises(Refused, match="at or before"):
        session.take(RewindReceived(command_id=command, to_seq=1, restored=late))


def test_rolling_back_is_a_rewind_and_then_the_prompt():
    session = Session()
    session.prompt("first try")
    session.interrupt("wrong dir")
    rewind(session, 1)
    session.prompt("second try")
    assert texts(session) == ["second try"]


# --- forks ---


def forked(session, at_seq=None):
    branch = session.fork(at_seq or session.state.seq)
    return branch, branch.appends[-1]


def test_a_fork_shares_its_past_and_goes_its_own_way():
    session = Session()
    ends = talk(session, 2)
    branch, first = forked(session, ends[2])
    assert names(first) == ["session.forked"]
    assert (branch.state.session_id, branch.state.parent_id, branch.state.epoch) == ("fork", None, 1)
    branch.prompt("what if")
    branch.reply("then")
    assert texts(branch) == ["q0", "a0", "what if", "then"]
    assert texts(session) == ["q0", "a0", "q1", "a1"]
    own = branch.lines[3:]
    report = log.verify(own, start=log.fold_lines(branch.lines[:3]), prev_hash=codec.decode(branch.lines[2]).hash)
    assert report.problems == []


def test_the_past_has_the_same_hash_on_both_sides():
    session = Session()
    ends = talk(session, 3)
    for at_seq in ends[1:]:
        branch = session.fork(at_seq)
        kept = [line for line in branch.lines if codec.decode(line, bodies=False).last_seq <= at_seq]
        mine = [line for line in session.lines if codec.decode(line, bodies=False).last_seq <= at_seq]
        assert log.state_hash(log.fold_lines(kept)) == log.state_hash(log.fold_lines(mine))


def test_nothing_that_was_open_is_carried_over():
    session = Session(policy=ASK_PAY)
    session.prompt("one")
    session.reply("", call("wait", {"for_ms": HOUR}), call("pay"), call("put"), call("ui"))
    session.prompt("two")
    session.prompt("three", behavior="steer")
    branch, first = forked(session)
    assert names(first) == [
        "session.forked",
        "queue.changed",
        "permission.withdrawn",
        "tool.cancelled",
        "tool.cancelled",
        "tool.cancelled",
        "turn.finished",
        "timer.cancelled",
        "run.interrupted",
    ]
    assert (first[1].operation, first[1].prompt_ids) == ("dropped", ("i19", "i21"))
    assert {e.reason for e in first if isinstance(e, ToolCancelled)} == {"not_carried_over"}
    state = branch.state
    assert (state.calls.by_id, state.asks.open, state.timers.open, state.queue.inputs, state.requests.open) == (
        {},
        {},
        {},
        {},
        {},
    )
    check_items(branch.items())
    assert branch.owed() == ()
    assert names(branch.wake()) == ["wake.received", "run.started", "turn.started", "model.requested"]


@pytest.mark.parametrize("phase", ["AwaitingModel", "BackingOff", "Asked", "Asleep", "Credentials", "Person"])
def test_a_fork_of_any_phase_is_usable(phase):
    session = Session(policy=ASK_PAY)
    if phase == "Person":
        session.run_tool("ui")
        session.nobody()
    else:
        session.prompt()
    match phase:
        case "BackingOff":
            session.model_fails()
        case "Asked":
            session.reply("", call("pay"))
            session.nobody()
        case "Asleep":
            session.reply("", call("wait", {"for_ms": HOUR}))
            session.reply("later")
        case "Credentials":
            session.model_fails("auth")
        case _:
            pass
    branch, _ = forked(session)
    assert isinstance(branch.state.phase, Idle)
    assert (branch.state.calls.by_id, branch.state.timers.open) == ({}, {})
    branch.prompt("from here")
    branch.reply("fine")
    check_items(branch.items())
    checker = Checker()
    for event in branch.events():
        checker.feed(event)
    checker.rest(branch.state)


def test_a_fork_may_keep_open_what_people_were_asked_and_nothing_else():
    session = Session(policy=ASK_PAY)
    session.prompt("one")
    session.reply("", call("wait", {"for_ms": HOUR}), call("pay"), call("put"), call("ui"))
    session.prompt("two")
    branch = session.fork(session.state.seq, keeps_open=True)
    assert names(branch.appends[-1]) == [
        "session.forked",
        "queue.changed",
        "tool.cancelled",
        "tool.cancelled",
        "timer.cancelled",
        "run.asked",
    ]
    (ask,) = branch.state.asks.open.values()
    assert branch.appends[-1][-1].waiting_for == (ask.ask_id,)
    assert [(c.call_id, c.status) for c in branch.state.open_calls()] == [(ask.call_id, "asked")]
    assert isinstance(branch.state.phase, Asked)
    assert branch.owed() == ()


@pytest.mark.parametrize("answer", ["approve", "deny"])
@pytest.mark.parametrize("asked", [True, False])
def test_what_a_fork_keeps_open_may_be_answered_there_whatever_was_said_at_the_origin(answer, asked):
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay"))[-1].request_id
    if asked:
        session.nobody()
    at = session.state.seq
    session.approve(request)
    session.finish()
    session.reply("paid")
    branch = session.fork(at, keeps_open=True)
    assert names(branch.appends[-1]) == (["session.forked"] if asked else ["session.forked", "run.asked"])
    if answer == "approve":
        assert names(branch.approve(request))[-1] == "tool.started"
        branch.finish()
    else:
        assert "tool.denied" in names(branch.deny(request))
    branch.reply("so be it")
    check_items(branch.items())
    checker = Checker()
    for event in branch.events():
        checker.feed(event)
    checker.rest(branch.state)
    own = branch.lines[len([line for line in branch.lines if codec.decode(line, bodies=False).last_seq <= at]) :]
    before = branch.lines[: len(branch.lines) - len(own)]
    report = log.verify(own, start=log.fold_lines(before), prev_hash=codec.decode(before[-1]).hash)
    assert report.problems == []


@pytest.mark.parametrize("phase", ["AwaitingModel", "BackingOff", "Asleep", "Credentials", "Person"])
def test_a_fork_that_may_keep_requests_and_has_none_is_like_any_other(phase):
    session = Session(policy=ASK_PAY)
    if phase == "Person":
        session.run_tool("ui")
        session.nobody()
    else:
        session.prompt()
    match phase:
        case "BackingOff":
            session.model_fails()
        case "Asleep":
            session.reply("", call("wait", {"for_ms": HOUR}))
            session.reply("later")
        case "Credentials":
            session.model_fails("auth")
        case _:
            pass
    branch = session.fork(session.state.seq, keeps_open=True)
    plain = session.fork(session.state.seq)
    assert names(branch.appends[-1]) == names(plain.appends[-1])
    assert isinstance(branch.state.phase, Idle)


def test_what_the_origin_spent_is_spent_in_the_fork():
    session = Session()
    talk(session, 2)
    branch, _ = forked(session)
    assert branch.state.budget.spent == session.state.budget.spent


def test_earlier_effects_do_not_run_again_in_a_fork():
    session = Session()
    session.prompt()
    session.reply("", call("pay"))
    branch, _ = forked(session)
    assert "tool.started" not in [name for append in branch.appends for name in names(append)]
    assert [type(e) for e in branch.appends[-1] if isinstance(e, Terminal)] == [RunInterrupted]
