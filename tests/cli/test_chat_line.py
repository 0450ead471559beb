"""The chat's input without a terminal: keys go in through a pipe, what is drawn is read from the screen that
prompt_toolkit keeps; streamed text and history by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import pathlib
import re
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.layout.processors import TransformationInput
from prompt_toolkit.output.vt100 import Vt100_Output

from windlass.cli.chat.docked_screen import CALM_S, DockDesk
from windlass.cli.chat.slash_commands import COMMANDS, completions
from windlass.cli.terminal.history import ENTRIES_MAX, ENTRY_MAX, HistoryFile, history_path
from windlass.cli.terminal.line import TEXT_MAX, Spelt
from windlass.cli.terminal.text import cells, fit, rows_at_edge
from windlass.cli.terminal.word_wrap import WordFlow
from windlass.events.questions import Option, Question

from .test_hostile_text import HOSTILE

LEFT, RIGHT, UP, DOWN, HOME, END, DELETE = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[4~", "\x1b[3~"
BACKSPACE, ENTER, TAB, ESCAPE, ALT_ENTER, CTRL_C = "\x7f", "\r", "\t", "\x1b", "\x1b\r", "\x03"


class Hand:
    """A desk whose keys come from a pipe and whose screen is kept in memory."""

    def __init__(self, pipe: PipeInput, past: Sequence[str], columns: int, rows: int) -> None:
        self.written = io.StringIO()
        self._pipe = pipe
        self._interrupted = asyncio.Event()
        kept = HistoryFile(None)
        kept.entries = list(past)
        self.desk = DockDesk(
            kept,
            lambda so_far: completions(so_far, ("p4", "p5")),
            self._interrupted.set,
            given=pipe,
            output=Vt100_Output(self.written, lambda: Size(rows=rows, columns=columns), enable_cpr=False),
        )

    async def press(self, *keys: str) -> None:
        """Presses keys, and waits until all of them have done what they do: Ctrl-C is the last."""
        self._interrupted.clear()
        await asyncio.to_thread(self._pipe.send_text, "".join(keys) + CTRL_C)  # a pipe holds only so much
        await self._interrupted.wait()

    @property
    def line(self) -> tuple[str, int]:
        """What is being written, and where the cursor stands in it."""
        buffer = self.desk._input.buffer
        return buffer.text, buffer.cursor_position

    async def screen(self, wanted: Callable[[list[str]], bool] = bool) -> list[str]:
        """The rows at the bottom of the screen, once they are as they should be."""
        while not wanted(rows := self._rows()):
            await asyncio.sleep(0.01)
        return rows

    def _rows(self) -> list[str]:
        drawn = self.desk._dock._app.renderer.last_rendered_screen
        if drawn is None:
            return []
        rows = [drawn.data_buffer[y] for y in range(drawn.height)]
        return ["".join(row[x].char for x in range(max(row, default=-1) + 1)).rstrip() for row in rows]

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row of the cursor."""
        drawn = self.desk._dock._app.renderer.last_rendered_screen
        assert drawn is not None
        at = drawn.get_cursor_position(self.desk._dock._focused)
        return at.x, at.y


@contextlib.asynccontextmanager
async def at_desk(past: Sequence[str] = (), columns: int = 40, rows: int = 24) -> AsyncIterator[Hand]:
    with create_pipe_input() as pipe:
        hand = Hand(pipe, past, columns, rows)
        async with hand.desk:
            yield hand


# --- the editor ---


@pytest.mark.parametrize(
    ("keys", "text", "wanted", "at"),
    [
        ("ac" + LEFT + "b", "", "abc", 2),
        ("日é", "", "日é", 2),
        (BACKSPACE, "abc", "ab", 2),
        (HOME + DELETE, "abc", "bc", 0),
        (LEFT + BACKSPACE, "cafe\u0301", "cafe\u0301"[:2] + "e\u0301", 2),
        (BACKSPACE, "cafe\u0301", "caf", 3),
        (HOME + DELETE, "e\u0301x", "x", 0),
        (HOME + RIGHT + "x", "e\u0301", "e\u0301x", 3),
        (BACKSPACE, "日本", "日", 1),
        ("\x01\x0b", "abc", "", 0),
        (LEFT + "\x15", "abc", "c", 0),
        ("\x17", "one two  ", "one ", 4),
        ("\x17\x01\x19", "one two", "twoone ", 3),
        ("\x01\x1bfx", "one two", "onex two", 4),
        ("\x1b[1;5Dx", "one two", "one xtwo", 5),
        (ENTER + "b", "a\\", "a\nb", 3),
        (ALT_ENTER + "b\x01x", "a", "a\nxb", 3),
        ("\x1b[13;2ub", "a", "a\nb", 3),
        ("\x1b[27;2;13~b", "a", "a\nb", 3),
        (UP + "x", "abc\nd", "axbc\nd", 2),
        (UP + HOME + DOWN, "ab\nlong", "ab\nlong", 3),
        ("\x1b[200~a\r\nb\x1b[31m\x03\x1b[201~", "", "a\nb\x1b[31m\x03", 9),
        (TAB, "/qui", "/quit", 5),
        (TAB, "/edit p", "/edit p", 7),
        (TAB, "/edit p5", "/edit p5 ", 9),
        (TAB, "no command", "no command", 10),
        ("\x1cok\x04", "", "ok", 2),
        (BACKSPACE + DELETE + LEFT + RIGHT + UP + DOWN + ESCAPE, "", "", 0),
    ],
)
async def test_keys_change_the_text_so(keys: str, text: str, wanted: str, at: int):
    async with at_desk() as hand:
        hand.desk.prefill(text)
        await hand.press(keys)
        assert hand.line == (wanted, at)


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (UP, "second"),
        (UP * 3, "first"),
        (UP * 2 + DOWN, "second"),
        (UP + DOWN, "draft"),
        (DOWN, "draft"),
    ],
)
async def test_up_and_down_walk_history_and_come_back_to_the_draft(keys: str, wanted: str):
    async with at_desk(past=("first", "second")) as hand:
        hand.desk.prefill("draft")
        await hand.press(keys)
        assert hand.line[0] == wanted


async def test_what_was_sent_is_history_unless_it_begins_with_a_space():
    async with at_desk(past=("old",)) as hand:
        await hand.press("new", ENTER)
        await hand.press(" secret", ENTER)
        assert [await hand.desk.line() for _ in range(2)] == ["new", " secret"]
        await hand.press(UP)
        assert hand.line[0] == "new"
        await hand.press(UP)
        assert hand.line[0] == "old"


async def test_tab_lists_what_a_command_could_be_and_walks_the_list():
    async with at_desk() as hand:
        await hand.press("/s", TAB)  # several begin so, and with nothing more in common
        await hand.screen(lambda rows: len(rows) > 3)
        assert hand.line[0] == "/s"
        await hand.press("e", TAB)  # the screen stays as high as it was
        await hand.screen(lambda rows: [row.strip() for row in rows if row] == ["> /se", "/setup", "/sessions"])
        await hand.press(TAB, TAB)
        assert hand.line[0] == "/sessions"
        await hand.press(" ")
        await hand.screen(lambda rows: rows[0] == "> /sessions" and not any(rows[1:]))
    assert completions("/", ()) == [f"/{name} " if command.given else f"/{name}" for name, command in COMMANDS.items()]


async def test_input_is_bounded():
    async with at_desk() as hand:
        await hand.press(f"\x1b[200~{'x' * (TEXT_MAX + 1)}\x1b[201~", "y")
        assert hand.line == ("x" * TEXT_MAX, TEXT_MAX)


async def test_the_end_of_input_leaves_only_when_nothing_is_written():
    async with at_desk() as hand:
        await hand.press("a\x01\x04")
        assert hand.line == ("", 0)
        await hand.press("\x04")
        assert await hand.desk.line() is None


# --- where letters stand ---


async def test_long_input_wraps_and_wide_letters_take_two_columns():
    async with at_desk(columns=20) as hand:
        await hand.press("a" * 17)
        assert await hand.screen(lambda rows: rows[0].endswith("a" * 17)) == ["> " + "a" * 17]
        await hand.press("bcd")
        assert await hand.screen(lambda rows: len(rows) == 2) == ["> " + "a" * 17 + "b", "  cd"]
        assert hand.cursor == (4, 1)
        await hand.press("\x15", "日" * 10, LEFT)
        await hand.screen(lambda rows: rows[:2] == ["> " + "日" * 9, "  日"])
        assert hand.cursor == (2, 1)
        await hand.press("\x05\x15", "e\u0301x", LEFT)
        await hand.screen(lambda rows: rows[0] == "> e\u0301x")
        assert hand.cursor == (3, 0)


async def test_input_taller_than_the_screen_shows_the_rows_about_the_cursor():
    async with at_desk(rows=6) as hand:
        await hand.press(*(f"{letter}{ALT_ENTER}" for letter in "abcdefgh"), "i")
        await hand.screen(lambda rows: rows == ["  d", "  e", "  f", "  g", "  h", "  i"])
        await hand.press(UP * 8)
        await hand.screen(lambda rows: rows == ["> a", "  b", "  c", "  d", "  e", "  f"])


@hypothesis.given(st.text(max_size=60))
def test_what_is_written_is_drawn_in_letters_that_a_terminal_only_shows(text: str):
    line = text.replace("\n", "")
    drawn = Spelt().apply_transformation(
        TransformationInput(None, None, 0, lambda at: at, [("", line)], 80, 24)  # type: ignore[arg-type]
    )
    shown = "".join(fragment[1] for fragment in drawn.fragments)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", shown)
    places = [drawn.source_to_display(at) for at in range(len(line) + 1)]
    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (0, len(shown))
    assert [drawn.display_to_source(place) for place in places] == list(range(len(line) + 1))


async def test_hostile_paste_reaches_the_terminal_spelt_out():
    async with at_desk(columns=200) as hand:
        await hand.press(f"\x1b[200~{HOSTILE}\x1b[201~")
        await hand.screen(lambda rows: any("owned" in row for row in rows))
        assert not re.search("\x1b\\]|\x1bP|\x9b|\u202e|\u200b|\x1b\\[\\?1049h", hand.written.getvalue())


def test_lines_are_cut_and_measured_in_columns():
    assert (fit("abc", 3), fit("abcd", 3), fit("日本語", 4)) == ("abc", "ab…", "日…")
    assert [rows_at_edge(text, 4) for text in ("", "abcd", "abcde", "日本語")] == [
        [""],
        ["abcd"],
        ["abcd", "e"],
        ["日本", "語"],
    ]


# --- what is written above ---


async def test_lines_go_above_and_what_is_being_written_stands_by_the_input():
    async with at_desk() as hand:
        await hand.press("draft")
        hand.desk._dock.put("done\n", "growing")
        hand.desk.status("working")
        assert await hand.screen(lambda rows: len(rows) == 3) == ["growing", "working", "> draft"]
        print("by a \x1b[2Jtool", file=sys.stderr)
        await hand.screen(lambda _: "by a \\x1b[2Jtool\n" in hand.written.getvalue())
        assert "growing\n" not in hand.written.getvalue()
        assert "done\n" in hand.written.getvalue()
    assert "growing\n" in hand.written.getvalue()


async def test_another_thread_may_write():
    async with at_desk() as hand:
        writing = threading.Thread(target=lambda: print("from a thread", file=sys.stderr))
        writing.start()
        await hand.screen(lambda _: "from a thread\n" in hand.written.getvalue())
        writing.join()


# --- streamed text ---


class Paper:
    """What a terminal would show: complete lines, and one that is open."""

    def __init__(self) -> None:
        self.done = ""
        self.open = ""

    def put(self, done: str, growing: str) -> None:
        self.done += done
        self.open = growing


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


async def picked(keys: str, *, several: bool = False, free: bool = True) -> Any:
    options = tuple(Option(label=label) for label in ("red", "blue", "green"))
    question = Question(question="Which?", options=options, multi_select=several, free_text=free)
    async with at_desk() as hand:
        answer = asyncio.create_task(hand.desk.pick("bcd> ", question))
        await hand.screen(lambda rows: any("1) red" in row for row in rows))
        await hand.press(keys)
        return await answer


@pytest.mark.parametrize(
    ("keys", "more", "wanted"),
    [
        (ENTER, {}, ("red",)),
        (DOWN + ENTER, {}, ("blue",)),
        ("3" + ENTER, {}, ("green",)),
        ("9" + ENTER, {}, ("red",)),
        (UP + ENTER + "mauve" + ENTER, {}, "mauve"),
        (UP + ENTER, {"free": False}, ("green",)),
        ("mauve" + ENTER, {}, "mauve"),
        ("mauve" + ENTER, {"free": False}, ("red",)),
        ("\x1b[200~a\nb\x1b[201~" + ENTER, {}, "a\nb"),
        (ESCAPE, {}, ()),
        (f" {DOWN}{DOWN} {ENTER}", {"several": True}, ("red", "green")),
        (f"12{ENTER}", {"several": True}, ("red", "blue")),
        (f"11{DOWN}{ENTER}", {"several": True}, ("blue",)),
    ],
)
async def test_picker_takes(keys: str, more: dict[str, bool], wanted: object):
    assert await picked(keys, **more) == wanted


async def test_own_words_that_are_empty_bring_the_list_back():
    async with at_desk() as hand:
        question = Question(question="Which?", options=(Option(label="red"),))
        answer = asyncio.create_task(hand.desk.pick("bcd> ", question))
        await hand.screen(lambda rows: any("1) red" in row for row in rows))
        await hand.press("m")
        await hand.screen(lambda rows: "bcd> m" in rows)
        await hand.press(BACKSPACE, ENTER)
        await hand.screen(lambda rows: any("1) red" in row for row in rows))
        await hand.press(ENTER)
        assert await answer == ("red",)


async def test_a_list_longer_than_the_screen_moves_with_the_pointer():
    options = tuple(Option(label=f"n{n}") for n in range(30))
    async with at_desk(rows=6) as hand:
        answer = asyncio.create_task(hand.desk.pick("bcd> ", Question(question="Which?", options=options)))
        rows = await hand.screen(lambda rows: any("n0" in row for row in rows))
        assert rows[1:-1] == ["❯ 1) n0", "  2) n1", "  3) n2", "  4) n3"]
        await hand.press("27")
        assert "❯ 27) n26" in await hand.screen(lambda rows: any("n26" in row for row in rows))
        await hand.press(ENTER)
        assert await answer == ("n26",)


# --- history ---


def test_history_is_private_bounded_and_shared(tmp_path: pathlib.Path):
    path = tmp_path / "state" / "history"
    first = HistoryFile(path)
    for entry in ("one", "one", "two\nlines", " secret", "", "x" * (ENTRY_MAX + 1)):
        first.add(entry)
    assert first.entries == ["one", "two\nlines", "x" * (ENTRY_MAX + 1)]
    assert HistoryFile(path).entries == ["one", "two\nlines"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("\n".join(json.dumps(str(n)) for n in range(3 * ENTRIES_MAX)) + "\nnot json\n[1]\n")
    assert len(HistoryFile(path).entries) == ENTRIES_MAX
    assert len(path.read_text().splitlines()) == ENTRIES_MAX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_history_is_where_it_is_wanted_or_nowhere(tmp_path: pathlib.Path):
    home = str(tmp_path)
    assert history_path({"HOME": home}) == tmp_path / ".local" / "state" / "windlass" / "history"
    assert history_path({"HOME": home, "XDG_STATE_HOME": "/s"}) == pathlib.Path("/s/windlass/history")
    assert history_path({"HOME": home, "WINDLASS_HISTORY": "/h"}) == pathlib.Path("/h")
    assert history_path({"HOME": home, "WINDLASS_HISTORY": "off"}) is None
    HistoryFile(None).add("kept nowhere")
    unwritable = HistoryFile(tmp_path / "file" / "below")
    (tmp_path / "file").write_text("")
    unwritable.add("kept in memory")
    assert unwritable.entries == ["kept in memory"]


# --- being asked ---


async def test_an_answer_is_taken_only_after_a_moment_without_a_key():
    loop = asyncio.get_running_loop()
    async with at_desk() as hand:
        asked_at = loop.time()
        await hand.desk.ready()
        assert loop.time() >= asked_at + CALM_S
        ready = asyncio.create_task(hand.desk.ready())
        await hand.press("x")
        pressed_at = hand.desk._dock.pressed_at
        await ready
        assert pressed_at > asked_at
        assert loop.time() >= pressed_at + CALM_S
