"""The life of a worktree through every fault of git: nothing hangs, and nothing is lost of either branch."""

from __future__ import annotations

import pathlib
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from windlass.events.trees.worktrees import WorktreeMerged, WorktreeRemoved
from windlass.events.values.isolation import Worktree
from windlass.runtime.trees import git_commands, git_process, worktree_folders, worktree_merge
from windlass.runtime.trees.git_process import GitFailed, Patience

from .faulty_git import FAULTS, FaultyGit
from .support import branches, commit, git, repository, worktrees

BRANCH = "windlass/one"
HANGS_S = 1.0
"""How long a git may take in a step in which one hangs. One that is slower is met as one that hangs: this is survived."""
HANGING = ("hangs", "deaf")
NEVER = 9_999
OTHER, SAME = RIVALS = ("other.txt", "notes.txt")
"""What somebody else changes meanwhile: another file than the child, or the same one."""
LOCKS = re.compile(r"[^' ]+(?:\.lock|packed-refs\.new)")


class Life:
    """One worktree, from its making to its end, while somebody else works in the repository."""

    def __init__(self, tmp_path: pathlib.Path, rival: str) -> None:
        self.place = tmp_path / "repo"
        shutil.copytree(tmp_path / "template", self.place)
        self.folder = tmp_path / "trees/one"
        self.rival = rival
        self.tree: Worktree | None = None
        self.merge: WorktreeMerged | None = None
        self.gone: WorktreeRemoved | None = None

    def make(self) -> None:
        self.tree = worktree_folders.made(str(self.place), str(self.folder), BRANCH, "merge")

    def work(self) -> None:
        """Both sides change something; the child's changes are not committed yet."""
        (self.folder / "notes.txt").write_text("ours\n")
        (self.place / self.rival).write_text("theirs\n")
        commit(self.place, "theirs")

    def join(self) -> None:
        assert self.tree is not None
        self.merge = worktree_merge.merged(self.tree, "why")

    def remove(self) -> None:
        assert self.tree is not None
        keeps = self.merge is None or self.merge.outcome not in ("merged", "unchanged")
        self.gone = worktree_folders.removed(self.tree, "why", keeps=keeps)

    def told(self) -> str:
        """What went wrong last, in git's words."""
        if self.gone is not None:
            return self.gone.detail
        return self.merge.body.detail if self.merge is not None and self.merge.body is not None else ""

    def check_kept(self) -> None:
        """What each side did is somewhere."""
        assert "theirs" in git(self.place, "log", "--format=%s").split()
        assert self._holds_ours(), "what the child wrote is lost"

    def _holds_ours(self) -> bool:
        written = self.folder / "notes.txt"
        if written.exists() and written.read_text() == "ours\n":
            return True
        every = git(self.place, "for-each-ref", "--format=%(refname)", "refs/heads").split()
        return any(git(self.place, "show", f"{one}:notes.txt") == "ours" for one in every)

    def check_over(self) -> None:
        """All is where it belongs, and nothing is left lying about."""
        assert self.merge is not None
        assert self.gone is not None
        fits = self.rival == OTHER
        assert (self.merge.outcome, self.gone.detail) == ("merged" if fits else "conflict", ""), self.told()
        assert branches(self.place) == ([] if fits else [self.gone.branch])
        assert git(self.place, "show", "HEAD:notes.txt") == ("ours" if fits else "theirs")
        assert (worktrees(self.place), self.folder.exists()) == (0, False)
        assert git(self.place, "status", "--porcelain") == ""


STEPS: dict[str, Callable[[Life], None]] = {"make": Life.make, "join": Life.join, "remove": Life.remove}


@pytest.fixture
def faulty(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyGit]:
    repository(tmp_path / "template")
    found = FaultyGit(tmp_path / "bin", monkeypatch)
    yield found
    found.end()


def lived(tmp_path: pathlib.Path, faulty: FaultyGit, step: str, fault: str, rival: str, **where: Any) -> int:
    """Lives a life in which a call of one step goes wrong, and the step is done again. How many calls the step took
    when it was."""
    for name in ("repo", "trees"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    life, took = Life(tmp_path, rival), 0
    for name, does in STEPS.items():
        if name == step:
            goes_wrong(life, faulty, name, fault, where)
        does(life)
        took = len(faulty.calls) if name == step else took
        unlocked(life, does)
        if name == "make":
            life.work()
        life.check_kept()
    life.check_over()
    return took


def goes_wrong(life: Life, faulty: FaultyGit, step: str, fault: str, where: dict[str, Any]) -> None:
    faulty.plan(fault, **where)
    with pytest.MonkeyPatch.context() as here:
        if fault in HANGING:
            here.setattr(git_process, "COMMAND_S", HANGS_S)
        with suppress(*[GitFailed] if step == "make" else []):
            STEPS[step](life)
    assert faulty.at_work() == []
    faulty.mend()
    if step != "make":
        life.check_kept()


def unlocked(life: Life, does: Callable[[Life], None]) -> None:
    """Does what a person does whom git asks to: takes away what a killed git left in the repository itself, and has it
    done again."""
    while left := [path for path in map(pathlib.Path, LOCKS.findall(life.told())) if path.exists()]:
        for path in left:
            path.unlink()
        does(life)


@pytest.mark.long
@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "held"])
def test_a_step_in_which_any_call_goes_wrong_can_be_done_again(tmp_path, faulty, step, fault, rival):
    took = lived(tmp_path, faulty, step, "late", rival, at=NEVER)
    for at in range(1, took + 1):
        lived(tmp_path, faulty, step, fault, rival, at=at)


@pytest.mark.parametrize(
    ("step", "fault", "verb", "rival"),
    [
        ("make", "cut_off", "worktree add", OTHER),
        ("make", "killed_behind", "worktree add", OTHER),
        ("join", "cut_off", "add", OTHER),
        ("join", "cut_off", "commit --quiet", OTHER),
        ("join", "killed", "merge-base", OTHER),
        ("join", "cut_off", "commit-tree", OTHER),
        ("join", "killed_behind", "merge --ff-only", OTHER),
        ("join", "cut_off", "merge-tree", SAME),
        ("remove", "fails", "rev-parse", SAME),
        ("remove", "cut_off", "update-ref", SAME),
        ("remove", "killed_behind", "worktree remove", SAME),
        ("remove", "cut_off", "branch", OTHER),
    ],
)
def test_a_step_that_goes_wrong_can_be_done_again(tmp_path, faulty, step, fault, verb, rival):
    lived(tmp_path, faulty, step, fault, rival, verb=verb)


@pytest.mark.parametrize("fault", HANGING)
@pytest.mark.parametrize(("step", "verb"), [("make", "worktree add"), ("join", "merge-tree"), ("remove", "worktree")])
def test_a_git_that_hangs_is_ended_with_all_that_it_started(tmp_path, faulty, step, verb, fault):
    lived(tmp_path, faulty, step, fault, OTHER, verb=verb)


def test_a_branch_whose_tip_git_does_not_tell_is_never_deleted(tmp_path: pathlib.Path, faulty: FaultyGit):
    life = Life(tmp_path, SAME)
    life.make()
    life.work()
    life.join()
    faulty.plan("killed", verb=f"rev-parse --verify -q refs/heads/{BRANCH}")
    life.remove()
    faulty.mend()
    assert life.gone is not None
    assert "killed by signal 9" in life.gone.detail
    life.check_kept()


@pytest.mark.parametrize("fault", ["fails", "killed"])
def test_no_program_of_a_repository_runs_whose_settings_git_does_not_tell(tmp_path, faulty: FaultyGit, fault: str):
    life, trap = Life(tmp_path, OTHER), tmp_path / "ran"
    (life.place / ".gitattributes").write_text("*.txt filter=evil\n")
    commit(life.place, "attributes")
    git(life.place, "config", "filter.evil.smudge", f"touch {trap}; cat")
    faulty.plan(fault, verb="config")
    with pytest.raises(GitFailed, match="git config"):
        life.make()
    assert not trap.exists()


def test_whoever_waits_for_a_repository_is_told_that_another_process_has_it(tmp_path, faulty, monkeypatch):
    monkeypatch.setattr(git_commands, "LOCK_S", 0.1)
    life = Life(tmp_path, OTHER)
    with (
        git_commands.repository(str(life.place)),
        pytest.raises(GitFailed, match=r"another process holds windlass\.lock"),
    ):
        life.make()
    life.make()


def test_a_piece_of_work_that_nobody_waits_for_ends_soon(tmp_path, faulty, monkeypatch):
    monkeypatch.setattr(git_process, "HURRY_S", 0.1)
    life, patience = Life(tmp_path, OTHER), Patience()
    faulty.plan("hangs", verb="worktree add")
    begun = threading.Thread(target=lambda: patience.hurry() if faulty.waits_for("worktree add") else None)
    begun.start()
    with pytest.raises(GitFailed, match="nobody waits for it any more"):
        worktree_folders.made(str(life.place), str(life.folder), BRANCH, "merge", patience)
    begun.join()
    assert faulty.at_work() == []
