"""A git repository, and an agent with one specialist that changes a file in it."""

from __future__ import annotations

import os
import pathlib
import subprocess

import windlass
from windlass.testing import ScriptedModel, by_history, call

NAMED = {
    "GIT_AUTHOR_NAME": "ada",
    "GIT_AUTHOR_EMAIL": "ada@localhost",
    "GIT_COMMITTER_NAME": "ada",
    "GIT_COMMITTER_EMAIL": "ada@localhost",
}


def git(folder: pathlib.Path, *words: str) -> str:
    """What git says."""
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **NAMED}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(folder: pathlib.Path) -> pathlib.Path:
    """A repository with one commit, on branch main."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "notes.txt").write_text("one\n")
    commit(folder, "begin")
    return folder


def commit(folder: pathlib.Path, why: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", why)


def branches(folder: pathlib.Path) -> list[str]:
    """The branches there are, but for the main one."""
    return [name for name in git(folder, "branch", "--format=%(refname:short)").split() if name != "main"]


def worktrees(folder: pathlib.Path) -> int:
    """How many worktrees a repository has beside itself."""
    return git(folder, "worktree", "list", "--porcelain").count("worktree ") - 1


ALLOWED = windlass.Policy(rules=[windlass.allow("*")])


def writer(text: str = "two\n", *, path: str = "notes.txt", name: str = "writer", **more: object) -> windlass.Agent:
    """A specialist that writes one file and says so."""
    replies = [call("read", path=path), call("write", path=path, content=text), "written"]
    if path != "notes.txt":
        replies = replies[1:]
    given: dict[str, object] = {"isolation": "worktree", "tools": ["read", "write"], "policy": ALLOWED, **more}
    return windlass.Agent(name, ScriptedModel(by_history(replies)), **given)  # type: ignore[arg-type]


def lead(specialist: windlass.Agent, **args: object) -> windlass.Agent:
    """An agent that has it work, and then says that it is done."""
    spawned = call("spawn", agent=specialist.name, task="write", **args)
    return windlass.Agent(
        "lead", ScriptedModel(by_history([spawned, "done"])), agents=[specialist], settings=specialist.settings
    )
