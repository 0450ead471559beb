"""Choosing from a list with the arrow keys or by number, and a pause in something long: what stands in the place of the
input while a person is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prompt_toolkit.application import get_app
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Window

from .text import fit, fold_lines
from .visible_text import visible

OWN_WORDS = "(in your own words)"
POINTER, PLAIN = "❯ ", "  "
ON, OFF = "[x] ", "[ ] "


def columns() -> int:
    """How wide the terminal is."""
    return get_app().output.get_size().columns


class Picker:
    """Options, one under the pointer; the whole of each stands in the frame above. `several` lets more than one be
    marked; `free` offers an answer in own words, which `written` is told of with the first letters of it."""

    def __init__(
        self,
        options: Sequence[str],
        *,
        several: bool,
        free: bool,
        picked: Callable[[tuple[int, ...]], None],
        written: Callable[[str], None],
        declined: Callable[[], None],
    ) -> None:
        self._options = [*options, *([OWN_WORDS] if free else [])]
        self._several = several
        self._free = free
        self._picked = picked
        self._written = written
        self._declined = declined
        self._at = 0
        self._marked: set[int] = set()
        self._number = ""
        control = FormattedTextControl(
            self._lines,
            focusable=True,
            show_cursor=False,
            key_bindings=self._keys(),
            get_cursor_position=lambda: Point(0, self._at),
        )
        self.window = Window(control, dont_extend_height=True)
        self.container = HSplit([self.window, Window(FormattedTextControl(self._help), height=1)])

    def _lines(self) -> StyleAndTextTuples:
        return [("", "\n".join(self._line(index) for index in range(len(self._options))))]

    def _line(self, index: int) -> str:
        pointer = POINTER if index == self._at else PLAIN
        mark = (ON if index in self._marked else OFF) if self._several and not self._is_own(index) else ""
        return fit(f"{pointer}{mark}{index + 1}) {visible(self._options[index])}", columns() - 1)

    def _help(self) -> StyleAndTextTuples:
        said = "arrows or a number, Enter takes it; Esc declines"
        if self._several:
            said = "arrows or numbers, Space marks, Enter takes what is marked; Esc declines"
        return [("", fit(said, columns() - 1))]

    def _is_own(self, index: int) -> bool:
        return self._free and index == len(self._options) - 1

    # --- what the keys do ---

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for names, move in (
            (("up", "s-tab", "c-p"), lambda: self._at - 1),
            (("down", "tab", "c-n"), lambda: self._at + 1),
            (("home", "pageup"), lambda: 0),
            (("end", "pagedown"), lambda: -1),
        ):
            for name in names:
                keys.add(name)(lambda event, move=move: self._go(move()))
        keys.add("enter")(lambda event: self._take())
        keys.add("escape")(lambda event: self._declined())
        keys.add(Keys.BracketedPaste)(self._paste)
        keys.add(Keys.Any)(self._type)
        return keys

    def _go(self, index: int) -> None:
        self._number = ""
        self._at = index % len(self._options)

    def _paste(self, event: KeyPressEvent) -> None:
        if self._free:
            self._written(event.data.replace("\r\n", "\n").replace("\r", "\n"))

    def _type(self, event: KeyPressEvent) -> None:
        letter = event.data
        if letter.isascii() and letter.isdecimal():
            self._digit(letter)
            return
        self._number = ""
        if letter == " " and self._several:
            self._mark(self._at)
        elif self._free and letter.isprintable() and letter.strip():
            self._written(letter)

    def _digit(self, digit: str) -> None:
        """Numbers of two digits are two keys, so the first one moves and the second one moves on."""
        for wanted in (self._number + digit, digit):
            if 1 <= int(wanted) <= len(self._options):
                self._number, self._at = wanted, int(wanted) - 1
                if self._several and len(self._options) < 10:
                    self._mark(self._at)
                return

    def _mark(self, index: int) -> None:
        if not self._is_own(index):
            self._marked ^= {index}

    def _take(self) -> None:
        if self._is_own(self._at):
            self._written("")
        else:
            self._picked(tuple(sorted(self._marked)) or (self._at,))


class Pause:
    """A row or two that say how to go on, and take one key: `more`, `all` or `no`."""

    def __init__(self, said: str, style: str, pressed: Callable[[str], None]) -> None:
        self._said = said
        self._style = style
        keys = KeyBindings()
        for names, meaning in (
            (("enter", "down", "pagedown", " "), "more"),
            (("a", "A"), "all"),
            (("n", "N", "escape"), "no"),
        ):
            for name in names:
                keys.add(name)(lambda event, meaning=meaning: pressed(meaning))
        keys.add(Keys.Any)(lambda event: None)
        control = FormattedTextControl(self._lines, focusable=True, show_cursor=False, key_bindings=keys)
        self.window = self.container = Window(control, dont_extend_height=True)

    def _lines(self) -> StyleAndTextTuples:
        return [(self._style, "\n".join(fold_lines(self._said, columns() - 1)))]
