"""Turns: call the model, take the reply, gate the calls, give results in call order; and replies that are no good."""

from __future__ import annotations

import pytest

from tests.kernel.session import Session, Settings, call, malformed, names
from windlass.events.budgets import BudgetStopped
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolDenied
from windlass.events.turns import ModelReplied, ReplyBody, ReplyCall
from windlass.events.values.blocks import Text
from windlass.events.values.items import AssistantItem, CallPart, ResultItem
from windlass.events.values.setup import Limits
from windlass.events.values.usage import Usage
from windlass.kernel.effects import RunTool
from windlass.kernel.phases import Between


def details(events):
    return [(event.reason, event.detail) for event in events if isinstance(event, ToolDenied)]


def test_a_batch_runs_in_parallel_and_each_outcome_is_its_own_append():
    session = Session()
    session.prompt()
    first = session.reply("", call("add", {"n": 1}), call("add", {"n": 2}), call("add", {"n": 3}))
    assert names(first) == [
        "model.replied",
        *["tool.requested"] * 3,
        *["tool.allowed"] * 3,
        *["tool.started"] * 3,
    ]
    one, two, three = session.running()
    assert names(session.finish(three, "3")) == ["tool.finished"]
    assert names(session.finish(one, "1")) == ["tool.finished"]
    assert names(session.finish(two, "2")) == ["tool.finished", "turn.finished", "turn.started", "model.requested"]
    results = [item.content for item in session.results()]
    assert results == [(Text(text="1"),), (Text(text="2"),), (Text(text="3"),)]


def test_at_most_so_many_tools_run_at_once():
    session = Session(settings=Settings(parallel_tools_max=2))
    session.prompt()
    session.reply("", *[call("add", {"n": n}) for n in range(4)])
    assert len(session.running()) == 2
    assert names(session.finish()) == ["tool.finished", "tool.started"]
    assert len(session.running()) == 2


def test_one_by_one_keeps_call_order():
    session = Session(settings=Settings(tool_order="sequential"))
    session.prompt()
    session.reply("", call("add", {"n": 1}), call("put", {"n": 2}))
    assert [state.call_id for state in session.owed() if isinstance(state, RunTool)] == [session.called()]
    assert names(session.finish()) == ["tool.finished", "tool.started"]
    assert session.running() == [session.called(1)]


def test_an_exclusive_tool_runs_alone():
    from tests.kernel.session import TOOLS
    from windlass.events.values.tools import ToolSpec

    session = Session(tools=(*TOOLS, ToolSpec(name="solo", exclusive=True)))
    session.prompt()
    session.reply("", call("add"), call("solo"), call("put"))
    assert session.running() == [session.called(), session.called(2)]
    session.finish(session.called())
    assert session.running() == [session.called(2)]
    session.finish(session.called(2))
    assert session.running() == [session.called(1)]


def test_an_empty_reply_is_asked_again_twice_then_the_run_fails():
    session = Session()
    session.prompt()
    for _ in range(2):
        assert names(session.reply("")) == ["model.replied", "turn.finished", "turn.started", "model.requested"]
    end = session.reply("")
    assert names(end) == ["model.replied", "turn.finished", "run.failed"]
    assert end[-1].failure.kind == "empty_reply"


def test_malformed_arguments_never_run_and_are_asked_again_twice_with_the_error():
    session = Session()
    session.prompt()
    for _ in range(2):
        again = session.reply("", malformed("add", '{"n": '))
        assert names(again) == [
            "model.replied",
            "tool.requested",
            "tool.denied",
            "turn.finished",
            "turn.started",
            "model.requested",
        ]
        assert details(again) == [("malformed_arguments", "not JSON")]
    end = session.reply("", malformed("add", '{"n": '))
    assert names(end)[-2:] == ["turn.finished", "run.failed"]
    assert (end[-1].stop, end[-1].failure.kind) == ("error", "tool_arguments")
    assert "tool.started" not in session.names()


def test_a_malformed_call_is_rendered_as_an_empty_object_and_its_result_says_why():
    session = Session()
    session.prompt()
    session.reply("", malformed("add", '{"n": '))
    reply, result = session.items()[1:3]
    assert isinstance(reply, AssistantItem)
    assert reply.content == (CallPart(call_id=session.called(), tool="add", args={}, malformed='{"n": '),)
    assert isinstance(result, ResultItem)
    assert result.content == (Text(text="not run (malformed arguments): not JSON"),)


def test_a_good_turn_forgives_the_bad_ones_before_it():
    session = Session()
    session.prompt()
    for _ in range(4):
        session.reply("", malformed("add", "{"))
        session.reply("", call("add"))
        session.finish()
    assert session.state.active


def test_an_unknown_tool_is_told_the_names_there_are():
    session = Session()
    session.prompt()
    (denied,) = details(session.reply("", call("Add")))
    shown = "add, pay, put, risky, ui, ask_user, todo, plan, task, complete_task, wait, load_tools"
    assert denied == ("unknown_tool", f"there is no tool 'Add'; the tools are: {shown}")


def test_calls_of_a_reply_that_was_cut_off_do_not_run():
    session = Session()
    session.prompt()
    cut = session.reply("", call("pay", {"cents": 1}), finish="length")
    assert details(cut) == [("truncated_reply", "the reply was cut off, so this call may be incomplete")]
    assert "tool.started" not in names(cut)


def test_calls_past_the_most_in_one_reply_are_denied_and_the_rest_run():
    session = Session(settings=Settings(calls_per_turn_max=2))
    session.prompt()
    reply = session.reply("", *[call("add", {"n": n}) for n in range(4)])
    assert details(reply) == [("too_many_calls", "at most 2 calls in one reply")] * 2
    assert session.running() == [session.called(), session.called(1)]


def test_duplicate_and_empty_ids_of_a_provider_do_not_matter():
    session = Session()
    session.prompt()
    session.reply("", *[call("add", {"n": n}, provider_call_id=given) for n, given in enumerate(["x", "x", "", None])])
    assert session.running() == [session.called(), session.called(1), session.called(2), session.called(3)]
    for name in session.running():
        session.finish(name, f"result of {name}")
    results = [(item.call_id, item.content) for item in session.results()]
    assert results == [(session.called(n), (Text(text=f"result of {session.called(n)}"),)) for n in range(4)]


def test_a_reply_must_carry_as_many_calls_as_it_says():
    session = Session()
    session.prompt()
    with pytest.raises(Refused) as refusal:
        session.take(
            ModelReplied(
                request_id=session.requested(),
                finish="stop",
                usage=Usage(),
                calls=2,
                body=ReplyBody(calls=(ReplyCall(call=call("add").call),)),
            )
        )
    assert refusal.value.code == "malformed"


def test_a_reply_to_a_request_that_is_not_open_is_refused():
    session = Session()
    session.prompt()
    session.reply("done")
    session.prompt()
    with pytest.raises(Refused) as refusal:
        session.reply("late", request_id=session.requested())
    assert refusal.value.code == "stale"


@pytest.mark.parametrize(("turns", "stops_after"), [(None, 2), (3, 3), (1, 1)])
def test_a_budget_that_names_turns_takes_the_place_of_the_limit_in_the_settings(turns, stops_after):
    session = Session(settings=Settings(turns_max=2), run_limits=Limits(turns=turns))
    session.prompt()
    for number in range(1, stops_after + 1):
        session.reply("", call("add", {"n": number}))
        stopped = [event for event in session.finish() if isinstance(event, BudgetStopped)]
        assert [(e.used, e.allowed) for e in stopped] == ([(number, number)] if number == stops_after else [])


def test_turns_end_at_the_limit_with_one_wrap_up_turn_without_tools():
    session = Session(settings=Settings(turns_max=2))
    session.prompt()
    session.reply("", call("add", {"n": 1}))
    session.finish()
    session.reply("", call("add", {"n": 2}))
    last = session.finish()
    assert names(last) == [
        "tool.finished",
        "turn.finished",
        "budget.stopped",
        "prefix.changed",
        "turn.started",
        "model.requested",
    ]
    assert (last[2].limit, last[2].used, last[2].allowed, last[2].wrap_up) == ("turns", 2, 2, True)
    assert session.items()[-1].content == (
        Text(text="The limit of this run is reached. Answer now with what you have; no more tools can be called."),
    )
    end = session.reply("", call("add", {"n": 3}))
    assert details(end) == [("budget", "no more calls: the run is at its limit, answer with what you have")]
    assert (names(end)[-1], end[-1].stop, end[-1].cause) == ("run.completed", "max_turns", "turn_limit_reached")


def test_the_same_call_again_and_again_is_warned_denied_and_stops_the_run():
    session = Session()
    session.prompt()
    seen = []
    for _ in range(8):
        events = session.reply("", call("add", {"n": 1}))
        seen.append([n for n in names(events) if n in ("repeat.warned", "tool.denied", "tool.started", "run.failed")])
        if session.running():
            session.finish()
    assert seen == [
        ["tool.started"],
        ["tool.started"],
        ["repeat.warned", "tool.started"],
        ["repeat.warned", "tool.started"],
        ["tool.denied"],
        ["tool.denied"],
        ["tool.denied"],
        ["tool.denied", "run.failed"],
    ]
    assert session.appends[-1][-1].stop == "no_progress"


def test_other_arguments_are_another_call():
    session = Session()
    session.prompt()
    for n in range(12):
        session.reply("", call("add", {"n": n}))
        session.finish()
    assert "repeat.warned" not in session.names()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_reply_cut_by_length_goes_on_where_that_is_set_a_bounded_number_of_times(allowed):
    session = Session(settings=Settings(continue_on_length=allowed, nudges_max=2))
    session.prompt()
    asked = 0
    while session.state.active:
        session.reply("and so on", finish="length")
        asked += 1
    assert asked == (3 if allowed else 1)
    assert session.appends[-1][-1].stop == "max_tokens"


def test_notes_stand_behind_the_results_of_their_turn():
    session = Session()
    session.prompt()
    for _ in range(2):
        session.reply("", call("add", {"n": 1}))
        session.finish()
    session.reply("", call("add", {"n": 1}))
    session.run_tool("add", {"n": 9})
    for name in reversed(session.running()):
        session.finish(name, "r")
    kinds = [ref.kind for ref in session.state.history.items[-4:]]
    assert kinds == ["assistant", "result", "note", "note"]
    assert [ref.part for ref in session.state.history.items[-2:]] == ["repeat", session.called(-1)]


def test_an_append_never_ends_between_two_turns():
    session = Session()
    for told in (session.prompt, lambda: session.reply("", call("add")), session.finish, lambda: session.reply("x")):
        told()
        assert not isinstance(session.state.phase, Between)
