"""Choosing from a list with the arrow keys or by number. Pure: keys in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .line_keys import Key
from .line_view import Rows, fit
from .text import visible

OWN_WORDS = "(in your own words)"
POINTER, PLAIN = "❯ ", "  "
ON, OFF = "[x] ", "[ ] "


class Picker:
    """Options, one under the pointer; the whole of each stands in the frame above. `several` lets more than one be
    marked; `free` offers an answer in own words, which `written` is told of with the first letters of it. Keys behind
    those are put into `since`, for whoever reads the rest."""

    def __init__(
        self,
        options: Sequence[str],
        *,
        several: bool,
        free: bool,
        picked: Callable[[tuple[int, ...]], None],
        written: Callable[[str], None],
        declined: Callable[[], None],
        since: list[Key] | None = None,
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
        self._since = since if since is not None else []
        self._wrote = False

    def rows(self, width: int, height: int) -> Rows:
        """The options, those about the pointer where not all fit, and what the keys do."""
        room = max(1, height - 1)
        first = min(max(0, self._at - room + 1), max(0, len(self._options) - room))
        lines = [self._line(index, width) for index in range(first, min(len(self._options), first + room))]
        if height > 1:
            lines.append(fit(self._help(), width))
        return Rows(lines, self._at - first, 0)

    def _line(self, index: int, width: int) -> str:
        pointer = POINTER if index == self._at else PLAIN
        own = self._free and index == len(self._options) - 1
        mark = (ON if index in self._marked else OFF) if self._several and not own else ""
        return fit(f"{pointer}{mark}{index + 1}) {visible(self._options[index])}", width)

    def _help(self) -> str:
        if self._several:
            return "arrows or numbers, Space marks, Enter takes what is marked; Esc declines"
        return "arrows or a number, Enter takes it; Esc declines"

    def key(self, key: Key) -> None:
        """Does what a key says. Once they write, every key belongs to that."""
        if self._wrote:
            self._since.append(key)
            return
        if not (key.name == "text" and key.text.isdecimal()):
            self._number = ""
        match key.name:
            case "up" | "back_tab":
                self._at = (self._at - 1) % len(self._options)
            case "down" | "tab":
                self._at = (self._at + 1) % len(self._options)
            case "home" | "page_up":
                self._at = 0
            case "end" | "page_down":
                self._at = len(self._options) - 1
            case "enter":
                self._take()
            case "escape":
                self._declined()
            case "text":
                self._type(key.text)
            case "paste" if self._free:
                self._write(key.text)

    def _type(self, text: str) -> None:
        if text == " " and self._several:
            self._mark(self._at)
        elif text.isascii() and text.isdecimal():
            for digit in text:
                self._digit(digit)
        elif self._free and text.strip():
            self._write(text)

    def _write(self, text: str) -> None:
        self._wrote = True
        self._written(text)

    def _digit(self, digit: str) -> None:
        """Numbers of two digits are two keys, so the first one moves and the second one moves on."""
        for wanted in (self._number + digit, digit):
            if 1 <= int(wanted) <= len(self._options):
                self._number, self._at = wanted, int(wanted) - 1
                if self._several and len(self._options) < 10:
                    self._mark(self._at)
                return

    def _mark(self, index: int) -> None:
        if self._free and index == len(self._options) - 1:
            return
        self._marked ^= {index}

    def _take(self) -> None:
        if self._free and self._at == len(self._options) - 1:
            self._write("")
        else:
            self._picked(tuple(sorted(self._marked)) or (self._at,))
