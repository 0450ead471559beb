"""A specialist that runs a session: when it may be selected, what it changes at once, and what a new owner does."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, TOOLS, Session, call, names
from windlass.events.changes import AgentDeselected, AgentSelected, ChangeAgent
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolDenied
from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.events.values.setup import AgentRef, Chosen, SessionOptions
from windlass.events.values.tools import ToolSpec
from windlass.kernel.owed import owed

CRITIC = ChangeAgent(agent="critic", display_name="The critic", tools=("add",))
READER = ChangeAgent(agent="reader", only_reads=True)
BARE = ToolSpec(name="bare", digest="d-bare")


def test_a_selection_is_one_decision_and_owes_nothing():
    session = Session()
    events = session.change(CRITIC)
    assert names(events) == ["change.received", "agent.selected", "command.completed"]
    assert events[1] == AgentSelected(agent="critic", display_name="The critic", tools=("add",))
    assert session.state.setup.options.specialist == Chosen(name="critic")
    assert owed(session.state) == ()


def test_another_selection_says_whom_it_follows_and_a_deselection_whom_it_ends():
    session = Session()
    session.change(CRITIC)
    assert session.change(READER)[1] == AgentSelected(agent="reader", only_reads=True, previous="critic")
    assert session.change(ChangeAgent())[1] == AgentDeselected(agent="reader")
    assert session.state.setup.options == SessionOptions()


@pytest.mark.parametrize("before", [None, CRITIC])
def test_what_is_so_already_is_no_event(before):
    session = Session()
    if before is not None:
        session.change(before)
    assert names(session.change(before or ChangeAgent())) == ["change.received", "command.completed"]


def test_a_run_ends_under_the_agent_that_it_began_with_and_the_next_one_begins_under_the_other():
    session = Session()
    session.prompt()
    assert names(session.change(CRITIC)) == ["change.received", "command.completed"]
    session.prompt("next", behavior="follow_up")
    ended = names(session.reply("done"))
    assert ended[-6:] == [
        "run.completed",
        "agent.selected",
        "queue.changed",
        "run.started",
        "turn.started",
        "model.requested",
    ]
    resumed = session.crash(tools=TOOLS[:1], options=session.state.setup.options)
    assert names(resumed)[-3:] == ["toolset.changed", "prefix.changed", "model.requested"]


def test_a_run_that_rests_for_people_rests_under_the_other():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.change(CRITIC)
    session.reply("", call("pay"))
    assert names(session.nobody())[-2:] == ["run.asked", "agent.selected"]


def test_the_last_word_before_the_end_of_the_run_counts():
    session = Session()
    session.prompt()
    for change in (CRITIC, READER, ChangeAgent()):
        session.change(change)
    assert names(session.reply("done"))[-1] == "run.completed"
    assert session.state.setup.next_agent is None


def test_a_workflow_is_run_by_no_specialist():
    session = Session(flow=FlowGraph(nodes=(FlowNode(name="only", kind="gate"),)))
    with pytest.raises(Refused, match="a workflow has no conversation"):
        session.change(CRITIC)


@pytest.mark.parametrize("change", [CRITIC, ChangeAgent()])
def test_it_is_refused_in_quarantine(change):
    session = Session(quarantine=True)
    with pytest.raises(Refused, match="quarantined, for good"):
        session.change(change)


def test_a_call_that_was_asked_about_is_judged_again_if_only_reading_is_allowed_now():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("pay"))
    session.nobody()
    events = session.change(READER)
    assert names(events)[1:] == [
        "agent.selected",
        "command.completed",
        "run.started",
        "permission.withdrawn",
        "tool.reconsidered",
    ]
    assert events[-1].changed == ("mode",)


def test_a_specialist_that_only_reads_calls_nothing_that_does_not_say_that_it_reads():
    session = Session(tools=(*TOOLS, BARE))
    session.change(READER)
    session.prompt()
    events = session.reply("", call("bare"), call("put"), call("add"))
    denied = [(event.reason, event.detail) for event in events if isinstance(event, ToolDenied)]
    why = "the specialist that runs this session only reads, and the tool does not say that it does"
    assert denied == [("isolation", why)] * 2


def test_a_new_owner_records_whether_the_specialist_only_reads_now():
    session = Session()
    session.change(CRITIC)
    session.crash(options=SessionOptions(specialist=Chosen(name="critic", only_reads=True)))
    assert session.state.setup.options.specialist == Chosen(name="critic", only_reads=True)
    assert msgspec.structs.replace(session.state.setup.agent) == AgentRef(name="clerk", digest="d1")


def test_a_tool_that_was_taken_away_is_remembered_until_another_one_has_its_name():
    session = Session()
    session.unmount("put")
    assert session.state.toolset.away == {"put": "d-put"}
    session.mount(ToolSpec(name="put", digest="d-other"))
    assert session.state.toolset.away == {}


def test_a_tool_that_was_missing_is_not_remembered_as_taken_away():
    session = Session()
    session.crash(tools=TOOLS[1:])
    assert session.state.toolset.away == {}
