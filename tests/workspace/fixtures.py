"""Repositories for tests: real ones, made by git where it is installed, and ones made by hand."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="needs git")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: pathlib.Path, *words: str) -> str:
    """Runs git in a folder, without anybody's settings, and gives what it says."""
    assert GIT is not None
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder), "PATH": os.defpath}
    who = {f"GIT_{role}_{part}": "nobody@example" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    made = subprocess.run([GIT, *words], cwd=folder, env=quiet | who, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def repository(folder: pathlib.Path, branch: str = "main") -> pathlib.Path:
    """A real repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", branch)
    git(folder, "commit", "-q", "--allow-empty", "-m", "begin")
    return folder


def by_hand(folder: pathlib.Path, head: str = "ref: refs/heads/main\n", config: str = "") -> pathlib.Path:
    """The least that looks like a repository."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    (folder / ".git" / "config").write_text(config)
    return folder


def origin(address: str) -> str:
    """A config whose origin has an address."""
    return f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {address}\n\tfetch = +refs/heads/*\n'


def checked_out(folder: pathlib.Path, branch: str) -> None:
    """What `git checkout` does to HEAD: another file takes its place."""
    fresh = folder / ".git" / "HEAD.lock"
    fresh.write_text(f"ref: refs/heads/{branch}\n")
    fresh.replace(folder / ".git" / "HEAD")
