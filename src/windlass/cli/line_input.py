"""The inputs that stand at the bottom of a chat: a line behind a prompt, and a pause in something long."""

from __future__ import annotations

from collections.abc import Callable

from .line_editor import Editor
from .line_keys import Key
from .line_view import Rows, laid_out
from .text import Paint, fold_lines

HINT_ROWS_MAX = 6


class LineInput:
    """An editor drawn behind its prompt, and below it what Tab found."""

    def __init__(self, editor: Editor, prompt: str, paint: Paint, colour: str = "bold") -> None:
        self.editor = editor
        self.prompt = prompt
        self._paint = paint
        self._colour = colour
        self._known: tuple[object, Rows] | None = None

    def key(self, key: Key) -> None:
        self.editor.key(key)

    def rows(self, width: int, height: int) -> Rows:
        """The rows as they are drawn. A long input that has not changed is not laid out again."""
        asked = (self.prompt, self.editor.text, self.editor.at, self.editor.hints, width, height)
        if self._known is None or self._known[0] != asked:
            self._known = asked, self._laid_out(width, height)
        return self._known[1]

    def _laid_out(self, width: int, height: int) -> Rows:
        hints = fold_lines("  ".join(self.editor.hints), width)[: min(HINT_ROWS_MAX, height - 1)]
        below = hints if self.editor.hints else []
        rows = laid_out(self.prompt, self.editor.text, self.editor.at, width, height - len(below))
        if rows.lines[0].startswith(self.prompt):
            rows.lines[0] = self._paint(self.prompt, self._colour) + rows.lines[0][len(self.prompt) :]
        return Rows([*rows.lines, *(self._paint(hint, "dim") for hint in below)], rows.row, rows.column)


class Pause:
    """A row that says how to go on, and takes one key at a time."""

    def __init__(self, said: str, paint: Paint, pressed: Callable[[Key], None]) -> None:
        self._said = said
        self._paint = paint
        self._pressed = pressed

    def key(self, key: Key) -> None:
        self._pressed(key)

    def rows(self, width: int, height: int) -> Rows:
        lines = fold_lines(self._said, width)[:height]
        return Rows([self._paint(line, "yellow") for line in lines], len(lines) - 1, 0)
