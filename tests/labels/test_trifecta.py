"""Untrusted input, private data and a way out come together only with a person's word, in whatever order they come."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.kernel.session import Session, Settings, call, names
from tests.labels.sessions import LEGS, declassify, do, marked, open_asks, prepare
from windlass.events.changes import ChangeGrants
from windlass.events.sessions import SessionResumed
from windlass.events.tools.calls import ToolAllowed, ToolDenied
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import Prepared
from windlass.events.values.policy import Grant, Policy, Rule

ALLOW = Policy(rules=(Rule(action="allow", tool="*", name="all of it"),), default="allow")


def asked(session: Session) -> PermissionRequested:
    found = [event for event in session.events() if isinstance(event, PermissionRequested)]
    return found[-1]


def only(events: list[Any], kind: type[Any]) -> Any:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


@pytest.mark.parametrize("policy", [Policy(), ALLOW], ids=["standard", "an allow rule for everything"])
@pytest.mark.parametrize("order", list(itertools.permutations(LEGS)), ids=" then ".join)
def test_the_third_leg_is_asked_about_in_every_order(order, policy):
    first, second, third = order
    session = marked(policy=policy)
    do(session, LEGS[first], LEGS[second])
    assert open_asks(session) == []
    do(session, LEGS[third])
    assert open_asks(session) == [LEGS[third]]
    request = asked(session)
    assert (request.rule, request.joins) == ("trifecta", ("private", "untrusted:web"))


@pytest.mark.parametrize("order", list(itertools.permutations(LEGS)), ids=" then ".join)
def test_after_a_yes_each_further_way_out_is_asked_about_again(order):
    session = marked(policy=ALLOW)
    do(session, *(LEGS[leg] for leg in order))
    session.approve(asked(session).request_id)
    assert len(session.running()) == 1
    session.finish()
    do(session, "files", "surf")
    assert open_asks(session) == []  # they are together already, and neither leads out
    do(session, "send")
    assert open_asks(session) == ["send"]


def test_the_request_says_why_with_where_each_leg_came_from():
    session = marked()
    do(session, "files", "surf", "send")
    body = asked(session).body
    assert body is not None
    private, untrusted = session.called(0), session.called(1)
    assert body.why == (
        "this would bring untrusted input, private data and a way out together: "
        f"private since {private} (files); untrusted:web since {untrusted} (surf); this call leads out"
    )


def test_a_leg_that_this_call_brings_and_a_way_out_used_before_are_named():
    session = marked()
    do(session, "send", "surf", "files")
    body = asked(session).body
    assert body is not None
    assert body.why.endswith(
        f"private by this call; untrusted:web since {session.called(1)} (surf); a way out since "
        f"{session.called(0)} (send)"
    )


def test_a_call_that_leads_out_says_so_also_if_there_was_a_way_out_before():
    session = marked()
    do(session, "send", "surf", "fetch", "upload")
    body = asked(session).body
    assert body is not None
    assert body.why.endswith("; this call leads out")


@pytest.mark.parametrize(("before", "both"), [("surf", "upload"), ("files", "fetch")])
def test_a_call_that_brings_two_legs_is_asked_about(before, both):
    session = marked(policy=ALLOW)
    do(session, both)
    assert open_asks(session) == []
    fresh = marked(policy=ALLOW)
    do(fresh, before, both)
    assert open_asks(fresh) == [both]


def test_two_legs_are_no_trifecta():
    session = marked(policy=ALLOW)
    do(session, "files", "send", "files", "send")
    assert open_asks(session) == []
    other = marked(policy=ALLOW)
    do(other, "fetch", "send", "fetch")
    assert open_asks(other) == []


@pytest.mark.parametrize("order", ["parallel", "sequential"])
@pytest.mark.parametrize("batch", [("files", "send"), ("send", "files")], ids=" and ".join)
def test_a_batch_that_brings_the_legs_together_is_asked_about_at_the_later_call(batch, order):
    session = marked(policy=ALLOW, settings=Settings(tool_order=order))
    do(session, "surf")
    session.reply("", call(batch[0]), call(batch[1]))
    first, second = session.called(1), session.called(2)
    assert session.running() == [first]
    if order == "sequential":
        session.finish(first)
    assert session.state.calls.by_id[second].outdated == ("labels",)
    prepare(session)
    assert open_asks(session) == [batch[1]]
    assert asked(session).changed == ("labels",)


def test_a_yes_holds_for_what_was_shown_alone():
    """Whoever approved a call before the legs came together is asked again."""
    ask = Policy(rules=(Rule(action="ask", tool="send"),))
    session = marked(policy=ask, settings=Settings(tool_order="sequential"))
    do(session, "surf")
    session.reply("", call("add"), call("send"))
    request = asked(session)
    assert (request.tool, request.joins) == ("send", ())
    session.approve(request.request_id)
    session.finish(labels=("private",))  # nobody could know before: now all three would be together
    prepare(session)
    again = asked(session)
    assert (again.joins, again.changed) == (("private", "untrusted:web"), ("labels",))
    assert again.digest != request.digest
    session.approve(again.request_id)
    assert session.running() == [request.call_id]


def test_a_request_that_is_open_is_asked_anew_when_the_legs_come_together():
    ask = Policy(rules=(Rule(action="ask", tool="send"),))
    session = marked(policy=ask)
    do(session, "surf")
    session.reply("", call("send"), call("add"))
    (old,) = session.state.asks.open
    session.finish(labels=("private",))
    prepare(session)
    (new,) = session.state.asks.open
    assert old != new
    assert asked(session).replaces == old


def test_an_ordinary_grant_does_not_speak_of_it_and_one_that_names_it_does():
    session = marked()
    session.change(ChangeGrants(add=(Grant(grant_id="g", tool="send"),)))
    do(session, "surf", "files", "send")
    assert open_asks(session) == ["send"]
    session.deny(asked(session).request_id)
    session.change(ChangeGrants(add=(Grant(grant_id="h", tool="send", trifecta=True),), revoke=("g",)))
    events = session.reply("", call("send", {"n": 7}))
    allowed = only(events, ToolAllowed)
    assert (allowed.by, allowed.rule, allowed.joins) == ("grant", "h", ("private", "untrusted:web"))
    assert len(session.running()) == 1


def test_a_yes_for_the_session_gives_no_leave_for_the_next_time():
    session = marked()
    do(session, "surf", "files", "send")
    session.approve(asked(session).request_id, scope="session")
    session.finish()
    do(session, "send")
    assert open_asks(session) == ["send"]


def test_autopilot_denies_it_as_it_denies_whatever_needs_a_person():
    session = marked(policy=ALLOW, mode="autopilot")
    do(session, "surf", "files")
    events = session.reply("", call("send"))
    assert only(events, ToolDenied).reason == "no_approver"


@pytest.mark.parametrize("leg", list(LEGS))
def test_a_policy_may_deny_it_or_not_mind(leg):
    rest = [tool for name, tool in LEGS.items() if name != leg]
    strict = marked(policy=Policy(default="allow", trifecta="deny"))
    do(strict, *rest)
    denied = only(strict.reply("", call(LEGS[leg])), ToolDenied)
    assert (denied.reason, denied.rule) == ("rules", "trifecta")
    easy = marked(policy=Policy(default="allow", trifecta="allow"))
    do(easy, *rest, LEGS[leg])
    assert (open_asks(easy), names(easy.events()).count("tool.finished")) == ([], 3)


def test_a_denial_stays_a_denial():
    session = marked(policy=Policy(rules=(Rule(action="deny", tool="send", reason="never"),)))
    do(session, "surf", "files")
    denied = only(session.reply("", call("send")), ToolDenied)
    assert (denied.rule, denied.detail) == ("rule 1", "never")


def test_what_the_call_does_counts_and_not_what_its_tool_can_do():
    session = marked(policy=ALLOW)
    do(session, "surf", "files")
    quiet = call("shell", {"c": "ls"}, prepared=Prepared(digest="ls", traits=("read", "execute")))
    session.reply("", quiet)
    assert open_asks(session) == []
    session.finish()
    loud = call("shell", {"c": "curl"}, prepared=Prepared(digest="curl", traits=("read", "execute", "egress")))
    session.reply("", loud)
    assert open_asks(session) == ["shell"]


def test_labels_of_a_single_call_count():
    session = marked(policy=ALLOW)
    do(session, "surf")
    about = Prepared(digest="x", labels=("private:payroll",))
    session.reply("", call("send", prepared=about))
    assert asked(session).joins == ("private:payroll", "untrusted:web")


def test_a_call_that_was_cut_off_is_judged_anew_before_it_runs_again():
    """It began while there was nothing private; what was read beside it is there now."""
    tools = tuple(spec for spec in marked().state.toolset.tools.values())
    session = Session(tools=tools, policy=ALLOW)
    session.prompt()
    resend = call("put", prepared=Prepared(digest="p", traits=("egress",)))
    session.reply("", resend)
    assert session.running() == [session.called()]
    session.state = session.folded()
    session.run_tool("surf")
    session.finish(session.called(1))
    session.run_tool("files")  # asked about: the way out is in use
    session.approve(asked(session).request_id)
    session.finish(session.called(2))
    session.epoch += 1
    session.state = session.folded()
    session.take(SessionResumed(epoch=session.epoch))
    prepare(session)
    assert open_asks(session) == ["put"]


def test_declassifying_a_leg_withdraws_the_request_and_lets_the_call_pass():
    session = marked(policy=ALLOW)
    do(session, "surf", "files", "send")
    (old,) = session.state.asks.open
    declassify(session, "untrusted:web")
    prepare(session)
    assert session.state.asks.open == {}
    assert session.running() == [session.called(2)]
    assert f"{old}" in session.state.asks.answered


def test_the_answer_to_the_user_is_no_way_out():
    session = marked(policy=ALLOW)
    do(session, "surf", "files")
    events = session.reply("here is what I found")
    assert names(events)[-1] == "run.completed"
    assert events[-1].labels == ("private", "untrusted:web")
