"""The set of tools: mounted and unmounted at turn boundaries, draining, forced, deferred; and other code after a resume."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, TOOLS, Session, call, names
from windlass.events.errors import Refused
from windlass.events.sessions import AgentChanged
from windlass.events.tools.calls import ToolDenied
from windlass.events.tools.permissions import PermissionWithdrawn
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.values.blocks import Text
from windlass.events.values.setup import AgentRef, RunOptions
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools.toolset import STAGED_MAX, TOOLS_MAX

EXTRA = ToolSpec(name="extra", digest="d1", tokens=30)


def steps(events):
    return [(e.operation, e.phase, e.names) for e in events if isinstance(e, ToolsetChanged)]


def test_a_tool_is_there_at_once_where_nothing_runs():
    session = Session()
    events = session.mount(EXTRA, source="server")
    assert names(events) == ["mount.received", "toolset.changed", "toolset.changed", "command.completed"]
    assert steps(events) == [("add", "pending", ("extra",)), ("add", "applied", ("extra",))]
    assert (session.state.toolset.tools["extra"], session.state.toolset.revision, session.state.toolset.tokens) == (
        EXTRA,
        1,
        30,
    )


def test_while_a_turn_is_open_a_change_waits_for_its_end():
    session = Session()
    session.prompt()
    session.reply("", call("add"))
    assert steps(session.mount(EXTRA)) == [("add", "pending", ("extra",))]
    assert "extra" not in session.state.toolset.tools
    events = session.finish()
    assert names(events) == [
        "tool.finished",
        "turn.finished",
        "toolset.changed",
        "prefix.changed",
        "turn.started",
        "model.requested",
    ]
    assert events[3].reasons == ("tools",)
    assert names(session.reply("", call("extra")))[-1] == "tool.started"


def test_a_known_tool_is_reloaded():
    session = Session()
    session.mount(EXTRA)
    newer = msgspec.structs.replace(EXTRA, digest="d2")
    assert steps(session.mount(newer)) == [("reload", "pending", ("extra",)), ("reload", "applied", ("extra",))]
    assert session.state.toolset.tools["extra"] == newer


def test_changes_are_put_in_force_in_their_order():
    session = Session()
    session.prompt()
    session.mount(EXTRA)
    session.unmount("add")
    session.mount(ToolSpec(name="more"))
    assert steps(session.reply("done")) == [
        ("add", "applied", ("extra",)),
        ("remove", "applied", ("add",)),
        ("add", "applied", ("more",)),
    ]
    assert session.state.toolset.revision == 3


def test_a_tool_that_runs_drains_before_it_goes():
    session = Session()
    session.prompt()
    session.reply("", call("add"), call("put"))
    assert steps(session.unmount("add")) == [("remove", "pending", ("add",)), ("remove", "draining", ("add",))]
    session.finish(session.called(), "kept")
    assert "add" in session.state.toolset.tools
    assert steps(session.finish(session.called(1))) == [("remove", "applied", ("add",))]
    results = [item.content for item in session.results()]
    assert results[0] == (Text(text="kept"),)


def test_force_gives_up_what_runs():
    session = Session()
    session.prompt()
    session.reply("", call("add"), call("put"))
    events = session.unmount("add", force=True)
    assert names(events) == [
        "unmount.received",
        "toolset.changed",
        "tool.cancelled",
        "toolset.changed",
        "command.completed",
    ]
    assert steps(events) == [("remove", "pending", ("add",)), ("remove", "forced", ("add",))]
    with pytest.raises(Refused):
        session.finish(session.called())
    session.finish(session.called(1))
    assert next(item.content for item in session.results()) == (
        Text(text="given up: the tool was taken away; it had started, so it may have had effects"),
    )


def test_force_withdraws_what_was_asked_and_goes_on():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("pay"))
    session.nobody()
    events = session.unmount("pay", force=True)
    assert names(events) == [
        "unmount.received",
        "toolset.changed",
        "run.started",
        "permission.withdrawn",
        "tool.cancelled",
        "toolset.changed",
        "command.completed",
        "turn.finished",
        "prefix.changed",
        "turn.started",
        "model.requested",
    ]
    assert [e.reason for e in events if isinstance(e, PermissionWithdrawn)] == ["unmounted"]


def test_without_force_what_was_asked_stays_and_an_approval_finds_no_tool():
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay"))[-1].request_id
    session.crash(tools=tuple(spec for spec in TOOLS if spec.name != "pay"))
    events = session.approve(request)
    assert [(e.reason, e.detail) for e in events if isinstance(e, ToolDenied)] == [
        ("unavailable_tool", "'pay' is not there any more")
    ]


def test_a_call_that_was_allowed_and_lost_its_tool_does_not_start():
    session = Session()
    session.prompt()
    session.change_settings(tool_order="sequential")
    session.reply("", call("add"), call("put"))
    events = session.crash(tools=tuple(spec for spec in TOOLS if spec.name != "put"))
    assert [(e.call_id, e.reason) for e in events if isinstance(e, ToolDenied)] == [
        (session.called(1), "unavailable_tool")
    ]


def test_names_must_be_known_and_must_not_collide():
    session = Session()
    with pytest.raises(Refused, match="not mounted: nowhere"):
        session.unmount("nowhere")
    with pytest.raises(Refused, match="the model-side name 'add' is taken by 'add'"):
        session.mount(ToolSpec(name="mine", alias="add"))
    with pytest.raises(Refused, match="at most"):
        session.mount(*[ToolSpec(name=f"t{n}") for n in range(TOOLS_MAX)])


def test_a_collision_that_shows_itself_late_is_a_failed_change():
    session = Session()
    session.prompt()
    session.mount(ToolSpec(name="one", alias="same"))
    session.mount(ToolSpec(name="two", alias="same"))
    events = session.reply("done")
    assert steps(events) == [("add", "applied", ("one",)), ("add", "failed", ("two",))]
    assert [e.error for e in events if isinstance(e, ToolsetChanged)][
        1
    ] == "the model-side name 'same' is taken by 'one'"
    assert (session.state.toolset.staged, "two" in session.state.toolset.tools) == ([], False)


def test_changes_that_wait_have_a_bound():
    session = Session()
    session.prompt()
    for n in range(STAGED_MAX):
        session.mount(ToolSpec(name=f"t{n}"))
    with pytest.raises(Refused, match="wait already"):
        session.mount(EXTRA)


# --- deferred tools ---


def test_a_deferred_tool_is_called_only_after_it_was_loaded():
    session = Session()
    session.prompt()
    denied = session.reply("", call("hidden"))
    assert [(e.reason, e.detail) for e in denied if isinstance(e, ToolDenied)] == [
        ("unavailable_tool", "load 'hidden' before calling it")
    ]
    before = session.state.toolset.revision
    loaded = session.reply("", call("load_tools", {"names": ["hidden", "add"]}))
    assert steps(loaded) == [("load", "applied", ("hidden",))]
    assert session.state.toolset.revision == before + 1
    assert names(loaded)[-3:] == ["prefix.changed", "turn.started", "model.requested"]
    assert names(session.reply("", call("hidden")))[-1] == "tool.started"


def test_the_weight_of_deferred_tools_counts_when_they_are_loaded():
    tools = (*TOOLS, ToolSpec(name="big", deferred=True, tokens=900))
    session = Session(tools=tools)
    assert session.state.toolset.tokens == 0
    session.prompt()
    session.reply("", call("load_tools", {"names": ["big"]}))
    assert session.state.toolset.tokens == 900


def test_a_run_may_be_offered_fewer_tools():
    session = Session()
    session.prompt(options=RunOptions(tools=("add",)))
    events = session.reply("", call("put"), call("add"), call("todo", {"todos": []}))
    assert [(e.call_id, e.detail) for e in events if isinstance(e, ToolDenied)] == [
        (session.called(), "'put' is not offered in this run")
    ]


# --- other code after a resume ---


def test_other_code_is_a_recorded_event_and_then_it_goes_on():
    session = Session()
    tools = tuple(
        msgspec.structs.replace(s, digest="d-new") if s.name == "add" else s for s in TOOLS if s.name != "put"
    )
    agent = AgentRef(name="clerk", digest="d2")
    events = session.crash(agent=agent, tools=(*tools, EXTRA))
    assert names(events) == ["session.resumed", "agent.changed", "toolset.changed", "toolset.changed"]
    assert events[1] == AgentChanged(
        previous=AgentRef(name="clerk", digest="d1"), agent=agent, missing=("put",), changed=("add",), added=("extra",)
    )
    assert steps(events) == [("reload", "applied", ("extra", "add")), ("remove", "applied", ("put",))]
    assert ("put" in session.state.toolset.tools, session.state.toolset.tools["add"].digest) == (False, "d-new")


def test_the_same_code_is_no_event():
    session = Session()
    assert names(session.crash(agent=AgentRef(name="clerk", digest="d1"), tools=TOOLS)) == ["session.resumed"]


def test_a_request_that_is_made_again_with_other_tools_says_that_its_head_changed():
    session = Session()
    session.prompt()
    assert names(session.crash(tools=(*TOOLS, EXTRA))) == [
        "session.resumed",
        "agent.changed",
        "toolset.changed",
        "prefix.changed",
        "model.requested",
    ]
