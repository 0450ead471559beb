"""Rules when an agent is made, and what they say of one call: without a session, and in one."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.changes import ChangeGrants
from windlass.events.values.policy import Grant
from windlass.events.values.setup import SessionOptions
from windlass.testing.scripted import call

from .support import agent_of


@windlass.tool(alias="send_money")
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"


def other_pay(cents: int) -> str:
    "Pay otherwise."
    return f"paid {cents} otherwise"


def made(*rules: Any, **more: Any) -> windlass.Agent:
    return agent_of("done", name="clerk", tools=[pay, "todo"], policy=windlass.Policy(rules), **more)


@pytest.mark.parametrize("rule", [windlass.deny, windlass.ask])
@pytest.mark.parametrize(("name", "told"), [("Pay", "did you mean 'pay'"), ("shell", "(pay, send_money, todo)")])
def test_a_rule_that_names_no_tool_is_an_error_when_the_agent_is_made(rule, name, told):
    with pytest.raises(windlass.UsageError) as caught:
        made(rule(name))
    assert f"({name!r}) matches none of its tools" in str(caught.value)
    assert told in str(caught.value)
    assert "missing_ok=True" in str(caught.value)


@pytest.mark.parametrize("rule", [windlass.deny, windlass.ask])
def test_a_rule_that_names_a_tool_of_another_kind_is_an_error_too(rule):
    with pytest.raises(windlass.UsageError, match="'pay' is of kind 'tool'"):
        made(rule("pay", kinds=("shell",)))


@pytest.mark.parametrize(
    "rule",
    [
        windlass.deny("pay"),
        windlass.deny("pay", kinds=("shell", "tool")),
        windlass.deny("pay", kinds=("shell",), missing_ok=True),
        windlass.deny("send_money"),
        windlass.deny("shell", missing_ok=True),
        windlass.deny("shell_*"),
        windlass.deny(),
        windlass.allow("shell"),
        windlass.ask("todo"),
    ],
)
def test_a_rule_that_fails_closed_or_speaks_of_a_family_is_none(rule):
    made(rule)


async def test_rules_that_speak_of_no_tool_are_listed():
    agent = made(windlass.deny("shell_*"), windlass.ask("send_money"))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        assert (await session.setup()).unused_rules == ("deny shell_*",)


POLICY = windlass.Policy(
    [
        windlass.ask("pay", when="args.cents > 100", reason="much"),
        windlass.deny("pay", when="args.limit > 3"),
        windlass.allow("pay", when="args.cents < 10"),
    ],
    default="deny",
)


def test_a_call_is_judged_without_a_session():
    policy = windlass.Policy(POLICY.rules[:1], default="allow")
    assert windlass.explain(policy, pay, {"cents": 500}).splitlines() == [
        'pay {"cents": 500}: asked (ask pay)',
        "  ask pay when args.cents > 100 (much): holds",
    ]
    assert windlass.explain(policy, pay, {"cents": 5}).splitlines() == [
        'pay {"cents": 5}: allowed (default allow)',
        "  ask pay when args.cents > 100 (much): does not hold",
    ]
    assert "denied (nobody is asked in autopilot)" in windlass.explain(policy, pay, {"cents": 500}, mode="autopilot")
    assert "denied (plan mode)" in windlass.explain(policy, pay, {"cents": 5}, mode="plan")
    assert "denied (cents: is required)" in windlass.explain(policy, pay)


def test_what_cannot_be_judged_is_said():
    assert windlass.explain(POLICY, pay, {"cents": 5}).splitlines() == [
        'pay {"cents": 5}: asked (deny pay)',
        "  ask pay when args.cents > 100 (much): does not hold",
        "  deny pay when args.limit > 3: cannot be judged, so it is asked about",
        "  allow pay when args.cents < 10: holds",
    ]


def test_a_call_of_an_agent_is_named_by_its_tool():
    agent = made(windlass.ask("pay"))
    for name in ("pay", "send_money"):
        assert windlass.explain(agent, name, {"cents": 5}).startswith('pay {"cents": 5}: asked (ask pay)')
    assert windlass.explain(agent, "todo", {"todos": []}).startswith('todo {"todos": []}: allowed (kernel)')
    with pytest.raises(windlass.UsageError, match="no tool 'telepathy' to judge a call of: there are pay, todo"):
        windlass.explain(agent, "telepathy")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "allowed"),
        ({"mode": "plan"}, "denied (plan mode)"),
        ({"quarantine": True}, "denied (quarantine)"),
        ({"isolation": "read_only"}, "denied (isolation)"),
    ],
)
async def test_a_session_that_may_do_less_explains_what_holds_a_call_back(options, told):
    agent = made(windlass.allow("pay"))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s", options=SessionOptions(**options))
        await session.result(await session.prompt("go"))
        assert told in await session.explain("pay", {"cents": 5})
        (seen,) = [tool for tool in (await session.setup()).tools if tool.name == "pay"]
        assert seen.verdict == told.partition(" ")[0]


async def test_a_session_judges_with_its_standing_approvals():
    agent = made(windlass.ask("pay"))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        assert "asked" in await session.explain("pay", {"cents": 5})
        await session.change(ChangeGrants(add=(Grant(grant_id="g", tool="pay"),)))
        assert (await session.explain("pay", {"cents": 5})).startswith('pay {"cents": 5}: allowed (g)')
        (grant,) = await session.grants()
        assert (grant.grant_id, grant.tool, grant.digest != "", grant.expires_ms is not None) == (
            "g",
            "pay",
            True,
            True,
        )
        await session.revoke("g")
        assert await session.grants() == ()
        with pytest.raises(windlass.Refused, match="no standing approval g: there are none"):
            await session.revoke("g")


async def test_a_standing_approval_lapses_when_its_tool_is_replaced_while_the_session_lives():
    agent = agent_of(
        call("pay", cents=1),
        "one",
        call("pay", cents=2),
        name="clerk",
        tools=[pay],
        policy=windlass.Policy([windlass.ask("pay")]),
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.approve((await session.requests())[0], scope="session")
        assert (await session.result()).text == "one"
        assert len(await session.grants()) == 1
        await session.mount(windlass.tool(name="pay", alias="send_money")(other_pay))
        assert await session.grants() == ()
        await session.prompt("again")
        assert (await session.result()).status == "asked"
