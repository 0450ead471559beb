"""What the writing tools do to files and tell a model: exact edits, whole files, patches of one piece, moves."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

import pytest

from windlass.events.tools.permissions import WriteDetail
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.description import CallPlace, Description, described
from windlass.tools.files import FILE_TOOLS, WRITE_TOOLS

from .bench import MEANS, Bench


@pytest.fixture(params=MEANS)
def bench(tmp_path, request):
    return Bench(tmp_path, names=(*FILE_TOOLS, *WRITE_TOOLS), means=request.param)


def about(bench: Bench, tool: str, /, exclude: tuple[str, ...] = (), **args: object) -> Description:
    """What a call would be about."""
    checked = bench.tools[tool].check(args)
    assert checked.errors == ()
    return described(bench.tools[tool], checked.args, CallPlace(session="s", exclude=exclude))


def shown(said: Description) -> WriteDetail:
    """What a person would see."""
    assert isinstance(said.detail, WriteDetail)
    return said.detail


def left(bench: Bench) -> list[str]:
    """Every name beneath the root."""
    return sorted(str(path.relative_to(bench.root)) for path in bench.root.rglob("*"))


# --- write ---


def test_a_new_file_is_made_with_the_directories_above_it(bench):
    assert bench.call("write", path="a/b/c.txt", content="one\ntwo\n") == "created a/b/c.txt (+2 -0)"
    assert (bench.root / "a/b/c.txt").read_text() == "one\ntwo\n"
    assert left(bench) == ["a", "a/b", "a/b/c.txt"]


def test_a_file_that_was_not_read_is_not_replaced(bench):
    bench.write("a.txt", "old")
    assert bench.refused("write", path="a.txt", content="new").code == "not_read"
    bench.call("read", path="a.txt")
    assert bench.call("write", path="a.txt", content="new\n") == "changed a.txt (+1 -1)"
    assert bench.call("write", path="a.txt", content="newer\n") == "changed a.txt (+1 -1)"


def test_a_file_that_changed_since_it_was_read_is_not_replaced(bench):
    bench.write("a.txt", "old")
    bench.call("read", path="a.txt")
    bench.write("a.txt", "somebody else's")
    assert bench.refused("write", path="a.txt", content="new").code == "not_read"
    assert (bench.root / "a.txt").read_text() == "somebody else's"


@pytest.mark.parametrize(("before", "after"), [(0o640, 0o640), (0o755, 0o755), (0o4755, 0o755), (0o2711, 0o711)])
def test_a_replaced_file_keeps_its_mode_and_loses_what_raises_rights(bench, before, after):
    path = bench.write("tool.sh", "echo old\n")
    path.chmod(before)
    bench.call("edit", path="tool.sh", old="old", new="new")
    assert stat.S_IMODE(path.stat().st_mode) == after


def test_another_name_of_the_same_file_keeps_the_old_content(bench):
    path = bench.write("a.txt", "old")
    os.link(path, bench.root / "b.txt")
    bench.call("edit", path="a.txt", old="old", new="new")
    assert ((bench.root / "a.txt").read_text(), (bench.root / "b.txt").read_text()) == ("new", "old")


# --- edit ---


def test_an_exact_text_is_replaced_once(bench):
    bench.write("a.py", "x = 1\ny = 2\n")
    assert bench.call("edit", path="a.py", old="y = 2", new="y = 3\nz = 4") == "changed a.py (+2 -1)"
    assert (bench.root / "a.py").read_text() == "x = 1\ny = 3\nz = 4\n"


def test_a_text_that_stands_there_twice_needs_all(bench):
    bench.write("a.py", "x\ny\nx\n")
    error = bench.refused("edit", path="a.py", old="x", new="z")
    assert error.told == (
        "the text stands 2 times in a.py: from line 1, 3 on\n"
        "give more of the lines around the one that is meant, or all=true for every one"
    )
    bench.call("edit", path="a.py", old="x", new="z", all=True)
    assert (bench.root / "a.py").read_text() == "z\ny\nz\n"


@pytest.mark.parametrize(
    ("old", "near"),
    [
        ("def mian():", "     1\tdef main():"),
        ("    return  1", "     2\t\treturn 1"),
        ("def main():\n    return 1", "     1\tdef main():"),
    ],
)
def test_a_text_that_is_not_there_is_answered_with_what_is_near(bench, old, near):
    bench.write("a.py", "def main():\n\treturn 1\n")
    error = bench.refused("edit", path="a.py", old=old, new="x")
    assert (error.code, near in error.told) == ("no_match", True), error.told


def test_lines_of_a_file_with_other_line_ends_keep_them(bench):
    bench.write("a.txt", b"one\r\ntwo\r\nthree\r\n")
    bench.call("edit", path="a.txt", old="one\ntwo\n", new="1\n2\n")
    assert (bench.root / "a.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize(
    ("content", "code"), [(b"\x00\x01old", "not_text"), (None, "not_found"), (b"old" * 1_000_000, "too_large")]
)
def test_what_is_no_text_is_not_edited(bench, content, code):
    if content is not None:
        bench.write("a.bin", content)
    assert bench.refused("edit", path="a.bin", old="old", new="new").code == code


# --- patch ---


def test_a_patch_is_one_whole(bench):
    bench.write("a.py", "one\ntwo\n")
    bench.write("b.py", "three\n")
    edits = [
        {"path": "a.py", "old": "one", "new": "1"},
        {"path": "a.py", "old": "1\ntwo", "new": "1\n2"},
        {"path": "b.py", "old": "three", "new": "3"},
        {"path": "new/c.py", "old": "", "new": "four\n"},
    ]
    assert bench.call("patch", edits=edits) == "changed a.py (+2 -2)\nchanged b.py (+1 -1)\ncreated new/c.py (+1 -0)"
    assert [(bench.root / name).read_text() for name in ("a.py", "b.py", "new/c.py")] == ["1\n2\n", "3\n", "four\n"]


def test_a_patch_that_fails_in_one_place_changes_nothing(bench):
    bench.write("a.py", "one\n")
    edits = [{"path": "a.py", "old": "one", "new": "1"}, {"path": "b.py", "old": "x", "new": "y"}]
    assert bench.code("patch", edits=edits) == "not_found"
    assert (bench.root / "a.py").read_text() == "one\n"


def test_a_patch_that_the_disk_refuses_half_way_is_taken_back(bench, monkeypatch):
    bench.write("a.py", "one\n")
    bench.write("b.py", "two\n")
    renames = []

    def rename(*args: Any, **more: Any) -> None:
        renames.append(args[1])
        if args[1] == "b.py":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        really(*args, **more)

    really = os.rename
    monkeypatch.setattr(os, "rename", rename)
    edits = [{"path": "a.py", "old": "one", "new": "1"}, {"path": "b.py", "old": "two", "new": "2"}]
    assert bench.code("patch", edits=edits) == "disk_full"
    assert renames == ["a.py", "b.py", "a.py"]
    assert (bench.root / "a.py").read_text() == "one\n"
    assert left(bench) == ["a.py", "b.py"]


# --- directories, moves and removals ---


def test_directories_are_made_and_removed_when_empty(bench):
    assert bench.call("make_directory", path="a/b") == "made a/b/"
    assert bench.call("make_directory", path="a/b") == "a/b is there already"
    assert bench.refused("remove", path="a").code == "not_empty"
    assert bench.call("remove", path="a/b") == "removed a/b/"


def test_files_and_directories_are_moved_and_nothing_is_replaced(bench):
    bench.write("a.txt", "A")
    bench.write("d/b.txt", "B")
    assert bench.call("move", path="a.txt", to="new/c.txt") == "moved a.txt to new/c.txt"
    assert bench.call("move", path="d", to="e") == "moved d to e"
    assert bench.refused("move", path="new/c.txt", to="e/b.txt").code == "already_there"
    assert bench.refused("move", path="e", to="e/f").code == "not_written"
    assert left(bench) == ["e", "e/b.txt", "new", "new/c.txt"]


def test_a_file_is_removed(bench):
    bench.write("a.txt", "A\nB\n")
    assert bench.call("remove", path="a.txt") == "removed a.txt"
    assert bench.refused("remove", path="a.txt").code == "not_found"


def test_what_took_the_place_of_what_was_agreed_to_is_not_removed(bench):
    (bench.root / "a").mkdir()
    basis = about(bench, "remove", path="a").basis
    (bench.root / "a").rmdir()
    bench.write("a", "somebody's")
    assert code(bench, "remove", basis, path="a") == "changed_meanwhile"
    basis = about(bench, "remove", path="a").basis
    (bench.root / "a").unlink()
    (bench.root / "a").mkdir()
    assert code(bench, "remove", basis, path="a") in ("changed_meanwhile", "not_a_file")
    assert left(bench) == ["a"]


def test_a_second_attempt_finds_a_directory_gone_and_is_content(bench):
    (bench.root / "a").mkdir()
    basis = about(bench, "remove", path="a").basis
    bench.call("remove", path="a")
    assert code(bench, "remove", basis, attempt=1, path="a") == "changed_meanwhile"
    assert code(bench, "remove", basis, attempt=2, path="a") is None


def code(bench: Bench, tool: str, basis: str, attempt: int = 1, **args: Any) -> str | None:
    """The code of the error of a call that was agreed to on a basis."""
    try:
        bench.tools[tool](ToolContext(session="s", call_id="c", basis=basis, attempt=attempt), **args)
    except ToolError as error:
        return error.code
    return None


# --- what a person is shown ---


def test_a_call_is_described_with_its_whole_difference(bench):
    bench.write("src/a.py", "one\ntwo\n")
    said = about(bench, "edit", path="./src//a.py", old="two", new="2")
    whole = str(bench.root / "src/a.py")
    assert shown(said).diff == "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert (said.subject, said.paths, said.writes, said.exact) == ("src/a.py", (whole,), (whole,), True)
    assert said.basis
    assert (bench.root / "src/a.py").read_text() == "one\ntwo\n"


def test_a_difference_that_is_too_long_says_so_and_offers_no_approval_for_later(bench):
    said = about(bench, "write", path="big.txt", content="x" * 150_000)
    assert "more characters" in shown(said).diff
    assert (shown(said).session_approval_offered, said.subject) == (False, None)
    assert "too long to be shown whole" in shown(said).intention


def test_a_call_that_would_come_to_nothing_says_so_without_showing_the_file(bench):
    bench.write("a.py", "password = hunter2\n")
    said = about(bench, "edit", path="a.py", old="pasword = x", new="y")
    assert said.futile == (
        "the text to replace is not in a.py; give it exactly as the file has it, with its blanks and without line "
        "numbers; read shows it"
    )
    assert "hunter2" not in repr(said)


def test_what_is_excluded_is_neither_shown_nor_written(bench):
    bench.write("keys/a.pem", "secret")
    for tool, args in [
        ("write", {"path": "keys/b.pem", "content": ""}),
        ("edit", {"path": "keys/a.pem", "old": "secret", "new": "x"}),
        ("remove", {"path": "keys/a.pem"}),
        ("move", {"path": "keys/a.pem", "to": "a.txt"}),
        ("move", {"path": "keys", "to": "other"}),
    ]:
        said = about(bench, tool, exclude=("*.pem",), **args)
        assert said.excluded is not None, (tool, args)
        assert "secret" not in repr(said)
        ctx = ToolContext(session="s", call_id="c", exclude=("*.pem",))
        with pytest.raises(Exception, match="excluded"):
            bench.tools[tool](ctx, **bench.tools[tool].check(dict(args)).args)
    assert left(bench) == ["keys", "keys/a.pem"]


@pytest.mark.parametrize(
    ("held", "path", "to"),
    [
        ("a/config.toml", "a", ".cargo"),
        ("a/workflows/x.yml", "a", ".github"),
        ("a/deep/AGENTS.md", "a", "b"),
        (".github/workflows/x.yml", ".github", "b"),
    ],
)
def test_a_directory_is_not_moved_unasked_if_a_protected_name_comes_or_goes_with_it(bench, held, path, to):
    bench.write(held)
    said = about(bench, "move", path=path, to=to)
    assert said.sensitive is not None
    assert not shown(said).session_approval_offered
    bench.write("plain/x.yml")
    assert about(bench, "move", path="plain", to="other").sensitive is None
