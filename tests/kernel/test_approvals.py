"""Approvals: one gate for every call; many at once, by id, in any order, bound to what was asked about."""

from __future__ import annotations

import itertools

import pytest

from tests.kernel.session import ASK_PAY, Session, Settings, call, names
from windlass.events.changes import ChangeGrants, ChangeMode
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolAllowed, ToolDenied
from windlass.events.tools.permissions import PermissionRequested, ShellDetail, ToolDetail
from windlass.events.turns import Prepared
from windlass.events.values.blocks import Text
from windlass.events.values.policy import Grant, PermissionKind, Policy, Rule
from windlass.events.values.setup import Limits
from windlass.events.values.tools import ToolSpec
from windlass.kernel.phases import Asked


def ruled(session, tool="pay", prepared=None, args=None):
    """What the gate says of one call: (event, by or reason or rule, rule)."""
    session.prompt()
    more = {} if prepared is None else {"prepared": prepared}
    events = session.reply("", call(tool, args, **more))
    for event in events:
        match event:
            case ToolAllowed():
                return "allowed", event.by, event.rule
            case ToolDenied():
                return "denied", event.reason, event.rule
            case PermissionRequested():
                return "asked", event.kind, event.rule
    raise AssertionError(names(events))


def policy(*rules, default="standard"):
    return Policy(rules=tuple(rules), default=default)


ALLOW, ASK, DENY = (Rule(action=action, tool="pay", name=action) for action in ("allow", "ask", "deny"))


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ((), ("allowed", "default", "standard")),
        ((ALLOW,), ("allowed", "rule", "allow")),
        ((ASK,), ("asked", "tool", "ask")),
        ((DENY,), ("denied", "rules", "deny")),
        ((ALLOW, ASK), ("asked", "tool", "ask")),
        ((ASK, ALLOW), ("asked", "tool", "ask")),
        ((ALLOW, ASK, DENY), ("denied", "rules", "deny")),
        ((DENY, ALLOW), ("denied", "rules", "deny")),
        ((Rule(action="deny", tool="p?y"),), ("denied", "rules", "rule 1")),
        ((Rule(action="deny", tool="*"),), ("denied", "rules", "rule 1")),
        ((Rule(action="deny", tool="PAY"),), ("allowed", "default", "standard")),
        ((Rule(action="deny", tool="pay", kinds=("shell",)),), ("allowed", "default", "standard")),
        ((Rule(action="deny", tool="*", kinds=("tool",)),), ("denied", "rules", "rule 1")),
    ],
)
def test_deny_beats_ask_beats_allow(rules, verdict):
    assert ruled(Session(policy=policy(*rules))) == verdict


@pytest.mark.parametrize(
    ("matched", "unjudged", "verdict"),
    [
        ((), (), "allowed"),
        ((0,), (), "asked"),
        ((), (0,), "asked"),
        ((1,), (), "denied"),
        ((0, 1), (), "denied"),
        ((), (1,), "asked"),
    ],
)
def test_a_condition_holds_as_the_host_says_and_what_cannot_be_judged_is_asked_about(matched, unjudged, verdict):
    rules = (
        Rule(action="ask", tool="pay", when="args.cents > 100"),
        Rule(action="deny", tool="pay", when="args.to == 'me'"),
        Rule(action="allow", tool="pay"),
    )
    prepared = Prepared(digest="d", matched=matched, unjudged=unjudged)
    assert ruled(Session(policy=policy(*rules)), prepared=prepared)[0] == verdict


KINDS: dict[PermissionKind, str] = {
    "shell": "asked",
    "write": "asked",
    "read": "allowed",
    "mcp": "asked",
    "url": "asked",
    "memory": "asked",
    "tool": "asked",
}


@pytest.mark.parametrize(("kind", "verdict"), KINDS.items())
def test_by_default_reading_is_allowed_and_other_built_in_tools_are_asked_about(kind, verdict):
    built_in = ToolSpec(name="it", kind=kind, source="builtin", traits=("execute",))
    assert ruled(Session(tools=(built_in,)), "it")[:2] == (verdict, "default" if verdict == "allowed" else kind)


@pytest.mark.parametrize(("default", "verdict"), [("allow", "allowed"), ("ask", "asked"), ("deny", "denied")])
def test_the_default_is_a_setting(default, verdict):
    assert ruled(Session(policy=policy(default=default)))[0] == verdict


def test_there_are_no_hidden_limits_on_the_authors_own_tools():
    session = Session()
    session.prompt()
    for n in range(40):
        assert names(session.reply("", call("pay", {"n": n})))[-2:] == ["tool.allowed", "tool.started"]
        session.finish()


def test_excluded_content_is_denied_before_anybody_is_asked():
    prepared = Prepared(digest="d", excluded="secrets/** may not be read")
    session = Session(policy=ASK_PAY)
    assert ruled(session, prepared=prepared)[:2] == ("denied", "content_excluded")


def test_the_kernels_own_tools_are_denied_by_a_rule_but_nobody_is_asked():
    session = Session(policy=policy(Rule(action="deny", tool="wait"), Rule(action="ask", tool="todo"), default="deny"))
    assert ruled(session, "wait", args={"for_ms": 1}) == ("denied", "rules", "rule 1")
    session = Session(policy=policy(Rule(action="ask", tool="todo"), default="deny"))
    assert ruled(session, "todo", args={"todos": []}) == ("allowed", "kernel", "")


def test_a_person_sees_the_whole_call():
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay", {"cents": 7}))[-1]
    assert isinstance(request, PermissionRequested)
    assert request.body is not None
    assert request.body.detail == ToolDetail(tool="pay", args={"cents": 7})
    detail = ShellDetail(command="rm -r x", intention="clean", warning="deletes")
    session.nobody()
    session.cancel()
    session.prompt()
    request = session.reply("", call("pay", {}, prepared=Prepared(digest="d", detail=detail)))[-1]
    assert isinstance(request, PermissionRequested)
    assert request.body is not None
    assert request.body.detail == detail


def ask_many(count):
    session = Session(policy=ASK_PAY)
    session.prompt()
    events = session.reply("", *[call("pay", {"n": n}) for n in range(count)])
    return session, [event.request_id for event in events if isinstance(event, PermissionRequested)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_many_requests_are_answered_by_id_in_any_order(order):
    session, requests = ask_many(3)
    for n in order:
        if n == 1:
            session.deny(requests[n])
        else:
            session.approve(requests[n])
    assert sorted(session.running()) == [session.called(), session.called(2)]
    for name in session.running():
        session.finish(name, name)
    results = [item.content for item in session.results()]
    assert results == [
        (Text(text=session.called()),),
        (Text(text="not run (person): a person denied this"),),
        (Text(text=session.called(2)),),
    ]


def test_five_answers_in_every_order_end_in_the_same_history():
    for order in itertools.permutations(range(5)):
        session, requests = ask_many(5)
        session.nobody()
        for n in order:
            session.approve(requests[n])
            session.finish(session.called(n), f"r{n}")
        results = [(i.call_id, i.content) for i in session.results()]
        assert results == [(session.called(n), (Text(text=f"r{n}"),)) for n in range(5)]
        assert session.names().count("tool.started") == 5


def test_the_first_of_two_opposite_answers_wins_and_the_second_is_told():
    session, (request,) = ask_many(1)
    session.deny(request, actor="ada")
    with pytest.raises(Refused) as refusal:
        session.approve(request, actor="bob")
    assert (refusal.value.code, str(refusal.value)) == ("not_open", f"request {request} is not open: denied by ada")


def test_a_denial_is_a_visible_result_with_what_the_person_said():
    session, (request,) = ask_many(1)
    session.deny(request, "use the other account")
    (result,) = session.results()
    assert result.content == (
        Text(text="not run (person): a person denied this"),
        Text(text="They said: use the other account"),
    )
    assert result.is_error
    assert session.state.active


def test_a_denial_may_stop_the_run():
    session, (request,) = ask_many(1)
    assert names(session.deny(request, "stop it", stop=True)) == [
        "permission.denied",
        "tool.denied",
        "turn.finished",
        "run.interrupted",
    ]


def test_with_nobody_there_the_run_ends_asked_and_the_requests_stay_open():
    session, requests = ask_many(2)
    end = session.nobody()
    assert names(end) == ["approver.missed", "run.asked"]
    assert end[-1].waiting_for == tuple(requests)
    session.crash()
    assert session.owed() == ()
    assert names(session.approve(requests[1])) == [
        "permission.approved",
        "run.started",
        "tool.allowed",
        "tool.started",
    ]
    assert names(session.finish(session.called(1))) == ["tool.finished", "run.asked"]


def test_some_answered_and_some_missed_wait_for_what_runs():
    session, requests = ask_many(2)
    session.approve(requests[0])
    assert names(session.nobody()) == ["approver.missed"]
    assert names(session.finish(session.called())) == ["tool.finished", "run.asked"]


def test_in_autopilot_what_would_be_asked_is_denied():
    session = Session(policy=ASK_PAY, mode="autopilot")
    assert ruled(session)[:2] == ("denied", "no_approver")


def test_what_was_asked_before_autopilot_began_is_denied_when_nobody_is_there():
    session, (request,) = ask_many(1)
    session.change(ChangeMode(mode="autopilot"))
    assert names(session.nobody())[:2] == ["approver.missed", "tool.denied"]
    with pytest.raises(Refused):
        session.approve(request)


def test_an_approval_is_bound_to_the_digest_that_was_asked_about():
    session, (request,) = ask_many(1)
    with pytest.raises(Refused) as refusal:
        session.approve(request, digest="something else")
    assert refusal.value.code == "digest_changed"
    assert session.state.asks.open[request].digest != "something else"


def test_an_approval_for_the_session_stands():
    session, (request,) = ask_many(1)
    approved = session.approve(request, scope="session", actor="ada")
    assert names(approved) == ["permission.approved", "tool.allowed", "grants.changed", "tool.started"]
    session.finish()
    session.reply("", call("pay", {"other": 1}))
    assert session.names()[-2:] == ["tool.allowed", "tool.started"]
    (grant,) = session.state.gate.grants.values()
    assert (grant.tool, grant.pattern, grant.by) == ("pay", None, "ada")
    session.finish()
    session.change(ChangeGrants(revoke=(grant.grant_id,)))
    session.reply("", call("pay", {"third": 1}))
    assert session.names()[-1] == "permission.requested"


@pytest.mark.parametrize(
    ("subject", "verdict"),
    [("git status", "allowed"), ("git push", "asked"), (None, "asked"), ("git status; rm -r /", "asked")],
)
def test_an_approval_for_a_pattern_covers_only_what_fits_it(subject, verdict):
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay", prepared=Prepared(digest="w", subject="git status")))[-1].request_id
    with pytest.raises(Refused, match="needs the pattern"):
        session.approve(request, scope="pattern")
    session.approve(request, scope="pattern", pattern="git status")
    session.finish()
    events = session.reply("", call("pay", {}, prepared=Prepared(digest="x", subject=subject)))
    assert ("tool.started" in names(events)) == (verdict == "allowed")


def test_a_standing_approval_may_name_a_digest():
    session = Session(policy=ASK_PAY)
    session.change(ChangeGrants(add=(Grant(grant_id="g", tool="pay", pattern="d1"),)))
    assert ruled(session, prepared=Prepared(digest="d1"))[:2] == ("allowed", "grant")


def test_a_standing_approval_does_not_speak_over_a_denial():
    for matched, unjudged, verdict in (((0,), (), "denied"), ((), (0,), "asked"), ((), (), "allowed")):
        session = Session(policy=policy(Rule(action="deny", tool="pay", when="args.to == 'me'"), ASK))
        session.change(ChangeGrants(add=(Grant(grant_id="g", tool="pay"),)))
        prepared = Prepared(digest="d", matched=matched, unjudged=unjudged)
        assert ruled(session, prepared=prepared)[0] == verdict


def test_one_by_one_a_call_waits_behind_one_that_is_asked_about():
    session = Session(policy=ASK_PAY, settings=Settings(tool_order="sequential"))
    session.prompt()
    session.reply("", call("add"), call("pay"), call("put"))
    assert session.running() == [session.called()]
    session.finish(session.called())
    assert session.running() == []
    request = next(iter(session.state.asks.open))
    end = session.nobody()
    assert names(end) == ["approver.missed", "run.asked"]
    assert isinstance(session.state.phase, Asked)
    session.approve(request)
    assert session.running() == [session.called(1)]
    session.finish(session.called(1))
    assert session.running() == [session.called(2)]


def test_requests_are_withdrawn_when_their_call_will_not_run():
    for told, reason in (("interrupt", "interrupted"), ("cancel", "cancelled")):
        session, (request,) = ask_many(1)
        events = getattr(session, told)()
        assert names(events)[1:3] == ["permission.withdrawn", "tool.cancelled"]
        with pytest.raises(Refused, match=f"withdrawn: {reason}"):
            session.approve(request)


def test_a_budget_for_calls_counts_what_people_may_yet_allow():
    session = Session(policy=ASK_PAY, limits=Limits(calls=2))
    session.prompt()
    events = session.reply("", *[call("pay", {"n": n}) for n in range(3)])
    requests = [event.request_id for event in events if isinstance(event, PermissionRequested)]
    assert len(requests) == 2
    assert [event.reason for event in events if isinstance(event, ToolDenied)] == ["budget"]
    session.deny(requests[0])
    session.approve(requests[1])
    session.finish()
    assert session.state.budget.spent.calls == 1
    events = session.reply("", call("pay", {"n": 4}))
    assert names(events)[-1] == "permission.requested", "what was denied is free again"
