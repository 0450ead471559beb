"""Differences of files: what a person is asked about, read back from the unified form in the log."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.acp.view.diff_forms import diffs_of
from windlass.events.tools.permissions import ShellDetail, WriteDetail
from windlass.tools.files.write.diffs import unified

LINES = st.lists(st.sampled_from(["", "a", "b", "- c", "-- d", "++ e", "@@ -1 +1 @@", "\\ f"]), max_size=30)
ENDED = st.booleans()


def text_of(lines: list[str], ended: bool) -> str:
    return "\n".join(lines) + ("\n" if ended and lines else "")


@given(before=LINES, after=LINES, ends=st.tuples(ENDED, ENDED))
def test_each_hunk_of_a_difference_is_read_back_as_its_two_sides(before, after, ends):
    old, new = text_of(before, ends[0]), text_of(after, ends[1])
    told = diffs_of(WriteDetail(path="a.txt", diff=unified("a.txt", old.encode(), new.encode())), "/place")
    ours, theirs = old.splitlines(keepends=True), new.splitlines(keepends=True)
    groups = difflib.SequenceMatcher(None, ours, theirs).get_grouped_opcodes()
    sides = [("".join(ours[hunk[0][1] : hunk[-1][2]]), "".join(theirs[hunk[0][3] : hunk[-1][4]])) for hunk in groups]
    assert [(one["oldText"], one["newText"]) for one in told] == (sides if old != new else [])
    assert {one["path"] for one in told} <= {"/place/a.txt"}


def test_a_new_file_has_no_old_text_and_one_that_goes_no_new_one():
    made = diffs_of(WriteDetail(path="a", diff=unified("a", None, b"x\n")), "/w")
    assert made == [{"type": "diff", "path": "/w/a", "newText": "x\n"}]
    gone = diffs_of(WriteDetail(path="a", diff=unified("a", b"x\n", None)), "/w")
    assert gone == [{"type": "diff", "path": "/w/a", "oldText": "x\n", "newText": ""}]


def test_several_files_are_several_differences_each_with_its_path():
    diff = unified("a b", b"1\n", b"2\n") + unified('o"dd\n', b"x", b"y") + unified("/tmp/c", None, b"z\n")
    made = diffs_of(WriteDetail(path="3 files", diff=diff), "/w")
    assert [(one["path"], one.get("oldText"), one["newText"]) for one in made] == [
        ("/w/a b", "1\n", "2\n"),
        ('/w/o"dd\n', "x", "y"),
        ("/tmp/c", None, "z\n"),
    ]


@pytest.mark.parametrize(
    "detail",
    [
        None,
        ShellDetail(command="ls"),
        WriteDetail(path="a", diff=""),
        WriteDetail(path="a", diff=unified("a", b"\0", b"\1")),
        WriteDetail(path="a", diff="@@ -1 +1 @@\n-a\n+b\n"),
    ],
)
def test_what_is_no_difference_of_texts_is_none(detail):
    assert diffs_of(detail, "/w") == []
