"""A quarantined session reads, for good: it writes, runs and sends nothing, and nothing widens what it may do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, TOOLS, Session, call
from tests.labels.sessions import MARKED, declassify, do, held
from windlass.events.changes import ChangeGrants, ChangeMode
from windlass.events.errors import Refused
from windlass.events.questions import APPROVE
from windlass.events.sessions import SessionImported
from windlass.events.tools.calls import ToolDenied
from windlass.events.values.policy import Grant, Policy, Rule
from windlass.events.values.setup import SessionOptions

ALLOW = Policy(default="allow", trifecta="allow")
QUARANTINED = SessionOptions(quarantine=True)


def quarantined(**changes: Any) -> Session:
    changes.setdefault("policy", ALLOW)
    session = Session(tools=(*MARKED, *TOOLS), quarantine=True, **changes)
    session.prompt()
    return session


@pytest.mark.parametrize("tool", ["pay", "put", "risky", "send", "fetch", "upload", "shell", "ui"])
def test_it_cannot_write_run_or_send_whatever_its_policy_says(tool):
    session = quarantined()
    events = session.reply("", call(tool))
    (denied,) = [event for event in events if isinstance(event, ToolDenied)]
    assert (denied.reason, session.running()) == ("quarantine", [])


@pytest.mark.parametrize("tool", ["add", "files", "surf", "mcp_search"])
def test_it_reads(tool):
    session = quarantined()
    session.reply("", call(tool))
    assert session.running() == [session.called()]


def test_what_it_says_is_untrusted():
    session = quarantined()
    assert held(session) == {"untrusted:quarantine"}
    assert session.reply("done")[-1].labels == ("untrusted:quarantine",)


def test_the_option_of_a_session_is_as_good_as_the_agents_word():
    session = Session(tools=TOOLS, options=QUARANTINED)
    assert session.state.labels.quarantined


def test_nobody_can_widen_what_it_may_do():
    session = quarantined(policy=Policy(rules=(Rule(action="ask", tool="add"),)))
    session.reply("", call("add"))
    (request,) = session.state.asks.open
    for scope in ("session", "pattern"):
        with pytest.raises(Refused, match="quarantined"):
            session.approve(request, scope=scope, pattern="*" if scope == "pattern" else None)
    with pytest.raises(Refused, match="quarantined"):
        session.change(ChangeGrants(add=(Grant(grant_id="g", tool="pay", trifecta=True),)))
    with pytest.raises(Refused, match="quarantined"):
        session.change(ChangeMode(mode="autopilot"))
    with pytest.raises(Refused, match="quarantined"):
        declassify(session, "untrusted:quarantine")
    session.approve(request)  # this one reading call
    assert session.running() == [session.called()]


def test_a_plan_that_is_approved_does_not_lead_out_of_plan_mode():
    session = quarantined(mode="plan")
    session.reply("", call("plan", {"summary": "write", "content": "1. write it all"}))
    (question,) = session.state.asks.open
    session.answer(question, action=APPROVE, mode="autopilot")
    assert session.state.setup.mode == "plan"


def test_other_code_brings_no_other_policy_and_no_other_mode():
    session = quarantined(policy=ASK_PAY)
    terms = msgspec.structs.replace(session.state.setup.terms, policy=ALLOW, mode="autopilot")
    session.crash(terms=terms)
    assert (session.state.gate.policy, session.state.setup.mode) == (ASK_PAY, "interactive")


def test_its_forks_and_copies_are_quarantined_too():
    session = quarantined()
    do(session, "files")
    branch = session.fork(session.state.seq)
    assert branch.state.labels.quarantined
    branch.take(SessionImported(session_id="copy", epoch=9))
    assert branch.state.labels.quarantined
    assert held(branch) == {"untrusted:quarantine", "private", "untrusted:import"}


def test_a_session_can_be_quarantined_later_and_never_freed():
    session = Session(tools=TOOLS)
    seen = [session.state.labels.quarantined]
    for options in (QUARANTINED, SessionOptions()):
        session.crash(options=options)
        seen.append(session.state.labels.quarantined)
    assert seen == [False, True, True]
