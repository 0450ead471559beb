"""Guards that want a person asked: about what the policy allows, with the guard's words, each time."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import windlass
from windlass.events.errors import Refused
from windlass.events.hooks import HookPoint, HookRuled
from windlass.events.tools.calls import ToolAllowed, ToolDenied, ToolFinished
from windlass.events.tools.permissions import HookDetail, PermissionRequested, ReadDetail, ToolDetail
from windlass.runtime.api.session import Session
from windlass.runtime.hooks.external_hooks import CommandHook
from windlass.runtime.hooks.hook import Asked, Denied, Hook, Moment
from windlass.testing.scripted import ScriptedModel, call

ran: list[int] = []


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    ran.append(cents)
    return "paid"


def large_sums(moment: Moment) -> Asked | None:
    return Asked(message=f"{moment.value['cents']} is much") if moment.value["cents"] > 100 else None


GUARD = Hook(point="before_tool", kind="guard", run=large_sums, tool="pay")
BY_HOOK = HookDetail(tool="pay", hook_id="before_tool:large_sums", message="500 is much", args={"cents": 500})


def clerk(*calls: Any, **more: Any) -> windlass.Agent:
    given = {"tools": [pay], "hooks": [GUARD], "policy": windlass.Policy(default="allow"), **more}
    return windlass.Agent("clerk", model=ScriptedModel([list(calls), "done"]), **given)


async def played(session: Session, **more: Any) -> list[Any]:
    async for _ in session.prompt("go", **more):
        pass
    return await events_of(session)


async def events_of(session: Session) -> list[Any]:
    return [record.event async for record in session.records()]


def only(events: list[Any], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_person_is_asked_about_what_the_policy_allows_and_shown_why():
    ran.clear()
    agent = clerk(call("pay", cents=1), call("pay", cents=500))
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        (asked,) = only(await played(session), PermissionRequested)
        assert (asked.kind, asked.body.detail, asked.body.why) == ("hook", BY_HOOK, "500 is much")
        assert ran == [1]
        await session.approve(asked.request_id, digest=asked.digest)
        await session.wait_idle()
        allowed = only(await events_of(session), ToolAllowed)
        assert ([event.by for event in allowed], ran) == (["default", "person"], [1, 500])
        rulings = [event.ruling.outcome for event in only(await events_of(session), HookRuled)]
        assert rulings == ["allowed", "asked"]


async def test_what_a_person_denies_is_told_to_the_model():
    ran.clear()
    agent = clerk(call("pay", cents=500))
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        (asked,) = only(await played(session), PermissionRequested)
        await session.deny(asked.request_id, "too much")
        await session.wait_idle()
        (denied,) = only(await events_of(session), ToolDenied)
        assert (denied.reason, ran) == ("person", [])


async def test_no_standing_approval_speaks_for_what_a_hook_wants_asked():
    agent = clerk(call("pay", cents=500))
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        (asked,) = only(await played(session), PermissionRequested)
        assert (asked.session_offered, asked.by_pattern) == (False, False)
        with pytest.raises(Refused):
            await session.approve(asked.request_id, digest=asked.digest, scope="session")


async def test_a_standing_approval_that_is_there_does_not_either():
    ran.clear()
    model = ScriptedModel([[call("pay", cents=500)], "done", [call("pay", cents=500)], "done"])
    agent = windlass.Agent("clerk", model=model, tools=[pay], policy=windlass.Policy(rules=[windlass.ask("pay")]))
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        (asked,) = only(await played(session), PermissionRequested)
        assert (asked.kind, asked.body.detail) == ("tool", ToolDetail(tool="pay", args={"cents": 500}))
        await session.approve(asked.request_id, digest=asked.digest, scope="session")
        await session.wait_idle()
        _, again = only(await played(session, hooks=[GUARD]), PermissionRequested)
        assert (again.kind, again.body.why, ran) == ("hook", "500 is much", [500])


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"policy": windlass.Policy(rules=[windlass.deny("pay")], default="allow")}, "rules"),
        ({"mode": "autopilot"}, "no_approver"),
        ({"hooks": [GUARD, Hook(point="before_tool", kind="guard", run=lambda moment: Denied(), name="no")]}, "hook"),
    ],
)
async def test_what_is_denied_is_denied_whoever_wants_to_ask(more: dict[str, Any], reason: str):
    ran.clear()
    agent = clerk(call("pay", cents=500), **more)
    async with windlass.open(agents=[agent]) as runtime:
        events = await played(await runtime.session(agent))
    assert ([event.reason for event in only(events, ToolDenied)], only(events, PermissionRequested)) == ([reason], [])
    assert ran == []


async def test_a_call_that_says_what_it_does_is_shown_as_what_it_is(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    guard = Hook(point="before_tool", kind="guard", run=lambda moment: Asked(message="look first"), name="careful")
    agent = clerk(call("read", path="a.txt"), tools=["read"], hooks=[guard])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, workspace=tmp_path)
        (asked,) = only(await played(session), PermissionRequested)
    assert (asked.kind, type(asked.body.detail), asked.body.why) == ("read", ReadDetail, "look first")


async def test_what_the_kernel_does_itself_is_denied_since_nobody_is_asked_about_it():
    guard = Hook(point="before_tool", kind="guard", run=lambda moment: Asked(), name="careful")
    agent = clerk(call("complete_task", summary="all done"), tools=["complete_task"], hooks=[guard])
    async with windlass.open(agents=[agent]) as runtime:
        (denied,) = only(await played(await runtime.session(agent)), ToolDenied)
    assert (denied.reason, denied.detail) == (
        "hook",
        "before_tool:careful wants a person asked, and nobody is asked about 'complete_task'",
    )


@pytest.mark.parametrize("point", ["prompt", "after_tool"])
async def test_where_nobody_can_be_asked_a_guard_that_wants_it_denies(point: HookPoint):
    ran.clear()
    guard = Hook(point=point, kind="guard", run=lambda moment: Asked(), name="careful")
    agent = clerk(call("pay", cents=1), hooks=[guard])
    async with windlass.open(agents=[agent]) as runtime:
        events = await played(await runtime.session(agent))
    assert [event.ruling.outcome for event in only(events, HookRuled)] == ["failed"]
    assert [event.ok for event in only(events, ToolFinished)] == ([False] if point == "after_tool" else [])


async def test_a_guard_that_answers_for_people_cannot_hand_the_request_back():
    ran.clear()
    guard = Hook(point="permission", kind="guard", run=lambda moment: Asked(), name="careful")
    agent = clerk(call("pay", cents=1), hooks=[guard], policy=windlass.Policy(rules=[windlass.ask("pay")]))
    async with windlass.open(agents=[agent]) as runtime:
        (denied,) = only(await played(await runtime.session(agent)), ToolDenied)
    assert (denied.reason, ran) == ("person", [])


async def test_a_program_may_want_a_person_asked():
    script = """import json; print(json.dumps({"decision": "ask", "message": "from outside"}))"""
    run = CommandHook(sys.executable, "-c", script)
    guard = Hook(point="before_tool", kind="guard", run=run, name="program", timeout_ms=60_000)
    agent = clerk(call("pay", cents=1), hooks=[guard])
    async with windlass.open(agents=[agent]) as runtime:
        (asked,) = only(await played(await runtime.session(agent)), PermissionRequested)
    assert (asked.kind, asked.body.detail.message) == ("hook", "from outside")
