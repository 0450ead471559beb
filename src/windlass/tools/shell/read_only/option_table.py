"""Reading the words of a command against a list of what is known: every option that is not on it is not known.

Lists of what is forbidden do not hold: programs have more options than anybody remembers, long ones can be shortened,
and short ones joined. So only what is listed passes, spelled out whole.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.events.values.blocks import Value

Words = tuple[str, ...]


class Forms(Value, frozen=True, kw_only=True):
    """The forms of a command in which it only reads."""

    flags: str = ""
    """Short options without a value; they may be joined."""
    values: str = ""
    """Short options with one."""
    long: str = ""
    """Long options without a value, or with one after `=`, by their whole names."""
    long_values: str = ""
    """Long options with a value, after `=` or as the next word."""
    operands_max: int = 1_000
    numeric: bool = False
    """Whether `-5` is an option, as for head and tail."""
    apart: bool = False
    """Whether each short option stands in a word of its own, and its value in the next: for a program that reads joined
    ones otherwise than all others do."""


class Parsed(Value, frozen=True, kw_only=True):
    """The words of a command, told apart."""

    options: tuple[tuple[str, str], ...] = ()
    operands: Words = ()


Check = Callable[[Parsed], bool]


def parsed(words: Words, forms: Forms) -> Parsed | None:
    """The options and operands of the words after a command's name; None if one of them is not known."""
    options: list[tuple[str, str]] = []
    operands: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
        elif word.startswith("--"):
            option = _long(word, rest, forms)
            if option is None:
                return None
            options.append(option)
        elif forms.numeric and word[1:].isdecimal():
            options.append(("-", word[1:]))
        elif (forms.apart and len(word) > 2) or not _cluster(word[1:], rest, forms, options):
            return None
    if len(operands) > forms.operands_max:
        return None
    return Parsed(options=tuple(options), operands=tuple(operands))


def _long(word: str, rest: list[str], forms: Forms) -> tuple[str, str] | None:
    key, sign, value = word[2:].partition("=")
    if key in forms.long.split():
        return f"--{key}", value
    if key not in forms.long_values.split():
        return None
    if sign:
        return f"--{key}", value
    return (f"--{key}", rest.pop(0)) if rest else None


def _cluster(letters: str, rest: list[str], forms: Forms, options: list[tuple[str, str]]) -> bool:
    for place, letter in enumerate(letters):
        if letter in forms.values:
            value = letters[place + 1 :]
            if not value and not rest:
                return False
            options.append((f"-{letter}", value or rest.pop(0)))
            return True
        if letter not in forms.flags:
            return False
        options.append((f"-{letter}", ""))
    return True
