"""A second reader of shell texts, part one: words and operators of plain texts, without any grammar's help.

It knows only what means the same whatever the shell's state is: literal words, quotes, operators, comments. Everything
else is not plain, and the reason is said. It never guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.events.values.blocks import Value

OPERATORS = re.compile(r"&&|\|\||;;|;&|\|&|&>>|&>|<<<|<<-|<<|<&|<>|<\(|>>|>\||>&|>\(|[|&;()<>\n]")
REDIRECTIONS = frozenset({"&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">|", ">&", "<", ">"})
ENDS_WORD = frozenset(" \t\n|&;()<>")
NUMBERS = frozenset("?#$!")
"""Parameters that are digits or nothing, whatever has happened."""
LITERAL_AFTER_DOLLAR = frozenset(" \t\n|)/.,:;%^&=+]~")
ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\[|\+)?=")
HEREDOCS_MAX = 16
DELIMITER = re.compile(r"[A-Za-z0-9_.-]+")


class NotPlain(Exception):
    """The text means something that cannot be read off it."""


class Token(Value, frozen=True, kw_only=True):
    """A word with its value, or an operator (without one)."""

    operator: str = ""
    value: str = ""
    quoted: bool = False
    """Whether any of it was quoted: a quoted word is never a reserved one."""
    assigns: bool = False
    """Whether it has the form `NAME=…` with nothing quoted before the sign."""
    number: bool = False
    """Whether it has a parameter in it that is a number."""
    descriptor: bool = False
    """Whether it is the descriptor of the redirection that follows."""


class PlainTokens:
    """The tokens of one text, in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._due: list[tuple[str, bool, bool]] = []
        self.heredocs: list[str] = []

    @property
    def at(self) -> int:
        """Where the last token ended, with the here-documents that follow it."""
        return self._at

    @property
    def owes(self) -> bool:
        """Whether here-documents have yet to come."""
        return bool(self._due)

    def __iter__(self) -> Iterator[Token]:
        while True:
            self._skip_blanks()
            if self._at >= len(self._text):
                break
            operator = OPERATORS.match(self._text, self._at)
            token = self._operator(operator[0]) if operator else self._word()
            yield token
            if token.operator in ("<<", "<<-"):
                yield self._delimiter(token.operator)
        if self._due:
            raise NotPlain("a here-document does not end")

    def _skip_blanks(self) -> None:
        text = self._text
        while self._at < len(text):
            if text[self._at] in " \t":
                self._at += 1
            elif text[self._at] == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif text.startswith("\\\n", self._at):
                if self._at and text[self._at - 1] not in " \t":
                    raise NotPlain("a line is continued in the middle of a word")
                self._at += 2
                if self._at < len(text) and text[self._at] not in " \t":
                    raise NotPlain("a line is continued in the middle of a word")
            else:
                return

    def _operator(self, operator: str) -> Token:
        if operator in ("<(", ">("):
            raise NotPlain("it uses process substitution")
        if operator == "(" and self._text.startswith("((", self._at):
            raise NotPlain("it uses arithmetic")
        if operator in (";;", ";&"):
            raise NotPlain("it uses case")
        self._at += len(operator)
        if self._text.startswith("\\\n", self._at):
            raise NotPlain("a line is continued in the middle of a word")
        if operator == "\n":
            self._read_heredocs()
        return Token(operator=operator)

    def _delimiter(self, operator: str) -> Token:
        self._skip_blanks()
        word = self._word()
        if len(self.heredocs) + len(self._due) >= HEREDOCS_MAX:
            raise NotPlain("it has too many here-documents")
        if not DELIMITER.fullmatch(word.value):
            raise NotPlain("a here-document has a strange end")
        self._due.append((word.value, word.quoted, operator == "<<-"))
        return word

    def _read_heredocs(self) -> None:
        for end, quoted, indented in self._due:
            lines: list[str] = []
            while True:
                if self._at >= len(self._text):
                    raise NotPlain("a here-document does not end")
                stop = self._text.find("\n", self._at)
                stop = len(self._text) if stop < 0 else stop
                line = self._text[self._at : stop]
                self._at = min(stop + 1, len(self._text))
                if (line.lstrip("\t") if indented else line) == end:
                    break
                lines.append(line)
            body = "\n".join(lines)
            if not quoted and any(c in body for c in "$`\\"):
                raise NotPlain("a here-document is expanded")
            self.heredocs.append(body)
        self._due.clear()

    def _word(self) -> Token:
        text = self._text
        value: list[str] = []
        bare: list[str] = []  # as the value, with a NUL for each quoted piece
        number = False
        while self._at < len(text) and text[self._at] not in ENDS_WORD:
            char = text[self._at]
            if char in "\\'\"":
                piece, counted = self._quoted(char)
                bare.append("\0")
            elif char == "$":
                piece, counted = self._dollar(ENDS_WORD)
                bare.append("$")
            else:
                piece, counted = char, False
                bare.append(char)
                self._at += 1
            value.append(piece)
            number |= counted
        shown = "".join(bare)
        if shown.isdecimal() and text[self._at : self._at + 1] in ("<", ">"):
            return Token(value=shown, descriptor=True)
        if shown.startswith("{") and text[self._at : self._at + 1] in ("<", ">"):
            raise NotPlain("a redirection sets a variable")
        return _word_of("".join(value), shown, number)

    def _quoted(self, mark: str) -> tuple[str, bool]:
        text = self._text
        if mark == "\\":
            if self._at + 1 >= len(text) or text[self._at + 1] == "\n":
                raise NotPlain("a line is continued in the middle of a word")
            self._at += 2
            return text[self._at - 1], False
        if mark == '"':
            return self._double()
        end = text.find("'", self._at + 1)
        if end < 0:
            raise NotPlain("a quote does not end")
        piece = text[self._at + 1 : end]
        self._at = end + 1
        return piece, False

    def _double(self) -> tuple[str, bool]:
        text, value, number = self._text, list[str](), False
        self._at += 1
        while self._at < len(text):
            char = text[self._at]
            if char == '"':
                self._at += 1
                return "".join(value), number
            if char == "`":
                raise NotPlain("it uses command substitution")
            if char == "$":
                piece, counted = self._dollar(LITERAL_AFTER_DOLLAR | {'"'})
                number |= counted
            elif char == "\\":
                following = text[self._at + 1 : self._at + 2]
                if following == "\n":
                    raise NotPlain("a line is continued in the middle of a word")
                piece = following if following in tuple('$`"\\') else char + following
                self._at += 2
            else:
                piece = char
                self._at += 1
            value.append(piece)
        raise NotPlain("a quote does not end")

    def _dollar(self, harmless: frozenset[str]) -> tuple[str, bool]:
        """A dollar sign that is only that, or a parameter that is a number."""
        following = self._text[self._at + 1 : self._at + 2]
        if following in NUMBERS:
            self._at += 2
            return "$" + following, True
        if following and following not in harmless:
            what = {"(": "command substitution or arithmetic", "'": "$'…'", '"': '$"…"'}
            raise NotPlain(f"it uses {what.get(following, 'a variable')}")
        self._at += 1
        return "$", False


def _word_of(value: str, bare: str, number: bool) -> Token:
    """A word whose quotes are taken off, if nothing in it is expanded."""
    if "`" in bare:
        raise NotPlain("it uses command substitution")
    if any(c in bare for c in "*?[") and bare != "[":
        raise NotPlain("it uses a pattern of file names")
    if "{" in bare and bare not in ("{", "{}") and ("," in value or ".." in value or "$" in value):
        raise NotPlain("it uses brace expansion")
    if bare.startswith("~") or "=~" in bare or ":~" in bare:
        raise NotPlain("it uses the home folder")
    assigns = ASSIGNS.match(bare)
    if assigns is not None and assigns[1]:
        raise NotPlain("it changes a variable by parts")
    return Token(value=value, quoted="\0" in bare, assigns=assigns is not None, number=number)
