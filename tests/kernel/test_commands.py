"""Every command ends in exactly one terminal: its run's, its own, or a refusal."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kernel.session import ASK_PAY, MODEL, Session, Settings, call, names
from windlass.events.base import Command
from windlass.events.changes import (
    ChangeGrants,
    ChangeMetadata,
    ChangeMode,
    ChangeModel,
    ChangePins,
    ChangeSettings,
    ChangeTask,
    ChangeTitle,
)
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.context import UndoReceived
from windlass.events.errors import Refused
from windlass.events.runs import Terminal
from windlass.events.sessions import RewindReceived
from windlass.events.stored.registry import COMMANDS
from windlass.events.values.policy import Grant
from windlass.events.values.setup import Task
from windlass.events.values.tools import ToolSpec
from windlass.kernel import log, parts


def terminals(session):
    """How often each command ended, and in what."""
    found: dict[str, list[str]] = {}
    for event in session.events():
        if isinstance(event, Terminal):
            for command in event.commands:
                found.setdefault(command, []).append(type(event).__name__)
        elif isinstance(event, CommandCompleted | CommandRefused):
            found.setdefault(event.command_id, []).append(type(event).__name__)
    return found


def test_a_run_ends_the_commands_that_joined_it_in_their_order():
    session = Session(policy=ASK_PAY)
    session.prompt(command_id="ask")
    request = session.reply("", call("pay"))[-1].request_id
    session.approve(request)
    session.finish()
    session.prompt("hurry", command_id="steer", behavior="steer")
    session.reply("", call("ask_user", {"question": "?"}))
    question = next(iter(session.state.asks.open))
    session.answer(question)
    session.reply("done")
    assert terminals(session) == {name: ["RunCompleted"] for name in ("ask", "k1", "steer", "k2")}


def test_a_command_folded_into_a_run_that_was_going_ends_once_and_with_it():
    session = Session(policy=ASK_PAY)
    session.prompt(command_id="ask")
    session.reply("", call("pay"), call("pay", {"n": 2}))
    first, second = session.state.asks.open
    session.approve(first)
    session.deny(second)
    session.interrupt()
    assert terminals(session) == {
        "ask": ["RunInterrupted"],
        "k1": ["RunInterrupted"],
        "k2": ["RunInterrupted"],
        "k3": ["CommandCompleted"],
    }


def test_a_run_that_ends_asked_ends_its_command_and_the_answer_gets_the_next_end():
    session = Session(policy=ASK_PAY)
    session.prompt(command_id="ask")
    request = session.reply("", call("pay"))[-1].request_id
    session.nobody()
    session.approve(request)
    session.finish()
    session.reply("done")
    assert terminals(session) == {"ask": ["RunAsked"], "k1": ["RunCompleted"]}


def changes():
    return [
        ChangeModel(model=MODEL),
        ChangeMode(mode="plan"),
        ChangeTitle(title="t" * 500),
        ChangeMetadata(metadata={"team": "a", "gone": None}),
        ChangeTask(task=Task(goal="g")),
        ChangePins(pin=(2,)),
        ChangeGrants(add=(Grant(grant_id="g", tool="pay"),)),
        ChangeSettings(settings=Settings(turns_max=3)),
    ]


@pytest.mark.parametrize("working", [False, True])
@pytest.mark.parametrize("change", changes(), ids=lambda change: type(change).__name__)
def test_a_change_is_made_at_once_in_any_phase_and_ends_by_itself(change, working):
    session = Session()
    session.prompt()
    if not working:
        session.reply("done")
    else:
        session.reply("", call("add"))
    events = session.change(change)
    assert names(events)[0] == "change.received"
    assert names(events)[-1] == "command.completed"
    assert len(events) == 3


def test_what_was_changed_is_in_the_state():
    session = Session()
    session.prompt()
    session.reply("done")
    for change in changes():
        session.change(change)
    state = session.state
    assert (state.setup.mode, state.setup.title, state.setup.metadata, state.task.current) == (
        "plan",
        "t" * 200,
        {"team": "a"},
        Task(goal="g"),
    )
    assert (list(state.history.pinned), list(state.gate.grants), state.setup.settings) == (
        [2],
        ["g"],
        Settings(turns_max=3),
    )


def test_metadata_are_removed_by_none():
    session = Session()
    session.change(ChangeMetadata(metadata={"a": "1", "b": "2"}))
    session.change(ChangeMetadata(metadata={"a": None}))
    assert session.state.setup.metadata == {"b": "2"}


def test_another_model_is_used_from_the_next_request_on():
    import msgspec

    session = Session()
    session.prompt()
    session.reply("", call("add"))
    session.change(ChangeModel(model=msgspec.structs.replace(MODEL, name="test/other")))
    events = session.finish()
    assert names(events)[-3:] == ["prefix.changed", "turn.started", "model.requested"]
    assert (events[-3].reasons, events[-1].model) == (("model",), "test/other")


def test_a_refused_command_is_recorded_where_a_client_must_be_told():
    session = Session()
    refusal = CommandRefused(command_id="late", code="not_open", message="request p9 is not open", actor="ada")
    before = log.dump(session.state)
    assert session.take(refusal) == [refusal]
    session.state.seq -= 1
    assert log.dump(session.state) == before
    assert terminals(session) == {"late": ["CommandRefused"]}


def test_a_refused_fact_changes_nothing_at_all():
    session = Session()
    before = (log.dump(session.state), list(session.lines))
    for told in (session.compact, lambda: session.approve("p9"), lambda: session.finish("c1.0")):
        with pytest.raises(Refused):
            told()
    assert (log.dump(session.state), list(session.lines)) == before


def test_every_command_of_the_vocabulary_is_legal_somewhere_and_has_a_handler():
    assert set(COMMANDS) <= set(parts.TABLES.facts)
    assert all(row.when for row in parts.TABLES.facts.values())


def test_one_long_story_ends_every_command_once():
    session = Session(policy=ASK_PAY, settings=Settings(keep_exchanges=1))
    session.prompt()
    session.signal()
    session.mount(ToolSpec(name="extra"))
    session.prompt("later")
    session.reply("", call("pay"), call("ui"))
    session.wake()
    session.run_tool("add")
    session.finish()
    session.nobody()
    session.result(next(name for name, found in session.state.calls.by_id.items() if found.status == "delegated"))
    session.deny(next(iter(session.state.asks.open)), "no")
    session.reply("ok")
    session.interrupt()
    session.unmount("extra")
    session.wake()
    session.reply("x")
    session.compact()
    session.reply("sum")
    session.take(UndoReceived(command_id=session.command(), restored=log.before_compaction(session.lines)))
    session.take(RewindReceived(command_id=session.command(), to_seq=0))
    session.cancel()
    commands = [event.command_id for event in session.events() if isinstance(event, Command)]
    assert Counter(commands) == Counter(dict.fromkeys(commands, 1))
    assert {name: len(ends) for name, ends in terminals(session).items()} == dict.fromkeys(commands[1:], 1)
    assert session.verify().problems == []
