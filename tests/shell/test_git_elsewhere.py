"""A repository that anybody wrote into a folder is not obeyed, whatever allows git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from windlass.events.values.policy import Rule
from windlass.runtime.bind.policy_conditions import verdict_of
from windlass.tools.description import CallPlace
from windlass.tools.shell.shell_description import environment_of, shell_description

ALLOWED = Rule(action="allow", tool="shell", commands=("git status", "git *", "cd *", "env *"))


def bare_repository(folder: Path, ran: Path) -> None:
    """What a tool that writes text files can make of a folder."""
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch {ran}; false"\n'
    )


def run(command: str, folder: Path, cwd: str = ".") -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **environment_of(command, cwd)}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder / cwd, env=env, check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize(("command", "cwd"), [("git status", "src/x"), ("cd src/x && git status", ".")])
def test_a_bare_repository_in_a_folder_is_neither_allowed_nor_obeyed(tmp_path: Path, command: str, cwd: str) -> None:
    ran = tmp_path / "ran"
    bare_repository(tmp_path / "src" / "x", ran)
    about = shell_description({"command": command, "cwd": cwd}, CallPlace(folder=str(tmp_path)))
    assert verdict_of(ALLOWED, {}, about, str(tmp_path)) is not True
    assert (about.exact, about.subject) == (False, "")
    assert run(command, tmp_path, cwd).returncode != 0
    assert not ran.exists()


def test_an_ordinary_repository_stays_allowed_and_its_monitor_is_not_run_by_what_changes(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ran = tmp_path / "ran"
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {ran}; false"], cwd=tmp_path, check=True)
    (tmp_path / "a").write_text("a")
    about = shell_description({"command": "git status"}, CallPlace(folder=str(tmp_path)))
    assert verdict_of(ALLOWED, {}, about, str(tmp_path)) is True
    assert run("git add a && git status", tmp_path).returncode == 0
    assert not ran.exists()


def test_what_only_reads_fetches_nothing_that_is_missing(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {ran}",
        "protocol.ext.allow": "always",
    }
    for name, value in settings.items():
        subprocess.run(["git", "config", name, value], cwd=tmp_path, check=True)
    assert run("git cat-file -p 1234567890123456789012345678901234567890", tmp_path).returncode != 0
    assert not ran.exists()
