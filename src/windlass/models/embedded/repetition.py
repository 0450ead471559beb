"""Tells when an answer has begun to say the same thing over and over, which small models do until their tokens end."""

from __future__ import annotations

import re

BOUNDARY = re.compile(r"(?<=[.!?])(?=\s|\\)|(?=\n)")
"""Between two sentences or lines. In a JSON string a line ends with the letters `\\n`."""
SPACE = re.compile(r"(?:\s|\\n)*(?:\\$)?")
STUTTER = re.compile(r"(.{2,16}?)\1{11,}\Z", re.DOTALL)
STUTTER_CHARS = 16 * 12
"""The same few letters twelve times and more: within words there is nothing to hold back, but it ends the answer."""
ENDLESS = "the answer was ended where it began to repeat itself"
"""The warning of a reply whose end the model did not write."""
UNIT_MIN, UNIT_MAX = 8, 400
"""How many characters a passage has that is looked for, without the spaces around it."""


class Repeats:
    """An answer as it is written. What may be the beginning of a repetition is held back until it turns out to be
    something else; a passage that stands three times in a row ends the answer behind the first of them. So does a
    stutter, where it stands."""

    def __init__(self) -> None:
        self.text = ""
        self.endless = False
        self._starts = [0]
        """Where sentences begin, in order."""
        self._shown = 0

    def feed(self, piece: str) -> str:
        """Takes what was written next; gives what may be shown now."""
        if self.endless:
            return ""
        self.text += piece
        for boundary in BOUNDARY.finditer(self.text, self._starts[-1] + 1):
            self._starts.append(boundary.end())
            unit = self._unit(boundary.end())
            if unit:
                self.endless, self.text = True, self.text[: max(boundary.end() - 2 * unit, self._shown)]
                return self.rest()
        stutter = STUTTER.search(self.text, max(0, len(self.text) - STUTTER_CHARS))
        if stutter is not None and len(set(stutter[1])) > 1:  # a line of dashes is a line of dashes
            self.endless = True
            return self.rest()
        return "" if self._repeating() else self.rest()

    def rest(self) -> str:
        """What was held back."""
        begin, self._shown = self._shown, len(self.text)
        return self.text[begin:]

    def _unit(self, end: int) -> int:
        """The length of the passage that stands three times in a row before `end`; 0 if there is none. The first
        may have no space before it."""
        for start in reversed(self._starts[:-1]):
            size = end - start
            if size > UNIT_MAX:
                break
            unit = self.text[start:end]
            before = start - size
            once = bare(unit)
            if before < 0 or len(once) < UNIT_MIN:
                continue
            if self.text[before:start] == unit and self.text.endswith(once, 0, before):
                return size
        return 0

    def _repeating(self) -> bool:
        """Whether what was written since the last sentence may yet be one that stood before."""
        begin = self._starts[-1]
        return begin > 0 and bare(self.text[begin:]) in self.text[:begin]


def bare(text: str) -> str:
    """A text without the space before it."""
    return text[SPACE.match(text).end() :]  # type: ignore[union-attr]
