"""Worktrees under SIGKILL: made once, merged once, and never left behind without a name."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import pytest

import windlass
from tests.runtime.support import events_of, only, sound
from windlass.events.trees.worktrees import WorktreeMerged, WorktreeRemoved
from windlass.runtime.trees import worktree_folders
from windlass.runtime.trees.git_commands import GitFailed

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
    assert worktree_folders.merged(made, "why").outcome == "unchanged"
    (folder / "notes.txt").write_text("two\n")
    first = worktree_folders.merged(made, "why")
    assert (first.outcome, worktree_folders.merged(made, "why")) == ("merged", first)
    gone = worktree_folders.removed(made, "why", keeps=False)
    assert (gone, worktree_folders.removed(made, "why", keeps=False)) == (WorktreeRemoved(), WorktreeRemoved())
    assert (branches(place), worktrees(place), folder.exists()) == ([], 0, False)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_worktree_that_was_made_from_one_that_is_gone_is_removed_all_the_same(tmp_path: pathlib.Path, keeps: bool):
    place, outer, inner = repository(tmp_path / "repo"), tmp_path / "trees/outer", tmp_path / "trees/inner"
    first = worktree_folders.made(str(place), str(outer), "windlass/outer", "keep")
    second = worktree_folders.made(str(outer), str(inner), "windlass/inner", "merge")
    (inner / "notes.txt").write_text("two\n")
    assert worktree_folders.merged(second, "why").outcome == "merged"
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
    assert worktree_folders.merged(made, "why").outcome == "failed"
    gone = worktree_folders.removed(made, "why", keeps=True)
    assert gone.branch == "windlass/one"
    assert str(folder) in gone.detail
