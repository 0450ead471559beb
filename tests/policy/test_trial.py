"""What `policy test` says of recorded calls is what the gate says when the same calls are made live under that policy."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolAllowed, ToolDenied
from windlass.events.tools.permissions import PermissionRequested
from windlass.policies import READ_ONLY, SANDBOXED, WORKSPACE_WRITE
from windlass.runtime.operate.policy_trial import tried
from windlass.store import open_store
from windlass.store.base import Key
from windlass.testing import ScriptedModel, call


@windlass.tool(labels=("untrusted:mail",), traits=("read",), contract="pure", kind="read")
def mail() -> str:
    "Read mail."
    return "hello"


@windlass.tool(traits=("egress",))
def send(to: str, text: str = "hi", urgent: bool = False) -> str:
    "Send a message."
    return "sent"


SCRIPT: list[Any] = [
    [call("send", to="ada"), call("send", to="eve", urgent=True)],
    call("mail"),
    [call("send", to="bob"), call("write", path="a.txt", content="x"), call("write", path=".env", content="x")],
    [call("shell", command="echo hello"), call("todo", todos=[])],
    [call("send", to="cy"), call("read", path="a.txt"), call("send", to="dan", text="x" * 40)],
    "done",
]
POLICIES = {
    "when": windlass.Policy([windlass.deny("send", when="args.urgent || args.text.size() > 20")]),
    "labels": windlass.Policy([windlass.ask("send", labels=["untrusted"])], default="allow"),
    "quota": windlass.Policy([windlass.allow("send", quota=2), windlass.allow(kinds=["read"])], default="deny"),
    "ask-quota": windlass.Policy([windlass.ask("send", quota=3)], default="allow"),
    "paths": windlass.Policy([windlass.deny(writes=["*.txt"]), windlass.allow(paths=["**"])], default="ask"),
    "commands": windlass.Policy([windlass.deny(commands=["rm"]), windlass.ask("shell")], default="allow"),
    "exclude": windlass.Policy(default="allow", exclude=["*.txt"]),
    "session": windlass.Policy([windlass.deny("send", when="session.agent == 'a' && call.kind == 'tool'")]),
    "traits": windlass.Policy([windlass.deny(traits=["egress", "execute"])], default="allow"),
    "read-only": READ_ONLY,
    "workspace-write": WORKSPACE_WRITE,
    "sandboxed": SANDBOXED,
    "role": windlass.Policy([windlass.deny("send", roles=["implement"]), windlass.deny("write", roles=["explore"])]),
    "root": windlass.Policy([windlass.ask("send", roles=["root"]), windlass.deny("mail", when="!session.root")]),
    "trust": windlass.Policy([windlass.deny("send", trust=["trusted"]), windlass.deny(when="!session.trusted")]),
    "same": windlass.Policy(default="allow"),
}


def place(call_id: str) -> tuple[int, ...]:
    """Where a call stands in its session: the reply, and its place there. Calls of one reply are judged in any order."""
    return tuple(int(number) for number in call_id[1:].split("."))


async def session_under(policy, folder, monkeypatch) -> dict[str, str]:
    """What the gate said of each call of the script under a policy; everything that is asked about is approved."""
    (folder / "work").mkdir(parents=True)
    monkeypatch.chdir(folder / "work")
    tools: list[Any] = [mail, send, "write", "shell", "todo", *windlass.file_tools(".", ["read"])]
    agent = windlass.Agent(
        "a", model=ScriptedModel(SCRIPT), tools=tools, policy=policy, role="implement", approver=lambda asked: True
    )
    async with windlass.open(folder / "store.db", agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=folder / "work", trusted=True)
        await session.prompt("go")
        await session.result()
        said: dict[str, str] = {}
        async for record in session.records():
            event = record.event
            if isinstance(event, ToolAllowed | PermissionRequested | ToolDenied):
                name = {ToolAllowed: "allowed", PermissionRequested: "asked", ToolDenied: "denied"}[type(event)]
                said.setdefault(event.call_id, name)
    return said


@pytest.mark.parametrize("name", sorted(POLICIES))
async def test_the_verdicts_are_those_of_a_live_rerun_call_by_call(name, tmp_path, monkeypatch):
    await session_under(windlass.Policy(default="allow"), tmp_path / "before", monkeypatch)
    live = await session_under(POLICIES[name], tmp_path / "after", monkeypatch)
    store = await open_store(tmp_path / "before" / "store.db")
    try:
        calls = await tried(store, Key("default", "s"), POLICIES[name])
    finally:
        await store.close()
    assert len(calls) == 11
    in_order = [live[name] for name in sorted(live, key=place)]
    assert [one.would for one in sorted(calls, key=lambda one: place(one.call_id))] == in_order
    if name != "same":
        assert set(in_order) != {"allowed"}, "a policy that changes nothing proves nothing"
