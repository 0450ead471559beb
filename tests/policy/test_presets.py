"""The presets `workspace-write` and `sandboxed`: what passes unasked, and on what record that rests."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolAllowed, ToolDenied, ToolPrepared
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import Prepared
from windlass.events.values.setup import Workspace
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools import verdicts
from windlass.kernel.state import State
from windlass.policies import SANDBOXED, WORKSPACE_WRITE
from windlass.runtime.bind.policy_conditions import judged
from windlass.testing import ScriptedModel, call
from windlass.tools.description import Description
from windlass.tools.sandboxes.local import LocalSandboxes
from windlass.tools.sandboxes.sandbox import Capabilities


class Confining(LocalSandboxes):
    """A sandbox that says what it is told to say; what it runs is harmless."""

    def __init__(self, *, files: bool, network: bool) -> None:
        super().__init__()
        self._says = Capabilities(name="said", confines_files=files, confines_network=network)

    async def open(self, session, folder):
        opened: Any = await super().open(session, folder)
        says = self._says

        async def capabilities() -> Capabilities:
            return says

        opened.capabilities = capabilities
        return opened


@windlass.tool(kind="write", traits=("write",))
def save(path: str) -> str:
    "Says nothing of what it touches."
    return "saved"


async def ruled(tmp_path, policy, *calls, sandbox=None):
    """What the gate said of the calls of one reply, in their order: what, and by which rule."""
    model = ScriptedModel([list(calls), "done"])
    tools = [*windlass.file_tools(tmp_path), "write", "shell", save]
    agent = windlass.Agent("a", model=model, tools=tools, policy=policy, approver=lambda asked: False)
    async with windlass.open(tmp_path / "store.db", agents=[agent], sandbox=sandbox) as rt:
        session = await rt.session(agent, "s", workspace=tmp_path / "work")
        await session.prompt("go")
        await session.result()
        events = [record.event async for record in session.records()]
    said: dict[str, tuple[str, str]] = {}
    for event in events:
        if isinstance(event, ToolAllowed):
            said.setdefault(event.call_id, ("allowed", event.rule))
        elif isinstance(event, PermissionRequested):
            said.setdefault(event.call_id, ("asked", event.rule))
        elif isinstance(event, ToolDenied):
            said.setdefault(event.call_id, ("denied", event.detail))
    return [said[name] for name in sorted(said, key=lambda name: int(name.partition(".")[2]))], events


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


async def test_writing_inside_the_workspace_passes_and_the_rest_is_asked_about(work):
    said, _ = await ruled(
        work,
        WORKSPACE_WRITE,
        call("write", path="a.txt", content="x"),
        call("shell", command="echo hello"),
        call("save", path="b.txt"),
        call("write", path="AGENTS.md", content="x"),
    )
    assert said[:3] == [
        ("allowed", "writing inside the workspace"),
        ("asked", "default ask"),
        ("asked", "default ask"),
    ]
    assert said[3][0] == "asked", "the tool itself says that the name is protected"


@pytest.mark.parametrize(
    ("files", "network", "allowed"), [(True, True, True), (True, False, False), (False, True, False)]
)
async def test_commands_pass_only_in_a_sandbox_that_confines_files_and_network(work, files, network, allowed):
    sandbox = Confining(files=files, network=network)
    said, events = await ruled(work, SANDBOXED, call("shell", command="echo hello"), sandbox=sandbox)
    assert said == [("allowed", "commands in the sandbox") if allowed else ("asked", "default ask")]
    (body,) = [event.body for event in events if isinstance(event, ToolPrepared)]
    assert body is not None
    assert body.prepared.confined == allowed, "what the gate rested on is in the log"


@pytest.mark.parametrize(
    ("writes", "verdict"),
    [
        (("/srv/p/.git/hooks/pre-commit",), ("ask", "protected names")),
        (("/srv/p/notes.txt",), ("allow", "commands in the sandbox")),
        ((), ("allow", "commands in the sandbox")),
    ],
)
def test_a_command_that_is_known_to_write_a_protected_name_is_asked_about_also_in_the_sandbox(writes, verdict):
    state = State()
    state.gate.policy = SANDBOXED
    state.workspace.folder = Workspace(cwd="/srv/p")
    spec = ToolSpec(name="shell", kind="shell", source="builtin", traits=("execute",))
    about = Description(commands=("make",), writes=writes, paths=writes, exact=False)
    matched, unjudged = judged(state, spec, {}, about)
    prepared = Prepared(digest="d", matched=matched, unjudged=unjudged, exact=False, confined=True)
    said = verdicts.judge(state, spec, prepared)
    assert (said.action, said.rule) == verdict


async def test_an_unconfined_runtime_asks_about_every_command_but_not_about_writes(work):
    said, _ = await ruled(work, SANDBOXED, call("write", path="a.txt", content="x"), call("shell", command="ls"))
    assert said == [("allowed", "writing inside the workspace"), ("asked", "default ask")]


async def test_a_sandbox_confines_no_tool_of_the_author(work):
    @windlass.tool(kind="shell", traits=("execute",))
    def shout() -> str:
        "Runs wherever it likes."
        return "!"

    agent = windlass.Agent("a", model=ScriptedModel([call("shout"), "x"]), tools=[shout], policy=SANDBOXED)
    sandbox = Confining(files=True, network=True)
    async with windlass.open(work / "store.db", agents=[agent], sandbox=sandbox) as rt:
        session = await rt.session(agent, "s", workspace=work / "work")
        await session.prompt("go")
        assert (await session.result()).status == "asked"


async def test_a_command_that_outlives_its_session_is_asked_about_in_a_sandbox_too(work):
    sandbox = Confining(files=True, network=True)
    calls = [call("shell", command="true", background="detached"), call("shell", command="true", background=True)]
    said, events = await ruled(work, SANDBOXED, *calls, sandbox=sandbox)
    assert said == [("asked", "sensitive"), ("allowed", "commands in the sandbox")]
    (request,) = [event for event in events if isinstance(event, PermissionRequested)]
    assert (request.session_offered, request.by_pattern) == (False, False)
