"""Similar calls of one reply are asked about together: one answer, bound to each of the digests that were shown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import windlass
from tests.kernel.session import ASK_PAY, Session, call, names
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolAllowed, ToolDenied
from windlass.events.tools.permissions import Covered, PermissionApproved, PermissionRequested
from windlass.events.values.policy import Policy, Rule
from windlass.kernel.effects import AskPerson
from windlass.testing import ScriptedModel
from windlass.testing import call as scripted

ASK_BOTH = Policy(rules=(Rule(action="ask", tool="p*", name="both"),))


def three(session):
    """A reply with three calls of one tool, all asked about."""
    session.prompt()
    events = session.reply("", *(call("pay", {"n": n}) for n in range(3)))
    return [event for event in events if isinstance(event, PermissionRequested)]


def asks(session):
    return [effect for effect in session.owed() if isinstance(effect, AskPerson)]


def covered(*requests):
    return tuple(Covered(request_id=one.request_id, digest=one.digest) for one in requests)


def test_calls_that_are_alike_are_put_before_a_person_as_one():
    session = Session(policy=ASK_PAY)
    first, second, third = three(session)
    assert (first.group, second.group, third.group) == ("", first.request_id, first.request_id)
    assert len({first.digest, second.digest, third.digest}) == 3
    (effect,) = asks(session)
    assert (effect.ask_id, effect.also) == (first.request_id, (second.request_id, third.request_id))


def test_one_answer_allows_exactly_those_that_it_names():
    session = Session(policy=ASK_PAY)
    first, second, third = three(session)
    events = session.approve(first.request_id, also=covered(second))
    assert [event.call_id for event in events if isinstance(event, ToolAllowed)] == [first.call_id, second.call_id]
    (effect,) = asks(session)
    assert (effect.ask_id, effect.also) == (third.request_id, ()), "the rest stays open, and is asked about by itself"
    session.deny(third.request_id)
    assert session.folded() == session.state


def test_one_answer_denies_all_that_it_names_and_counts_as_one_denial():
    session = Session(policy=ASK_PAY)
    first, second, third = three(session)
    events = session.deny(first.request_id, "no", also=(second.request_id, third.request_id))
    assert [event.call_id for event in events if isinstance(event, ToolDenied)] == [
        first.call_id, second.call_id, third.call_id,
    ]  # fmt: skip
    assert session.state.gate.denials == 1


@pytest.mark.parametrize(
    ("also", "code"),
    [
        (lambda one, two: (Covered(request_id=two.request_id, digest=one.digest),), "digest_changed"),
        (lambda one, two: (Covered(request_id="p999", digest=two.digest),), "not_open"),
        (lambda one, two: (Covered(request_id=one.request_id, digest=one.digest),), "malformed"),
        (lambda one, two: covered(two, two), "malformed"),
    ],
)
def test_an_answer_for_something_else_is_refused_as_a_whole(also, code):
    session = Session(policy=ASK_PAY)
    first, second, _ = three(session)
    with pytest.raises(Refused) as refused:
        session.approve(first.request_id, also=also(first, second))
    assert refused.value.code == code
    assert len(session.state.asks.open) == 3


def test_other_tools_other_rules_and_other_replies_are_asked_about_apart():
    session = Session(policy=ASK_BOTH)
    session.prompt()
    session.reply("", call("pay", {"n": 1}), call("put", {"n": 2}), call("pay", {"n": 3}))
    assert [len(effect.also) for effect in asks(session)] == [1, 0]
    rules = (Rule(action="ask", tool="pay", name="one"), Rule(action="ask", tool="pay", when="x", name="two"))
    session = Session(policy=Policy(rules=tuple(reversed(rules))))
    session.prompt()
    held = call("pay", {"n": 1})
    session.reply("", call("pay", {"n": 2}), _matching(held, 0))
    assert [len(effect.also) for effect in asks(session)] == [0, 0]


def _matching(proposed, *rules):
    return msgspec.structs.replace(proposed, prepared=msgspec.structs.replace(proposed.prepared, matched=rules))


def test_a_person_is_asked_once_the_host_has_looked_at_all_of_them():
    session = Session(policy=ASK_PAY)
    session.prompt()
    unprepared = [_unprepared(n) for n in range(2)]
    session.reply("", call("pay", {"n": 9}), *unprepared)
    _, second, third = session.state.calls.by_id
    assert asks(session) == []
    session.prepare(second, digest="a")
    assert asks(session) == []
    session.prepare(third, digest="b")
    (effect,) = asks(session)
    assert len(effect.also) == 2


def _unprepared(number):
    return msgspec.structs.replace(call("pay", {"n": number}), prepared=None)


def test_calls_that_end_otherwise_leave_the_others_open():
    session = Session(policy=ASK_PAY)
    first, second, _ = three(session)
    assert "run.interrupted" in names(session.interrupt())
    assert session.state.asks.open == {}
    session = Session(policy=ASK_PAY)
    first, second, _ = three(session)
    session.deny(first.request_id)
    (effect,) = asks(session)
    assert (effect.ask_id, len(effect.also)) == (second.request_id, 1)


# --- live ---------------------------------------------------------------------------------------------------------


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"


async def answered(approver) -> tuple[list[Any], list[Any]]:
    """What an approver was asked, and what was recorded."""
    seen: list[Any] = []

    def listening(asked):
        seen.append(asked)
        return approver(asked)

    script: list[Any] = [[scripted("pay", cents=n) for n in (1, 2, 3)], "done"]
    policy = windlass.Policy([windlass.ask("pay")])
    agent = windlass.Agent("a", model=ScriptedModel(script), tools=[pay], policy=policy, approver=listening)
    events = [event async for event in agent.stream("go")]
    return seen, events


async def test_an_approver_sees_all_of_them_and_answers_once():
    seen, events = await answered(lambda asked: windlass.Approve(together=True))
    (asked,) = seen
    assert [one.detail.args for one in (asked, *asked.also)] == [{"cents": 1}, {"cents": 2}, {"cents": 3}]
    (approved,) = [event for event in events if isinstance(event, PermissionApproved)]
    assert [one.digest for one in approved.also] == [one.digest for one in asked.also]
    assert sum(isinstance(event, ToolAllowed) for event in events) == 3


async def test_a_plain_yes_is_for_the_first_alone():
    seen, events = await answered(lambda asked: asked.detail.args["cents"] != 2)
    assert [(one.detail.args["cents"], len(one.also)) for one in seen] == [(1, 2), (2, 1), (3, 0)]
    assert sum(isinstance(event, ToolAllowed) for event in events) == 2
    assert sum(isinstance(event, ToolDenied) for event in events) == 1


async def test_all_may_be_denied_together():
    seen, events = await answered(lambda asked: windlass.Deny(feedback="no", together=True))
    assert len(seen) == 1
    assert [event.reason for event in events if isinstance(event, ToolDenied)] == ["person"] * 3
