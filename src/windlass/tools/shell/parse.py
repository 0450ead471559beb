"""Reads a shell text whole: by the grammar, by a second reader, and into the texts that it gives to other shells.

We run `bash --noprofile --norc -c TEXT`: no aliases, no history, no start-up files. What depends on the shell's state
when the text runs (variables, file names, functions) is not known here, and a text with it is not exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from posixpath import basename

import msgspec

from .grammar.hidden_characters import PLAIN, hidden, obstacle
from .grammar.plain_commands import PlainReading, plain_reading
from .grammar.plain_words import NotPlain
from .grammar.skimmed_commands import skimmed
from .grammar.tree_walk import Walk
from .hidden_code import ELSEWHERE, NUMBER_TAKERS, doubt_of
from .shell_text import (
    COMMANDS_MAX,
    LISTED_COMMANDS_MAX,
    NESTING_MAX,
    SPECIALS_MAX,
    TEXT_CHARS_MAX,
    Heredoc,
    Redirect,
    ShellText,
    SimpleCommand,
    Word,
)
from .wrapped import Wrapped, wrapped

WORD_CHARS_MAX = 2_048
"""A command with a longer name or a longer line is not exact: nobody reads it to its end."""
LINE_CHARS_MAX = 4_096
SPECIALS = "|&;<>()${}[]`"
EVALUATED = re.compile(r"^(?:IFS|PATH|CDPATH|BASH_\w*|ENV|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|HOME|PWD|OLDPWD)$")
"""Variables that change how the rest of a text is read."""

MOVES = frozenset({"cd", "pushd", "popd", "chdir"})
MOVERS = frozenset({"env", "sudo", "doas", "chroot", "find", "fd", "fdfind", "parallel", "make"})
"""Commands that can run others in another folder, or with other variables."""


def parse(text: str) -> ShellText:
    """What a text says. Never raises; what cannot be said is unclear."""
    return _Reading(text).whole()


def calls_git(commands: Iterable[SimpleCommand]) -> bool:
    """Whether git is among what is run."""
    return any(basename(command.name) == "git" for command in commands)


def leads_git_elsewhere(commands: Sequence[SimpleCommand]) -> bool:
    """Whether git may run in another folder than the text itself, or is told of another repository."""
    for command in commands:
        if basename(command.name) in MOVES and calls_git(commands):
            return True
        if any(a.name.startswith("GIT_") for a in command.assignments) and calls_git(commands):
            return True
        if basename(command.name) == "git" and not MOVERS.isdisjoint(map(basename, command.within)):
            return True
    return False


class _Reading:
    """One text and all texts inside it, as far as they have been read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._commands: list[SimpleCommand] = []
        self._redirects: list[Redirect] = []
        self._heredocs: list[Heredoc] = []
        self._substitutions: list[str] = []
        self._background = False
        self._doubt: str | None = None
        self._fault: str | None = None

    def whole(self) -> ShellText:
        if len(self._text) > TEXT_CHARS_MAX:
            self._fault = obstacle(self._text)
        else:
            self._read(self._text, (), 0)
        for command in self._commands:
            self._doubts_about(command)
        if leads_git_elsewhere(self._commands):
            self._doubt = self._doubt or ELSEWHERE
        if self._fault is not None:
            self._commands += skimmed(self._text[:TEXT_CHARS_MAX])
        if len(self._commands) > COMMANDS_MAX:
            self._fault = self._fault or f"the text has more than {COMMANDS_MAX} commands"
        why = self._fault or self._doubt
        return ShellText(
            text=self._text,
            commands=tuple(self._commands),
            redirects=tuple(self._redirects),
            heredocs=tuple(self._heredocs),
            substitutions=tuple(self._substitutions),
            background=self._background,
            exact=why is None,
            unclear=why,
            readable=self._fault is None,
        )

    def _read(self, text: str, within: tuple[str, ...], depth: int) -> None:
        self._fault = self._fault or hidden(text)
        plain, why = _plain(text)
        self._background |= plain is not None and plain.background
        if plain is None and sum(map(text.count, SPECIALS)) > SPECIALS_MAX:
            self._fault = self._fault or "the text has too many operators to be read"
            return
        walk = Walk(text).whole()
        if plain is not None and (walk.fault is not None or _difference(plain, walk) is not None):
            walk = _piecewise(text, plain)
        self._fault = self._fault or walk.fault
        self._doubt = self._doubt or walk.doubt or why
        if plain is not None and walk.fault is None and (differs := _difference(plain, walk)) is not None:
            self._doubt = self._doubt or differs
            for listed in plain.commands:
                self._take(SimpleCommand(words=tuple(Word(text=word) for word in listed.words), within=within), depth)
        self._redirects += (msgspec.structs.replace(r, within=(*within, *r.within)) for r in walk.redirects)
        self._heredocs += walk.heredocs
        self._substitutions += walk.substitutions
        for command in walk.commands:
            self._take(msgspec.structs.replace(command, within=(*within, *command.within)), depth)
        for inner in walk.texts if depth < NESTING_MAX else ():
            self._read(inner, (*within, "substitution"), depth + 1)
        shown = "".join(c if c in PLAIN or c.isprintable() else " " for c in text)
        if shown != text and depth < NESTING_MAX:
            self._read(shown, within, NESTING_MAX)

    def _take(self, command: SimpleCommand, depth: int) -> None:
        """Keeps a command, and what it would run beside itself."""
        self._commands.append(command)
        if len(self._commands) > LISTED_COMMANDS_MAX or not command.words:
            return
        payload = wrapped(command.argv)
        self._doubt = self._doubt or payload.doubt
        if (payload.commands or payload.texts) and depth >= NESTING_MAX:
            self._fault = self._fault or "commands stand too deep in each other"
            return
        self._take_wrapped(command, payload, depth)

    def _take_wrapped(self, command: SimpleCommand, payload: Wrapped, depth: int) -> None:
        within = (*command.within, command.name)
        for words in payload.commands:
            inner = command.words[len(command.words) - len(words) :] if words == command.argv[-len(words) :] else None
            kept = inner or tuple(Word(text=word) for word in words)
            self._take(SimpleCommand(words=kept, within=within, at=command.at), depth + 1)
        for text in payload.texts:
            if not command.literal:
                self._doubt = self._doubt or "a text for another shell is not known"
            self._read(text, within, depth + 1)

    def _doubts_about(self, command: SimpleCommand) -> None:
        why = doubt_of(command.argv)
        if not command.literal:
            why = why or "a word of a command is not known"
        if any(EVALUATED.match(a.name) for a in command.assignments):
            why = why or "it changes how the shell reads"
        if sum(map(len, command.argv)) > LINE_CHARS_MAX or any(len(w) > WORD_CHARS_MAX for w in command.argv[:1]):
            self._fault = self._fault or f"a command is longer than {LINE_CHARS_MAX:,} characters"
        self._doubt = self._doubt or why


def _plain(text: str) -> tuple[PlainReading | None, str | None]:
    """What the second reader says, or why it says nothing."""
    try:
        return plain_reading(text), None
    except NotPlain as error:
        return None, str(error)


def _piecewise(text: str, plain: PlainReading) -> Walk:
    """What the grammar says of each piece of a plain text by itself. With many commands on many lines it takes a new
    line for a blank now and then."""
    whole, begin = Walk(text), 0
    for end in (*plain.ends, len(text)):
        if text[begin:end].strip():
            whole.add(Walk(text[begin:end]).whole(), begin)
        begin = end
    return whole


def _difference(plain: PlainReading, walk: Walk) -> str | None:
    """Why the two readers do not agree, or a number changes what is run."""
    ours = [(tuple(f"{a.name}={a.value.text}" for a in c.assignments), c.argv) for c in walk.commands]
    theirs = [(c.assignments, c.words) for c in plain.commands]
    redirects = [(r.fd, r.operator, r.target.text) for r in walk.redirects]
    expected = [r for r in plain.redirects if not r[1].startswith("<<") or r[1] == "<<<"]
    heredocs = [_lines(heredoc.body) for heredoc in walk.heredocs]
    if ours != theirs or redirects != expected or heredocs != [_lines(body) for body in plain.heredocs]:
        return "two readers of it do not agree on what it says"
    if any(name not in NUMBER_TAKERS for name in plain.numbers):
        return "it uses a variable"
    return None


def _lines(body: str) -> list[str]:
    """The lines of a here-document without the tabs that `<<-` takes off."""
    return [line.lstrip("\t") for line in body.strip("\t\n").split("\n")]
