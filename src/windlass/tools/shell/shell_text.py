"""What a shell text says, as plain values: its simple commands, redirections, and whether that is all there is."""

from __future__ import annotations

from windlass.events.values.blocks import Value

TEXT_CHARS_MAX = 32_768
"""A longer text is not read at all: it is unclear, and the shell tool does not take it."""
COMMANDS_MAX = 64
"""A text with more simple commands is unclear, however harmless each of them looks."""
SPECIALS_MAX = 1_500
"""How many operators, brackets and dollar signs a text has at most that is not plain: the grammar's parser takes a time
that grows with their square if they do not fit together."""
LISTED_COMMANDS_MAX = 4 * COMMANDS_MAX
"""How many commands of a text that has too many of them are kept, so that denials see them."""
NESTING_MAX = 4
"""How deep texts inside texts (`bash -c '…'`) are read."""
NODES_MAX = 40_000
"""How many pieces of grammar one text has at most."""

NETWORK = ("/dev/tcp/", "/dev/udp/")
"""Where a redirection of bash connects to somebody."""


def listed(names: str) -> frozenset[str]:
    """Names that are written one after another, as a set."""
    return frozenset(names.split())


class Word(Value, frozen=True, kw_only=True):
    """One word of a command: its value if it is literal, else its source."""

    text: str
    literal: bool = True


class Assignment(Value, frozen=True, kw_only=True):
    """`NAME=value` before a command, or alone."""

    name: str
    value: Word


class SimpleCommand(Value, frozen=True, kw_only=True):
    """One simple command: what would be run, with which words. Without words it only assigns."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    within: tuple[str, ...] = ()
    """What it stands in, outermost first, such as `pipeline`, `subshell`, `substitution`, `loop`, `bash -c`."""
    at: int = 0
    """Where it begins, in bytes of the text that it stands in."""

    @property
    def literal(self) -> bool:
        """Whether every word of it is known."""
        return all(w.literal for w in self.words) and all(a.value.literal for a in self.assignments)

    @property
    def name(self) -> str:
        """The command's name as it is written."""
        return self.words[0].text if self.words else ""

    @property
    def argv(self) -> tuple[str, ...]:
        """The words as texts."""
        return tuple(word.text for word in self.words)


class Redirect(Value, frozen=True, kw_only=True):
    """One redirection. `fd` is what is written before the operator, if anything."""

    operator: str
    target: Word
    fd: str = ""
    within: tuple[str, ...] = ()
    at: int = 0

    @property
    def duplicates(self) -> bool:
        """Whether it only joins two open descriptors, or closes one."""
        plain = self.target.text.rstrip("-")
        return self.operator in (">&", "<&") and self.target.literal and (not plain or plain.isdigit())

    @property
    def writes(self) -> bool:
        """Whether it opens something for writing."""
        return self.operator in (">", ">>", ">|", "&>", "&>>", "<>", ">&", ">&-") and not self.duplicates

    @property
    def harmless(self) -> bool:
        """Whether what it writes to is no file."""
        return self.target.literal and self.target.text in ("/dev/null", "/dev/stderr", "/dev/stdout")


class Heredoc(Value, frozen=True, kw_only=True):
    """Text that is given to a command as its input. If it is not literal, the shell expands it first."""

    body: str
    literal: bool = True


class ShellText(Value, frozen=True, kw_only=True):
    """A whole text for bash. Commands inside texts that it gives to other shells are among its commands."""

    text: str
    commands: tuple[SimpleCommand, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()
    substitutions: tuple[str, ...] = ()
    background: bool = False
    """Whether it leaves something running, as far as it is exact."""
    exact: bool = True
    """Whether the commands, words and redirections are all there are, and every one is known."""
    unclear: str | None = None
    """Why it is not exact."""
    readable: bool = True
    """Whether the grammar knows all of it. If not, nobody can say what it does."""
