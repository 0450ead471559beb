"""A call that a child session carries out: started once under a derived id, open until its end is taken, once."""

from __future__ import annotations

import pytest

from tests.kernel.session import HELPER, TOOLS, Session, call, names
from windlass.events.errors import Refused
from windlass.events.sessions import RewindReceived
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import ChildMoved, ChildOpened, Used
from windlass.events.turns import Prepared
from windlass.events.values.ids import child_settled_id
from windlass.events.values.setup import Limits, Spawning
from windlass.events.values.usage import Usage
from windlass.kernel import log
from windlass.kernel.effects import StartChild
from windlass.kernel.owed import opens, waiting_for
from windlass.kernel.parts.budgets import held
from windlass.kernel.phases import Asleep, AwaitingTools


def helped() -> Session:
    session = Session(tools=(*TOOLS, HELPER))
    session.prompt()
    session.reply("", call("helper", {"n": 1}))
    return session


def started(session: Session) -> StartChild:
    (name,) = session.state.calls.by_id
    return StartChild(effect_id=f"{name}/child", child_id=f"s1~{name}", call_id=name, tool="helper")


def test_the_start_is_owed_under_an_id_derived_from_the_call():
    session = helped()
    assert names(session.appends[-1])[-2:] == ["tool.allowed", "child.started"]
    assert session.owed() == (started(session),)
    assert [(thing.kind, thing.by, thing.open_id) for thing in opens(session.state)] == [
        ("child", "child", started(session).child_id)
    ]
    assert (type(session.state.phase), waiting_for(session.state)) == (AwaitingTools, ())


def test_the_start_is_owed_again_after_a_crash_and_nothing_else_happens():
    session = helped()
    assert names(session.crash()) == ["session.resumed"]
    assert session.owed() == (started(session),)


def test_the_end_is_the_result_of_the_call_and_is_taken_once():
    session = helped()
    name = started(session).call_id
    end = session.child_ends("forty-two")
    assert names(end)[:2] == ["child.finished", "command.completed"]
    assert [(item.call_id, item.content[0].text, item.is_error) for item in session.results()] == [
        (name, "forty-two", False)
    ]
    with pytest.raises(Refused, match="nobody waits for the child"):
        session.take(end[0])
    assert session.verify().problems == []


def test_an_end_under_any_other_id_is_refused():
    session = helped()
    with pytest.raises(Refused, match="derived from the child's"):
        session.child_ends(command_id="mine")


@pytest.mark.parametrize("stop", ["interrupt", "cancel"])
def test_a_stop_gives_the_call_up_and_stops_the_child_whose_end_still_comes_back(stop):
    session = helped()
    told = names(getattr(session, stop)())
    assert told.index("child.stopped") < told.index("tool.cancelled")
    assert [effect.opened for effect in session.owed() if isinstance(effect, StartChild)] == [True]
    session.child_ends()
    assert (session.state.children.open, session.owed()) == ({}, ())
    assert session.verify().problems == []


def test_a_fork_does_not_wait_for_the_child_of_its_origin():
    session = helped()
    branch = session.fork(session.state.seq)
    assert (branch.state.children.open, branch.owed()) == ({}, ())


def test_the_time_of_a_child_at_work_counts():
    session = helped()
    session.at_ms += 700
    session.child_ends()
    assert session.state.budget.spent.active_ms == 700


def test_a_detached_child_whose_call_was_stopped_is_opened_whatever_the_session_does_by_then():
    session = Session(tools=(*TOOLS, HELPER))
    session.prompt()
    spawning = Spawning(agent="helper", mode="detached")
    session.reply("", call("helper", {"n": 1}, prepared=Prepared(digest="spawn", spawning=spawning)))
    (child,) = session.state.children.open.values()
    session.interrupt()
    session.prompt("wait a minute")
    session.reply("", call("wait", {"for_ms": 60_000}))
    session.reply("later")
    assert isinstance(session.state.phase, Asleep)
    assert StartChild in {type(effect) for effect in session.owed()}
    opened = ChildOpened(child_id=child.child_id, call_id=child.call_id)
    assert names(session.take(opened)) == ["child.opened"]
    assert StartChild not in {type(effect) for effect in session.owed()}
    with pytest.raises(Refused, match="no call waits for the start"):
        session.take(opened)
    assert session.verify().problems == []


def aside(**slice: int) -> Session:
    """A session with a budget, whose child has a share of it."""
    session = Session(tools=(*TOOLS, HELPER), limits=Limits(**slice))
    session.prompt()
    session.reply("", call("helper", {"n": 1}, prepared=Prepared(digest="spawn", spawning=Spawning(agent="helper"))))
    return session


def settled(session: Session, used: Used, *, command_id: str = "", child_id: str = "") -> ChildSettled:
    ((name, before),) = session.state.children.unsettled.items()
    child = child_id or before.child.child_id
    return ChildSettled(command_id=command_id or child_settled_id(child), child_id=child, call_id=name, used=used)


def test_what_those_below_an_ended_child_may_still_use_stays_set_aside_until_it_settles():
    session = aside(turns=40, tokens=400_000)
    session.child_ends(used=Used(turns=3), held=Used(turns=7, usage=Usage(input_tokens=50)))
    assert (session.state.budget.spent.turns, session.state.children.open) == (2 + 3, {})
    before = held(session.state)
    assert (before.turns, before.tokens >= 50) == (7, True)
    told = session.take(settled(session, Used(turns=5, usage=Usage(input_tokens=20, output_tokens=4))))
    assert names(told) == ["child.settled", "command.completed"]
    assert (session.state.budget.spent.turns, held(session.state).turns) == (2 + 5, 0)
    assert before.tokens - held(session.state).tokens == 50
    assert session.verify().problems == []


def test_an_account_is_settled_once_and_only_by_the_child_itself():
    session = aside(turns=40)
    session.child_ends(used=Used(turns=1), held=Used(turns=2))
    last = settled(session, Used(turns=2))
    with pytest.raises(Refused, match="derived from the child's"):
        session.take(settled(session, Used(turns=2), command_id="mine"))
    with pytest.raises(Refused, match="nothing is set aside"):
        session.take(settled(session, Used(turns=2), child_id="s1~other"))
    session.take(last)
    with pytest.raises(Refused, match="nothing is set aside"):
        session.take(last)


def test_a_fork_pays_for_no_child_of_its_origin():
    session = aside(turns=40)
    branch = session.fork(session.state.seq)
    assert (branch.state.budget.spent.turns, held(branch.state).turns) == (1, 0)
    session.child_ends(used=Used(turns=1), held=Used(turns=9))
    branch = session.fork(session.state.seq)
    assert branch.state.children.unsettled == {}
    assert held(branch.state).turns == 0


def test_a_session_that_sleeps_with_its_child_in_the_middle_of_a_turn_is_not_rewound():
    session = helped()
    (child,) = session.state.children.open.values()
    moved = ChildMoved(
        command_id="m1",
        child_id=child.child_id,
        call_id=child.call_id,
        child_seq=4,
        status="sleeping",
        wake_at_ms=99_000,
    )
    session.take(moved)
    assert isinstance(session.state.phase, Asleep)
    rewind = RewindReceived(command_id="r1", to_seq=session.state.seq, restored=log.visible(session.state))
    with pytest.raises(Refused, match="in the middle of a turn, behind a call that is open: interrupt it first"):
        session.take(rewind)
    session.interrupt()
    session.take(rewind)
    assert session.verify().problems == []


def test_an_account_is_settled_while_the_session_sleeps():
    session = aside(turns=40)
    session.child_ends(used=Used(turns=1), held=Used(turns=2))
    session.reply("", call("wait", {"for_ms": 60_000}))
    session.reply("later")
    assert isinstance(session.state.phase, Asleep)
    session.take(settled(session, Used(turns=2)))
    assert isinstance(session.state.phase, Asleep)
    assert held(session.state).turns == 0
