"""A line, or several, being written: letters, cursor, history, completion. Pure: keys in, text out; draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .line_keys import Key
from .text import cell, harmless

TEXT_MAX = 400_000
"""Letters of one input."""
Completer = Callable[[str], Sequence[str]]
"""What the text so far could become."""


def is_mark(letter: str) -> bool:
    """Whether a letter only changes the one before it."""
    return harmless(ord(letter)) and letter not in "\n\t" and cell(letter) == 0


class Editor:
    """Text with a cursor. `submitted` and `ended` are told when it is sent or the input is over."""

    def __init__(
        self,
        *,
        past: Sequence[str] = (),
        complete: Completer | None = None,
        submitted: Callable[[str], None] = lambda text: None,
        ended: Callable[[], None] = lambda: None,
        escaped: Callable[[], None] = lambda: None,
    ) -> None:
        self.text = ""
        self.at = 0
        self.hints: tuple[str, ...] = ()
        """What Tab found, where it was more than one."""
        self._past = past
        self._complete = complete
        self._submitted = submitted
        self._ended = ended
        self._escaped = escaped
        self._killed = ""
        self._back: int | None = None
        self._draft = ""

    def set(self, text: str) -> None:
        """Another text, the cursor behind it."""
        self.text = text[:TEXT_MAX]
        self.at = len(self.text)

    def insert(self, text: str) -> None:
        text = text[: max(0, TEXT_MAX - len(self.text))]
        self.text = self.text[: self.at] + text + self.text[self.at :]
        self.at += len(text)

    def key(self, key: Key) -> None:
        """Does what a key says; keys that mean nothing here do nothing."""
        if key.name != "tab":
            self.hints = ()
        if key.name not in ("up", "down"):
            self._back = None
        if key.name in ("text", "paste"):
            self.insert(key.text)
            return
        doing = KEYS.get(key.name)
        if doing is not None:
            doing(self)

    # --- moving ---

    def _left_of(self, at: int) -> int:
        at = max(0, at - 1)
        while at > 0 and is_mark(self.text[at]):
            at -= 1
        return at

    def _right_of(self, at: int) -> int:
        at = min(len(self.text), at + 1)
        while at < len(self.text) and is_mark(self.text[at]):
            at += 1
        return at

    def left(self) -> None:
        self.at = self._left_of(self.at)

    def right(self) -> None:
        self.at = self._right_of(self.at)

    def home(self) -> None:
        """The beginning of this line of the text."""
        self.at = self.text.rfind("\n", 0, self.at) + 1

    def end(self) -> None:
        found = self.text.find("\n", self.at)
        self.at = len(self.text) if found < 0 else found

    def word_left(self) -> None:
        while self.at > 0 and self.text[self.at - 1].isspace():
            self.at -= 1
        while self.at > 0 and not self.text[self.at - 1].isspace():
            self.at -= 1

    def word_right(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        while self.at < len(self.text) and not self.text[self.at].isspace():
            self.at += 1

    # --- changing ---

    def _cut(self, begin: int, end: int, *, keep: bool = True) -> None:
        if keep and begin < end:
            self._killed = self.text[begin:end]
        self.text = self.text[:begin] + self.text[end:]
        self.at = begin

    def backspace(self) -> None:
        self._cut(self._left_of(self.at), self.at, keep=False)

    def delete(self) -> None:
        self._cut(self.at, self._right_of(self.at), keep=False)

    def kill_right(self) -> None:
        at = self.at
        self.end()
        self._cut(at, self.at if self.at > at else self._right_of(at))

    def kill_left(self) -> None:
        at = self.at
        self.home()
        self._cut(self.at if self.at < at else self._left_of(at), at)

    def kill_word(self) -> None:
        at = self.at
        self.word_left()
        self._cut(self.at, at)

    def yank(self) -> None:
        self.insert(self._killed)

    def newline(self) -> None:
        self.insert("\n")

    # --- history, several lines ---

    def up(self) -> None:
        """The line above; from the first one, what was sent before."""
        if not self._vertical(-1):
            self._recall(-1)

    def down(self) -> None:
        if not self._vertical(1):
            self._recall(1)

    def _vertical(self, by: int) -> bool:
        """Moves within a text of several lines, unless history is being walked."""
        if self._back is not None or "\n" not in self.text:
            return False
        start = self.text.rfind("\n", 0, self.at) + 1
        column, lines = self.at - start, self.text.split("\n")
        row = self.text.count("\n", 0, self.at) + by
        if not 0 <= row < len(lines):
            return False
        self.at = sum(len(line) + 1 for line in lines[:row]) + min(column, len(lines[row]))
        return True

    def _recall(self, by: int) -> None:
        if self._back is None:
            if by > 0:
                return
            self._back, self._draft = len(self._past), self.text
        wanted = self._back + by
        if not 0 <= wanted <= len(self._past):
            return
        self._back = wanted
        self.set(self._draft if wanted == len(self._past) else self._past[wanted])

    # --- sending ---

    def enter(self) -> None:
        """Sends the text; a backslash at the end of it asks for another line instead."""
        if self.at == len(self.text) and self.text.endswith("\\"):
            self.backspace()
            self.newline()
            return
        text = self.text
        self.set("")
        self._submitted(text)

    def end_of_input(self) -> None:
        """Ends the input where nothing is written; elsewhere deletes."""
        if self.text:
            self.delete()
        else:
            self._ended()

    def escape(self) -> None:
        self._escaped()

    def tab(self) -> None:
        """Completes what stands before the cursor as far as there is no doubt; then lists what it could be."""
        if self._complete is None or self.at != len(self.text):
            return
        found = list(self._complete(self.text))
        if len(found) == 1:
            self.set(found[0])
            return
        shared = _shared(found)
        if len(shared) > len(self.text):
            self.set(shared)
        else:
            self.hints = tuple(found)


def _shared(words: list[str]) -> str:
    """How far all of them agree."""
    if not words:
        return ""
    first, last = min(words), max(words)
    length = next((index for index, letter in enumerate(first) if index >= len(last) or last[index] != letter), None)
    return first if length is None else first[:length]


KEYS: dict[str, Callable[[Editor], None]] = {
    name: getattr(Editor, name)
    for name in (
        *("left", "right", "home", "end", "word_left", "word_right", "up", "down"),
        *("backspace", "delete", "kill_right", "kill_left", "kill_word", "yank", "newline"),
        *("enter", "end_of_input", "escape", "tab"),
    )
}
