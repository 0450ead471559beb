"""The bottom of a terminal: an input that stays whole while output grows above it, drawn by prompt_toolkit.

Owns the terminal while it is open. Everything printed meanwhile must go through it; what others print to standard
output and error is caught, made visible and put above the input.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Protocol, TextIO, cast

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    AnyContainer,
    ConditionalContainer,
    DynamicContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output

from .text import Paint, fit, rows_at_edge
from .visible_text import visible

ESCAPE_S = 0.05
"""How long an escape may be the beginning of a sequence."""
SIZE_UNKNOWN = (80, 24)
WIDTH_MIN, HEIGHT_MIN = 20, 4
ROWS_BELOW_MIN = 3
"""Rows that what is being written leaves free for the input."""
SHIFT_ENTER: tuple[Keys | str, ...] = (Keys.Escape, Keys.ControlM)
"""Another line, however a terminal spells the key: as Alt-Enter."""
EXTRA_KEYS = {"\x1b[13;2u": SHIFT_ENTER, "\x1b[13;3u": SHIFT_ENTER, "\x1b[27;2;13~": SHIFT_ENTER}


def screen() -> Output:
    """The terminal to draw on. It is never asked where its cursor is: the answer would come among the keys."""
    out = sys.stderr

    def size() -> Size:
        try:
            columns, rows = os.get_terminal_size(out.fileno())
        except (OSError, ValueError):
            columns, rows = SIZE_UNKNOWN
        return Size(rows=max(HEIGHT_MIN, rows), columns=max(WIDTH_MIN, columns))

    return Vt100_Output(out, size, term=os.environ.get("TERM"), enable_cpr=False)


class Mode(Protocol):
    """Something that stands at the bottom and takes the keys."""

    @property
    def container(self) -> AnyContainer: ...

    @property
    def window(self) -> Window:
        """The part of it that has the keys."""


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
    """Shows one mode at the bottom of the screen, and text above it. `over` takes the place of `base` while it is
    there, so that a request never touches what is being written."""

    def __init__(
        self,
        base: Mode,
        *,
        interrupted: Callable[[], None],
        ended: Callable[[], None],
        given: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.status = ""
        self.pressed_at = 0.0
        """When the last key came, on the loop's clock."""
        self._base = base
        self._over: Mode | None = None
        self._focused = base.window
        """What had the keys, and so the cursor, when the screen was drawn last."""
        self._drawn_for = Size(0, 0)
        self._interrupted = interrupted
        self._ended = ended
        self._paint = Paint(sys.stderr)
        self._done: list[str] = []
        self._open = ""
        self._partial = ""
        self._due = False
        self._thread = threading.get_ident()
        self._stack = contextlib.ExitStack()
        self._output = output or screen()
        self._app: Application[None] = Application(
            layout=Layout(self._layout(), focused_element=base.window),
            key_bindings=self._keys(),
            input=given or create_input(sys.stdin),
            output=self._output,
            erase_when_done=True,
            terminal_size_polling_interval=None,
        )
        self._app.ttimeoutlen = self._app.timeoutlen = ESCAPE_S
        self._app.key_processor.before_key_press += self._pressed
        self._app.before_render += self._look_at_size
        self._app.after_render += self._rendered
        self.out = cast(TextIO, Above(self, ours=True))

    # --- open and closed ---

    async def __aenter__(self) -> Dock:
        self._loop = asyncio.get_running_loop()
        for spelling, keys in EXTRA_KEYS.items():
            ANSI_SEQUENCES[spelling] = keys  # type: ignore[assignment]  # any number of keys may stand for one
        shown = asyncio.Event()
        self._app.after_render += lambda _: shown.set()
        self._running = asyncio.create_task(self._run())
        await asyncio.wait([self._running, asyncio.create_task(shown.wait())], return_when=asyncio.FIRST_COMPLETED)
        shown.set()
        # The library's own answer to another size does not know of terminals that break long lines anew.
        self._loop.add_signal_handler(signal.SIGWINCH, self._draw)
        if sys.stdout.isatty():
            self._stack.enter_context(contextlib.redirect_stdout(cast(TextIO, Above(self, ours=False))))
        self._stack.enter_context(contextlib.redirect_stderr(cast(TextIO, Above(self, ours=False))))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stack.close()
        self._settle()
        if self._app.is_running:
            self._erase()
            self._app.exit()
        await self._running
        self._write("".join(self._done))
        self._done.clear()

    async def _run(self) -> None:
        try:
            await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        except (EOFError, OSError):  # the terminal is gone
            self._ended()

    def _settle(self) -> None:
        """What was being written is written."""
        for text in (self._open, self._partial):
            if text:
                self._done.append(text + "\n")
        self._open = self._partial = ""
        self._draw()

    # --- keys ---

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c", eager=True)
        def _(event: KeyPressEvent) -> None:
            self._interrupted()

        @keys.add("c-z", eager=True)
        def _(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys

    def _pressed(self, _: object) -> None:
        self.pressed_at = asyncio.get_running_loop().time()

    def _rendered(self, _: object) -> None:
        self._drawn_for = self.size
        self._focused = self._app.layout.current_window

    # --- the screen ---

    @property
    def size(self) -> Size:
        """Rows and columns of the terminal."""
        return self._output.get_size()

    @property
    def over(self) -> Mode | None:
        return self._over

    @over.setter
    def over(self, mode: Mode | None) -> None:
        self._over = mode
        self._app.layout.focus((mode or self._base).window)

    def _layout(self) -> HSplit:
        tail = Window(FormattedTextControl(self._tail), dont_extend_height=True)
        status = Window(FormattedTextControl(self._status), height=1)
        return HSplit(
            [
                ConditionalContainer(tail, Condition(lambda: bool(self._open or self._partial))),
                ConditionalContainer(status, Condition(lambda: bool(self.status))),
                DynamicContainer(lambda: (self._over or self._base).container),
            ],
            align=VerticalAlign.TOP,
        )

    def _tail(self) -> StyleAndTextTuples:
        """What is being written: its last rows if it is long."""
        room = max(1, self.size.rows - ROWS_BELOW_MIN)
        rows = [*self._open.split("\n")] if self._open else []
        rows += rows_at_edge(self._partial, self.size.columns) if self._partial else []
        return [("", "\n".join(rows[-room:]))]

    def _status(self) -> StyleAndTextTuples:
        return [("dim" if self._paint.on else "", fit(self.status, self.size.columns - 1))]

    def write(self, text: str) -> None:
        """Text above the input. The last line may be open; what comes next continues it."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody looks any more
                self._loop.call_soon_threadsafe(self.write, text)
            return
        head, feed, self._partial = (self._partial + text).rpartition("\n")
        if feed:
            self._done.append(head + feed)
        self.redraw()

    def put(self, done: str, growing: str) -> None:
        """Rows that are complete, and those that are still being written, in place of the last such."""
        if done:
            self._done.append(done)
        self._open = growing
        self.redraw()

    def redraw(self) -> None:
        """Draws in a moment, once for all that is asked until then."""
        if self._app.is_running and not self._due:
            self._due = True
            self._loop.call_soon(self._draw)

    def _draw(self) -> None:
        self._due = False
        if not self._app.is_running:
            return
        with contextlib.suppress(OSError), set_app(self._app):  # a terminal that is gone is told by the input's end
            if self._done:
                self._erase()
                self._write("".join(self._done))
                self._done.clear()
            self._app.before_render.fire()
            self._app.render_counter += 1  # what is drawn is kept by this number
            self._app.renderer.render(self._app, self._app.layout)
            self._app.layout.update_parents_relations()
            self._app.after_render.fire()

    def _write(self, text: str) -> None:
        """Text of ours, with its colours, as it is."""
        if text:
            self._output.write_raw(text)
            self._output.flush()

    def _erase(self) -> None:
        """Takes back what was drawn, from its first row on. Terminals break long rows anew when they get narrower, so
        the way up may be longer than it was. The first row is emptied by itself: some terminals take an erasing of
        the whole screen for a reason to keep what stood there in their history."""
        drawn, columns = self._app.renderer.last_rendered_screen, self.size.columns
        if drawn is not None:
            at = drawn.get_cursor_position(self._focused)
            broken = sum(_width(drawn, y) // columns for y in range(at.y)) + at.x // columns
            up = f"\x1b[{at.y + broken}A" if at.y + broken else ""
            below = "\x1b[1B\x1b[J\x1b[1A" if drawn.height + broken > 1 else ""  # no way down from the last row
            self._write(f"\r{up}\x1b[K{below}")
        self._app.renderer.reset()

    def _look_at_size(self, _: object) -> None:
        """Takes back what was drawn for another size, before anything is drawn for this one."""
        if self._drawn_for != self.size:
            self._erase()


def _width(drawn: Screen, y: int) -> int:
    """How wide a row is, less one, that was drawn."""
    return max((x + cell.width - 1 for x, cell in drawn.data_buffer[y].items() if cell.char != " "), default=0)
