"""What one case of the shell corpus says, and the lists that the cases stand in."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A shell text with what must be said of it. `exact` and `reads` are whole truths, the tuples are parts of one."""

    text: str
    exact: bool = True
    readable: bool = True
    reads: bool = False
    lines: tuple[str, ...] = ()
    """Lines that must be among the commands."""
    writes: tuple[str, ...] = ()
    """Paths that must be among the writes, for a session in /ws."""
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    name: str = field(default="")
    """What it is called; its text if it has no name."""


def reading(*texts: str) -> list[Case]:
    """Texts that only read."""
    return [Case(text, reads=True) for text in texts]


def changing(*texts: str) -> list[Case]:
    """Texts that are known whole and may change something."""
    return [Case(text) for text in texts]


def inexact(*texts: str) -> list[Case]:
    """Texts of which something is not known."""
    return [Case(text, exact=False) for text in texts]


def unreadable(*texts: str) -> list[Case]:
    """Texts that nobody can say anything of for sure."""
    return [Case(text, exact=False, readable=False) for text in texts]


def all_cases() -> list[Case]:
    """The whole corpus."""
    from tests.shell import corpus_changing, corpus_inexact, corpus_published, corpus_reading

    return [*corpus_reading.CASES, *corpus_changing.CASES, *corpus_inexact.CASES, *corpus_published.CASES]


def label(case: Case) -> str:
    """How a case is called in a report."""
    return (case.name or case.text).encode("unicode_escape").decode()[:70]
