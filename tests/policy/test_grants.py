"""Standing approvals by pattern: only if the call is known whole, and only as long as tool and rules stay what they are;
and a run that people denied often asks nothing more."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, TOOLS, Session, call, names
from windlass.events.changes import ChangeGrants
from windlass.events.errors import Refused
from windlass.events.tools.permissions import PermissionRequested, ShellDetail, WriteDetail
from windlass.events.turns import Prepared
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.kernel.parts.tools import verdicts


def git(number, subject="git status", **more):
    return call("pay", {"n": number}, prepared=Prepared(digest=f"d{number}", subject=subject, **more))


def asked(session, *calls):
    """What is asked about the calls of a reply."""
    return [event for event in session.reply("", *calls) if isinstance(event, PermissionRequested)]


def approved_by_pattern(session, pattern="git *"):
    session.prompt()
    (request,) = asked(session, git(1))
    session.approve(request.request_id, scope="pattern", pattern=pattern, actor="ada")
    session.finish()


@pytest.mark.parametrize(
    "prepared",
    [
        {"exact": False},
        {"subject": None},
        {"subject": ""},
    ],
)
def test_no_pattern_is_taken_for_a_call_that_is_not_known_whole(prepared):
    session = Session(policy=ASK_PAY)
    session.prompt()
    (request,) = asked(session, git(1, **prepared))
    assert not request.by_pattern
    with pytest.raises(Refused, match="cannot be approved by a pattern") as refused:
        session.approve(request.request_id, scope="pattern", pattern="git *")
    assert refused.value.code == "no_pattern"
    session.approve(request.request_id)


def test_a_call_without_a_subject_may_be_approved_for_later_by_its_own_digest():
    session = Session(policy=ASK_PAY)
    session.prompt()
    (request,) = asked(session, git(1, subject=None))
    session.approve(request.request_id, scope="pattern", pattern="d1")
    session.finish()
    assert not asked(session, git(1, subject=None))


def test_a_pattern_covers_no_call_that_is_not_known_whole():
    session = Session(policy=ASK_PAY)
    approved_by_pattern(session)
    assert not asked(session, git(2))
    session.finish()
    assert asked(session, git(3, exact=False))


def test_a_standing_approval_ends_with_other_rules_about_its_tool():
    session = Session(policy=ASK_PAY)
    approved_by_pattern(session)
    spec = session.state.toolset.tools["pay"]
    other_tool = Policy(rules=(*ASK_PAY.rules, Rule(action="deny", tool="put")))
    renamed = Policy(rules=(Rule(action="ask", tool="pay", name="another name"),))
    narrower = Policy(rules=(*ASK_PAY.rules, Rule(action="ask", tool="pay", paths=("/etc/**",))))
    for policy, stands in ((other_tool, True), (renamed, True), (narrower, False)):
        session.state.gate.policy = policy
        assert [g.tool for g in verdicts.standing(session.state)] == (["pay"] if stands else [])
        (grant,) = session.state.gate.grants.values()
        assert verdicts.in_force(session.state, grant, spec) == stands


def test_a_standing_approval_ends_with_another_tool_of_its_name():
    session = Session(policy=ASK_PAY)
    approved_by_pattern(session)
    session.state.toolset.tools["pay"] = TOOLS[2]
    assert verdicts.standing(session.state) == ()


def test_a_standing_approval_that_was_revoked_covers_nothing():
    session = Session(policy=ASK_PAY)
    approved_by_pattern(session)
    (grant,) = verdicts.standing(session.state)
    assert (grant.by, grant.pattern) == ("ada", "git *")
    session.change(ChangeGrants(revoke=(grant.grant_id,)))
    assert asked(session, git(4))


# --- enough -------------------------------------------------------------------------------------------------------


def denied_often(session, times, **more):
    for number in range(times):
        (request,) = asked(session, git(number + 10))
        session.deny(request.request_id, **more)


def test_after_three_denials_in_a_row_the_run_asks_nothing_more():
    session = Session(policy=ASK_PAY)
    session.prompt()
    denied_often(session, 3)
    events = session.reply("", git(1))
    denial = next(event for event in events if "tool.denied" in names([event]))
    assert (denial.reason, denial.rule) == ("asked_enough", "ask about pay")
    assert "3 times in a row" in denial.detail
    assert session.folded().gate.denials == 3
    session.reply("done")
    session.prompt()
    assert asked(session, git(2)), "the next run asks again"


def test_an_approval_between_begins_the_count_anew():
    session = Session(policy=ASK_PAY)
    session.prompt()
    denied_often(session, 2)
    (request,) = asked(session, git(1))
    session.approve(request.request_id)
    session.finish()
    denied_often(session, 2)
    assert asked(session, git(2))


@pytest.mark.parametrize(("most", "asks"), [(1, False), (0, True), (5, True)])
def test_how_many_denials_a_run_bears_is_a_setting(most, asks):
    session = Session(policy=ASK_PAY, settings=Settings(denials_max=most))
    session.prompt()
    denied_often(session, 4 if asks else 1)
    assert bool(asked(session, git(1))) == asks


def test_what_hooks_deny_is_not_counted_and_a_persons_own_call_is_still_asked_about():
    session = Session(policy=ASK_PAY)
    session.prompt()
    denied_often(session, 3, actor="hook:strict")
    assert asked(session, git(1))
    session = Session(policy=ASK_PAY)
    session.prompt()
    denied_often(session, 3)
    assert "permission.requested" in names(session.run_tool("pay"))


# --- what is asked about each time --------------------------------------------------------------------------------


def approved_for_the_session(session):
    session.prompt()
    (request,) = asked(session, git(1))
    assert request.session_offered
    session.approve(request.request_id, scope="session")
    session.finish()


@pytest.mark.parametrize("more", [{"unclear": "hidden characters"}, {"sensitive": "it outlives the session"}])
def test_an_approval_of_the_whole_tool_covers_no_call_that_is_asked_about_each_time(more):
    session = Session(policy=ASK_PAY)
    approved_for_the_session(session)
    assert not asked(session, git(2, exact=False))
    session.finish()
    (request,) = asked(session, git(3, **more))
    assert request.rule == next(iter(more))


@pytest.mark.parametrize(
    "more",
    [
        {"unclear": "hidden characters"},
        {"sensitive": "it outlives the session"},
        {"detail": ShellDetail(command="$X", session_approval_offered=False)},
        {"detail": WriteDetail(path="a", session_approval_offered=False)},
    ],
)
def test_what_is_not_offered_for_the_session_cannot_be_approved_for_it(more):
    session = Session(policy=ASK_PAY)
    session.prompt()
    (request,) = asked(session, git(1, **more))
    assert not request.session_offered
    with pytest.raises(Refused, match="cannot be approved for the session") as refused:
        session.approve(request.request_id, scope="session")
    assert refused.value.code == "not_offered"
    assert not session.folded().gate.grants
    session.approve(request.request_id)


@pytest.mark.parametrize("more", [{"unclear": "hidden characters"}, {"sensitive": "it steers agents"}])
def test_what_a_policy_denies_is_not_asked_about_for_being_delicate(more):
    session = Session(policy=Policy(default="deny"))
    session.prompt()
    events = session.reply("", git(1), git(2, **more))
    denials = [event for event in events if "tool.denied" in names([event])]
    assert [denial.reason for denial in denials] == ["rules", "rules"]
    assert not [event for event in events if isinstance(event, PermissionRequested)]
