"""Worktrees under SIGKILL: made once, merged once, and never left behind without a name."""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest

import windlass
from tests.runtime.support import events_of, only, sound
from windlass.events.trees.worktrees import WorktreeMerged, WorktreeRemoved
from windlass.runtime.trees import worktree_folders, worktree_merge
from windlass.runtime.trees.git_process import GitFailed

from . import worktree_target
from .support import branches, commit, git, repository, worktrees

PATIENCE_S = 120
MOMENTS = ("worktree_made", "worktree_merged", "worktree_removed")


def life(folder: pathlib.Path, moment: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tests.isolation.worktree_target", str(folder), moment]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


async def test_a_worktree_survives_kills_at_every_moment(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    begun = git(place, "rev-parse", "HEAD")
    for moment in MOMENTS:
        assert life(tmp_path, moment).returncode == -signal.SIGKILL, moment
        assert worktrees(place) <= 1
        assert len(branches(place)) <= 1
    done = life(tmp_path, "none")
    assert (done.returncode, done.stdout) == (0, "completed done\n"), done.stderr
    async with windlass.open(tmp_path / "work.db", agents=[worktree_target.agent()]) as runtime:
        (row,) = [row for row in await runtime.sessions(root="s") if row.parent is not None]
        child = await runtime.get(row.session)
        events = await events_of(child)
        (gone,) = only(events, WorktreeRemoved)
        await sound(child)
        assert [one.outcome for one in only(events, WorktreeMerged)] == ["merged"]
        assert git(place, "rev-list", "--count", f"{begun}..HEAD") == "1"
        assert ((place / "new.txt").read_text(), gone.branch) == ("two\n", "")
        assert (branches(place), worktrees(place)) == ([], 0)


def test_what_is_left_of_a_worktree_that_was_never_whole_is_made_anew(tmp_path: pathlib.Path):
    place, folder = repository(tmp_path / "repo"), tmp_path / "trees/one"
    git(place, "worktree", "add", "--quiet", "-b", "windlass/one", str(folder))
    (folder / "notes.txt").unlink()  # git was cut off while it checked out
    made = worktree_folders.made(str(place), str(folder), "windlass/one", "merge")
    assert (folder / "notes.txt").read_text() == "one\n"
    (folder / "mine.txt").write_text("mine")
    assert worktree_folders.made(str(place), str(folder), "windlass/one", "merge") == made
    assert (folder / "mine.txt").read_text() == "mine"
    assert worktrees(place) == 1


def test_a_branch_with_changes_of_its_own_is_never_taken_for_ours(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    git(place, "checkout", "--quiet", "-b", "windlass/one")
    (place / "notes.txt").write_text("precious\n")
    commit(place, "precious")
    git(place, "checkout", "--quiet", "main")
    with pytest.raises(GitFailed, match="changes of its own"):
        worktree_folders.made(str(place), str(tmp_path / "trees/one"), "windlass/one", "merge")
    assert git(place, "show", "windlass/one:notes.txt") == "precious"


def test_a_merge_and_a_removal_that_are_done_again_change_nothing(tmp_path: pathlib.Path):
    place, folder = repository(tmp_path / "repo"), tmp_path / "trees/one"
    made = worktree_folders.made(str(place), str(folder), "windlass/one", "merge")
    assert worktree_merge.merged(made, "why").outcome == "unchanged"
    (folder / "notes.txt").write_text("two\n")
    first = worktree_merge.merged(made, "why")
    assert (first.outcome, worktree_merge.merged(made, "why")) == ("merged", first)
    gone = worktree_folders.removed(made, "why", keeps=False)
    assert (gone, worktree_folders.removed(made, "why", keeps=False)) == (WorktreeRemoved(), WorktreeRemoved())
    assert (branches(place), worktrees(place), folder.exists()) == ([], 0, False)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_worktree_that_was_made_from_one_that_is_gone_is_removed_all_the_same(tmp_path: pathlib.Path, keeps: bool):
    place, outer, inner = repository(tmp_path / "repo"), tmp_path / "trees/outer", tmp_path / "trees/inner"
    first = worktree_folders.made(str(place), str(outer), "windlass/outer", "keep")
    second = worktree_folders.made(str(outer), str(inner), "windlass/inner", "merge")
    (inner / "notes.txt").write_text("two\n")
    assert worktree_merge.merged(second, "why").outcome == "merged"
    worktree_folders.removed(first, "why", keeps=True)
    assert not outer.exists()
    gone = worktree_folders.removed(second, "why", keeps=keeps)
    assert (gone.detail, worktrees(place), inner.exists()) == ("", 0, False)
    assert branches(place) == (["windlass/inner", "windlass/outer"] if keeps else ["windlass/outer"])
    assert git(place, "show", "windlass/outer:notes.txt") == "two"


def test_a_repository_that_is_gone_is_said_and_nothing_raises(tmp_path: pathlib.Path):
    place, folder = repository(tmp_path / "repo"), tmp_path / "trees/one"
    made = worktree_folders.made(str(place), str(folder), "windlass/one", "merge")
    place.rename(tmp_path / "elsewhere")
    assert worktree_merge.merged(made, "why").outcome == "failed"
    gone = worktree_folders.removed(made, "why", keeps=True)
    assert gone.branch == "windlass/one"
    assert str(folder) in gone.detail


def test_a_worktree_goes_when_the_one_that_it_was_made_from_is_gone(tmp_path: pathlib.Path):
    place, above, below = repository(tmp_path / "repo"), tmp_path / "trees/one", tmp_path / "trees/two"
    first = worktree_folders.made(str(place), str(above), "windlass/one", "merge")
    second = worktree_folders.made(str(above), str(below), "windlass/two", "merge")
    (below / "notes.txt").write_text("two\n")
    assert worktree_folders.removed(first, "why", keeps=False) == WorktreeRemoved()
    gone = worktree_folders.removed(second, "why", keeps=True)
    assert (gone.branch, gone.detail, below.exists(), worktrees(place)) == ("windlass/two", "", False, 0)
    assert git(place, "show", "windlass/two:notes.txt") == "two"
    assert worktree_folders.removed(second, "why", keeps=False) == WorktreeRemoved()
    assert branches(place) == []


def test_a_worktree_of_a_worktree_is_made_and_merged(tmp_path: pathlib.Path):
    place, above, below = repository(tmp_path / "repo"), tmp_path / "trees/one", tmp_path / "trees/two"
    worktree_folders.made(str(place), str(above), "windlass/one", "merge")
    second = worktree_folders.made(str(above), str(below), "windlass/two", "merge")
    (below / "notes.txt").write_text("two\n")
    assert worktree_merge.merged(second, "why").outcome == "merged"
    assert (above / "notes.txt").read_text() == "two\n"


def points_at(folder: pathlib.Path, other: pathlib.Path) -> None:
    """Has a `.git` file name another repository."""
    shutil.rmtree(folder / ".git") if (folder / ".git").is_dir() else (folder / ".git").unlink()
    (folder / ".git").write_text(f"gitdir: {other / '.git'}\n")


def shares_with(folder: pathlib.Path, other: pathlib.Path) -> None:
    """Has a `.git` folder say that its branches are those of another repository."""
    (folder / ".git/commondir").write_text(f"{other / '.git'}\n")


@pytest.mark.parametrize("leads", [points_at, shares_with])
def test_no_worktree_is_made_of_a_repository_that_a_file_leads_to(tmp_path: pathlib.Path, leads: Any):
    place, other = repository(tmp_path / "repo"), repository(tmp_path / "other")
    leads(place, other)
    with pytest.raises(GitFailed, match="leads to a repository that does not know it"):
        worktree_folders.made(str(place), str(tmp_path / "trees/one"), "windlass/one", "merge")
    assert (branches(other), worktrees(other)) == ([], 0)


def test_nothing_is_committed_to_a_repository_that_a_child_leads_to(tmp_path: pathlib.Path):
    place, other, folder = repository(tmp_path / "repo"), repository(tmp_path / "other"), tmp_path / "trees/one"
    made, before = (
        worktree_folders.made(str(place), str(folder), "windlass/one", "merge"),
        git(other, "rev-parse", "HEAD"),
    )
    (folder / "notes.txt").write_text("two\n")
    points_at(folder, other)
    merged = worktree_merge.merged(made, "why")
    assert merged.outcome == "failed"
    assert merged.body is not None
    assert "leads to a repository that does not know it" in merged.body.detail
    gone = worktree_folders.removed(made, "why", keeps=True)
    assert (gone.branch, (folder / "notes.txt").read_text()) == ("windlass/one", "two\n")
    assert (git(other, "rev-parse", "HEAD"), git(other, "status", "--porcelain")) == (before, "")
