"""Simple commands as lines: what patterns of rules are held against.

One line is the words of one simple command, joined by one blank; a word that holds a blank or anything special is
quoted as `shlex.quote` does it. So `rm *` fits a line exactly if its first word is `rm` and there are more.
"""

from __future__ import annotations

import posixpath
import shlex

from .shell_text import NETWORK, ShellText, SimpleCommand

LINE_SHOWN_MAX = 4_000


def lines_of(text: ShellText) -> tuple[str, ...]:
    """The lines that stand for a whole text. To allow it, every one must be allowed; to deny it, one is enough.

    - each simple command, those in substitutions, loops, functions and texts for other shells included;
    - again without what stands before it, for one with assignments: `A=1 rm x` gives `A=1 rm x` and `rm x`;
    - again by its bare name, for one named by a path: `/bin/rm x` gives `/bin/rm x` and `rm x`;
    - a command inside another one beside that: `sudo rm x` gives `sudo rm x` and `rm x`;
    - each redirection that writes to a file, as `> path`, whatever its operator (no command has such a line: a program
      of that name is quoted); a permission for commands speaks of these by the writes that it allows;
    - each redirection to a socket of bash, as `/dev/tcp/host/port` alone;
    - a word that is not literal as its source, quoted: `rm "$X"` gives `rm '"$X"'`; the text is not exact then.
    """
    lines: dict[str, None] = {}
    for command in text.commands:
        for line in _lines(command):
            lines[line[:LINE_SHOWN_MAX]] = None
    for redirect in text.redirects:
        if redirect.target.text.startswith(NETWORK):
            lines[quoted(redirect.target.text)[:LINE_SHOWN_MAX]] = None
        elif redirect.writes and not redirect.harmless:
            lines[f"> {quoted(redirect.target.text)}"[:LINE_SHOWN_MAX]] = None
    return tuple(lines)


def line_of(command: SimpleCommand) -> str:
    """One command as one line, with its assignments."""
    assigned = (f"{a.name}={quoted(a.value.text) if a.value.text else ''}" for a in command.assignments)
    return " ".join((*assigned, *map(quoted, command.argv)))


def _lines(command: SimpleCommand) -> tuple[str, ...]:
    whole = line_of(command)
    if not command.words:
        return (whole,)
    bare = " ".join(map(quoted, command.argv))
    if "/" not in command.name or not posixpath.basename(command.name):
        return (whole, bare)
    return whole, bare, " ".join(map(quoted, (posixpath.basename(command.name), *command.argv[1:])))


def quoted(word: str) -> str:
    """A word as it stands in a line."""
    return shlex.quote(word)
