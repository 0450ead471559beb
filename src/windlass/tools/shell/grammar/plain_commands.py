"""A second reader of shell texts, part two: the simple commands of a plain text.

What the grammar says of a text is believed to be all of it only if this reader, which shares no line with it, found the
same commands, words and redirections. A text on which the two differ is one that bash might read in a third way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.events.values.blocks import Value
from windlass.tools.shell.shell_text import COMMANDS_MAX

from .plain_words import REDIRECTIONS, NotPlain, PlainTokens, Token

OPENS = {"if": "fi", "while": "done", "until": "done", "{": "}", "(": ")"}
INSIDE = {"then": "fi", "elif": "fi", "else": "fi", "do": "done"}
CLOSES = frozenset({"fi", "done", "}"})
REFUSED = frozenset({"case", "esac", "select", "function", "coproc", "[[", "]]", "in", "for"})
RESERVED = REFUSED | CLOSES | INSIDE.keys() | OPENS.keys() | {"!"}
REDIRECTS_MAX = 64
TWICE = re.compile(r"[\w./-]+", re.ASCII)
"""Names that stay what they are if they are expanded a second time."""
SEPARATORS = frozenset({";", "&", "\n", "&&", "||", "|", "|&"})


class PlainCommand(Value, frozen=True, kw_only=True):
    """The assignments and words of one simple command."""

    assignments: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class PlainReading(Value, frozen=True, kw_only=True):
    """What a plain text says."""

    commands: tuple[PlainCommand, ...] = ()
    redirects: tuple[tuple[str, str, str], ...] = ()
    heredocs: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    """Where a piece of the text ends that could be read alone."""
    background: bool = False
    """Whether something is left running."""
    numbers: tuple[str, ...] = ()
    """The names of the commands with a word that has a number in it which only the shell knows."""


def plain_reading(text: str) -> PlainReading:
    """Reads a plain text; raises NotPlain for any other, with the reason."""
    reader = _Reader(PlainTokens(text))
    return reader.read()


class _Reader:
    """Goes over the tokens once."""

    def __init__(self, tokens: PlainTokens) -> None:
        self._tokens = tokens
        self._ahead: Iterator[Token] = iter(tokens)
        self._open: list[str] = []
        self._words: list[Token] = []
        self._commands: list[PlainCommand] = []
        self._redirects: list[tuple[str, str, str]] = []
        self._descriptor = ""
        self._numbers: list[str] = []
        self._ends: list[int] = []
        self._background = False
        self._timed = False
        """Whether only `time` and its options stand before: a reserved word is one then."""
        self._fresh = True
        """Whether a command may begin here."""
        self._ended = False
        """Whether a compound command has just ended: only a redirection or a separator may follow."""

    def read(self) -> PlainReading:
        for token in self._ahead:
            if token.descriptor:
                self._descriptor = token.value
            elif token.operator in REDIRECTIONS:
                self._redirect(token.operator)
            elif token.operator:
                self._separator(token.operator)
            else:
                self._word(token)
        self._finish()
        if self._open:
            raise NotPlain(f"{self._open[-1]!r} is missing")
        return PlainReading(
            commands=tuple(self._commands),
            redirects=tuple(self._redirects),
            heredocs=tuple(self._tokens.heredocs),
            ends=tuple(self._ends),
            background=self._background,
            numbers=tuple(self._numbers),
        )

    def _redirect(self, operator: str) -> None:
        target = next(self._ahead, Token(operator="end"))
        if target.operator:
            raise NotPlain("a redirection leads nowhere")
        if len(self._redirects) >= REDIRECTS_MAX:
            raise NotPlain("it has too many redirections")
        if operator in (">&", "<&") and not TWICE.fullmatch(target.value):
            raise NotPlain(f"bash takes the quotes off twice behind {operator!r}")
        if target.number:
            raise NotPlain("a redirection leads to a place that only the shell knows")
        self._redirects.append((self._descriptor, operator, target.value))
        self._descriptor = ""
        self._fresh = False

    def _separator(self, operator: str) -> None:
        if operator == "(":
            if not self._fresh:
                raise NotPlain("it uses a function, an array or a pattern")
            self._open.append(")")
            return
        blank = self._fresh and not self._ended
        if operator in SEPARATORS and operator != "\n" and blank:
            raise NotPlain(f"nothing stands before {operator!r}")
        self._finish()
        self._background |= operator == "&"
        if operator == ")":
            self._close(")")
        elif operator in (";", "&", "\n") and not self._open and not self._tokens.owes and not blank:
            self._ends.append(self._tokens.at)

    def _finish(self) -> None:
        """Ends the simple command that is being read."""
        assignments: list[str] = []
        for place, token in enumerate(self._words):
            if not token.assigns:
                words = self._words[place:]
                self._commands.append(PlainCommand(assignments=tuple(assignments), words=tuple(w.value for w in words)))
                if any(w.number for w in self._words):
                    self._numbers.append(words[0].value)
                break
            assignments.append(token.value)
        else:
            if assignments:
                self._commands.append(PlainCommand(assignments=tuple(assignments)))
                if any(w.number for w in self._words):
                    self._numbers.append("")
        self._words = []
        self._fresh, self._ended = True, False
        if len(self._commands) > COMMANDS_MAX:
            raise NotPlain("it has too many commands")

    def _word(self, token: Token) -> None:
        if self._ended:
            raise NotPlain("a word follows the end of a compound command")
        if self._fresh and not token.quoted and token.value in RESERVED:
            self._reserved(token.value)
            return
        if self._timed and (token.assigns or (not token.quoted and token.value in RESERVED)):
            raise NotPlain(f"it uses 'time' before {token.value!r}")
        self._timed = (self._fresh or self._timed) and not token.quoted and token.value in ("time", "-p", "--")
        self._words.append(token)
        self._fresh = False

    def _reserved(self, word: str) -> None:
        if word in REFUSED:
            raise NotPlain(f"it uses {word!r}")
        if word in OPENS:
            self._open.append(OPENS[word])
        elif word in INSIDE:
            if not self._open or self._open[-1] != INSIDE[word]:
                raise NotPlain(f"{word!r} stands alone")
        elif word in CLOSES:
            self._close(word)

    def _close(self, word: str) -> None:
        if not self._open or self._open.pop() != word:
            raise NotPlain(f"{word!r} stands alone")
        self._fresh, self._ended = False, True
