"""What a model has written of one answer, kept as few long texts: thousands of short ones take ten times as much."""

from __future__ import annotations

from typing import Any

from windlass.models.base import TextPart

PIECES_MAX = 64
"""So many pieces are made one."""


class WrittenText:
    """The text of an answer while it comes, and how many pieces came.

    Whoever receives the pieces adds them to `newest` itself, since that is done for each, and has it `shorten` when
    there are `PIECES_MAX`."""

    __slots__ = ("_shortened", "_whole", "newest")

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._shortened = 0
        self.newest: list[Any] = []
        """The pieces that came last, those that are no text among them."""

    @property
    def count(self) -> int:
        """How many pieces came, those that are no text among them."""
        return self._shortened + len(self.newest)

    def shorten(self) -> None:
        """Makes one text of the newest pieces."""
        self._whole.append(self._text_of_newest())
        self._shortened += len(self.newest)
        self.newest.clear()

    def _text_of_newest(self) -> str:
        return "".join([piece.text for piece in self.newest if type(piece) is TextPart])

    def __str__(self) -> str:
        return "".join((*self._whole, self._text_of_newest()))
