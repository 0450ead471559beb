"""Questions to people, plans, and the work modes, which the gate enforces and no prompt text."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, TOOLS, Session, Settings, call, names
from windlass.events.changes import ChangeMode, ChangeTask
from windlass.events.errors import Refused
from windlass.events.questions import Answer, AnswerBody, Option, Plan, Question, QuestionBody, QuestionRequested
from windlass.events.tasks import PlanChanged, TaskChanged
from windlass.events.tools.calls import ToolAsked, ToolDenied, ToolResolved
from windlass.events.values.blocks import Text
from windlass.events.values.setup import Task, Todo
from windlass.kernel.effects import AskPerson

PLAN = {"summary": "two steps", "content": "1. look 2. do", "actions": ["approve", "reject"], "recommended": "approve"}


def asked(events):
    return next(event for event in events if isinstance(event, QuestionRequested))


def result_text(session):
    item = session.results()[-1]
    return item.content[0].text, item.is_error


def ask(args, **changes):
    session = Session(**changes)
    session.prompt()
    return session, asked(session.reply("", call("ask_user", args)))


def test_a_question_with_choices_waits_for_a_person():
    session, question = ask({"question": "which?", "options": ["red", "blue"], "multi_select": True})
    options = (Option(label="red"), Option(label="blue"))
    assert question.body == QuestionBody(questions=(Question(question="which?", options=options, multi_select=True),))
    assert [type(effect) for effect in session.owed()] == [AskPerson]
    answer = AnswerBody(answers=(Answer(index=0, selected=("red", "blue"), text="both are fine"),))
    assert names(session.answer(question.question_id, body=answer)) == [
        "answer.received",
        "turn.finished",
        "turn.started",
        "model.requested",
    ]
    assert result_text(session) == ("red, blue: both are fine", False)


def test_several_questions_are_answered_by_number():
    session, question = ask({"questions": [{"question": "a?"}, {"question": "b?"}], "message": "two things"})
    answers = AnswerBody(answers=(Answer(index=0, text="x"), Answer(index=1, text="y")))
    session.answer(question.question_id, body=answers)
    assert result_text(session) == ("1. x\n2. y", False)


def test_a_form_is_described_by_a_schema_and_answered_with_an_object():
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    session, question = ask({"form": schema, "message": "about you"})
    assert (question.kind, question.body) == ("form", QuestionBody(message="about you", form=schema))
    session.answer(question.question_id, body=AnswerBody(content={"age": 7}))
    assert result_text(session) == ('{"age":7}', False)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("declined", ("declined", False)), ("cancelled", ("the question was closed without an answer", True))],
)
def test_a_question_may_be_declined_or_closed(outcome, said):
    session, question = ask({"question": "which?"})
    session.answer(question.question_id, outcome=outcome)
    assert result_text(session) == said
    assert session.state.active


def test_a_question_without_content_is_a_failed_call():
    session = Session()
    session.prompt()
    assert ToolResolved in [type(event) for event in session.reply("", call("ask_user", {}))]
    assert result_text(session) == ("give at least one question, or a form", True)


def test_a_question_survives_days_and_another_owner():
    session, question = ask({"question": "which?"})
    assert names(session.nobody()) == ["approver.missed", "run.asked"]
    session.at_ms += 9 * 24 * 3600 * 1000
    session.crash()
    assert names(session.answer(question.question_id)) == [
        "answer.received",
        "run.started",
        "turn.finished",
        "turn.started",
        "model.requested",
    ]
    with pytest.raises(Refused, match="answered by someone"):
        session.answer(question.question_id)


def test_an_owner_who_takes_over_asks_again_under_the_same_id():
    session, question = ask({"question": "which?"})
    session.crash()
    assert [effect.effect_id for effect in session.owed()] == [question.question_id]


# --- plan mode ---


def plan(**changes):
    session = Session(mode="plan", **changes)
    session.prompt()
    events = session.reply("", call("plan", PLAN))
    return session, asked(events)


def test_in_plan_mode_only_reading_passes_the_gate():
    session = Session(mode="plan")
    session.prompt()
    events = session.reply("", call("add"), call("pay"), call("put"), call("todo", {"todos": []}))
    assert [(e.call_id, e.reason) for e in events if isinstance(e, ToolDenied)] == [
        (session.called(1), "mode"),
        (session.called(2), "mode"),
    ]
    assert session.running() == [session.called()]


def test_a_person_does_not_get_round_plan_mode_either():
    session = Session(mode="plan")
    assert [e.reason for e in session.run_tool("pay") if isinstance(e, ToolDenied)] == ["mode"]


def test_a_plan_is_put_before_a_person_with_its_actions():
    session, question = plan()
    assert names(session.appends[-1]) == [
        "model.replied",
        "tool.requested",
        "tool.allowed",
        "plan.changed",
        "task.changed",
        "question.requested",
    ]
    assert question.body is not None
    assert question.body.plan == Plan(
        summary="two steps", content="1. look 2. do", actions=("approve", "reject"), recommended="approve"
    )


def test_an_approved_plan_leaves_plan_mode():
    session, question = plan()
    assert names(session.answer(question.question_id, action="approve"))[:2] == ["answer.received", "mode.changed"]
    assert (session.state.setup.mode, session.state.task.current.plan) == ("interactive", "1. look 2. do")
    assert names(session.reply("", call("pay")))[-1] == "tool.started"


def test_an_approval_may_name_the_mode_to_go_on_in():
    session, question = plan()
    session.answer(question.question_id, action="approve", mode="autopilot")
    assert session.state.setup.mode == "autopilot"


def test_words_said_to_a_plan_reach_the_model():
    session, question = plan()
    session.answer(question.question_id, action="no, do not do this!", body=AnswerBody(feedback="too slow"))
    assert result_text(session) == ("the plan was answered with: no, do not do this!\ntoo slow", False)


def test_a_mode_goes_with_an_approval_alone():
    session, question = plan()
    with pytest.raises(Refused, match="a mode goes with the action 'approve'"):
        session.answer(question.question_id, action="reject", mode="autopilot")


def test_an_edited_plan_is_the_plan():
    session, question = plan()
    events = session.answer(question.question_id, action="approve", body=AnswerBody(edited="1. only look"))
    assert names(events)[:4] == ["answer.received", "plan.changed", "task.changed", "mode.changed"]
    assert session.state.task.current.plan == "1. only look"
    assert result_text(session) == (
        "the plan was answered with: approve\nthe plan was changed to:\n1. only look",
        False,
    )


@pytest.mark.parametrize(
    "answer",
    [
        *(
            {"action": said}
            for said in ("reject", "Reject", "no", "n", "cancel", "no, do not do this!", "Approve", "yes")
        ),
        {"outcome": "declined"},
        {"outcome": "cancelled"},
    ],
)
def test_a_rejected_plan_stays_in_plan_mode_and_the_model_hears_why(answer):
    session, question = plan()
    session.answer(question.question_id, body=AnswerBody(feedback="too slow"), **answer)
    assert session.state.setup.mode == "plan"
    assert [e.reason for e in session.reply("", call("pay")) if isinstance(e, ToolDenied)] == ["mode"]


def test_only_a_plan_takes_an_action_and_a_plan_needs_one():
    session, question = plan()
    with pytest.raises(Refused, match="one of its actions"):
        session.answer(question.question_id)
    session, question = ask({"question": "which?"}, mode="plan")
    with pytest.raises(Refused, match="only a plan"):
        session.answer(question.question_id, action="approve")
    assert session.state.setup.mode == "plan"


def test_outside_of_plan_mode_a_plan_is_kept_and_nobody_is_asked():
    session = Session()
    session.prompt()
    assert "question.requested" not in names(session.reply("", call("plan", PLAN)))
    operations = []
    for content in ("new", ""):
        events = session.reply("", call("plan", {"summary": "s", "content": content}))
        operations += [event.operation for event in events if isinstance(event, PlanChanged)]
    assert operations == ["update", "delete"]


# --- autopilot ---


def test_in_autopilot_nobody_is_asked():
    session = Session(mode="autopilot")
    session.prompt()
    events = session.reply("", call("ask_user", {"question": "which?"}))
    assert [(e.reason, e.detail) for e in events if isinstance(e, ToolDenied)] == [
        ("no_approver", "nobody answers questions in autopilot; decide yourself and go on")
    ]
    session.reply("", call("put"))
    with pytest.raises(Refused, match="nobody answers questions in autopilot"):
        session.take(ToolAsked(call_id=session.running()[0], body=QuestionBody(message="?")))


def test_autopilot_goes_on_until_the_task_is_complete():
    session = Session(mode="autopilot")
    session.prompt()
    nudged = session.reply("I think I am done")
    assert names(nudged) == ["model.replied", "turn.finished", "turn.started", "model.requested"]
    assert nudged[2].notes == ("nudge",)
    end = session.reply("", call("complete_task", {"summary": "all paid"}))
    assert names(end) == [
        "model.replied",
        "tool.requested",
        "tool.allowed",
        "task.completed",
        "tool.resolved",
        "turn.finished",
        "run.completed",
    ]
    assert (end[3].summary, end[3].success, end[-1].stop) == ("all paid", True, "task_complete")


def test_a_task_that_cannot_be_done_is_complete_without_success():
    session = Session(mode="autopilot")
    session.prompt()
    end = session.reply("", call("complete_task", {"summary": "no money", "success": False}))
    assert (end[3].summary, end[3].success, end[-1].stop) == ("no money", False, "task_complete")


def test_an_agent_that_neither_works_nor_completes_is_nudged_so_often_and_no_more():
    session = Session(mode="autopilot", settings=Settings(nudges_max=2))
    session.prompt()
    session.reply("done?")
    session.reply("done?")
    end = session.reply("done?")
    assert (names(end)[-1], end[-1].stop) == ("run.failed", "no_progress")


def test_work_between_two_stops_is_progress():
    session = Session(mode="autopilot", settings=Settings(nudges_max=1))
    session.prompt()
    for n in range(5):
        session.reply("hm")
        session.reply("", call("add", {"n": n}))
        session.finish()
    assert session.state.active


def test_autopilot_may_sleep():
    session = Session(mode="autopilot")
    session.prompt()
    session.reply("", call("wait", {"for_ms": 1_000}))
    assert names(session.reply("waiting")) == ["model.replied", "turn.finished", "run.slept"]


def test_what_is_said_after_the_task_was_complete_is_answered_and_not_nudged():
    session = Session(mode="autopilot")
    session.prompt()
    session.reply("", call("add"))
    session.run_tool("put")
    session.prompt("one more thing", behavior="steer")
    session.finish(session.called())
    session.finish()
    session.reply("", call("complete_task", {"summary": "x"}), call("add", {"n": 2}))
    session.prompt("thanks", behavior="steer")
    assert names(session.finish())[-1] == "model.requested"
    assert names(session.reply("welcome")) == ["model.replied", "turn.finished", "run.completed"]


def test_without_a_way_to_complete_autopilot_ends_after_the_nudges():
    tools = tuple(spec for spec in TOOLS if spec.name != "complete_task")
    session = Session(mode="autopilot", tools=tools, settings=Settings(nudges_max=1))
    session.prompt()
    session.reply("done")
    assert session.reply("really")[-1].stop == "completed"


# --- modes and task state are data ---


def test_a_mode_is_changed_by_a_command_and_said_once():
    session = Session()
    assert names(session.change(ChangeMode(mode="plan"))) == ["change.received", "mode.changed", "command.completed"]
    assert names(session.change(ChangeMode(mode="plan"))) == ["change.received", "command.completed"]
    assert (session.state.setup.mode, session.state.setup.routing) == ("plan", "agent")


def test_todos_and_the_task_are_kept_by_the_kernel():
    session = Session(policy=ASK_PAY)
    session.prompt()
    todos = [{"todo_id": "1", "content": "look", "status": "completed"}, {"todo_id": "2", "content": "do"}]
    session.reply("", call("todo", {"todos": todos}), call("task", {"goal": "pay", "progress": "half"}))
    assert session.state.task.current == Task(
        goal="pay",
        progress="half",
        todos=(Todo(todo_id="1", content="look", status="completed"), Todo(todo_id="2", content="do")),
    )
    texts = [item.content[0].text for item in session.results()]
    assert texts == ["saved: 1 of 2 done", "saved: goal, progress"]


@pytest.mark.parametrize(
    ("tool", "args", "said"),
    [
        ("todo", {"todos": [{"todo_id": str(n), "content": "x"} for n in range(201)]}, "at most 200 todos"),
        ("todo", {"todos": [{"todo_id": "1", "content": "x" * 2_001}]}, "at most 2000 characters in each todo"),
        ("task", {"goal": "x" * 20_001}, "at most 20000 characters in each field"),
        ("wait", {}, "give either for_ms or until_ms"),
        ("wait", {"for_ms": 1, "until_ms": 9}, "give either for_ms or until_ms"),
        ("wait", {"until_ms": 5}, "that time is past, too far away, or too many timers are set"),
        ("load_tools", {"names": ["nowhere"]}, "loaded: nothing new; unknown: nowhere"),
        ("todo", {"todos": "no"}, "not run (invalid arguments): Expected `array`, got `str` - at `$.todos`"),
    ],
)
def test_the_kernels_own_tools_have_bounds_and_say_them(tool, args, said):
    session = Session()
    session.prompt()
    session.reply("", call(tool, args))
    assert result_text(session) == (said, True)


def test_a_task_state_from_outside_has_a_bound_too():
    session = Session()
    with pytest.raises(Refused) as refusal:
        session.change(ChangeTask(task=Task(scratchpad="x" * 200_000)))
    assert refusal.value.code == "too_large"
    assert session.change(ChangeTask(task=Task(goal="g")))[1] == TaskChanged(task=Task(goal="g"), fields=("task",))


def test_a_result_of_the_kernel_is_short():
    session = Session()
    session.prompt()
    session.reply("", call("wait", {"for_ms": 5}))
    assert session.items()[-1].content == (Text(text="the timer is set; end your turn to wait for it"),)


def test_a_question_of_a_running_tool_is_left_to_it_when_autopilot_begins():
    session = Session()
    session.prompt()
    session.reply("", call("put"))
    asked = session.take(ToolAsked(call_id=session.running()[0], body=QuestionBody(message="?")))
    session.change(ChangeMode(mode="autopilot"))
    assert names(session.nobody()) == ["approver.missed"], "its call runs: it gets its result from its tool"
    assert session.running() == [session.called()]
    session.answer(asked[1].question_id, body=AnswerBody())
    session.finish()
    assert len(session.results()) == 1
