"""A folder that is watched: what is read again, and only then."""

from __future__ import annotations

import pytest

import windlass
from windlass.events.values.setup import Workspace
from windlass.events.values.tools import ToolSpec
from windlass.runtime.workspace import folder as workspace
from windlass.runtime.workspace import git
from windlass.runtime.workspace import instruction_files as instructions
from windlass.runtime.workspace.folder import Folder, Place, folder_of, may_change, recorded_folder

from .fixtures import by_hand, checked_out, needs_git, repository
from .fixtures import git as run_git


@pytest.fixture
def counted(monkeypatch):
    """How often the repository and the instruction files were read."""
    counts = {"git": 0, "files": 0}
    find, look = git.find, instructions.look

    def counting_find(*args):
        counts["git"] += 1
        return find(*args)

    def counting_look(*args, **more):
        counts["files"] += 1
        return look(*args, **more)

    monkeypatch.setattr(git, "find", counting_find)
    monkeypatch.setattr(workspace, "look", counting_look)
    return counts


def test_what_has_not_changed_is_not_read_again(tmp_path, counted):
    root = by_hand(tmp_path / "work")
    (root / "AGENTS.md").write_text("x")
    place = Place(Folder(path=str(root), trusted=True))
    for _ in range(3):
        place.look_now()
    assert counted == {"git": 1, "files": 1}
    checked_out(root, "feature")
    place.look_now()
    assert counted == {"git": 2, "files": 1}
    (root / "AGENTS.md").write_text("y")
    place.look_now(files=False)
    assert counted == {"git": 2, "files": 1}
    place.look_now()
    assert counted == {"git": 2, "files": 2}


@needs_git
def test_what_git_does_in_its_folder_all_the_time_is_no_change(tmp_path, counted):
    root = repository(tmp_path / "work")
    place = Place(Folder(path=str(root)))
    place.look_now()
    (root / "file").write_text("x")
    run_git(root, "add", "file")
    run_git(root, "status")
    place.look_now()
    assert counted == {"git": 1, "files": 1}
    run_git(root, "commit", "-q", "-m", "more")
    place.look_now()
    assert counted["files"] == 1
    assert place.workspace == Workspace(cwd=str(root), git_root=str(root), branch="main")


def test_a_file_that_appears_above_is_seen(tmp_path):
    root = by_hand(tmp_path / "work")
    (root / "src").mkdir()
    place = Place(Folder(path=str(root / "src"), trusted=True))
    place.look_now()
    assert place.files == instructions.FoundFiles()
    (root / "AGENTS.md").write_text("Now.")
    place.look_now()
    assert place.files is not None
    assert place.files.text == "# Instructions from AGENTS.md\n\nNow."


def test_a_folder_that_is_gone_leaves_what_was_seen(tmp_path):
    root = by_hand(tmp_path / "work")
    (root / "AGENTS.md").write_text("Here.")
    place = Place(Folder(path=str(root), trusted=True))
    place.look_now()
    before = place.files
    root.rename(tmp_path / "elsewhere")
    place.look_now()
    assert (place.workspace, place.files) == (None, before)


def test_a_folder_is_known_by_its_real_path(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert folder_of(tmp_path / "link") == Folder(path=str(tmp_path / "real"))
    assert folder_of(None) is None
    with pytest.raises(windlass.UsageError, match="no folder"):
        folder_of(tmp_path / "nothing")


def test_a_path_of_any_bytes_can_be_recorded(tmp_path):
    odd = tmp_path / b"\xff".decode("utf-8", "surrogateescape")
    odd.mkdir()
    place = Place(Folder(path=str(odd)))
    place.look_now()
    assert place.workspace == Workspace(cwd=f"{tmp_path}/\ufffd")


def test_a_recorded_folder_is_looked_at_for_its_branch_alone(tmp_path):
    root = by_hand(tmp_path / "work")
    (root / "AGENTS.md").write_text("no")
    folder = recorded_folder(Workspace(cwd=str(root)))
    assert folder == Folder(path=str(root), names=None)
    place = Place(folder)
    place.look_now()
    assert (place.workspace, place.files) == (Workspace(cwd=str(root), git_root=str(root), branch="main"), None)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (ToolSpec(name="t"), True),
        (ToolSpec(name="t", contract="pure"), False),
        (ToolSpec(name="t", traits=("read", "egress")), False),
        (ToolSpec(name="t", traits=("read", "write")), True),
    ],
)
def test_a_tool_says_whether_it_may_change_something(spec, expected):
    assert may_change(spec) is expected
