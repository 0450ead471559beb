"""Background jobs as lines for people."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.cli.terminal.text import one_line
from windlass.cli.terminal.visible_text import spelt
from windlass.tools.jobs.job_host import JobRow

from . import number_words

TITLE_CHARS = 80


def job_lines(rows: Iterable[JobRow]) -> list[str]:
    """A table of jobs: id, how each is, how long it took so far, what it is about."""
    return number_words.table(
        [(spelt(row.job_id), job_state(row), number_words.span(row.age_ms), job_title(row)) for row in rows]
    )


def job_state(row: JobRow) -> str:
    """How a job is, in a word or two."""
    code = f", exit code {row.exit_code}" if row.exit_code is not None else ""
    return f"{row.status}{code}{', detached' if row.detached else ''}"


def job_title(row: JobRow) -> str:
    """What a job is about, on one line."""
    return one_line(row.title, TITLE_CHARS) if row.title else "-"
