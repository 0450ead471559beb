"""Regular expressions judged in time that grows with the text alone, and with the interpreter free meanwhile.

RE2 never backtracks and gives the interpreter's lock back while it searches, so that a pattern made up by a model or
found in a repository costs its own call some time and nobody else any."""

from __future__ import annotations

import functools
from typing import Any

MEMORY_MAX = 256 * 1024
"""How much a compiled expression and its search may take; a larger expression is refused."""
WORK_MAX = 100_000_000
"""Steps of one search: the size of the expression times the length of the text. About half a second."""


class NotLinear(ValueError):
    """A pattern that cannot be judged in bounded time, or is no pattern at all. The message says why."""


class LinearPattern:
    """A compiled regular expression: RE2's syntax, which has no look-around and no back-references."""

    def __init__(
        self, pattern: str, *, ignore_case: bool = False, lines: bool = False, memory_max: int = MEMORY_MAX
    ) -> None:
        import re2

        options = re2.Options()
        options.max_mem = memory_max
        options.log_errors = False
        options.never_capture = True
        pattern = _encodable(pattern)
        flags = ("i" if ignore_case else "") + ("m" if lines else "")
        try:
            self._compiled: Any = re2.compile(f"(?{flags}){pattern}" if flags else pattern, options)
        except re2.error as error:
            raise NotLinear(_reason(pattern, error)) from None
        self.chars_max = WORK_MAX // max(1, self._compiled.programsize)
        """How much text one search may be given."""

    def found_in(self, text: str) -> bool:
        """Whether it is found anywhere in a text, of which only the first `chars_max` characters are looked at."""
        return self._compiled.search(_encodable(text[: self.chars_max])) is not None

    def fits(self, text: str) -> bool:
        """Whether it fits a text as a whole; one that is longer than `chars_max` fits nothing."""
        return len(text) <= self.chars_max and self._compiled.fullmatch(_encodable(text)) is not None

    def replaced(self, text: str, mark: str) -> str:
        """A text of at most `chars_max` characters with a mark in the place of all that it fits."""
        clean: str = self._compiled.sub(mark, _encodable(text))
        return clean

    def blotted(self, data: bytes) -> bytes:
        """Bytes with an asterisk for each byte of what fits: they stay as many as they were."""
        try:
            text, coding = data.decode(), "utf-8"
        except UnicodeDecodeError:
            text, coding = data.decode("latin-1"), "latin-1"
        clean: str = self._compiled.sub(lambda match: "*" * len(match.group(0).encode(coding)), text)
        return clean.encode(coding)


def _encodable(text: str) -> str:
    """The text with a mark for each half of a character, which names of files may hold and RE2 cannot be given."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _reason(pattern: str, error: Exception) -> str:
    """Why a pattern was refused, in the words of Python's own engine if that refuses it too."""
    import re

    try:
        re.compile(pattern)
    except re.error as known:
        return str(known)
    except (OverflowError, RecursionError):
        return "it is too large"
    said = error.args[0] if error.args else error
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if "too large" in text or "repetition" in text:
        return "it is too large: use fewer or smaller repetitions"
    return "look-around, back-references and very large repetitions are not supported"


@functools.lru_cache(maxsize=512)
def name_pattern(glob: str) -> LinearPattern:
    """A glob over one name: `*`, `?` and `[abc]` or `[!abc]`."""
    return LinearPattern("(?s)" + "".join(_translated(_encodable(glob))))


def name_expression(glob: str) -> str:
    """The same as a part of a larger expression: it never leaves the name that it stands in."""
    return "".join(_translated(_encodable(glob), any_letter="[^/]", never="/"))


def _translated(glob: str, any_letter: str = ".", never: str = "") -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(glob):
        letter = glob[at]
        if letter == "*":
            if pieces[-1:] != [f"{any_letter}*"]:
                pieces.append(f"{any_letter}*")
        elif letter == "?":
            pieces.append(any_letter)
        elif letter == "[" and (end := _class_end(glob, at)) is not None:
            pieces.append(_letter_class(glob[at + 1 : end], any_letter, never))
            at = end
        else:
            pieces.append(_hex(letter))
        at += 1
    return pieces


def _class_end(glob: str, start: int) -> int | None:
    """Where a class of letters that begins at `start` ends; None if the bracket stands for itself."""
    first = start + 1 + glob.startswith("!", start + 1)
    end = glob.find("]", first + 1)
    return None if end < 0 else end


def _letter_class(inside: str, any_letter: str, never: str) -> str:
    """A class of letters. Ranges that run backwards hold nothing, as the shell has it."""
    negated = inside.startswith("!")
    letters = inside[1:] if negated else inside
    members, at = [], 0
    while at < len(letters):
        if at + 2 < len(letters) and letters[at + 1] == "-":
            first, last = letters[at], letters[at + 2]
            members += [f"{_hex(low)}-{_hex(high)}" for low, high in _ranges(first, last, never) if low <= high]
            at += 3
        else:
            members.append(_hex(letters[at]))
            at += 1
    if not members:
        return any_letter if negated else r"[^\x00-\x{10FFFF}]"
    return f"[{'^' + never if negated else ''}{''.join(members)}]"


def _ranges(first: str, last: str, never: str) -> list[tuple[str, str]]:
    """A range of letters, in two parts if one letter between them is never meant."""
    if not never or not first <= never <= last:
        return [(first, last)]
    return [(first, chr(ord(never) - 1)), (chr(ord(never) + 1), last)]


def _hex(letter: str) -> str:
    return letter if letter.isalnum() and letter.isascii() else f"\\x{{{ord(letter):X}}}"
