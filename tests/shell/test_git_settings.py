"""Git only reads where the repository names no program: what stands in its settings is anybody's."""

from __future__ import annotations

import os
import subprocess

import pytest

from windlass.tools.description import CallPlace
from windlass.tools.shell.shell_description import environment_of, shell_description

HOSTILE = {
    "a filter": '[filter "x"]\n\tclean = touch ran\n',
    "a driver": '[diff "x"]\n\tcommand = touch ran\n',
    "a text conversion": '[diff "x"]\n\ttextconv = touch ran\n',
    "an external difference": "[diff]\n\texternal = touch ran\n",
    "another spelling": '[ FILTER "x" ]\nclean=touch ran\n',
    "an old spelling": "[filter.x]\nclean=touch ran\n",
    "another file": "[include]\n\tpath = ../elsewhere\n",
    "another file sometimes": '[includeIf "gitdir:/"]\n\tpath = ../elsewhere\n',
    "a remote that objects are fetched from": '[remote "x"]\n\tpromisor = true\n\tuploadpack = touch ran\n',
    "a section behind another one": '[core] [diff "x"]\n\ttextconv = touch ran\n',
    "a section right behind another one": '[remote "]"][diff "x"]\n\ttextconv = touch ran\n',
    "a section nobody knows": "[surprise]\n\tkey = value\n",
    "more than is read": "# " + "x" * 70_000,
}
READING = ["git status", "git diff", "git log -p", "git show HEAD", "ls && git status --short"]


@pytest.fixture
def repository(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    with open(tmp_path / ".git" / "config", "a", encoding="utf-8") as file:
        file.write('[remote "origin"]\n\turl = ../origin\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n')
    (tmp_path / "src").mkdir()
    return tmp_path


def traits(command, folder):
    return shell_description({"command": command}, CallPlace(folder=str(folder))).traits


@pytest.mark.parametrize("command", READING)
def test_an_ordinary_repository_is_only_read(repository, command):
    assert traits(command, repository) == ("read",)
    assert traits(command, repository / "src") == ("read",)


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_one_that_names_a_program_is_not(repository, command, text):
    with open(repository / ".git" / "config", "a", encoding="utf-8") as file:
        file.write(text)
    assert traits(command, repository) is None
    assert traits(command, repository / "src") is None
    assert traits("ls", repository) == ("read",)


@pytest.mark.parametrize("command", READING)
def test_nor_one_whose_settings_begin_with_a_mark_that_git_skips(repository, command):
    (repository / ".git" / "config").write_bytes(b'\xef\xbb\xbf[diff "x"]\n\ttextconv = touch ran\n')
    assert traits(command, repository) is None


@pytest.mark.guard(60)
def test_nor_one_whose_settings_are_a_pipe_that_nobody_writes_to(repository):
    (repository / ".git" / "config").unlink()
    os.mkfifo(repository / ".git" / "config")
    assert traits("git status", repository) is None


@pytest.mark.parametrize("split", [False, True])
def test_nor_one_with_another_one_inside_that_has_settings_of_its_own(repository, split):
    """Git looks into it with none of the settings that it is given here, and runs what it names."""
    author = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    inner, ran = repository / "inner", repository / "ran"
    subprocess.run(["git", "init", "-q", inner], check=True)
    (inner / ".gitattributes").write_text("* filter=x\n")
    (inner / "file").write_text("1")
    for words in (["add", "."], ["commit", "-qm", "x"], ["config", "filter.x.clean", f"touch {ran}; cat"]):
        subprocess.run([*author, *words], cwd=inner, check=True)
    assert traits("git status", repository) == ("read",)
    subprocess.run([*author, "-c", "advice.addEmbeddedRepo=false", "add", "inner"], cwd=repository, check=True)
    if split:
        subprocess.run(["git", "update-index", "--split-index"], cwd=repository, check=True)
        (repository / "other").write_text("x")
        subprocess.run(["git", "add", "other"], cwd=repository, check=True)
    assert [command for command in READING if traits(command, repository) is not None] == []
    (inner / "file").write_text("2")
    subprocess.run(["git", "status"], cwd=repository, env=run_with("git status"), check=True, capture_output=True)
    assert ran.exists()  # what would have run


def run_with(command):
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment_of(command)}


def test_nor_one_with_submodules_or_settings_that_cannot_be_read(repository):
    (repository / ".git" / "modules").mkdir()
    assert traits("git status", repository) is None
    (repository / ".git" / "modules").rmdir()
    (repository / ".git" / "config").write_bytes(b"\xff\xfe")
    assert traits("git status", repository) is None


def test_a_worktree_has_the_settings_of_its_repository(repository, tmp_path_factory):
    author = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "x"], cwd=repository, check=True)
    beside = tmp_path_factory.mktemp("beside") / "tree"
    subprocess.run(["git", "worktree", "add", "-q", beside], cwd=repository, check=True)
    assert traits("git status", beside) == ("read",)
    with open(repository / ".git" / "config", "a", encoding="utf-8") as file:
        file.write(HOSTILE["a filter"])
    assert traits("git status", beside) is None


def test_a_link_in_the_place_of_settings_is_followed_as_git_follows_it(repository):
    (repository / "settings").write_text(HOSTILE["a driver"])
    (repository / ".git" / "config").unlink()
    (repository / ".git" / "config").symlink_to("../settings")
    assert traits("git diff", repository) is None
