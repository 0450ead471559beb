"""`windlass grants`: what stands, until when, and how it is taken back."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import pwd
import re
from typing import Any

import pytest

import windlass
from tests.runtime.support import started
from windlass.cli.main import main
from windlass.events.base import Event
from windlass.events.changes import ChangeReceived
from windlass.events.runs import RunAsked, RunCompleted
from windlass.events.tools.permissions import GrantsChanged, PermissionApproved, PermissionRequested
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.description import Description

from .screens import proves


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


def clerk(*script: Any) -> windlass.Agent:
    rules = windlass.Policy([windlass.ask("pay")])
    return windlass.Agent("clerk", model=ScriptedModel([*script]), tools=[pay], policy=rules)


async def driven(store: str, until: type[Event], *script: Any) -> list[Any]:
    """Opens the session of a store, has it go on until something happened, and gives what is in its log."""
    agent = clerk(*script)
    async with windlass.open(store, agents=[agent], poll_ms=5) as rt:
        session = await rt.session(agent, "march")
        if not (await session.state()).run.run_id:
            await session.prompt("go")
        await started(session, until)
        return [record.event async for record in session.records()]


@proves("grants", "normal")
def test_a_standing_approval_is_listed_and_taken_back(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    store = str(tmp_path / "work.db")
    at = ["--store", store]
    me = pwd.getpwuid(os.getuid()).pw_name
    asyncio.run(driven(store, RunAsked, call("pay", cents=1)))
    assert main(["approve", "march", "--session-wide", "--for-hours", "2", "--wait", "0", *at]) == 0
    capsys.readouterr()
    events = asyncio.run(driven(store, RunCompleted, call("pay", cents=2), "done"))
    (approved,) = [event for event in events if isinstance(event, PermissionApproved)]
    assert (approved.actor, approved.auth, approved.for_ms) == (me, "os_user", 7_200_000)

    assert main(["grants", "march", *at]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["GRANT", "TOOL", "FOR", "BY", "ENDS"]
    found = re.fullmatch(rf"(g\d+)\s+pay\s+every call\s+{me}\s+in 1 h", row.strip())
    assert found is not None, row
    assert main(["grants", "march", "--json", *at]) == 0
    (grant,) = json.loads(capsys.readouterr().out)
    assert (grant["grant_id"], grant["tool"]) == (found[1], "pay")

    assert main(["grants", "march", "--revoke", "g999", *at]) == 2
    assert f"there are {found[1]}" in capsys.readouterr().err
    assert main(["grants", "march", "--revoke", found[1], "--wait", "0", *at]) == 0
    assert capsys.readouterr().out.startswith(f"revoked: {found[1]}\n")
    events = asyncio.run(driven(store, ChangeReceived))
    (change,) = [event for event in events if isinstance(event, ChangeReceived)]
    assert (change.actor, change.auth) == (me, "os_user")
    assert main(["grants", "march", *at]) == 0
    assert "has no standing approvals" in capsys.readouterr().out


def test_an_approval_says_which_of_several_requests_is_meant(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    store = str(tmp_path / "work.db")
    events = asyncio.run(driven(store, RunAsked, [call("pay", cents=1), call("pay", cents=2)]))
    first, second = [event.request_id for event in events if isinstance(event, PermissionRequested)]
    assert main(["approve", "march", "--wait", "0", "--store", store]) == 2
    assert f"several are open, say which: {first} (pay), {second} (pay)" in " ".join(capsys.readouterr().err.split())
    assert main(["approve", "march", second, "--wait", "0", "--store", store]) == 0
    events = asyncio.run(driven(store, PermissionApproved))
    assert [event.request_id for event in events if isinstance(event, PermissionApproved)] == [second]


def test_requests_that_were_asked_together_are_answered_together_if_that_is_said(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    store = str(tmp_path / "work.db")
    asyncio.run(driven(store, RunAsked, [call("pay", cents=11), call("pay", cents=22)]))
    assert main(["approve", "march", "--together", "--wait", "0", "--store", store]) == 0
    said = capsys.readouterr().out
    assert '"cents": 11' in said
    assert '"cents": 22' in said
    events = asyncio.run(driven(store, RunCompleted, "done"))
    (approved,) = [event for event in events if isinstance(event, PermissionApproved)]
    assert len(approved.also) == 1


def test_what_is_asked_about_each_time_cannot_be_approved_for_the_session(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    def strange(args: Any, place: Any) -> Description:
        return Description(sensitive="it steers agents")

    async def asked() -> None:
        tool = windlass.tool(name="steer", describe=strange)(lambda: "done")
        agent = windlass.Agent("clerk", model=ScriptedModel([call("steer")]), tools=[tool], policy=windlass.ALLOW_ALL)
        async with windlass.open(store, agents=[agent]) as rt:
            session = await rt.session(agent, "march")
            await session.prompt("go")
            await started(session, RunAsked)

    store = str(tmp_path / "work.db")
    asyncio.run(asked())
    assert main(["approve", "march", "--session-wide", "--wait", "0", "--store", store]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "cannot be approved for the session: it is asked about each time" in said
    assert "leave --session-wide out" in said
    assert main(["approve", "march", "--pattern", "*", "--wait", "0", "--store", store]) == 2
    assert "--session-wide" not in capsys.readouterr().err
    assert main(["approve", "march", "--wait", "0", "--store", store]) == 0


def test_a_session_of_another_tree_is_let_in_listed_and_shut_out(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    store = str(tmp_path / "work.db")
    at = ["--store", store]
    asyncio.run(driven(store, RunCompleted, "done"))
    assert main(["grants", "march", "--hear", "audit", "--wait", "0", *at]) == 0
    asyncio.run(driven(store, GrantsChanged))
    capsys.readouterr()
    assert main(["grants", "march", "--hear", "", *at]) == 2
    assert "a session id must have 1 to" in capsys.readouterr().err
    assert main(["grants", "march", *at]) == 0
    told = capsys.readouterr().out
    assert re.search(r"hears:audit +tell +what session 'audit' says", told), told
    assert "never" in told
    assert main(["grants", "march", "--revoke", "hears:audit", "--wait", "0", *at]) == 0
    (*_, last) = [event for event in asyncio.run(driven(store, ChangeReceived)) if isinstance(event, ChangeReceived)]
    assert last is not None
