"""What decides what an agent may do is out of its reach: under no name, by no tool, whatever its policy allows.

Each attempt goes through a real session whose policy allows everything; a canary proves that the tools do write otherwise."""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Any

import pytest

import windlass
from tests.policy import on_record
from tests.runtime.support import agent_of, events_of, only
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.tools.permissions import PermissionRequested
from windlass.testing.scripted import call
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.files import FILE_TOOLS, WRITE_TOOLS, file_tools
from windlass.tools.files.protected_names import PROTECTED, protected

NEVER = [
    ".windlass/settings.toml", ".windlass-policy.toml", "windlass.toml", "Windlass.TOML", "windlass.yaml", ".mcp.json",
    ".MCP.JSON", "sub/.mcp.json", ".git/hooks/pre-commit", ".git/config", ".GIT/config", "sub/.git/hooks/post-checkout",
    ".git", ".git./hooks/x", ".g\u200cit/config", "git~1/config", ".gitconfig", ".claude/settings.json",
    ".claude/settings.local.json", ".cursor/mcp.json", ".vscode/settings.json", ".VSCode/Settings.json", ".vscode/mcp.json",
    ".codex/config.toml", ".gemini/settings.json", ".ssh/authorized_keys", ".bashrc", ".profile", ".config/windlass/x",
    ".local/state/windlass/x.db", "windlass.db", "windlass.db-wal", ".config/systemd/user/x.service", ".netrc",
    "\uff0egit/config", ".git /config", ".git:stream", "windlass.policy.toml", ".zshenv", ".pypirc",
]  # fmt: skip
"""Names that no tool writes, whether or not they are there."""
ASKED = [
    "AGENTS.md", "agents.md", "sub/AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md",
    ".claude/commands/x.md", ".envrc", ".env", ".env.local", ".vscode/tasks.json", ".idea/workspace.xml",
    ".github/workflows/ci.yml", ".gitlab-ci.yml", ".husky/pre-commit", ".pre-commit-config.yaml", "Jenkinsfile",
    ".devcontainer/devcontainer.json", ".npmrc", "sitecustomize.py", "x.pth", ".gitattributes", ".gitmodules",
]  # fmt: skip
"""Names that are asked about each time."""
ORDINARY = ["src/main.py", "gitignore.md", ".gitignore", "docs/windlass.md", "windlass/__init__.py", "agents/x.py"]


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def state_of(folder: pathlib.Path) -> dict[str, str]:
    """Everything beneath a folder, with its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"
        for path in sorted(folder.rglob("*"))
    }


def attempts(path: str) -> list[Any]:
    """Each way in which a writing tool may be led to a name."""
    return [
        call("write", path=path, content="evil"),
        call("write", path=f"./{path}", content="evil"),
        call("patch", edits=[{"path": path, "old": "", "new": "evil"}]),
        call("make_directory", path=path),
        call("make_directory", path=f"{path}/inner"),
        call("move", path="canary.txt", to=path),
        call("move", path="folder", to=path),
    ]


@pytest.mark.parametrize("path", NEVER)
async def test_no_tool_makes_a_name_that_steers_agents(root, path):
    (root / "canary.txt").write_text("evil")
    (root / "folder").mkdir()
    (root / "folder/hooks").mkdir()
    before = state_of(root)
    tries = attempts(path)
    agent = agent_of(tries, "done", tools=file_tools(root, WRITE_TOOLS), policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        policy = (await session.state()).gate.policy
        await session.prompt("go")
        await session.wait_idle()
        denied = only(await events_of(session), ToolDenied)
        assert (await session.state()).gate.policy == on_record(policy)
    assert [event.reason for event in denied] == ["content_excluded"] * len(tries)
    assert state_of(root) == before


@pytest.mark.parametrize("path", ASKED)
async def test_what_tells_agents_or_programs_what_to_do_is_asked_about_whatever_stands(root, path):
    (root / "canary.txt").write_text("evil")
    tries = [call("write", path=path, content="evil"), call("move", path="canary.txt", to=path)]
    agent = agent_of(tries, "done", tools=file_tools(root, WRITE_TOOLS), policy=windlass.ALLOW_ALL, approver=_no)
    before = state_of(root)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.wait_idle()
        asked = only(await events_of(session), PermissionRequested)
    assert [event.rule for event in asked] == ["sensitive"] * len(tries)
    assert state_of(root) == before


async def _no(asked: Any) -> bool:
    return False


async def test_the_rig_sees_a_tool_that_writes(root):
    tries = [call("write", path=path, content="fine") for path in ORDINARY]
    agent = agent_of(tries, "done", tools=file_tools(root, WRITE_TOOLS), policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.wait_idle()
        assert [event.ok for event in only(await events_of(session), ToolFinished)] == [True] * len(ORDINARY)
    assert all((root / path).read_text() == "fine" for path in ORDINARY)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
async def test_a_session_cannot_reach_the_store_that_it_is_kept_in(root, suffix):
    agent = agent_of(
        [
            call("write", path=f"kept/sessions.db{suffix}", content="evil"),
            call("write", path=f"kept/SESSIONS.db{suffix}", content="evil"),
            call("remove", path=f"kept/sessions.db{suffix}"),
            call("move", path=f"kept/sessions.db{suffix}", to="a.txt"),
            call("move", path="kept", to="other"),
            call("patch", edits=[{"path": f"kept/sessions.db{suffix}", "old": "SQLite", "new": "x"}]),
        ],
        "done",
        tools=file_tools(root, (*FILE_TOOLS, *WRITE_TOOLS)),
        policy=windlass.ALLOW_ALL,
    )
    (root / "kept").mkdir()
    async with windlass.open(root / "kept/sessions.db", agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.wait_idle()
        assert [event.reason for event in only(await events_of(session), ToolDenied)] == ["content_excluded"] * 6
    assert sorted(path.name for path in root.iterdir()) == ["kept"]


# --- other ways to the same file ---


def tool(root: pathlib.Path, name: str) -> Any:
    return {one.name: one for one in file_tools(root, (*FILE_TOOLS, *WRITE_TOOLS))}[name]


def refused(root: pathlib.Path, name: str, **args: Any) -> str | None:
    with pytest.raises(ToolError) as caught:
        tool(root, name)(ToolContext(session="s", call_id="c"), **args)
    return caught.value.code


def test_a_link_leads_to_no_protected_name(root):
    (root / ".git").mkdir()
    (root / ".git/config").write_text("[core]")
    (root / "plain").symlink_to(".git")
    (root / "settings").symlink_to(".git/config")
    assert refused(root, "write", path="plain/config", content="evil") == "is_a_link"
    assert refused(root, "write", path="plain/hooks/pre-commit", content="evil") == "is_a_link"
    assert refused(root, "edit", path="settings", old="[core]", new="evil") == "is_a_link"
    assert refused(root, "move", path="plain", to="other") == "is_a_link"
    assert (root / ".git/config").read_text() == "[core]"
    assert os.listdir(root / ".git") == ["config"]


def test_writing_through_a_hard_link_changes_another_file(root):
    (root / ".git").mkdir()
    (root / ".git/config").write_text("[core]")
    os.link(root / ".git/config", root / "innocent.txt")
    tool(root, "edit")(ToolContext(session="s", call_id="c"), path="innocent.txt", old="[core]", new="evil", all=False)
    assert ((root / ".git/config").read_text(), (root / "innocent.txt").read_text()) == ("[core]", "evil")


def test_a_folder_with_something_protected_in_it_stays_where_it_is(root):
    (root / "repo/.git/hooks").mkdir(parents=True)
    (root / "repo/code.py").write_text("x")
    (root / "evil/workflows").mkdir(parents=True)
    assert refused(root, "move", path="repo", to="other") == "protected"
    assert refused(root, "remove", path="repo/.git/hooks") == "protected"
    assert protected("evil/.github", folder=True) is not None
    assert sorted(path.name for path in root.iterdir()) == ["evil", "repo"]


def test_the_root_itself_may_be_what_is_protected(tmp_path):
    (tmp_path / "repo/.git").mkdir(parents=True)
    assert refused(tmp_path / "repo/.git", "write", path="hooks/pre-commit", content="evil") == "protected"
    assert refused(tmp_path / "repo/.git", "write", path="config", content="evil") == "protected"


def test_every_pattern_covers_itself_and_what_is_beneath_it():
    for entry in PROTECTED:
        for pattern in entry.patterns:
            name = pattern.replace("*", "x")
            for path in (name, f"deep/{name}", f"{name}/below", name.upper()):
                found = protected(path)
                assert found is not None, path
                assert entry.action == "ask" or found.action == "deny", path
    for path in ORDINARY:
        assert protected(path) is None, path
