"""People in the loop: policies, approvals from anywhere, questions, plans, autopilot, tools that clients run."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

import windlass
from windlass.events.changes import ChangeGrants
from windlass.events.questions import AnswerBody, QuestionRequested
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolAllowed, ToolDenied, ToolFinished, ToolStarted
from windlass.events.tools.permissions import (
    GrantsChanged,
    PermissionRequested,
    PermissionWithdrawn,
    ReadDetail,
    ToolDetail,
)
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk, Reply
from windlass.runtime.api.policy import explain
from windlass.runtime.bind.policy_conditions import evaluate
from windlass.store import open_store
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.description import Description

from .support import agent_of, events_of, names_of, only, sound, started

PAID: list[tuple[str, int]] = []


@windlass.tool
def pay(invoice: str, cents: int) -> str:
    "Pay an invoice."
    PAID.append((invoice, cents))
    return f"paid {invoice}"


@windlass.tool(contract="pure", kind="read", traits=["read"])
def look(path: str) -> str:
    "Look at a file."
    return f"content of {path}"


@pytest.fixture(autouse=True)
def nothing_paid():
    PAID.clear()


def ask_pay(**more: Any) -> windlass.Policy:
    return windlass.Policy(rules=(windlass.ask("pay", **more),))


def clerk(*turns: Any, **more: Any) -> windlass.Agent:
    more.setdefault("policy", ask_pay())
    return agent_of(*turns, name="clerk", tools=[pay, look], **more)


def payment(invoice: str = "a", cents: int = 5) -> Any:
    return call("pay", invoice=invoice, cents=cents)


async def approving(asked: Any) -> bool:
    return True


# --- policies ---


@pytest.mark.parametrize(
    ("policy", "cents", "outcome"),
    [
        (windlass.Policy(), 5, "allowed"),
        (windlass.ALLOW_ALL, 5, "allowed"),
        (windlass.READ_ONLY, 5, "denied"),
        (ask_pay(), 5, "asked"),
        (ask_pay(when="args.cents > 10000"), 5, "allowed"),
        (ask_pay(when="args.cents > 10000"), 10_001, "asked"),
        (ask_pay(when="args.nothing > 1"), 5, "asked"),
        (windlass.Policy(rules=(windlass.allow("pay"), windlass.deny("p*", when="args.cents > 100"))), 101, "denied"),
        (windlass.Policy(rules=(windlass.allow("pay"), windlass.ask("*"))), 5, "asked"),
        (windlass.Policy(rules=(windlass.deny("*"), windlass.allow("pay"))), 5, "denied"),
        (windlass.Policy(default="ask"), 5, "asked"),
        (windlass.Policy(default="deny"), 5, "denied"),
    ],
)
async def test_deny_beats_ask_beats_allow_and_what_cannot_be_judged_is_asked_about(policy, cents, outcome):
    agent = clerk(payment(cents=cents), "done", policy=policy)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        names = await names_of(session)
        assert (result.status == "asked") == (outcome == "asked")
        assert ("tool.denied" in names) == (outcome == "denied")
        assert len(PAID) == (outcome == "allowed")


async def test_the_read_only_preset_lets_reading_pass():
    result = await clerk(call("look", path="x"), "seen", policy=windlass.READ_ONLY).run("go")
    assert result.text == "seen"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("args.cents == 5", True),
        ("args.names.exists(n, n.startsWith('a'))", True),
        ("args.names.all(n, size(n) > 3)", False),
        ("has(args.missing)", False),
        ("args.cents", None),
        ("args.missing.deep > 1", None),
    ],
)
def test_conditions_are_cel_over_the_arguments(condition, holds):
    assert evaluate(condition, {"args": {"cents": 5, "names": ["ab", "cd"]}}) is holds


@pytest.mark.parametrize("condition", ["args.cents >", "__import__('os')", "other.cents > 1", "x" * 3_000])
def test_a_condition_that_is_no_expression_over_the_arguments_is_refused_at_once(condition):
    with pytest.raises(windlass.UsageError, match="condition"):
        windlass.ask("pay", when=condition)


def test_a_policy_can_be_explained():
    policy = windlass.Policy(
        rules=(windlass.allow("look"), windlass.ask("pay", when="args.cents > 100"), windlass.deny("rm*", reason="no"))
    )
    assert explain(policy).splitlines() == [
        "deny rm* (no)",
        "ask pay when args.cents > 100",
        "allow look",
        "otherwise: the author's own tools and reading are allowed, everything else is asked about",
    ]


def test_a_policy_takes_a_list_of_rules():
    make: Any = windlass.Policy
    assert make([windlass.allow("pay")]).rules == (windlass.allow("pay"),)


# --- approvals ---


async def test_an_approver_sees_the_full_arguments_and_its_yes_runs_the_call():
    seen: list[Any] = []

    async def approver(asked):
        seen.append(asked)
        return True

    result = await clerk(payment(cents=7), "done", approver=approver).run("go")
    assert (result.text, PAID) == ("done", [("a", 7)])
    (asked,) = seen
    assert isinstance(asked, PermissionAsk)
    assert isinstance(asked.detail, ToolDetail)
    assert asked.detail.args == {"invoice": "a", "cents": 7}


async def test_a_denial_reaches_the_model_with_its_feedback_and_the_run_goes_on():
    async def approver(asked):
        return windlass.Deny(feedback="too expensive")

    agent = clerk(payment(), "understood", approver=approver)
    assert (await agent.run("go")).text == "understood"
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert "too expensive" in str(model.requests[1].items[-1])
    assert PAID == []


async def test_an_approver_that_is_away_leaves_the_run_asked():
    async def away(asked):
        return None

    agent = clerk(payment(), "done", approver=away)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (asked,) = only(await events_of(session), PermissionRequested)
        await session.approve(asked)
        assert (await session.result()).text == "done"
        await sound(session)


async def test_an_approver_that_raises_leaves_the_session_alive():
    async def broken(asked):
        raise ValueError("the chat is down")

    agent = clerk(payment(), "done", approver=broken)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (asked,) = only(await events_of(session), PermissionRequested)
        await session.approve(asked)
        assert (await session.result()).text == "done"


async def test_an_approval_by_api_while_the_approver_still_thinks():
    asked_for = asyncio.Event()

    async def slow(asked):
        asked_for.set()
        await asyncio.get_running_loop().create_future()

    agent = clerk(payment(), "done", approver=slow)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await asked_for.wait()
        (asked,) = only(await events_of(session), PermissionRequested)
        await session.approve(asked)
        assert (await session.result()).text == "done"
        await sound(session)


async def test_an_approval_for_the_session_is_recorded_used_again_and_revocable():
    agent = clerk(payment("a"), payment("b"), "two", payment("c"), "asked again")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), PermissionRequested)
        await session.approve(asked, scope="session")
        assert (await session.result()).text == "two"
        (grant,) = only(await events_of(session), GrantsChanged)[0].added
        await session.change(ChangeGrants(revoke=(grant.grant_id,)))
        await session.prompt("once more")
        assert (await session.result()).status == "asked"
        allowed = [(event.by, event.rule) for event in only(await events_of(session), ToolAllowed)]
        assert [by for by, _ in allowed] == ["person", "grant"]
        await sound(session)


async def test_an_approval_for_a_pattern_covers_the_same_arguments_only():
    agent = clerk(payment("a"), payment("a"), payment("b"), "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), PermissionRequested)
        state = await session.state()
        await session.approve(asked, scope="pattern", pattern=state.calls.by_id[asked.call_id].digest)
        assert (await session.result()).status == "asked"
        assert PAID == [("a", 5), ("a", 5)]


@windlass.tool(contract="pure", kind="read")
def peek(path: str) -> str:
    "Look at a file, when somebody allows it."
    return f"content of {path}"


ASK_PEEK = windlass.Policy(rules=(windlass.ask("peek"),))


def peeks(*paths: str, tool: Any = peek, **more: Any) -> windlass.Agent:
    more.setdefault("policy", ASK_PEEK)
    return agent_of(*[call("peek", path=path) for path in paths], "done", tools=[tool], **more)


async def test_an_approval_for_a_pattern_lets_later_calls_pass_whose_subject_fits_and_no_others():
    agent = peeks("src/a.py", "src/deep/b.py", "docs/c.md")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (asked,) = only(await events_of(session), PermissionRequested)
        assert asked.body.subject == "src/a.py"
        await session.approve(asked, pattern="src/*")
        assert (await session.result()).status == "asked"
        events = await events_of(session)
        assert [event.by for event in only(events, ToolAllowed)] == ["person", "grant"]
        assert [event.body.subject for event in only(events, PermissionRequested)] == ["src/a.py", "docs/c.md"]
        await sound(session)


async def test_an_approver_may_approve_a_pattern_by_the_subject_it_is_shown():
    seen: list[str | None] = []

    async def approver(asked):
        seen.append(asked.subject)
        return windlass.Approve(pattern="src/*")

    assert (await peeks("src/a", "src/b", "x", approver=approver).run("go")).text == "done"
    assert seen == ["src/a", "x"]


@pytest.mark.parametrize("hostile", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\u200bb", "x" * 200_000])
async def test_a_call_that_no_line_can_stand_for_is_covered_by_no_pattern(hostile):
    agent = peeks("ab", hostile, hostile)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), PermissionRequested)
        await session.approve(asked, pattern="*")
        assert (await session.result()).status == "asked"
        asked = only(await events_of(session), PermissionRequested)[-1]
        assert asked.body.subject is None
        assert asked.body.detail == ToolDetail(tool="peek", args={"path": hostile})
        digest = (await session.state()).calls.by_id[asked.call_id].digest
        await session.approve(asked, pattern=digest)
        assert (await session.result()).text == "done", "the same call again is covered by its digest"
        await sound(session)


def raising(args: Any, place: Any) -> Any:
    raise ValueError("no idea\nat all")


async def late(args: Any, place: Any) -> Any:
    return "subject"


@pytest.mark.parametrize(
    ("describe", "why"),
    [
        (raising, "cannot judge: describing the call raised ValueError: no idea\nat all"),
        (late, "cannot judge: describing the call gave 'coroutine' instead of a Description or a text"),
        (lambda args, place: 7, "cannot judge: describing the call gave 'int' instead of a Description or a text"),
        (lambda args, place: Description(unclear="two commands"), "cannot judge: two commands"),
    ],
)
async def test_a_call_that_cannot_be_described_is_asked_about_and_the_reason_is_on_record(describe, why):
    tool = windlass.tool(name="peek", contract="pure", describe=describe)(lambda path: "content")
    agent = peeks("a", "b", tool=tool, policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (asked,) = only(await events_of(session), PermissionRequested)
        assert (asked.body.why, asked.body.subject) == (why, None)
        with pytest.raises(windlass.Refused, match="cannot be approved by a pattern"):
            await session.approve(asked, pattern="*")
        with pytest.raises(windlass.Refused, match="cannot be approved for the session"):
            await session.approve(asked, scope="session")
        await session.approve(asked)
        assert (await session.result()).status == "asked", "the next one is asked about too"
        await session.approve(only(await events_of(session), PermissionRequested)[-1])
        assert (await session.result()).text == "done"
        await sound(session)


async def test_a_call_that_must_not_be_made_is_denied_whoever_would_agree():
    def describe(args: Any, place: Any) -> Description:
        return Description(excluded="keys are never shown" if args["path"] == "key" else None)

    tool = windlass.tool(name="peek", contract="pure", describe=describe)(lambda path: "content")
    agent = peeks("key", tool=tool, policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        (denied,) = only(await events_of(session), ToolDenied)
        assert (denied.reason, denied.detail) == ("content_excluded", "keys are never shown")


@pytest.mark.parametrize(
    ("when", "outcome"),
    [
        ("call.kind == 'read'", "denied"),
        ("call.subject.startsWith('src/')", "denied"),
        ("call.paths.exists(p, p.endsWith('.py'))", "denied"),
        ("'shop.example' in call.hosts", "denied"),
        ("'private' in call.labels", "denied"),
        ("call.tool == 'other'", "allowed"),
        ("call.paths.exists(p, p.endsWith('.env'))", "allowed"),
        ("call.nothing == 1", "asked"),
    ],
)
async def test_conditions_see_what_a_call_is_about(when, outcome):
    def describe(args: Any, place: Any) -> Description:
        return Description(paths=("/w/src/a.py",), hosts=("shop.example",), labels=("private",))

    tool = windlass.tool(name="peek", contract="pure", kind="read", describe=describe)(lambda path: "content")
    agent = peeks("src/a.py", tool=tool, policy=windlass.Policy(rules=(windlass.deny("peek", when=when),)))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert ((await session.result()).status == "asked") == (outcome == "asked")
        assert ("tool.denied" in await names_of(session)) == (outcome == "denied")


async def test_reading_a_file_is_asked_about_with_the_whole_path(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\n")
    policy = windlass.Policy(rules=(windlass.ask("read"),))
    turns = [call("read", path=path) for path in ("./src//a.py", "src/a.py", "src/../src/a.py")]
    agent = agent_of(*turns, "done", tools=windlass.file_tools(tmp_path), policy=policy)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), PermissionRequested)
        intention = "read 500 lines from line 1 on"
        assert asked.body.detail == ReadDetail(path=str(tmp_path / "src" / "a.py"), intention=intention)
        await session.approve(asked, pattern="src/*")
        assert (await session.result()).status == "asked"
        events = await events_of(session)
        assert [event.ok for event in only(events, ToolFinished)] == [True, True]
        last = only(events, PermissionRequested)[-1]
        assert last.body.subject is None, "a path with '..' may lead elsewhere than it says"
        await sound(session)


async def test_an_approval_of_something_else_is_refused():
    agent = clerk(payment(), "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), PermissionRequested)
        with pytest.raises(windlass.Refused, match="something else"):
            await session.approve(asked, digest="another")
        with pytest.raises(windlass.Refused, match="not open"):
            await session.approve("p99", digest="x")
        await session.approve(asked, digest=asked.digest)
        await session.result()
        with pytest.raises(windlass.Refused):
            await session.deny(asked.request_id)
        assert PAID == [("a", 5)]


async def test_an_approval_from_another_process_that_has_no_code(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk(payment(), "paid")
    async with windlass.open(store, agents=[agent], poll_ms=10) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        async with windlass.open(store) as other:
            (row,) = await other.sessions(states=("asked",))
            assert (row.session, len(row.waiting_for)) == ("s", 1)
            remote = await other.get("s")
            (asked,) = only(await events_of(remote), PermissionRequested)
            await remote.approve(asked, actor="boss")
        await started(session, ToolFinished)
        assert (await session.result()).text == "paid"
        await sound(session)
    assert PAID == [("a", 5)]


async def test_an_approval_written_while_nobody_runs_is_taken_when_the_agent_is_bound(tmp_path):
    store = str(tmp_path / "work.db")
    first = clerk(payment())
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), PermissionRequested)
    async with windlass.open(store) as other:
        await (await other.get("s")).approve(asked)
        assert PAID == []
    second = clerk("paid")
    async with windlass.open(store, agents=[second], poll_ms=10) as rt:
        session = await rt.get("s")
        await started(session, ToolFinished)
        assert (await session.result()).text == "paid"
    assert PAID == [("a", 5)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_several_approvals_are_answered_in_any_order(order):
    agent = clerk([payment("a"), payment("b"), payment("c")], "all paid")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        asked = only(await events_of(session), PermissionRequested)
        for place in order:
            await session.approve(asked[place])
        await started(session, ToolFinished, count=3)
        await session.wait_idle()
        assert (await session.result()).text == "all paid"
        model = agent.model
        assert isinstance(model, ScriptedModel)
        told = [str(item) for item in model.requests[-1].items[-3:]]
        assert [name in text for name, text in zip(("paid a", "paid b", "paid c"), told, strict=True)] == [True] * 3
        await sound(session)


async def test_a_tool_that_changed_is_asked_about_again_and_runs_as_it_is_now(tmp_path):
    store = str(tmp_path / "work.db")
    first = clerk(payment())
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = await session.requests()

    @windlass.tool(name="pay")
    def other_pay(invoice: str, cents: int) -> str:
        "Pay twice."
        PAID.append((invoice, cents * 2))
        return "paid twice"

    second = agent_of("paid", name="clerk", tools=[other_pay, look], policy=ask_pay())
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        with pytest.raises(windlass.Refused, match=r"it was withdrawn .changed."):
            await session.approve(asked)
        await session.wait_idle()
        (again,) = await session.requests()
        assert (again.changed, again.replaces) == (("code",), asked.request_id)
        with pytest.raises(windlass.Refused, match=f"withdrawn .changed.: asked again as {again.request_id}"):
            await session.approve(asked)
        await session.approve(again)
        assert (await session.result()).text == "paid"
        await sound(session)
    assert [cents for _, cents in PAID] == [2 * cents_asked(asked)]


def cents_asked(asked: PermissionAsk) -> int:
    assert isinstance(asked.detail, ToolDetail)
    assert asked.detail.args is not None
    return int(asked.detail.args["cents"])


async def test_a_pending_approval_is_withdrawn_with_its_run():
    agent = clerk(payment(), "next")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.cancel()
        assert len(only(await events_of(session), PermissionWithdrawn)) == 1
        await session.prompt("next")
        assert (await session.result()).text == "next"
        await sound(session)


# --- questions and plans ---


def asker(*turns: Any, **more: Any) -> windlass.Agent:
    return agent_of(*turns, name="asker", tools=["ask_user", "plan", pay, look], **more)


async def test_a_question_is_answered_days_later_in_another_runtime(tmp_path):
    store = str(tmp_path / "work.db")
    first = asker(call("ask_user", question="Which?", options=["red", "blue"]))
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (asked,) = only(await events_of(session), QuestionRequested)
    second = asker("blue it is")
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        events = [event async for event in session.answer(asked.question_id, ["blue"])]
        assert type(events[-1]).__name__ == "RunCompleted"
        assert (await session.result()).text == "blue it is"
        model = second.model
        assert isinstance(model, ScriptedModel)
        assert "blue" in str(model.requests[0].items[-1])


async def test_a_question_that_is_declined_is_told_to_the_model():
    agent = asker(call("ask_user", question="Which?"), "fine")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), QuestionRequested)
        await session.answer(asked.question_id, outcome="declined")
        assert (await session.result()).text == "fine"


async def test_a_tool_asks_in_the_middle_of_its_work():
    @windlass.tool
    async def book(ctx: windlass.ToolContext) -> str:
        answered = await ctx.ask("Window or aisle?", options=["window", "aisle"])
        return f"booked: {answered.text}"

    async def approver(asked):
        assert isinstance(asked, QuestionAsk)
        from windlass.events.questions import Answer, AnswerBody

        return Reply(body=AnswerBody(answers=(Answer(index=0, selected=("aisle",)),)))

    agent = agent_of(call("book"), "done", tools=[book], approver=approver)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        model = agent.model
        assert isinstance(model, ScriptedModel)
        assert "booked: aisle" in str(model.requests[1].items[-1])
        await sound(session)


async def test_plan_mode_reads_only_until_the_plan_is_approved():
    agent = asker(
        payment(),
        call("plan", summary="pay a", content="1. pay a"),
        payment(),
        "done",
        mode="plan",
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        assert PAID == []
        (asked,) = only(await events_of(session), QuestionRequested)
        assert asked.kind == "plan"
        await session.answer(asked.question_id, action="approve")
        assert (await session.result()).text == "done"
        assert PAID == [("a", 5)]
        assert (await session.state()).setup.mode == "interactive"
        await sound(session)


async def test_autopilot_asks_nobody_and_denies_what_would_need_a_person():
    agent = clerk(payment(), "skipped", mode="autopilot")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        (denied,) = only(await events_of(session), ToolDenied)
        assert (denied.reason, PAID) == ("no_approver", [])
        assert result.status != "asked"


# --- tools that others run ---

REMOTE = windlass.external_tool(
    "open_tab", "Opens a tab.", {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
)


async def test_a_client_runs_its_tool_and_reports_from_another_runtime(tmp_path):
    store = str(tmp_path / "work.db")
    first = agent_of(call("open_tab", url="a.html"), tools=[REMOTE])
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        result = await session.result()
        assert result.status == "asked"
        (call_id,) = result.waiting_for
    second = agent_of("it is open", tools=[REMOTE])
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        await session.tool_result(call_id, "tab 3")
        assert (await session.result()).text == "it is open"
        with pytest.raises(windlass.Refused):
            await session.tool_result(call_id, "tab 4")
        await sound(session)


async def test_a_tool_that_suspends_itself_is_completed_across_runtimes(tmp_path):
    store = str(tmp_path / "work.db")

    @windlass.tool
    async def order(ctx: windlass.ToolContext) -> str:
        ctx.suspend({"order": 17}, note="waiting for the shop")

    first = agent_of(call("order"), tools=[order])
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        result = await session.result()
        assert result.status == "asked"
        (call_id,) = result.waiting_for
    second = agent_of("it came", tools=[order])
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        assert (await session.state()).calls.by_id[call_id].status == "suspended"
        await session.tool_result(call_id, "delivered")
        assert (await session.result()).text == "it came"
        assert len(only(await events_of(session), ToolStarted)) == 1
        await sound(session)


async def test_a_person_calls_a_tool_through_the_same_gate():
    agent = clerk("done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.call_tool("look", path="a.txt")
        await started(session, ToolFinished)
        await session.call_tool("pay", invoice="a", cents=5)
        await session.wait_idle()
        assert (await session.result()).status == "asked"
        with pytest.raises(windlass.Refused, match="there is no tool"):
            await session.call_tool("missing")
        await sound(session)


async def test_opposite_answers_race_and_the_first_wins(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk(payment(), "done")
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), PermissionRequested)
        answers = await asyncio.gather(
            session.approve(asked), session.deny(asked.request_id, "no"), return_exceptions=True
        )
        assert sum(isinstance(answer, windlass.Refused) for answer in answers) == 1
        await session.wait_idle()
        assert (await session.result()).text == "done"
        assert len(PAID) == (not isinstance(answers[0], Exception))


async def test_one_runtime_lists_what_waits_over_all_sessions(tmp_path):
    store = await open_store(str(tmp_path / "work.db"))
    agent = windlass.Agent("clerk", model=ScriptedModel(lambda request: payment()), tools=[pay, look], policy=ask_pay())
    async with windlass.open(store, agents=[agent]) as rt:
        for name in ("a", "b", "c"):
            session = await rt.session(agent, name)
            await session.prompt("go")
        for name in ("a", "b", "c"):
            await (await rt.get(name)).wait_idle()
        rows = await rt.sessions(states=("asked",))
        assert sorted(row.session for row in rows) == ["a", "b", "c"]
        assert all(len(row.waiting_for) == 1 and not row.owed for row in rows)
    await store.close()


@pytest.mark.parametrize("said", ["yes", 7, Reply(body=AnswerBody())])
async def test_an_approver_that_says_nonsense_leaves_the_request_open_for_others(tmp_path, said):
    asked: list[Any] = []

    async def approver(ask: Any) -> Any:
        asked.append(ask)
        return said

    agent = clerk(payment(), "paid", approver=approver)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent)
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        assert len(asked) == 1, "nobody is asked in a circle"
        notices = [event.message for event in only(await events_of(session), NoticeGiven)]
        assert notices == [f"an approver says True, False, Approve or Deny of a call, not {said!r}"]
        await session.approve(asked[0])
        assert (await session.result()).text == "paid"
        await sound(session)
