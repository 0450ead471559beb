"""The call machine: requested, prepared, ruled on, started, and exactly one result; by tools, clients and people."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from tests.kernel.session import ASK_PAY, Session, Settings, call, names
from windlass.events.errors import Refused
from windlass.events.hooks import HookRuling
from windlass.events.questions import Question, QuestionBody
from windlass.events.tools.calls import (
    PreparedBody,
    ResultBody,
    ToolAsked,
    ToolPrepared,
    ToolRequested,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.turns import Prepared, ReplyCall
from windlass.events.values.blocks import Terminal, Text
from windlass.events.values.items import UserItem
from windlass.events.values.policy import Policy, Rule
from windlass.events.workspace import FileChange
from windlass.kernel.effects import AwaitClient, PrepareCall, RunTool

CHANGES = (FileChange(path="a.py", operation="update", lines_added=3),)


def results(session):
    return [(item.call_id, item.content, item.is_error) for item in session.results()]


def unprepared(tool, args=None):
    return ReplyCall(call=call(tool, args).call)


def test_a_call_is_dispatched_under_a_key_that_stays_the_same():
    session = Session()
    session.prompt()
    session.reply("", call("put"))
    assert session.owed() == (
        RunTool(
            effect_id=f"{session.called()}/1",
            call_id=session.called(),
            tool="put",
            attempt=1,
            key=f"s1:{session.called()}",
            timeout_ms=600_000,
        ),
    )
    session.crash()
    assert session.owed() == (
        RunTool(
            effect_id=f"{session.called()}/2",
            call_id=session.called(),
            tool="put",
            attempt=2,
            key=f"s1:{session.called()}",
            timeout_ms=600_000,
        ),
    )


def test_a_call_that_the_host_has_not_prepared_waits_for_it():
    session = Session()
    session.prompt()
    assert names(session.reply("", unprepared("add"))) == ["model.replied", "tool.requested"]
    assert session.owed() == (
        PrepareCall(effect_id=f"{session.called()}/prepare", call_id=session.called(), tool="add"),
    )
    assert names(session.prepare(session.called())) == ["tool.prepared", "tool.allowed", "tool.started"]
    with pytest.raises(Refused, match="does not wait to be prepared"):
        session.prepare(session.called())


def test_hooks_may_change_the_arguments_and_the_gate_sees_the_final_digest():
    session = Session()
    session.prompt()
    session.reply("", unprepared("add"))
    hook = HookRuling(hook_id="trim", point="before_tool", outcome="changed")
    body = PreparedBody(prepared=Prepared(digest="new"), args={"n": 2})
    taken = session.take(ToolPrepared(call_id=session.called(), digest="new", changed=True, hooks=(hook,), body=body))
    assert names(taken) == ["tool.prepared", "hook.ruled", "tool.allowed", "tool.started"]
    assert (
        session.state.calls.by_id[session.called()].digest,
        session.state.calls.by_id[session.called()].changed_seq,
    ) == ("new", 8)


@pytest.mark.parametrize(
    ("ruling", "ends"),
    [
        (HookRuling(hook_id="h", point="before_tool", outcome="denied", message="no"), "model.requested"),
        (HookRuling(hook_id="h", point="before_tool", outcome="timed_out", guard=True), "model.requested"),
        (HookRuling(hook_id="h", point="before_tool", outcome="failed", guard=True), "model.requested"),
        (HookRuling(hook_id="h", point="before_tool", outcome="denied", fatal=True), "run.failed"),
    ],
)
def test_a_guard_that_denies_or_fails_stops_the_call_and_a_fatal_one_the_run(ruling, ends):
    session = Session()
    session.prompt()
    session.reply("", unprepared("add"))
    body = PreparedBody(prepared=Prepared(digest="d"))
    taken = session.take(ToolPrepared(call_id=session.called(), digest="d", hooks=(ruling,), body=body))
    assert names(taken)[:3] == ["tool.prepared", "hook.ruled", "tool.denied"]
    assert (taken[2].reason, names(taken)[-1]) == ("hook", ends)
    assert taken[2].detail == (ruling.message or "denied by h")


def test_an_observer_that_fails_changes_nothing():
    session = Session()
    session.prompt()
    session.reply("", unprepared("add"))
    ruling = HookRuling(hook_id="watch", point="before_tool", outcome="failed")
    body = PreparedBody(prepared=Prepared(digest="d"))
    taken = session.take(ToolPrepared(call_id=session.called(), digest="d", hooks=(ruling,), body=body))
    assert names(taken) == ["tool.prepared", "hook.ruled", "tool.allowed", "tool.started"]


def test_a_reply_that_a_hook_denies_runs_nothing_and_ends_the_run():
    session = Session()
    session.prompt()
    ruling = HookRuling(hook_id="judge", point="after_model", outcome="denied", message="not this")
    taken = session.reply("", call("pay"), hooks=(ruling,))
    assert names(taken) == [
        "model.replied",
        "hook.ruled",
        "tool.requested",
        "tool.denied",
        "turn.finished",
        "run.failed",
    ]
    assert (taken[3].reason, taken[3].detail, taken[-1].stop) == ("hook", "not this", "hook_denied")


def test_a_prompt_that_a_hook_denies_is_dropped_and_its_command_ends():
    session = Session()
    ruling = HookRuling(hook_id="h", point="prompt", outcome="denied")
    assert names(session.prompt(hooks=(ruling,))) == [
        "prompt.received",
        "hook.ruled",
        "queue.changed",
        "command.completed",
    ]
    assert session.items() == []


def test_what_the_host_finds_wrong_with_arguments_is_told_to_the_model():
    session = Session()
    session.prompt()
    wrong = Prepared(digest="d", errors=("$.n: expected int, got string", "$.m: missing"))
    session.reply("", call("add", {"n": "x"}, prepared=wrong))
    assert results(session) == [
        (
            session.called(),
            (Text(text="not run (invalid arguments): $.n: expected int, got string; $.m: missing"),),
            True,
        )
    ]


def test_a_failing_tool_is_an_ordinary_result():
    session = Session()
    session.prompt()
    session.reply("", call("add"))
    assert names(session.finish(text="it broke", ok=False)) == [
        "tool.finished",
        "turn.finished",
        "turn.started",
        "model.requested",
    ]
    assert results(session) == [(session.called(), (Text(text="it broke"),), True)]


def test_a_tool_that_runs_over_its_time_gives_what_it_had():
    session = Session()
    session.prompt()
    session.reply("", call("add"))
    body = ResultBody(content=(Terminal(text="half", exit_code=None),))
    session.take(ToolTimedOut(call_id=session.called(), timeout_ms=500, body=body))
    assert results(session) == [(session.called(), (Text(text="timed out after 500 ms"), Terminal(text="half")), True)]


def test_outcomes_of_calls_that_do_not_run_are_refused():
    session = Session()
    session.prompt()
    session.reply("", call("add"), call("add", {"n": 2}))
    session.finish(session.called())
    for told in (
        lambda: session.finish(session.called()),
        lambda: session.finish("c9.9"),
        lambda: session.take(ToolTimedOut(call_id=session.called(), timeout_ms=1)),
        lambda: session.take(ToolSuspended(call_id=session.called())),
        lambda: session.result(session.called(1)),
    ):
        before = len(session.lines)
        with pytest.raises(Refused):
            told()
        assert len(session.lines) == before


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_client_run_tools_complete_in_any_order(order):
    session = Session()
    session.prompt()
    assert names(session.reply("", *[call("ui", {"n": n}) for n in range(3)]))[-3:] == ["tool.delegated"] * 3
    assert [type(effect) for effect in session.owed()] == [AwaitClient] * 3
    for position, n in enumerate(order):
        ends = names(session.result(session.called(n), f"r{n}"))
        assert ends[1:] == ([] if position < 2 else ["turn.finished", "turn.started", "model.requested"])
    assert [content for _, content, _ in results(session)] == [(Text(text=f"r{n}"),) for n in range(3)]


def test_with_no_client_there_the_run_ends_asked_and_a_result_goes_on():
    session = Session()
    session.prompt()
    session.reply("", call("ui"), call("ui", {"n": 2}))
    assert names(session.nobody()) == ["approver.missed", "run.asked"]
    assert names(session.result(session.called(1))) == ["result.received", "run.started", "run.asked"]
    assert names(session.result(session.called()))[:2] == ["result.received", "run.started"]
    assert session.state.active


def test_a_tool_may_suspend_itself_and_be_completed_weeks_later():
    session = Session()
    session.prompt()
    session.reply("", call("put"))
    assert names(session.take(ToolSuspended(call_id=session.called(), note="waits for a webhook"))) == [
        "tool.suspended",
        "run.asked",
    ]
    session.at_ms += 30 * 24 * 3600 * 1000
    session.crash()
    assert names(session.result(session.called(), "it came")) == [
        "result.received",
        "run.started",
        "turn.finished",
        "turn.started",
        "model.requested",
    ]


def test_a_running_tool_may_ask_a_person_and_gets_the_answer_itself():
    session = Session()
    session.prompt()
    session.reply("", call("put"))
    asked = session.take(
        ToolAsked(
            call_id=session.called(), body=QuestionBody(message="which?", questions=(Question(question="which?"),))
        )
    )
    assert names(asked) == ["tool.asked", "question.requested"]
    assert names(session.answer(asked[1].question_id)) == ["answer.received"]
    assert session.running() == [session.called()]
    session.finish()
    assert session.reply("done")[-1].commands == ("k1", "k2")


def test_a_question_dies_with_the_tool_that_asked_it():
    session = Session()
    session.prompt()
    session.reply("", call("put"))
    question = QuestionBody(questions=(Question(question="which?"),))
    session.take(ToolAsked(call_id=session.called(), body=question))
    assert names(session.finish())[:2] == ["tool.finished", "question.withdrawn"]


# --- a person runs a tool ---


def test_a_person_runs_a_tool_without_a_turn():
    session = Session()
    assert names(session.run_tool("add")) == [
        "call.received",
        "run.started",
        "tool.requested",
        "tool.allowed",
        "tool.started",
    ]
    assert session.appends[-1][2].by_person
    end = session.finish(text="3")
    assert names(end) == ["tool.finished", "run.completed"]
    assert end[-1].commands == ("k1",)
    (note,) = session.items()
    assert isinstance(note, UserItem)
    assert note.content == (Text(text=f"[the user ran a tool, call {session.called()}]"), Text(text="3"))


def test_a_person_passes_the_same_gate():
    session = Session(policy=Policy(rules=(Rule(action="deny", tool="pay", reason="never"),)))
    assert names(session.run_tool("pay")) == [
        "call.received",
        "run.started",
        "tool.requested",
        "tool.denied",
        "run.completed",
    ]
    with pytest.raises(Refused, match="no tool 'nowhere'"):
        session.run_tool("nowhere")


def in_phase(name):
    session = Session(policy=ASK_PAY, settings=Settings(keep_exchanges=1))
    if name == "Idle":
        return session
    if name == "Compacting":
        for n in range(3):
            session.prompt(f"{n}")
            session.reply(f"{n}")
        session.compact()
        return session
    session.prompt()
    match name:
        case "BackingOff":
            session.model_fails()
        case "AwaitingTools":
            session.reply("", call("put"))
        case "Asked":
            session.reply("", call("ui"))
            session.nobody()
        case "Asleep":
            session.reply("", call("wait", {"for_ms": 5_000}))
            session.reply("later")
        case _:
            pass
    return session


PHASES = ("Idle", "AwaitingModel", "BackingOff", "AwaitingTools", "Compacting", "Asked", "Asleep")


@pytest.mark.parametrize("phase", PHASES)
def test_a_person_may_run_a_tool_in_every_phase_and_what_went_on_goes_on(phase):
    session = in_phase(phase)
    assert type(session.state.phase).__name__ == phase
    taken = session.run_tool("add", {"n": 7})
    mine = next(event for event in taken if isinstance(event, ToolRequested))
    assert names(taken)[-1] == "tool.started"
    session.finish(mine.call_id, "7")
    if phase != "Idle":
        assert type(session.state.phase).__name__ == phase
    commands = [name for append in session.appends for event in append for name in getattr(event, "commands", ())]
    if phase in ("Idle", "Asked", "Asleep"):
        assert taken[0].command_id in commands
    assert session.verify().problems == []


def test_what_a_person_runs_is_not_lost_when_the_model_fails_meanwhile():
    session = Session()
    session.prompt()
    session.run_tool("pay")
    failed = session.model_fails("invalid_request")
    assert names(failed) == ["model.failed"]
    assert names(session.finish(text="paid")) == ["tool.finished", "turn.finished", "run.failed"]


def test_a_repeat_by_a_person_is_no_lack_of_progress():
    session = Session()
    for _ in range(10):
        session.run_tool("add", {"n": 1})
        session.finish()
    assert "repeat.warned" not in session.names()


@pytest.mark.parametrize(
    ("fact", "then"),
    [
        (partial(ToolTimedOut, timeout_ms=5), "turn.finished"),
        (ToolSuspended, "run.asked"),
    ],
)
def test_what_a_tool_changed_is_kept_however_its_call_ends(fact, then):
    session = Session()
    session.prompt()
    session.reply("", call("put"))
    events = session.take(fact(call_id=session.called(), changes=CHANGES))
    assert names(events)[1:3] == ["files.changed", then]
    assert events[1].changes == CHANGES
    assert session.state.workspace.code.lines_added == 3
