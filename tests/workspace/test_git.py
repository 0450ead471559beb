"""What a folder's repository says of itself, with real repositories and with damaged ones."""

from __future__ import annotations

import os
import pathlib

import pytest

from windlass.runtime.workspace.git import CONFIG_BYTES_MAX, LEVELS_MAX, POINTER_BYTES_MAX, Repository, find, name_in

from .fixtures import COMMIT, by_hand, git, needs_git, origin, repository


def found(folder: pathlib.Path) -> Repository | None:
    return find(str(folder))[0]


@needs_git
def test_a_repository_is_found_from_any_folder_beneath_it(tmp_path):
    root = repository(tmp_path / "work")
    git(root, "remote", "add", "origin", "https://someone:secret@example.org/acme/tools.git")
    inner = root / "src" / "deep"
    inner.mkdir(parents=True)
    assert found(inner) == Repository(root=str(root), branch="main", name="acme/tools")
    assert found(root) == found(inner)


@needs_git
def test_another_branch_a_detached_head_and_a_branch_without_commits_are_told_apart(tmp_path):
    root = repository(tmp_path / "work")
    git(root, "checkout", "-q", "-b", "feature/long-name")
    assert found(root) == Repository(root=str(root), branch="feature/long-name")
    commit = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "--detach")
    assert found(root) == Repository(root=str(root), branch=f"detached at {commit}")
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "-b", "trunk")
    assert found(empty) == Repository(root=str(empty), branch="trunk")


@needs_git
def test_packed_refs_do_not_hide_the_branch(tmp_path):
    root = repository(tmp_path / "work")
    git(root, "pack-refs", "--all")
    assert found(root) == Repository(root=str(root), branch="main")


@needs_git
def test_a_worktree_has_its_own_branch_and_the_repository_of_the_others(tmp_path):
    root = repository(tmp_path / "work")
    git(root, "remote", "add", "origin", "git@example.org:acme/tools.git")
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert found(tmp_path / "side") == Repository(root=str(tmp_path / "side"), branch="side", name="acme/tools")
    assert found(root) == Repository(root=str(root), branch="main", name="acme/tools")


@needs_git
def test_a_submodule_is_its_own_repository(tmp_path):
    part = repository(tmp_path / "part")
    whole = repository(tmp_path / "whole")
    git(whole, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "inner")
    assert found(whole / "inner") == Repository(root=str(whole / "inner"), branch="main")


def test_no_repository_is_no_repository(tmp_path):
    assert found(tmp_path) is None


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        ("ref: refs/heads/main\n", "main"),
        ("ref:refs/heads/a/b\n", "a/b"),
        ("ref: refs/remotes/origin/x\n", "remotes/origin/x"),
        (COMMIT, f"detached at {COMMIT}"),
        (COMMIT * 2, None),
        ("ref: refs/heads/.invalid\n", None),
        ("ref: refs/heads/two words\n", None),
        ("ref: refs/heads/\x1b[31mred\n", None),
        ("ref: refs/heads/" + "x" * 300, None),
        ("ref: refs/heads/a/../../etc\n", None),
    ],
)
def test_a_head_names_a_branch_or_nothing(tmp_path, head, branch):
    by_hand(tmp_path / "work", head)
    here = found(tmp_path / "work")
    if head == COMMIT * 2:
        assert here is None
    else:
        assert here == Repository(root=str(tmp_path / "work"), branch=branch)


@pytest.mark.parametrize("head", ["", "garbage", "ref: elsewhere", "\0\0", "ref: refs", "x" * (POINTER_BYTES_MAX + 1)])
def test_what_is_no_head_makes_no_repository(tmp_path, head):
    by_hand(tmp_path / "work", head)
    assert found(tmp_path / "work") is None


def test_a_damaged_repository_inside_of_a_sound_one_is_passed_over(tmp_path):
    by_hand(tmp_path / "work")
    by_hand(tmp_path / "work" / "inner", "garbage")
    assert found(tmp_path / "work" / "inner") == Repository(root=str(tmp_path / "work"), branch="main")


def test_a_head_that_is_a_link_is_read_as_a_name(tmp_path):
    root = by_hand(tmp_path / "work")
    (root / ".git" / "HEAD").unlink()
    (root / ".git" / "HEAD").symlink_to("refs/heads/old-style")
    assert found(root) == Repository(root=str(root), branch="old-style")
    (root / ".git" / "HEAD").unlink()
    (root / ".git" / "HEAD").symlink_to("/etc/passwd")
    assert found(root) is None


@pytest.mark.parametrize(
    "pointer",
    [b"", b"gitdir:", b"gitdir: /nowhere/at/all\n", b"gitdir: \0\n", b"gitdir: a\nb", b"no pointer", b"\xff\xfe\x00"],
)
def test_a_git_file_that_points_nowhere_is_no_repository(tmp_path, pointer):
    (tmp_path / ".git").write_bytes(pointer)
    assert found(tmp_path) is None


def test_a_git_file_that_points_at_itself_is_no_repository(tmp_path):
    (tmp_path / ".git").write_text("gitdir: .git\n")
    assert found(tmp_path) is None
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / ".git").symlink_to(".git")
    assert found(tmp_path / "loop") is None


def test_pipes_in_the_place_of_files_hold_nobody_up(tmp_path):
    root = by_hand(tmp_path / "work")
    (root / ".git" / "HEAD").unlink()
    os.mkfifo(root / ".git" / "HEAD")
    assert found(root) is None
    other = by_hand(tmp_path / "other")
    (other / ".git" / "config").unlink()
    os.mkfifo(other / ".git" / "config")
    assert found(other) == Repository(root=str(other), branch="main")


def test_a_huge_config_is_not_read(tmp_path):
    root = by_hand(tmp_path / "work", config=origin("https://h/a/b") + "#" * CONFIG_BYTES_MAX)
    assert found(root) == Repository(root=str(root), branch="main")


def test_includes_and_rewritings_in_a_config_do_nothing(tmp_path):
    (tmp_path / "more").write_text(origin("https://example.org/evil/included"))
    config = f'[include]\n\tpath = {tmp_path}/more\n[url "https://evil/"]\n\tinsteadOf = https://\n'
    root = by_hand(tmp_path / "work", config=config + origin("https://example.org/acme/tools"))
    assert found(root) == Repository(root=str(root), branch="main", name="acme/tools")


def test_a_config_is_read_with_its_quotes_comments_and_odd_lines(tmp_path):
    config = (
        '; a comment\n[Remote "other"]\nurl = https://h/no/no\n[core]\n\turl = https://h/no/no\n'
        '[remote "origin"] ; here\n\tURL = "https://h/acme/to\\\nols.git" # why\n\turl = https://h/second/one\n'
    )
    root = by_hand(tmp_path / "work", config=config)
    assert found(root) == Repository(root=str(root), branch="main", name="acme/tools")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://example.org/acme/tools.git", "acme/tools"),
        ("https://user:token@example.org/acme/tools", "acme/tools"),
        ("ssh://git@example.org:2222/acme/tools.git", "acme/tools"),
        ("git@example.org:acme/tools.git", "acme/tools"),
        ("example.org:group/sub/tools", "group/sub/tools"),
        ("https://example.org/acme/tools.git?token=secret#x", "acme/tools"),
        ("https://example.org/acme/tools/", "acme/tools"),
        ("https://example.org/tools", None),
        ("https://example.org/a/user:secret@b/c", None),
        ("https://example.org/../../etc", None),
        ("/home/someone/secret/place", None),
        ("../beside/it", None),
        ("file:///home/someone/secret/place", None),
        ("C:/secret/place", None),
        ("C:\\secret\\place", None),
        ("ext::sh -c 'touch /tmp/x'", None),
        ("https://example.org/acme/\x1b[31mtools", None),
        ("", None),
    ],
)
def test_an_address_gives_owner_and_name_and_nothing_else(address, name):
    assert name_in(address) == name


def test_a_repository_of_somebody_else_above_is_passed_over(tmp_path, monkeypatch):
    by_hand(tmp_path)
    inner = tmp_path / "mine"
    inner.mkdir()
    real = os.stat
    strangers = {str(tmp_path), str(tmp_path / ".git")}

    def stat(path, *args, **more):
        about = real(path, *args, **more)
        if str(path) not in strangers:
            return about
        return os.stat_result([*about[:4], about.st_uid + 1, *about[5:10]])

    assert found(inner) == Repository(root=str(tmp_path), branch="main")
    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr("windlass.runtime.workspace.git._about", lambda path: 1)
    assert found(inner) is None


def test_the_search_ends_after_so_many_folders(tmp_path):
    by_hand(tmp_path)
    inner = tmp_path
    for _ in range(LEVELS_MAX - 1):
        inner = inner / "d"
    inner.mkdir(parents=True)
    assert found(inner) == Repository(root=str(tmp_path), branch="main")
    (inner / "d").mkdir()
    assert found(inner / "d") is None


@needs_git
def test_nothing_of_a_repository_is_ever_executed(tmp_path):
    root = repository(tmp_path / "work")
    canary = tmp_path / "canary"
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.hooksPath", "credential.helper"):
        git(root, "config", key, f"touch {canary}")
    for hook in ("post-checkout", "pre-commit", "post-index-change"):
        script = root / ".git" / "hooks" / hook
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\ntouch {canary}\n")
        script.chmod(0o755)
    assert found(root) == Repository(root=str(root), branch="main")
    assert not canary.exists()
