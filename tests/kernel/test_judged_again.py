"""A verdict holds as long as what it rests on: a call that has not begun is judged again when that is another thing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, TOOLS, Session, Settings, call, names
from windlass.events.changes import ChangeGrants, ChangeMode
from windlass.events.errors import Refused
from windlass.events.sessions import SessionImported
from windlass.events.tools.calls import ToolDenied, ToolReconsidered, ToolStarted
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.policy import Grant, Policy, Rule
from windlass.events.values.setup import Limits, SessionOptions, Terms
from windlass.events.values.tools import ToolSpec
from windlass.kernel.effects import PrepareCall
from windlass.kernel.owed import overview
from windlass.kernel.phases import Asked

SEQUENTIAL = Settings(tool_order="sequential")
DENY_PAY = Policy(rules=(Rule(action="deny", tool="pay", reason="frozen"),))


NOW = tuple(msgspec.structs.replace(spec, code=f"c-{spec.name}", schema=f"s-{spec.name}") for spec in TOOLS)
"""Tools whose code and schema are told apart from their prose."""


def tools(name: str = "pay", **changes: Any) -> tuple[ToolSpec, ...]:
    return tuple(msgspec.structs.replace(spec, **changes) if spec.name == name else spec for spec in NOW)


def terms(session: Session, **changes: Any) -> Terms:
    return msgspec.structs.replace(session.state.setup.terms, **changes)


def asked(**changes: Any) -> Session:
    """A session that waits for a word on `pay`, with nobody there."""
    session = Session(tools=NOW, policy=ASK_PAY, **changes)
    session.prompt()
    session.reply("", call("pay"))
    session.nobody()
    assert isinstance(session.state.phase, Asked)
    return session


def queued(policy: Policy = ASK_PAY, **changes: Any) -> Session:
    """A session whose call of `pay` is allowed and waits behind one of `put`, which runs."""
    session = Session(tools=NOW, policy=policy, settings=SEQUENTIAL, **changes)
    session.prompt()
    session.reply("", call("put"), call("pay"))
    for request in list(session.state.asks.open):
        session.approve(request)
    assert session.running() == [session.called()]
    return session


def prepare(session: Session) -> list[Any]:
    """The host looks at the calls that are to be judged again, and finds the arguments as they were."""
    found: list[Any] = []
    for effect in session.owed():
        if isinstance(effect, PrepareCall):
            digest = session.state.calls.by_id[effect.call_id].digest
            found += session.prepare(effect.call_id, digest=digest)
    return found


def test_an_open_request_about_other_code_is_withdrawn_and_asked_again_with_what_changed():
    session = asked()
    (old,) = session.state.asks.open
    events = session.crash(tools=tools(code="c2", schema="s2"))
    assert names(events)[-3:] == ["run.started", "permission.withdrawn", "tool.reconsidered"]
    events = prepare(session)
    assert names(events) == ["tool.prepared", "permission.requested"]
    new = events[1]
    assert isinstance(new, PermissionRequested)
    assert (new.changed, new.replaces) == (("code", "schema"), old)
    with pytest.raises(Refused, match="withdrawn: changed"):
        session.approve(old)
    assert names(session.nobody())[-1] == "run.asked"
    session.approve(new.request_id)
    assert session.running() == [session.called()]
    assert session.verify().problems == []


@pytest.mark.parametrize(
    "found",
    [
        {"tools": tools(digest="another docstring", tokens=9)},
        {"terms": {"policy": Policy(rules=(*ASK_PAY.rules, Rule(action="deny", tool="put")))}},
        {"terms": {"policy": Policy(rules=(msgspec.structs.replace(ASK_PAY.rules[0], name="x", reason="y"),))}},
        {"terms": {"mode": "autopilot"}},
    ],
    ids=["docstring", "unrelated rule", "words of the rule", "autopilot"],
)
def test_what_does_not_matter_to_a_request_leaves_it_open(found):
    session = asked()
    (old,) = session.state.asks.open
    if "terms" in found:
        found = {"terms": terms(session, **found["terms"])}
    assert "permission.withdrawn" not in names(session.crash(**found))
    session.approve(old)
    assert session.running() == [session.called()]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"contract": "idempotent"}, ("contract",)),
        ({"traits": ("write", "egress")}, ("traits",)),
        ({"source": "mcp"}, ("traits",)),
        ({"code": "", "digest": "d2"}, ("code",)),
    ],
)
def test_an_approved_call_that_has_not_begun_is_asked_about_again(changes, told):
    session = queued()
    session.crash(tools=tools(**changes))
    assert [e.changed for e in session.events() if isinstance(e, ToolReconsidered)] == [told]
    (new,) = [e for e in prepare(session) if isinstance(e, PermissionRequested)]
    assert (new.changed, new.replaces) == (told, None)
    session.finish(session.called())
    assert session.running() == [], "nothing starts on the old word"
    session.approve(new.request_id)
    assert session.running() == [session.called(1)]


def test_a_request_about_a_clients_tool_waits_on_where_the_session_moved_to():
    session = Session(policy=Policy(default="ask"))
    session.prompt()
    session.reply("", call("ui"))
    session.nobody()
    session.epoch += 1
    session.take(SessionImported(session_id="moved", epoch=session.epoch, moved=True))
    assert (overview(session.state).state, len(session.state.asks.open)) == ("asked", 1)
    assert "ui" not in session.state.toolset.tools
    assert session.verify().problems == []


def test_an_approved_call_is_denied_if_the_policy_says_so_before_it_starts():
    session = queued()
    session.crash(terms=terms(session, policy=DENY_PAY))
    (denied,) = [e for e in prepare(session) if isinstance(e, ToolDenied)]
    assert (denied.reason, denied.detail) == ("rules", "frozen")
    session.finish(session.called())
    assert session.running() == []


def test_an_approved_call_is_judged_again_when_files_are_excluded_meanwhile():
    session = queued()
    session.crash(terms=terms(session, policy=Policy(rules=ASK_PAY.rules, exclude=("secrets/",))))
    assert [e.changed for e in session.events() if isinstance(e, ToolReconsidered)] == [("rules",)] * 2
    assert session.running() == []


def test_an_approved_call_is_denied_if_its_tool_got_a_name_that_is_denied():
    rules = (*ASK_PAY.rules, Rule(action="deny", tool="danger"))
    session = queued(policy=Policy(rules=rules))
    session.crash(tools=tools(alias="danger"))
    (denied,) = [e for e in prepare(session) if isinstance(e, ToolDenied)]
    assert (denied.call_id, denied.reason) == (session.called(1), "rules")


def test_a_call_that_the_rules_let_pass_goes_on_if_they_still_do():
    session = queued(policy=Policy())
    session.crash(terms=terms(session, policy=Policy(rules=(Rule(action="allow", tool="pay"),))))
    assert names(prepare(session)) == ["tool.prepared", "tool.allowed"]
    session.finish(session.called())
    assert session.running() == [session.called(1)]


def test_in_plan_mode_nothing_that_was_allowed_before_starts_but_reading():
    session = Session(tools=NOW, settings=SEQUENTIAL)
    session.prompt()
    session.reply("", call("put"), call("pay"), call("add"))
    session.change(ChangeMode(mode="plan"))
    (denied,) = [e for e in prepare(session) if isinstance(e, ToolDenied)]
    assert (denied.call_id, denied.reason) == (session.called(1), "mode")
    session.finish(session.called())
    assert session.running() == [session.called(2)]


def test_an_approval_stands_where_only_the_mode_came_and_went():
    session = queued()
    session.change(ChangeMode(mode="plan"))
    session.change(ChangeMode(mode="autopilot"))
    assert names(prepare(session)) == ["tool.prepared", "tool.allowed"]
    session.finish(session.called())
    assert session.running() == [session.called(1)]


def test_a_request_that_waits_is_given_up_in_plan_mode():
    session = asked()
    assert names(session.change(ChangeMode(mode="plan")))[-3:] == [
        "run.started",
        "permission.withdrawn",
        "tool.reconsidered",
    ]
    assert [e.reason for e in prepare(session) if isinstance(e, ToolDenied)] == ["mode"]


def test_a_call_that_runs_again_is_judged_again_first():
    session = Session(tools=NOW)
    session.prompt()
    session.reply("", call("put"))
    session.crash(terms=terms(session, policy=Policy(rules=(Rule(action="deny", tool="put"),))))
    assert session.running() == []
    (denied,) = [e for e in prepare(session) if isinstance(e, ToolDenied)]
    assert denied.reason == "rules"
    assert "may have had effects already" in denied.detail


@pytest.mark.parametrize("now", ["pure", "idempotent"])
def test_a_call_that_began_as_at_most_once_never_runs_again_whatever_its_tool_says_later(now):
    session = Session(tools=NOW)
    session.prompt()
    session.reply("", call("pay"))
    events = session.crash(tools=tools(contract=now))
    assert "tool.outcome_unknown" in names(events)
    assert len([e for e in session.events() if isinstance(e, ToolStarted)]) == 1


def test_a_call_that_began_as_idempotent_does_not_run_again_as_at_most_once():
    session = Session(tools=NOW)
    session.prompt()
    session.reply("", call("put"))
    assert "tool.outcome_unknown" in names(session.crash(tools=tools("put", contract="at_most_once")))


def test_an_outcome_is_settled_if_the_tool_wanted_that_when_it_began():
    session = Session(tools=NOW)
    session.prompt()
    session.reply("", call("risky"))
    events = session.crash(tools=tools("risky", contract="pure", settle=False))
    (unknown,) = [e for e in events if e.__struct_config__.tag == "tool.outcome_unknown"]
    assert unknown.settle


def test_run_again_by_a_person_is_judged_by_what_holds_now():
    session = Session(tools=NOW)
    session.prompt()
    session.reply("", call("risky"))
    session.crash(terms=terms(session, policy=Policy(rules=(Rule(action="deny", tool="risky"),))))
    session.settle(session.called(), "run_again")
    assert session.running() == []
    assert [e.reason for e in prepare(session) if isinstance(e, ToolDenied)] == ["rules"]


def test_a_call_is_counted_once_in_the_budget_however_often_it_is_judged():
    session = Session(tools=NOW, settings=SEQUENTIAL, limits=Limits(calls=2))
    session.prompt()
    session.reply("", call("put"), call("pay"))
    for code in ("c2", "c3"):
        session.crash(tools=tools(code=code))
        assert names(prepare(session)) == ["tool.prepared", "tool.allowed"]
    assert session.state.budget.spent.calls == 2
    session.finish(session.called())
    assert session.running() == [session.called(1)]


def test_a_call_is_counted_once_by_the_repeat_fuse_however_often_it_is_judged():
    session = queued(policy=Policy())
    for code in ("c2", "c3", "c4"):
        session.crash(tools=tools(code=code))
        assert names(prepare(session)) == ["tool.prepared", "tool.allowed"]


# --- standing approvals -------------------------------------------------------------------------------------------


def granted(**changes: Any) -> Session:
    session = Session(tools=NOW, policy=ASK_PAY, **changes)
    session.prompt()
    request = session.reply("", call("pay"))[-1].request_id
    session.approve(request, scope="session", actor="ada")
    session.finish()
    return session


def passes(session: Session) -> bool:
    return names(session.reply("", call("pay", {"other": 1})))[-1] == "tool.started"


@pytest.mark.parametrize(
    ("changes", "stands"),
    [
        ({"code": "c2"}, False),
        ({"schema": "s2"}, False),
        ({"traits": ("egress",)}, False),
        ({"contract": "idempotent"}, False),
        ({"tokens": 7, "timeout_ms": 5}, True),
    ],
)
def test_a_standing_approval_is_of_the_tool_as_it_was(changes, stands):
    session = granted()
    session.crash(tools=tools(**changes))
    assert passes(session) == stands


def test_a_standing_approval_ends_at_its_time():
    session = granted()
    (grant,) = session.state.gate.grants.values()
    assert grant.expires_ms == session.at_ms + session.state.setup.settings.grant_ms
    session.at_ms = grant.expires_ms - 1
    assert passes(session)
    session.finish()
    session.at_ms = grant.expires_ms
    assert not passes(session)


def test_an_approval_may_say_how_long_it_stands():
    session = Session(tools=NOW, policy=ASK_PAY)
    session.prompt()
    session.approve(session.reply("", call("pay"))[-1].request_id, scope="session", for_ms=5_000)
    assert [g.expires_ms for g in session.state.gate.grants.values()] == [session.at_ms + 5_000]


def test_a_call_that_waits_under_a_standing_approval_is_judged_again_when_that_is_revoked():
    session = Session(tools=NOW, policy=ASK_PAY, settings=SEQUENTIAL)
    session.change(ChangeGrants(add=(Grant(grant_id="g", tool="pay"),)))
    session.prompt()
    session.reply("", call("put"), call("pay"))
    session.change(ChangeGrants(revoke=("g",)))
    (new,) = [e for e in prepare(session) if isinstance(e, PermissionRequested)]
    assert new.changed == ("grant",)


def test_a_call_that_lost_its_standing_approval_is_asked_about_once():
    """It rests on that no more: asked about again for that reason, it was withdrawn and asked about without end."""
    session = Session(tools=NOW, policy=ASK_PAY, settings=SEQUENTIAL)
    session.change(ChangeGrants(add=(Grant(grant_id="g", tool="pay"),)))
    session.prompt()
    session.reply("", call("put"), call("pay"))
    session.change(ChangeGrants(revoke=("g",)))
    events = prepare(session)
    assert names(events) == ["tool.prepared", "permission.requested"]
    assert not [effect for effect in session.owed() if isinstance(effect, PrepareCall)]
    assert list(session.state.asks.open) == [events[1].request_id]


@pytest.mark.parametrize("tool", ["*", "nosuch", "Pay"])
def test_a_standing_approval_names_one_tool(tool):
    session = Session(tools=NOW, policy=ASK_PAY)
    with pytest.raises(Refused, match="for one tool by its name"):
        session.change(ChangeGrants(add=(Grant(grant_id="g", tool=tool),)))


def test_standing_approvals_do_not_survive_a_fork():
    session = granted()
    assert session.fork(session.ends[-1]).state.gate.grants == {}


def test_an_import_brings_no_authority():
    session = Session(tools=NOW, policy=ASK_PAY)
    session.change(ChangeGrants(add=(Grant(grant_id="g", tool="put"),)))
    session.prompt()
    session.reply("", call("pay"))
    (request,) = session.state.asks.open
    session.nobody()
    events = session.take(SessionImported(session_id="copy", epoch=2, by="ada"))
    assert names(events) == [
        "session.imported",
        "policy.changed",
        "grants.changed",
        "run.started",
        "permission.withdrawn",
        "tool.cancelled",
        "turn.finished",
        "run.interrupted",
        "toolset.changed",
        "labels.joined",
    ]
    assert (session.state.gate.grants, session.state.asks.open, session.state.session_id) == ({}, {}, "copy")
    with pytest.raises(Refused, match="not_carried_over"):
        session.approve(request)


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "verdict"), [("deny", "tool.denied"), ("ask", "permission.requested"), ("allow", "tool.denied")]
)
def test_a_denial_and_a_question_reach_a_tool_by_the_name_that_models_see_and_a_permission_does_not(action, verdict):
    policy = Policy(rules=(Rule(action=action, tool="send_money"),), default="deny" if action == "allow" else "allow")
    session = Session(policy=policy, tools=tools(alias="send_money"))
    session.prompt()
    assert verdict in names(session.reply("", call("pay")))


def test_an_approval_says_what_it_approves():
    session = asked()
    (request,) = session.state.asks.open
    with pytest.raises(Refused, match="give the digest of request"):
        session.approve(request, digest=None)


@pytest.mark.parametrize("options", [{"quarantine": True}, {"isolation": "read_only"}])
def test_what_was_allowed_before_a_session_may_only_read_does_not_begin_afterwards(options):
    session = queued()
    session.crash(options=SessionOptions(**options))
    assert session.running() == []
    for call_id in list(session.state.calls.by_id):
        session.prepare(call_id)
    assert [event.reason for event in session.events() if isinstance(event, ToolDenied)] == [
        "quarantine" if "quarantine" in options else "isolation"
    ] * 2


@pytest.mark.parametrize("options", [{"quarantine": True}, {"isolation": "read_only"}])
def test_what_is_asked_about_when_a_session_comes_to_only_read_cannot_be_approved_any_more(options):
    session = asked()
    (request,) = session.state.asks.open
    session.crash(options=SessionOptions(**options))
    with pytest.raises(Refused):
        session.approve(request)
    session.prepare(session.called())
    assert session.running() == []
    assert not any(isinstance(event, ToolStarted) for event in session.events())


@pytest.mark.parametrize(
    ("options", "tool"),
    [({"quarantine": True}, "add"), ({"isolation": "read_only"}, "add"), ({"isolation": "read_only"}, "peek")],
)
def test_what_a_session_that_comes_to_only_read_may_still_do_is_asked_about_as_before(options, tool):
    peek = ToolSpec(name="peek", digest="d-peek", traits=("read", "egress"))
    session = Session(tools=(*NOW, peek), policy=Policy(rules=(Rule(action="ask", tool=tool),)))
    session.prompt()
    session.reply("", call(tool))
    session.nobody()
    (request,) = session.state.asks.open
    assert "permission.withdrawn" not in names(session.crash(options=SessionOptions(**options)))
    session.approve(request)
    assert session.running() == [session.called()]
