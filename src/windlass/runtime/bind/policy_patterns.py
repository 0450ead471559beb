"""What rules say about paths, hosts and commands, ready to be held against a call.

A permission is read narrowly and a denial widely: the first takes names as they are written, the second also reaches
what lies in a folder that it names, other spellings of case, and a program by its whole path."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from windlass.events.errors import UsageError
from windlass.events.user_folders import expanded
from windlass.tools.files.glob_patterns import PATTERN_CHARS_MAX, Glob
from windlass.tools.linear_patterns import name_pattern

LISTED_MAX = 256
"""How many patterns one rule may have of a kind."""
HOST_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.:")


class PathGlob:
    """A glob over paths: from the root of the file system, from the session's folder, or a name at any depth."""

    def __init__(self, text: str) -> None:
        whole = expanded(text) if text.startswith("~/") else text
        body = whole.strip("/")
        self._placed = whole.startswith("/")
        self._anywhere = not self._placed and "/" not in body
        self._folder = whole.endswith("/")
        shape = f"**/{body}" if self._anywhere else body
        self._narrow, self._wide = Glob(shape), Glob((shape.removesuffix("/**") or shape).casefold())

    def allows(self, path: str, folder: str | None) -> bool:
        """Whether a permission that names it reaches a path."""
        whole, inside = _placed(path, folder)
        names = whole if self._placed else inside
        if names is None:
            return False
        return self._narrow.covers(names) if self._folder else self._narrow.matches(names)

    def denies(self, path: str, folder: str | None) -> bool:
        """Whether a denial or a question that names it reaches a path: a folder also if it names all that is in it."""
        whole, inside = _placed(path, folder)
        names = whole if self._placed or (inside is None and self._anywhere) else inside
        return names is not None and self._wide.covers([name.casefold() for name in names])


def _placed(path: str, folder: str | None) -> tuple[list[str], list[str] | None]:
    """The names of a path from the root of the file system, and from the session's folder if it lies there."""
    whole = os.path.normpath(os.path.join(folder or "", path))
    if folder is None:
        return _names(whole), None
    above = _names(os.path.normpath(folder))
    names = _names(whole)
    return names, names[len(above) :] if names[: len(above)] == above else None


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


@lru_cache(maxsize=1024)
def path_glob(text: str) -> PathGlob:
    """A glob over paths, made once. Raises `UsageError` for what is none."""
    if not isinstance(text, str) or not text.strip("/") or len(text) > PATTERN_CHARS_MAX or ".." in text.split("/"):
        raise UsageError(f"{text!r} is no glob of paths: write 'src/**', '*.pem', 'secrets/' or '/etc/**'")
    try:
        return PathGlob(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no glob of paths: {error}") from None


@lru_cache(maxsize=1024)
def host_pattern(text: str) -> Callable[[str], bool]:
    """Tells the hosts that are meant: an exact name, all beneath one, or any. Raises `UsageError` if it is no host."""
    name = text.lower().rstrip(".") if isinstance(text, str) else ""
    beneath = name.removeprefix("*.")
    if name == "*":
        return lambda host: bool(host)
    if not beneath or set(beneath) - HOST_CHARS or beneath.startswith("."):
        raise UsageError(f"{text!r} is no host: write 'example.org' or '*.example.org', without scheme, port or path")
    if beneath != name:
        return lambda host: _host(host).endswith("." + beneath)
    return lambda host: _host(host) == name


def _host(name: str) -> str:
    return name.lower().rstrip(".")


class CommandPattern:
    """The first words of a command, each of which may be a glob."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [name_pattern(word) for word in words]

    def allows(self, command: str) -> bool:
        """Whether a permission that names it reaches a command, as its words are written."""
        try:
            words = shlex.split(command)
        except ValueError:
            return False
        return self._begins(words)

    def denies(self, command: str) -> bool | None:
        """Whether a denial or a question that names it does, also by the whole path of the program and with options
        between its words; None if that depends on which of them take a value."""
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        if not words:
            return False
        return self._stands_in(words) or self._stands_in([os.path.basename(words[0]), *words[1:]])

    def _begins(self, words: Sequence[str]) -> bool:
        return len(words) >= len(self._words) and all(
            pattern.fits(word) for pattern, word in zip(self._words, words, strict=False)
        )

    def _stands_in(self, words: Sequence[str]) -> bool | None:
        """Whether the pattern's words stand there in order, with nothing but options of the command between them.
        `reached` holds how many have been found, and whether that is sure."""
        reached = {1: True} if self._words[0].fits(words[0]) else {}
        verdict: bool | None = False
        after_option = False
        for at, word in enumerate(words):
            if at:
                reached = self._further(reached, word, after_option=after_option)
                after_option = word.startswith("-") and "=" not in word
            if len(self._words) in reached:
                if reached.pop(len(self._words)):
                    return True
                verdict = None
            if not reached:
                break
        return verdict

    def _further(self, reached: dict[int, bool], word: str, *, after_option: bool) -> dict[int, bool]:
        beyond: dict[int, bool] = {}
        for count, sure in reached.items():
            if self._words[count].fits(word):
                beyond[count + 1] = sure or beyond.get(count + 1, False)
            if word.startswith("-") or after_option:
                beyond[count] = (sure and word.startswith("-")) or beyond.get(count, False)
        return beyond


@lru_cache(maxsize=1024)
def command_pattern(text: str) -> CommandPattern:
    """A pattern of commands, made once. Raises `UsageError` for what is none."""
    try:
        words = shlex.split(text) if isinstance(text, str) and len(text) <= PATTERN_CHARS_MAX else []
    except ValueError as error:
        raise UsageError(f"{text!r} is no pattern of commands: {error}") from None
    if not words:
        raise UsageError(f"{text!r} is no pattern of commands: write its first words, such as 'git status'")
    return CommandPattern(words)


def fit(
    touched: Iterable[str],
    tests: Sequence[Callable[[str], bool | None]],
    *,
    allow: bool,
    exact: bool,
    known: bool = False,
) -> bool | None:
    """Whether what a call touches fits what a rule says of it; None if that cannot be said. With `known`, what is not
    known is left out.

    A permission must fit all of it, and all must be known; a denial or a question holds if it fits any."""
    things = list(touched)
    if allow:
        return exact and bool(things) and all(any(test(thing) for test in tests) for thing in things)
    said = {test(thing) for test in tests for thing in things}
    if True in said:
        return True
    return False if known or (exact and None not in said) else None


def fit_all(things: Iterable[str], tests: Sequence[Callable[[str], bool]]) -> bool:
    """Whether each of some things fits one of the tests."""
    return all(any(test(thing) for test in tests) for thing in things)


def bare_host(host: str) -> str:
    """A host without its port."""
    name, _, port = host.rpartition(":")
    return name.strip("[]") if name and port.isdigit() else host.strip("[]")
