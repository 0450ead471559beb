"""A new owner: epochs rise, and each intent of an older one is made again or closed, by the contract of its tool."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, MODEL, Session, Settings, call, names
from windlass.events.changes import ChangeMode, ChangeModel
from windlass.events.errors import NotLegal, Refused
from windlass.events.questions import Question, QuestionBody
from windlass.events.runs import RunCompleted
from windlass.events.sessions import SessionResumed
from windlass.events.tools.calls import ResultBody, ToolAsked, ToolFinished
from windlass.events.values.blocks import Text
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.setup import Limits, Workspace
from windlass.events.values.usage import Price
from windlass.events.workspace import WorkspaceChanged
from windlass.kernel.effects import AskPerson, AwaitClient, CallModel, RunTool, SetTimer
from windlass.kernel.fold import evolve
from windlass.kernel.phases import Idle


def results(session):
    return [item.content[0].text for item in session.results()]


def running(tool, **changes):
    session = Session(**changes)
    session.prompt()
    session.reply("", call(tool))
    return session


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_that_is_not_newer_is_refused(epoch):
    session = Session()
    with pytest.raises(Refused) as refusal:
        session.take(SessionResumed(epoch=epoch))
    assert refusal.value.code == "stale_epoch"
    with pytest.raises(NotLegal):
        evolve(session.state, SessionResumed(epoch=epoch))


def test_a_session_at_rest_is_only_taken_over():
    session = Session()
    session.prompt()
    session.reply("done")
    assert names(session.crash()) == ["session.resumed"]
    assert (session.state.epoch, session.owed()) == (2, ())


def test_a_model_request_is_made_again_and_the_lost_one_is_booked():
    session = Session()
    session.prompt()
    events = session.crash()
    assert names(events) == ["session.resumed", "model.requested"]
    assert (events[1].epoch, events[1].attempt) == (2, 1)
    assert [type(effect) for effect in session.owed()] == [CallModel]
    assert session.state.budget.spent.usage.estimated
    with pytest.raises(Refused, match=f"{session.requested()} is not open any more"):
        session.reply("late", request_id=session.requested())


def test_a_reply_that_is_in_the_log_is_never_asked_for_again():
    session = running("put")
    session.crash()
    assert session.names().count("model.requested") == 1


@pytest.mark.parametrize(
    ("tool", "events", "status"),
    [
        ("add", ["session.resumed", "tool.started"], "started"),
        ("put", ["session.resumed", "tool.started"], "started"),
        (
            "pay",
            ["session.resumed", "tool.outcome_unknown", "turn.finished", "turn.started", "model.requested"],
            None,
        ),
        ("risky", ["session.resumed", "tool.outcome_unknown", "run.asked"], "unknown"),
    ],
)
def test_the_contract_decides_after_an_unknown_outcome(tool, events, status):
    session = running(tool)
    assert names(session.crash()) == events
    found = session.state.calls.by_id.get(session.called())
    assert (found.status if found else None) == status


def test_an_idempotent_tool_runs_again_under_the_same_key():
    session = running("put")
    (before,) = session.owed()
    session.crash()
    (after,) = session.owed()
    assert isinstance(before, RunTool)
    assert isinstance(after, RunTool)
    assert (before.key, before.attempt, after.key, after.attempt) == (
        f"s1:{session.called()}",
        1,
        f"s1:{session.called()}",
        2,
    )


def test_the_model_is_told_that_an_outcome_is_unknown():
    session = running("pay")
    session.crash()
    assert results(session) == ["outcome unknown: it was cut off while running and may or may not have had its effect"]


def test_an_outcome_of_an_older_owner_is_refused():
    session = running("put")
    session.crash()
    stale = ToolFinished(call_id=session.called(), body=ResultBody())
    session.take(stale)
    session = running("pay")
    session.crash()
    with pytest.raises(Refused):
        session.take(stale)


def test_allowed_and_never_started_starts_now():
    session = Session(settings=Settings(tool_order="sequential"))
    session.prompt()
    session.reply("", call("put"), call("pay"))
    session.crash()
    assert session.running() == [session.called()]
    session.finish(session.called())
    assert session.running() == [session.called(1)]
    assert session.names().count("tool.outcome_unknown") == 0


def test_of_a_batch_the_finished_ones_are_kept():
    session = Session()
    session.prompt()
    session.reply("", call("add"), call("pay"), call("put"))
    session.finish(session.called(1), "paid")
    assert names(session.crash()) == ["session.resumed", "tool.started", "tool.started"]
    for name in session.running():
        session.finish(name, "again")
    assert results(session) == ["again", "paid", "again"]


def test_what_waits_for_people_clients_and_times_goes_on_waiting():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("pay"), call("ui"), call("wait", {"for_ms": 60_000}))
    before = session.owed()
    assert [type(effect) for effect in before] == [SetTimer, AwaitClient, AskPerson]
    assert names(session.crash()) == ["session.resumed"]
    assert session.owed() == before


def test_who_was_missed_is_looked_for_again_under_the_same_id():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("pay"), call("add"))
    (request,) = session.state.asks.open
    session.nobody()
    assert AskPerson not in [type(effect) for effect in session.owed()]
    session.crash()
    assert [e.ask_id for e in session.owed() if isinstance(e, AskPerson)] == [request]


def test_a_retry_waits_on():
    session = Session()
    session.prompt()
    session.model_fails()
    assert names(session.crash()) == ["session.resumed"]
    assert [type(effect) for effect in session.owed()] == [SetTimer]
    assert names(session.fire()) == ["timer.fired", "model.requested"]


def test_a_summary_is_asked_for_again():
    session = Session(settings=Settings(keep_exchanges=1))
    for n in range(3):
        session.prompt(f"{n}")
        session.reply(f"{n}")
    session.compact()
    events = session.crash()
    assert names(events) == ["session.resumed", "model.requested"]
    assert events[1].lane == "compact"


def test_a_question_inside_a_tool_dies_with_it():
    session = running("put")
    asked = session.take(ToolAsked(call_id=session.called(), body=QuestionBody(questions=(Question(question="?"),))))
    assert names(session.crash()) == ["session.resumed", "question.withdrawn", "tool.started"]
    with pytest.raises(Refused, match="withdrawn: unknown_outcome"):
        session.answer(asked[1].question_id)


def test_many_crashes_start_an_at_most_once_tool_once():
    session = running("pay")
    for _ in range(5):
        session.crash()
    assert session.names().count("tool.started") == 1


# --- a person settles it ---


@pytest.mark.parametrize(
    ("outcome", "body", "said"),
    [
        ("happened", ResultBody(content=(Text(text="receipt 7"),)), "receipt 7"),
        ("happened", None, "a person checked: it happened"),
        ("did_not_happen", None, "a person checked: it did not happen"),
    ],
)
def test_a_person_says_what_happened(outcome, body, said):
    session = running("risky")
    session.crash()
    events = session.settle(session.called(), outcome, body=body)
    assert names(events) == ["tool.settled", "run.started", "turn.finished", "turn.started", "model.requested"]
    assert results(session) == [said]


def test_or_that_it_is_to_run_again_as_often_as_they_say():
    session = running("risky")
    for attempt in (2, 3):
        session.crash()
        events = session.settle(session.called(), "run_again")
        assert names(events) == ["tool.settled", "run.started", "tool.started"]
        assert events[2].attempt == attempt
    session.finish(text="done")
    assert results(session) == ["done"]


def test_whoever_settles_while_a_run_is_active_hears_of_its_end():
    session = Session()
    session.prompt()
    session.reply("", call("risky", {"n": 1}), call("risky", {"n": 2}))
    first, second = session.state.calls.by_id
    session.crash()
    session.settle(first, "run_again")
    told = session.settle(second, "happened")[0].command_id
    session.finish(first)
    (*_, ended) = session.reply("done")
    assert names([ended]) == ["run.completed"]
    assert told in ended.commands


def test_only_an_unknown_outcome_can_be_settled():
    session = running("risky")
    with pytest.raises(Refused, match="not waiting to be settled"):
        session.settle(session.called(), "happened")
    session.crash()
    session.settle(session.called(), "did_not_happen")
    with pytest.raises(Refused):
        session.settle(session.called(), "happened")


def test_an_unknown_outcome_waits_beside_what_still_runs():
    session = Session()
    session.prompt()
    session.reply("", call("risky"), call("add"))
    session.crash()
    assert session.state.active
    assert names(session.settle(session.called(), "did_not_happen")) == ["tool.settled"]
    assert names(session.finish(session.called(1)))[-1] == "model.requested"
    end = session.reply("done")[-1]
    assert isinstance(end, RunCompleted)
    assert end.commands == ("k1", "k2")


def test_the_place_of_work_may_be_another_one():
    session = Session()
    session.crash(workspace=Workspace(cwd="/new"))
    assert session.state.workspace.folder == Workspace(cwd="/new")
    assert names(session.take(WorkspaceChanged(workspace=Workspace(cwd="/newer", branch="b")))) == ["workspace.changed"]
    assert session.state.workspace.folder == Workspace(cwd="/newer", branch="b")
    assert isinstance(session.state.phase, Idle)


# --- what the agent's code says now ---


def terms(session, **changes):
    return msgspec.structs.replace(session.state.setup.terms, **changes)


OTHER = msgspec.structs.replace(MODEL, name="test/other")
DENY = Policy(rules=(Rule(action="deny", tool="pay"),))
TIGHT = Limits(turns=1)
FEW = Settings(turns_max=3)


@pytest.mark.parametrize(
    ("changes", "event", "now"),
    [
        ({"model": OTHER}, "model.changed", lambda state: state.setup.model == OTHER),
        ({"policy": DENY}, "policy.changed", lambda state: state.gate.policy == DENY),
        ({"limits": TIGHT}, "limits.changed", lambda state: state.budget.limits == TIGHT),
        ({"run_limits": TIGHT}, "limits.changed", lambda state: state.budget.run_limits == TIGHT),
        ({"settings": FEW}, "settings.changed", lambda state: state.setup.settings == FEW),
        ({"mode": "autopilot"}, "mode.changed", lambda state: state.setup.mode == "autopilot"),
    ],
)
def test_what_the_code_changed_holds_from_the_resume_on(changes, event, now):
    session = Session()
    assert names(session.crash(terms=terms(session, **changes))) == ["session.resumed", event]
    assert now(session.state)
    assert names(session.crash(terms=terms(session))) == ["session.resumed"], "the same words again change nothing"
    assert session.verify().problems == []


def test_what_a_command_changed_stays_while_the_code_says_the_same():
    session = Session()
    session.change(ChangeModel(model=OTHER))
    session.change(ChangeMode(mode="autopilot"))
    assert names(session.crash(terms=terms(session, policy=DENY))) == ["session.resumed", "policy.changed"]
    assert (session.state.setup.model.name, session.state.setup.mode) == ("test/other", "autopilot")


def test_another_price_of_the_same_model_costs_no_cache():
    session = Session()
    session.prompt()
    session.reply("x")
    dear = msgspec.structs.replace(MODEL, price=Price(input=9, output=9))
    session.crash(terms=terms(session, model=dear))
    assert "prefix.changed" not in names(session.prompt("again"))
    assert session.state.setup.model.price == Price(input=9, output=9)
