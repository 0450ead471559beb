"""The bottom of a terminal: an input that stays whole while output grows above it.

Owns the terminal while it is open: raw keys, drawing, its size. Everything printed meanwhile must go through it; what
others print to standard output and error is caught, made visible and put above the input.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import sys
import termios
import threading
from collections.abc import Callable
from typing import Any, Protocol, TextIO, cast

from .line_keys import Decoder, Key
from .line_view import Rows, fit
from .text import Paint, cells, visible

READ_BYTES = 65_536
ESCAPE_S = 0.05
"""How long an escape may be the beginning of a sequence."""
SIZE_UNKNOWN = os.terminal_size((80, 24))
WIDTH_MIN, HEIGHT_MIN = 20, 4
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
HIDE, SHOW, CLEAR_ROW, CLEAR_BELOW, CLEAR_ALL = "\x1b[?25l", "\x1b[?25h", "\x1b[K", "\x1b[J", "\x1b[2J\x1b[H"


class Mode(Protocol):
    """Something that is drawn at the bottom and takes the keys."""

    def rows(self, width: int, height: int) -> Rows: ...

    def key(self, key: Key) -> None: ...


class Above(io.TextIOBase):
    """A stream whose text lands above the input. What is not ours is made visible first."""

    def __init__(self, dock: Dock, *, ours: bool) -> None:
        self._dock = dock
        self._ours = ours

    def write(self, text: str) -> int:
        self._dock.write(text if self._ours else visible(text))
        return len(text)

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class has an attribute that cannot be set
        return "utf-8"


class Dock:
    """Draws one mode at the bottom of the screen, and text above it. `over` takes the place of `base` while it is
    there, so that a request never touches what is being written."""

    def __init__(self, base: Mode, *, interrupted: Callable[[], None], ended: Callable[[], None]) -> None:
        self.base = base
        self.over: Mode | None = None
        self.status = ""
        self.pressed_at = 0.0
        """When the last key came, on the loop's clock."""
        self._interrupted = interrupted
        self._ended = ended
        self._decoder = Decoder()
        self._fd = sys.stdin.fileno()
        self._out = sys.stderr
        self._paint = Paint(sys.stderr)
        self._before: list[Any] = []
        self._open = False
        self._due = False
        self._done: list[str] = []
        self._tail = ""
        self._drawn: list[str] = []
        self._at = (0, 0)
        self._above = 0
        self._height = 1
        self._columns = 0
        self._shown_tail = ""
        self._thread = threading.get_ident()
        self._stack = contextlib.ExitStack()

    # --- open and closed ---

    def __enter__(self) -> Dock:
        self._loop = asyncio.get_running_loop()
        self.out = cast(TextIO, Above(self, ours=True))
        self._take()
        self._loop.add_signal_handler(signal.SIGWINCH, self.redraw)
        if sys.stdout.isatty():
            self._stack.enter_context(contextlib.redirect_stdout(cast(TextIO, Above(self, ours=False))))
        self._stack.enter_context(contextlib.redirect_stderr(cast(TextIO, Above(self, ours=False))))
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_signal_handler(signal.SIGWINCH)
        self._stack.close()
        self.status, self.over = "", None
        self._leave()

    def _take(self) -> None:
        """Makes the terminal give keys instead of lines. Output stays as it is: a line feed also returns."""
        self._before = termios.tcgetattr(self._fd)
        raw = termios.tcgetattr(self._fd)
        raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.ISTRIP)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSADRAIN, raw)
        self._open = True
        self._loop.add_reader(self._fd, self._readable)
        self._put(PASTE_ON)
        self.redraw()

    def _leave(self) -> None:
        """Gives the terminal back as it was, the input wiped from it."""
        if not self._open:
            return
        self._draw(bare=True)
        self._open = False
        self._loop.remove_reader(self._fd)
        self._put(PASTE_OFF + SHOW)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def _suspend(self) -> None:
        """What Ctrl-Z means elsewhere."""
        self._leave()
        os.kill(0, signal.SIGTSTP)
        self._take()

    # --- keys ---

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
            self._ended()
            return
        self._press(self._decoder.feed(data))
        if self._decoder.waiting:
            self._loop.call_later(ESCAPE_S, self._give_up)

    def _give_up(self) -> None:
        if self._decoder.waiting and self._open:
            self._press(self._decoder.give_up())

    def _press(self, keys: list[Key]) -> None:
        self.pressed_at = self._loop.time()
        for key in keys:
            match key.name:
                case "interrupt":
                    self._interrupted()
                case "suspend":
                    self._suspend()
                case "redraw":
                    self._put(CLEAR_ALL)
                    self._above, self._height = 0, 1
                case _:
                    (self.over or self.base).key(key)
        self.redraw()

    # --- the screen ---

    @property
    def size(self) -> os.terminal_size:
        """Columns and rows that may be used."""
        try:
            found = os.get_terminal_size(self._out.fileno())
        except OSError:
            found = SIZE_UNKNOWN
        return os.terminal_size((max(WIDTH_MIN, found.columns), max(HEIGHT_MIN, found.lines)))

    def write(self, text: str) -> None:
        """Text above the input. The last line may be open; what comes next goes on in it."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody looks any more
                self._loop.call_soon_threadsafe(self.write, text)
            return
        head, feed, self._tail = (self._tail + text).rpartition("\n")
        if feed:
            self._done.append(head + feed)
        self.redraw()

    def replace(self, text: str) -> None:
        """The open line anew, and what follows it: how text is wrapped that is still growing."""
        self._tail = ""
        self.write(text)

    def redraw(self) -> None:
        """Draws in a moment, once for all that is asked until then."""
        if self._open and not self._due:
            self._due = True
            self._loop.call_soon(self._draw)

    def _draw(self, *, bare: bool = False) -> None:
        self._due = False
        if not self._open:
            return
        columns, lines = self.size
        if columns != self._columns:
            self._reflowed(columns)
        open_rows = height_of(self._tail, columns) if self._tail else 0
        room = max(1, lines - open_rows - 1)
        rows = Rows([""], 0, 0) if bare else self._rows(columns - 1, room)
        parts = [HIDE, self._erased(), *self._done]
        if self._tail:
            parts.append(self._tail + "\n")
        parts.append("\n".join(rows.lines))
        back = len(rows.lines) - 1 - rows.row
        parts += [f"\x1b[{back}A" if back else "", "\r", f"\x1b[{rows.column}C" if rows.column else "", SHOW]
        self._done.clear()
        self._drawn, self._at, self._shown_tail = rows.lines, (rows.row, rows.column), self._tail
        self._above, self._height = open_rows + rows.row, open_rows + len(rows.lines)
        if bare:
            self._tail, self._above, self._height = "", 0, 1
        self._put("".join(parts))

    def _erased(self) -> str:
        """Takes back what was drawn, from its first row on. That row is emptied by itself: some terminals take an
        erasing of the whole screen for a reason to keep what stood there in their history."""
        up = f"\x1b[{self._above}A" if self._above else ""
        below = f"\x1b[1B{CLEAR_BELOW}\x1b[1A" if self._height > 1 else ""
        return f"\r{up}{CLEAR_ROW}{below}"

    def _rows(self, width: int, room: int) -> Rows:
        """The status and what is drawn below it."""
        status = [self._paint(fit(self.status, width), "dim")] if self.status and room > 1 else []
        rows = (self.over or self.base).rows(width, room - len(status))
        return Rows([*status, *rows.lines], rows.row + len(status), rows.column)

    def _reflowed(self, columns: int) -> None:
        """Terminals break long lines anew when they get narrower; so the way back up is longer then."""
        heights = [height_of(line, columns) for line in self._drawn]
        tail = height_of(self._shown_tail, columns) if self._shown_tail else 0
        self._above = tail + sum(heights[: self._at[0]]) + self._at[1] // columns
        self._height = tail + sum(heights)
        self._columns = columns

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone; the input's end says so
            self._out.write(text)
            self._out.flush()


def height_of(line: str, columns: int) -> int:
    """How many rows of the screen a line takes."""
    return max(1, -(-cells(COLOUR.sub("", line)) // columns))
