"""What a policy keeps from the model is kept from commands too: covered up in the sandbox, or asked about."""

from __future__ import annotations

import errno
import os
import pathlib
from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolFinished
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.sandboxes.choice import candidates
from windlass.tools.sandboxes.guarded_names import guarded_names
from windlass.tools.sandboxes.unseen_files import unseen_in

WORKS = [each.name for each in candidates() if each.problem is None]
CANARY = "canary-5c1e"
POLICIES = {
    "excluded": windlass.Policy(default="allow", exclude=["keys/", "*.pem"]),
    "denied": windlass.Policy(rules=(windlass.deny("*", paths=["keys/", "*.pem"], known_only=True),), default="allow"),
}


@pytest.fixture
def work(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "work"
    for name in ("keys/one", "src/deep/a.pem", "src/plain.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{CANARY if name != 'src/plain.txt' else 'seen'}\n")
    (folder / "alias").symlink_to("src/deep/a.pem")
    return folder


async def results(work: pathlib.Path, policy: windlass.Policy, kind: str, *calls: Any) -> tuple[str, list[Any]]:
    """All that came of some calls, and what was asked; nobody says yes."""
    agent = windlass.Agent("a", model=ScriptedModel([*calls, "done"]), tools=["shell", "grep", "read"], policy=policy)
    asked: list[Any] = []

    def no(ask: Any) -> bool:
        asked.append(ask)
        return False

    async with windlass.open(str(work.parent / "s.db"), agents=[agent], sandbox=kind, approver=no) as runtime:
        session = await runtime.session(agent, "s", workspace=work)
        events = [event async for event in session.prompt("go")]
    done = [event for event in events if isinstance(event, ToolFinished)]
    return "\n".join(str(event.body) for event in done), asked


@pytest.mark.skipif("bubblewrap" not in WORKS, reason="bubblewrap cannot be used here")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_a_command_over_the_folder_does_not_see_it(work, policy):
    text = "grep -r . . ; ln -s src/deep/* made; cat made al* src/*/*; find . -type f | xargs cat"
    told, asked = await results(work, policy, "bubblewrap", call("shell", command=text))
    assert asked == []
    assert "seen" in told
    assert CANARY not in told


@pytest.mark.parametrize("command", ["cat src/deep/a.pem", "cat alias", "cat < alias"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_a_command_that_names_it_is_denied_also_by_a_link(work, policy, command):
    assert await results(work, policy, "local", call("shell", command=command)) == ("", [])


@pytest.mark.parametrize("kind", [*(["landlock"] if "landlock" in WORKS else []), "local"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_somebody_is_asked_if_the_sandbox_cannot_hide_it(work, policy, kind):
    told, asked = await results(work, policy, kind, call("shell", command="grep -r . ."))
    assert len(asked) == 1
    assert "cannot hide it from a command" in asked[0].why
    assert CANARY not in told
    for path in (work / "keys/one", work / "src/deep/a.pem"):
        path.unlink()
    (work / "keys").rmdir()
    agent_told, asked = await results(work.rename(work.with_name("w2")), policy, kind, call("shell", command="ls"))
    assert asked == []  # nothing is there to be hidden
    assert "src" in agent_told


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_file_tools_over_the_folder_do_not_see_it(work, policy):
    told, _ = await results(work, policy, "local", call("grep", pattern="."), call("read", path="alias"))
    assert "seen" in told
    assert CANARY not in told


def test_a_folder_that_is_too_large_is_said_to_be(work, monkeypatch):
    assert unseen_in(str(work), ("*.pem",)).whole
    monkeypatch.setattr("windlass.tools.sandboxes.unseen_files.ENTRIES_MAX", 3)
    assert not unseen_in(str(work), ("*.pem",)).whole


def test_a_folder_that_could_not_be_looked_through_is_not_said_to_hold_nothing(work, monkeypatch):
    """Without file descriptors nobody knows what must be covered, or what must be held."""
    scans = os.scandir
    failing = str(work / "src" / "deep")

    def scandir(path):
        if os.fspath(path) == failing:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return scans(path)

    def listdir(path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    assert unseen_in(str(work), ("*.pem",)).whole
    monkeypatch.setattr(os, "scandir", scandir)
    assert not unseen_in(str(work), ("*.pem",)).whole
    monkeypatch.setattr(os, "listdir", listdir)
    with pytest.raises(OSError, match="Too many open files"):
        guarded_names(str(work))
