"""Streamed Markdown: set when it is complete, the same in any pieces, and never able to leave its column."""

from __future__ import annotations

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from windlass.cli.terminal.markdown import GROWING_MAX, UNIT_MAX, MarkdownFlow
from windlass.cli.terminal.text import cells

from .test_hostile_text import HOSTILE

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class Paper:
    """What a terminal would show: rows that are complete, and those that still grow."""

    def __init__(self) -> None:
        self.done = ""
        self.growing = ""

    def put(self, done: str, growing: str) -> None:
        self.done += done
        self.growing = growing


def begun(*pieces: str, width: int = 30, colours: bool = False) -> tuple[MarkdownFlow, Paper]:
    paper = Paper()
    flow = MarkdownFlow(paper, margin="  ", width=lambda: width, colours=colours)
    for piece in pieces:
        flow.write(piece)
    return flow, paper


def told(*pieces: str, width: int = 30, colours: bool = False) -> str:
    flow, paper = begun(*pieces, width=width, colours=colours)
    flow.end_line()
    assert paper.growing == ""
    assert not flow.open_line
    return paper.done


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("one **two** `three` _four_ ~~five~~", "  one two three four five\n"),
        ("one two three four five six seven", "  one two three four five six\n  seven\n"),
        ("a line\nanother line", "  a line\n  another line\n"),
        ("a\n\nb", "  a\n\n  b\n"),
        ("a\n- b\n- c\n\n  d\n- e", "  a\n   • b\n   • c\n     d\n   • e\n"),
        ("3. a\n4. b", "   3 a\n   4 b\n"),
        ("# A title\ntext", "  A title\n  text\n"),
        ("[here](http://x.y)", "  here (http://x.y)\n"),
        ("![here](http://x.y)", "  !here (http://x.y)\n"),
        ("```python\nx = [ 1,   2 ]\n```\nb", "    x = [ 1,   2 ]\n  b\n"),
        ("```\n" + "x" * 30 + "\n", "    " + "x" * 25 + "\n    xxxxx\n"),
        ("~~~\n```\n\n~~~\n", "    ```\n\n"),
        ("a|b\n-|-\n1|2\n", "   a  b\n   ────\n   1  2\n"),
        ("a|b\n-|-\n1|" + "x" * 30, None),
        ("<b>a</b> &amp; &#x1b;[2J &#x202e; :smile: [red]", "  <b>a</b> &amp; &#x1b;[2J\n  &#x202e; :smile: [red]\n"),
        ("[a]: http://x.y\n", "  [a]: http://x.y\n"),
        ("a\r", "  a\\x0d\n"),
        ("a\r\nb", "  a\n  b\n"),
        ("\n\n", ""),
    ],
)
def test_markdown_is_set_so(text: str, wanted: str | None):
    if wanted is None:
        assert told(text).count("x") == 30  # broken, not cut
        return
    assert told(text) == wanted
    assert told(*text) == wanted
    assert COLOUR.sub("", told(text, colours=True)).replace(" \n", "\n") == wanted


def test_what_is_complete_goes_above_and_the_rest_grows():
    flow, paper = begun("a **b", "old** c\n")
    assert (paper.done, paper.growing) == ("", "  a bold c")
    flow.write("\n- one\n")
    assert (paper.done, paper.growing) == ("  a bold c\n", "\n   • one")
    flow.write("- two\n\n```py\nx = 1\ny")
    assert (paper.done, paper.growing) == ("  a bold c\n\n   • one\n   • two\n\n    x = 1\n", "    y")
    assert flow.open_line


def test_colours_are_a_choice():
    assert told("**a** `b`") == "  a b\n"
    assert told("**a** `b`", colours=True) == "  \x1b[1ma\x1b[0m \x1b[36mb\x1b[0m\n"


def test_hostile_text_stays_letters_behind_the_margin():
    for text in (
        HOSTILE,
        f"```{HOSTILE}\n{HOSTILE}\n",
        f"- {HOSTILE}\n- [{HOSTILE}]({HOSTILE})",
        f"|{HOSTILE}|b|\n|-|-|",
    ):
        shown = COLOUR.sub("", told(text, colours=True))
        assert not STEERING.search(shown)
        assert all(line == "" or line.startswith("  ") for line in shown.split("\n"))


MARKS = st.sampled_from(
    [
        "# ",
        "- ",
        "1. ",
        "> ",
        "```",
        "~~~\n",
        "\n",
        "\n\n",
        "    ",
        "| a | b |\n|---|---|\n",
        "**",
        "`",
        "](http://x)",
        "[",
    ]
)


@hypothesis.example(["word ", "\t", "word "], 16)
@hypothesis.given(st.lists(st.text(max_size=12) | MARKS | st.just("word "), max_size=16), st.integers(16, 40))
def test_streamed_markdown_is_the_same_in_any_pieces_and_stays_in_its_column(pieces: list[str], width: int):
    shown = told(*pieces, width=width, colours=True)
    assert shown == told("".join(pieces), width=width, colours=True)
    plain = COLOUR.sub("", shown)
    assert not STEERING.search(plain)
    for line in plain.split("\n"):
        assert cells(line) <= width
        assert line == "" or line.startswith("  ")


def test_what_is_very_long_is_told_plainly_and_whole():
    shown = told("- " + "word " * UNIT_MAX, "x" * UNIT_MAX, "\n\nend", width=80)
    assert (shown.count("word"), shown.count("x")) == (UNIT_MAX, UNIT_MAX)
    assert shown.endswith("  end\n")


def test_a_line_without_an_end_is_let_go_of_piece_by_piece():
    flow, paper = begun(*["word " * 100] * (UNIT_MAX // 100), width=80)
    assert len(paper.growing) < 2 * GROWING_MAX
    flow.end_line()
    assert paper.done.count("word") == UNIT_MAX
