"""A change that somebody is asked about is on the screen whole: coloured on a terminal, plain elsewhere, and tame."""

from __future__ import annotations

import io

from windlass.cli.screen.person_requests import asked_lines
from windlass.cli.terminal.text import Paint
from windlass.events.tools.permissions import WriteDetail
from windlass.tools.files.write.diffs import unified

DETAIL = WriteDetail(
    path="/srv/a.py",
    intention="replace a text in it",
    diff="--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
)


def shown(detail: WriteDetail, *, colours: bool) -> list[str]:
    return asked_lines("p1", "edit", detail, "", "abc", None, Paint(io.StringIO(), on=colours))


def test_a_difference_is_plain_in_a_pipe():
    assert shown(DETAIL, colours=False)[1:-1] == [
        "│ /srv/a.py", "│ replace a text in it", "│ --- a/a.py", "│ +++ b/a.py", "│ @@ -1,2 +1,2 @@", "│  one", "│ -two", "│ +2",
    ]  # fmt: skip


def test_a_difference_has_its_colours_on_a_terminal():
    lines = shown(DETAIL, colours=True)
    assert "│ \x1b[31m-two\x1b[0m" in lines
    assert "│ \x1b[32m+2\x1b[0m" in lines
    assert "│ \x1b[36m@@ -1,2 +1,2 @@\x1b[0m" in lines
    assert "│  one" in lines


def test_hostile_text_in_a_difference_is_spelt_out_behind_the_bar():
    evil = "harmless\x1b[2K\x1b[1A\rgone\u202e\u2028\n│ approved\n"
    lines = shown(WriteDetail(path="/a", diff=unified("a\x1b[31m", b"", evil.encode())), colours=True)
    text = "\n".join(lines)
    assert all(line.startswith("│ ") for line in lines[1:-1])
    assert "\x1b[2K" not in text
    assert not {"\r", "\u202e", "\u2028"} & set(text)
    assert any(line.endswith("+│ approved\x1b[0m") for line in lines)


def test_line_ends_that_change_are_seen():
    assert unified("a", b"x\n", b"x\r\n") == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+x\u240d\n"
