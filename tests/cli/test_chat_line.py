"""The parts of the chat's input, each by itself: keys, the editor, where letters stand, streamed text, history."""

from __future__ import annotations

import asyncio
import json
import pathlib
import re
import stat

import hypothesis
import pytest
from hypothesis import strategies as st

from windlass.cli.chat_commands import COMMANDS, completions
from windlass.cli.chat_desk import CALM_S, DockDesk
from windlass.cli.line_dock import Dock, height_of
from windlass.cli.line_editor import TEXT_MAX, Editor
from windlass.cli.line_flow import WordFlow
from windlass.cli.line_history import ENTRIES_MAX, ENTRY_MAX, History, history_path
from windlass.cli.line_keys import PASTE_MAX, Decoder, Key
from windlass.cli.line_picker import Picker
from windlass.cli.line_view import fit, laid_out
from windlass.cli.text import cells

# --- keys ---


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"abc", [Key("text", "abc")]),
        ("日é".encode(), [Key("text", "日é")]),
        (b"\r", [Key("enter")]),
        (b"\x1b\r", [Key("newline")]),
        (b"\x1b[13;2u", [Key("newline")]),
        (b"\x1b[A\x1bOB\x1b[C\x1b[D", [Key("up"), Key("down"), Key("right"), Key("left")]),
        (b"\x1b[H\x1b[4~\x1b[3~", [Key("home"), Key("end"), Key("delete")]),
        (b"\x1b[1;5D\x1bf", [Key("word_left"), Key("word_right")]),
        (b"\x01\x05\x0b\x15\x17", [Key("home"), Key("end"), Key("kill_right"), Key("kill_left"), Key("kill_word")]),
        (b"\x1b[200~a\r\nb\x1b[31m\x03\x1b[201~", [Key("paste", "a\nb\x1b[31m\x03")]),
        (b"\x1b[99;99;99Xok", [Key("text", "ok")]),  # a sequence that nobody knows
        (b"\x1b]11;rgb:0/0/0\x07ok", [Key("text", "ok")]),  # an answer that nobody asked for
        (b"\x00\x1cok", [Key("text", "ok")]),
    ],
)
def test_bytes_are_these_keys_however_they_are_cut(data: bytes, keys: list[Key]):
    assert Decoder().feed(data) == keys
    decoder = Decoder()
    one_by_one = [key for byte in data for key in decoder.feed(bytes([byte]))]
    assert "".join(key.text or f"<{key.name}>" for key in one_by_one) == "".join(
        key.text or f"<{key.name}>" for key in keys
    )
    assert not decoder.waiting


def test_escape_alone_is_a_key_only_when_nothing_follows():
    decoder = Decoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waiting
    assert decoder.give_up() == [Key("escape")]
    assert decoder.feed(b"\x1b[") == []
    assert decoder.give_up() == []
    assert decoder.feed(b"x") == [Key("text", "x")]


def test_a_paste_is_bounded_and_never_given_up():
    decoder = Decoder()
    assert decoder.feed(b"\x1b[200~" + b"x" * (PASTE_MAX + 10)) == []
    assert not decoder.waiting
    assert decoder.give_up() == []
    (key,) = decoder.feed(b"\x1b[201~")
    assert len(key.text) == PASTE_MAX


@hypothesis.given(st.lists(st.binary(max_size=12), max_size=12))
def test_any_bytes_are_read_and_letters_never_hold_what_a_terminal_obeys(pieces: list[bytes]):
    decoder = Decoder()
    for piece in pieces:
        for key in decoder.feed(piece):
            assert key.name == "paste" or not re.search("[\x00-\x1f]", key.text)


# --- the editor ---


def edited(*keys: str, text: str = "", past: tuple[str, ...] = ()) -> Editor:
    """An editor after some keys; what is no name of a key is typed."""
    editor = Editor(past=past, complete=lambda so_far: completions(so_far, ("p4", "p5")))
    editor.set(text)
    names = {"left", "right", "home", "end", "up", "down", "backspace", "delete", "tab", "enter", "newline", "yank"}
    names |= {"kill_left", "kill_right", "kill_word", "word_left", "word_right"}
    for key in keys:
        editor.key(Key(key) if key in names else Key("text", key))
    return editor


@pytest.mark.parametrize(
    ("keys", "text", "wanted", "at"),
    [
        (("a", "c", "left", "b"), "", "abc", 2),
        (("backspace",), "abc", "ab", 2),
        (("home", "delete"), "abc", "bc", 0),
        (("left", "backspace"), "cafe\u0301", "cafe\u0301"[:2] + "e\u0301", 2),
        (("backspace",), "cafe\u0301", "caf", 3),
        (("backspace",), "日本", "日", 1),
        (("home", "kill_right"), "abc", "", 0),
        (("left", "kill_left"), "abc", "c", 0),
        (("kill_word",), "one two  ", "one ", 4),
        (("kill_word", "home", "yank"), "one two", "twoone ", 3),
        (("home", "word_right", "x"), "one two", "onex two", 4),
        (("enter", "b"), "a\\", "a\nb", 3),
        (("newline", "b", "home", "x"), "a", "a\nxb", 3),
        (("up", "x"), "abc\nd", "axbc\nd", 2),
        (("up", "end", "down"), "ab\nlong", "ab\nlong", 5),
        (("tab",), "/qui", "/quit", 5),
        (("tab",), "/edit p", "/edit p", 7),
        (("tab",), "/edit p5", "/edit p5 ", 9),
        (("tab",), "no command", "no command", 10),
        (("backspace", "delete", "left", "right", "up", "down"), "", "", 0),
    ],
)
def test_keys_change_the_text_so(keys: tuple[str, ...], text: str, wanted: str, at: int):
    editor = edited(*keys, text=text)
    assert (editor.text, editor.at) == (wanted, at)


def test_up_and_down_walk_history_and_come_back_to_the_draft():
    past = ("first", "second")
    assert edited("up", text="draft", past=past).text == "second"
    assert edited("up", "up", "up", text="draft", past=past).text == "first"
    assert edited("up", "up", "down", text="draft", past=past).text == "second"
    assert edited("up", "down", text="draft", past=past).text == "draft"
    assert edited("down", text="draft", past=past).text == "draft"


def test_tab_lists_what_a_command_could_be():
    assert edited("tab", text="/s").text == "/se"
    editor = edited("tab", "tab", text="/s")
    assert set(editor.hints) == {"/setup", "/sessions"}
    editor.key(Key("text", "s"))
    assert editor.hints == ()
    assert completions("/", ()) == [f"/{name} " if command.given else f"/{name}" for name, command in COMMANDS.items()]


def test_input_is_bounded():
    editor = Editor()
    editor.insert("x" * (TEXT_MAX + 1))
    editor.insert("y")
    assert len(editor.text) == TEXT_MAX


@hypothesis.given(
    st.lists(
        st.sampled_from(["left", "right", "backspace", "delete", "up", "down", "kill_word", "a", "\n", "日", "\u0301"])
    )
)
def test_cursor_never_leaves_the_text(keys: list[str]):
    editor = Editor(past=("one", "two\nlines"))
    for key in keys:
        editor.key(Key("text", key) if len(key) == 1 else Key(key))
        assert 0 <= editor.at <= len(editor.text)


# --- where letters stand ---


def test_long_input_wraps_and_wide_letters_take_two_columns():
    rows = laid_out("> ", "abcdefgh", 8, 6, 9)
    assert (rows.lines, rows.row, rows.column) == (["> abcd", "  efgh"], 1, 6)
    rows = laid_out("> ", "日本語", 2, 6, 9)
    assert (rows.lines, rows.row, rows.column) == (["> 日本", "  語"], 1, 2)
    rows = laid_out("> ", "e\u0301x", 2, 6, 9)
    assert (rows.row, rows.column) == (0, 3)
    rows = laid_out("> ", "a\nb", 1, 9, 9)
    assert (rows.lines, rows.row, rows.column) == (["> a", "  b"], 0, 3)


def test_input_taller_than_the_screen_shows_the_rows_about_the_cursor():
    text = "\n".join("abcdef")
    assert laid_out("> ", text, len(text), 9, 3).lines == ["  d", "  e", "  f"]
    assert laid_out("> ", text, 0, 9, 3).lines == ["> a", "  b", "  c"]


@hypothesis.given(st.text(max_size=60), st.integers(0, 60), st.integers(12, 40), st.integers(1, 9))
def test_every_row_fits_and_holds_nothing_that_a_terminal_obeys(text: str, at: int, width: int, height: int):
    rows = laid_out("> ", text, min(at, len(text)), width, height)
    assert len(rows.lines) <= height
    assert 0 <= rows.row < len(rows.lines)
    assert rows.column <= width
    assert all(cells(line) <= width and not re.search("[\x00-\x1f\x7f-\x9f]", line) for line in rows.lines)


def test_lines_are_cut_and_measured_in_columns():
    assert (fit("abc", 3), fit("abcd", 3), fit("日本語", 4)) == ("abc", "ab…", "日…")
    assert [height_of(text, 4) for text in ("", "abcd", "abcde", "\x1b[1mabcd\x1b[0m")] == [1, 1, 2, 1]


# --- streamed text ---


class Paper:
    """What a terminal would show: complete lines, and one that is open."""

    def __init__(self) -> None:
        self.done = ""
        self.open = ""

    def write(self, text: str) -> None:
        head, feed, self.open = (self.open + text).rpartition("\n")
        self.done += head + feed

    def replace(self, text: str) -> None:
        self.open = ""
        self.write(text)


def flowed(*pieces: str, width: int = 20) -> str:
    paper = Paper()
    flow = WordFlow(paper, margin="  ", width=lambda: width)
    for piece in pieces:
        flow.write(piece)
    flow.end_line()
    assert paper.open == ""
    return paper.done


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("one two three four five", "  one two three\n  four five\n"),
        ("- one two three four", "  - one two three\n    four\n"),
        ("x" * 20, "  " + "x" * 17 + "\n  xxx\n"),
        ("```\nf(a, b, c, d, e, f)\n```\none two three four", None),
        ("a\n\nb\n", "  a\n\n  b\n"),
        ("aaaa bbbb cccc dd \nx", "  aaaa bbbb cccc dd\n  x\n"),
        ("a\r", "  a\\x0d\n"),
    ],
)
def test_text_wraps_at_words_and_code_at_the_edge(text: str, wanted: str | None):
    wanted = wanted or "  ```\n  f(a, b, c, d, e,\n  f)\n  ```\n  one two three\n  four\n"
    assert flowed(text) == wanted
    assert flowed(*text) == wanted


@hypothesis.given(st.lists(st.text(max_size=30), max_size=8), st.integers(12, 40))
def test_streamed_text_is_the_same_in_any_pieces_and_stays_in_its_column(pieces: list[str], width: int):
    found = flowed(*pieces, width=width)
    for line in found.split("\n"):
        assert cells(line) <= max(width, 11)
        assert line == "" or line.startswith("  ")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e\u2028]", found)


def test_a_million_letters_are_wrapped_in_a_moment():
    found = flowed("- " + "word " * 100_000 + "x" * 500_000, width=80)
    assert found.count("word") == 100_000
    assert found.count("x") == 500_000


# --- picking ---


def picked(*keys: Key, several: bool = False, free: bool = True) -> list[object]:
    said: list[object] = []
    options = ["red", "blue", "green"]
    picker = Picker(
        options,
        several=several,
        free=free,
        picked=said.append,
        written=said.append,
        declined=lambda: said.append(None),
    )
    for key in keys:
        picker.key(key)
    return said


DOWN, UP, ENTER, SPACE = Key("down"), Key("up"), Key("enter"), Key("text", " ")


@pytest.mark.parametrize(
    ("keys", "more", "wanted"),
    [
        ([ENTER], {}, [(0,)]),
        ([DOWN, ENTER], {}, [(1,)]),
        ([Key("text", "3"), ENTER], {}, [(2,)]),
        ([Key("text", "9"), ENTER], {}, [(0,)]),
        ([UP, ENTER], {}, [""]),
        ([UP, ENTER], {"free": False}, [(2,)]),
        ([Key("text", "mauve")], {}, ["mauve"]),
        ([Key("text", "mauve"), ENTER], {"free": False}, [(0,)]),
        ([Key("paste", "a\nb")], {}, ["a\nb"]),
        ([Key("escape")], {}, [None]),
        ([SPACE, DOWN, DOWN, SPACE, ENTER], {"several": True}, [(0, 2)]),
        ([Key("text", "12"), ENTER], {"several": True}, [(0, 1)]),
        ([Key("text", "11"), DOWN, ENTER], {"several": True}, [(1,)]),
    ],
)
def test_picker_takes(keys: list[Key], more: dict[str, bool], wanted: list[object]):
    assert picked(*keys, **more) == wanted


def test_keys_behind_the_first_letters_wait_for_whoever_reads_them():
    since: list[Key] = []
    said: list[object] = []
    picker = Picker(
        ["red"], several=False, free=True, picked=said.append, written=said.append, declined=print, since=since
    )
    for key in (Key("text", "mau"), Key("text", "ve"), ENTER, Key("escape")):
        picker.key(key)
    assert said == ["mau"]
    assert since == [Key("text", "ve"), ENTER, Key("escape")]


def test_a_list_longer_than_the_screen_moves_with_the_pointer():
    picker = Picker(
        [f"n{n}" for n in range(30)], several=False, free=False, picked=print, written=print, declined=print
    )
    assert picker.rows(40, 4).lines[:3] == ["❯ 1) n0", "  2) n1", "  3) n2"]
    for key in "27":
        picker.key(Key("text", key))
    rows = picker.rows(40, 4)
    assert rows.lines[rows.row] == "❯ 27) n26"
    assert len(rows.lines) == 4


# --- history ---


def test_history_is_private_bounded_and_shared(tmp_path: pathlib.Path):
    path = tmp_path / "state" / "history"
    first = History(path)
    for entry in ("one", "one", "two\nlines", " secret", "", "x" * (ENTRY_MAX + 1)):
        first.add(entry)
    assert first.entries == ["one", "two\nlines", "x" * (ENTRY_MAX + 1)]
    assert History(path).entries == ["one", "two\nlines"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("\n".join(json.dumps(str(n)) for n in range(3 * ENTRIES_MAX)) + "\nnot json\n[1]\n")
    assert len(History(path).entries) == ENTRIES_MAX
    assert len(path.read_text().splitlines()) == ENTRIES_MAX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_history_is_where_it_is_wanted_or_nowhere(tmp_path: pathlib.Path):
    home = str(tmp_path)
    assert history_path({"HOME": home}) == tmp_path / ".local" / "state" / "windlass" / "history"
    assert history_path({"HOME": home, "XDG_STATE_HOME": "/s"}) == pathlib.Path("/s/windlass/history")
    assert history_path({"HOME": home, "WINDLASS_HISTORY": "/h"}) == pathlib.Path("/h")
    assert history_path({"HOME": home, "WINDLASS_HISTORY": "off"}) is None
    History(None).add("kept nowhere")
    unwritable = History(tmp_path / "file" / "below")
    (tmp_path / "file").write_text("")
    unwritable.add("kept in memory")
    assert unwritable.entries == ["kept in memory"]


# --- being asked ---


async def test_an_answer_is_taken_only_after_a_moment_without_a_key():
    loop = asyncio.get_running_loop()
    desk = DockDesk.__new__(DockDesk)
    desk._dock = dock = Dock.__new__(Dock)
    dock.pressed_at = 0.0
    asked_at = loop.time()
    await desk.ready()
    assert loop.time() >= asked_at + CALM_S
    dock.pressed_at = pressed_at = loop.time() + CALM_S / 2
    await desk.ready()
    assert loop.time() >= pressed_at + CALM_S
