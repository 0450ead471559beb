"""Keys out of the bytes that a terminal sends. Unknown sequences are swallowed whole; a paste is one key.

Pure: it reads no terminal and knows no clock.
"""

from __future__ import annotations

import codecs
import re

import msgspec

PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
PASTE_MAX = 400_000
"""Letters of one paste that are kept."""
SEQUENCE_MAX = 64
"""No key is spelt longer than this; what claims to be is dropped."""
CSI = re.compile(r"\x1b\[([0-?]*)[ -/]*([@-~])")
CSI_OPEN = re.compile(r"\x1b\[[0-?]*[ -/]*\Z")
STRING_OPEN = re.compile(r"\x1b[P\]X^_]")
STRING = re.compile(r"\x1b[P\]X^_].*?(?:\x1b\\|\x07)", re.DOTALL)

CONTROLS = {
    "\x01": "home",
    "\x02": "left",
    "\x03": "interrupt",
    "\x04": "end_of_input",
    "\x05": "end",
    "\x06": "right",
    "\x08": "backspace",
    "\x09": "tab",
    "\x0a": "enter",
    "\x0b": "kill_right",
    "\x0c": "redraw",
    "\x0d": "enter",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "kill_left",
    "\x17": "kill_word",
    "\x19": "yank",
    "\x1a": "suspend",
    "\x7f": "backspace",
}
LETTERS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "Z": "back_tab"}
NUMBERS = {"1": "home", "3": "delete", "4": "end", "5": "page_up", "6": "page_down", "7": "home", "8": "end"}
MODIFIED = {"left": "word_left", "right": "word_right", "enter": "newline"}
META = {"b": "word_left", "f": "word_right", "\x7f": "kill_word", "\x08": "kill_word", "\r": "newline", "\n": "newline"}


class Key(msgspec.Struct, frozen=True):
    """A key by its name; `text` and `paste` carry what was written."""

    name: str
    text: str = ""


class Decoder:
    """Bytes in, keys out, however the bytes are cut."""

    def __init__(self) -> None:
        self._letters = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._pasted: str | None = None

    @property
    def waiting(self) -> bool:
        """Whether an escape has come that may be a key or the beginning of one."""
        return bool(self._rest) and self._pasted is None

    def feed(self, data: bytes) -> list[Key]:
        """The keys that are complete now."""
        self._rest += self._letters.decode(data)
        found: list[Key] = []
        while self._rest:
            key, used = self._paste() if self._pasted is not None else self._one()
            if not used:
                break
            self._rest = self._rest[used:]
            if key is not None:
                found.append(key)
        return _joined(found)

    def give_up(self) -> list[Key]:
        """No more came: a lone escape is the key of that name, half a sequence is nothing."""
        alone = self._rest == "\x1b" and self._pasted is None
        if self._pasted is None:
            self._rest = ""
        return [Key("escape")] if alone else []

    def _one(self) -> tuple[Key | None, int]:
        """The first key and how many letters it took; 0 where it is not all there."""
        rest = self._rest
        if rest[0] != "\x1b":
            return _plain(rest[0]), 1
        if rest.startswith(PASTE_BEGIN):
            self._pasted = ""
            return None, len(PASTE_BEGIN)
        if len(rest) == 1 or (CSI_OPEN.match(rest) and len(rest) < SEQUENCE_MAX):
            return None, 0
        if found := CSI.match(rest):
            return _sequence(found[1], found[2]), found.end()
        if rest[1] == "O":
            return (None, 0) if len(rest) == 2 else (_named(LETTERS.get(rest[2])), 3)
        if STRING_OPEN.match(rest):
            return self._string()
        if rest[1] in "[\x1b":
            return None, 1
        return _named(META.get(rest[1])), 2

    def _string(self) -> tuple[None, int]:
        """An answer of the terminal to a question that we never ask."""
        found = STRING.match(self._rest)
        if found is None:
            return None, 0 if len(self._rest) < SEQUENCE_MAX else len(self._rest)
        return None, found.end()

    def _paste(self) -> tuple[Key | None, int]:
        assert self._pasted is not None
        end = self._rest.find(PASTE_END)
        # The end of a paste may itself come in pieces: that many letters wait.
        ready = end if end >= 0 else max(0, len(self._rest) - len(PASTE_END) + 1)
        self._pasted = (self._pasted + self._rest[:ready])[:PASTE_MAX]
        if end < 0:
            return None, ready
        text, self._pasted = self._pasted, None
        return Key("paste", text.replace("\r\n", "\n").replace("\r", "\n")), end + len(PASTE_END)


def _plain(letter: str) -> Key | None:
    name = CONTROLS.get(letter)
    if name is not None:
        return Key(name)
    return None if letter < " " else Key("text", letter)


def _sequence(given: str, final: str) -> Key | None:
    number, _, modifier = given.partition(";")
    if final == "u" and number == "13":
        return Key("newline" if modifier else "enter")
    if final == "~" and given == "27;2;13":
        return Key("newline")
    name = NUMBERS.get(number) if final == "~" else LETTERS.get(final)
    return _named(MODIFIED.get(name, name) if name is not None and modifier not in ("", "1") else name)


def _named(name: str | None) -> Key | None:
    return None if name is None else Key(name)


def _joined(keys: list[Key]) -> list[Key]:
    """Letters that came together as one key, so that a line is drawn once for them."""
    found: list[Key] = []
    for key in keys:
        if key.name == "text" and found and found[-1].name == "text":
            found[-1] = Key("text", found[-1].text + key.text)
        else:
            found.append(key)
    return found
