"""The log of DESIGN's sample: which events stand in which append for a tool run, and for one with an approval."""

from __future__ import annotations

from tests.kernel.session import ASK_PAY, Session, call, names
from windlass.events.tools.permissions import PermissionRequested
from windlass.kernel.effects import AskPerson, CallModel, RunTool
from windlass.kernel.log import state_hash


def test_a_tool_run_is_the_sample_log():
    session = Session()
    session.prompt("What is 17 + 28?")
    session.reply("", call("add", {"x": 17, "y": 28}))
    session.finish(text="45")
    session.reply("45")
    assert [names(append) for append in session.appends] == [
        ["session.started"],
        ["prompt.received", "run.started", "turn.started", "model.requested"],
        ["model.replied", "tool.requested", "tool.allowed", "tool.started"],
        ["tool.finished", "turn.finished", "turn.started", "model.requested"],
        ["model.replied", "turn.finished", "run.completed"],
    ]
    assert session.verify().problems == []
    assert state_hash(session.folded()) == state_hash(session.state)


def test_an_approval_days_later_runs_the_call_once_with_the_approved_bytes():
    session = Session(policy=ASK_PAY)
    session.prompt("Pay the invoice.")
    asked = session.reply("", call("pay", {"cents": 100}))
    assert names(asked) == ["model.replied", "tool.requested", "permission.requested"]
    request = asked[-1]
    assert isinstance(request, PermissionRequested)
    assert [type(effect) for effect in session.owed()] == [AskPerson]
    assert names(session.nobody()) == ["approver.missed", "run.asked"]
    assert session.owed() == ()
    session.at_ms += 14 * 24 * 3600 * 1000
    session.crash()
    assert names(session.approve(request.request_id, digest=request.digest)) == [
        "permission.approved",
        "run.started",
        "tool.allowed",
        "tool.started",
    ]
    assert [type(effect) for effect in session.owed()] == [RunTool]
    session.finish(text="paid")
    assert [type(effect) for effect in session.owed()] == [CallModel]
    session.reply("Done.")
    assert session.names().count("tool.started") == 1
    assert session.verify().problems == []
