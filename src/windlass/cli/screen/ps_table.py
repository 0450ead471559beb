"""Sessions as a table for a screen of some width: what each does, what it waits for, how old it is, what it cost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.cli.terminal.text import hung, one_line
from windlass.cli.terminal.visible_text import spelt
from windlass.store.base import IndexRow

from . import number_words, tables

HEAD = ("SESSION", "STATE", "AGENT", "AGE", "COST")
DRIVER = "DRIVEN BY"
"""A column that is there only if somebody drives something."""
REST = ("WAITING FOR", "TITLE")
NOTHING = "-"
STANDS_CHARS_MAX = 100
TITLE_CHARS = (60, 40, 20)
"""How much of a title is shown: the first that fits beside the rest."""
COLOURS = {"running": "green", "asked": "yellow", "sleeping": "blue", "parked": "red"}


def table(rows: list[IndexRow], drivers: dict[str, str], now: int, width: int) -> list[str]:
    """The rows as text. If they are wider than the screen, titles are cut; if that is not enough, who drives a
    session, what it waits for and its title stand beneath it."""
    head = (*HEAD, *((DRIVER,) if drivers else ()), *REST)
    for most in TITLE_CHARS:
        whole = [head, *(cells_of(row, drivers, now, most) for row in rows)]
        if number_words.fits(whole, width):
            return coloured(whole, rows)
    short = [HEAD, *(cells_of(row, {}, now, 0)[: len(HEAD)] for row in rows)]
    if not number_words.fits(short, width):
        return [line for row in rows for line in by_itself(row, drivers, now, width)]
    first, *lines = coloured(short, rows)
    shown = [first]
    for line, row in zip(lines, rows, strict=True):
        shown.append(line)
        shown += [piece for more in beneath(row, drivers, now) for piece in hung(more, width, "    ")]
    return shown


def marked(rows: list[IndexRow], answers: dict[str, dict[str, str]]) -> list[IndexRow]:
    """The rows, with a mark on everything that a session waits for and that has an answer in the inbox."""
    return [with_answers(row, answers[row.session]) if row.session in answers else row for row in rows]


def with_answers(row: IndexRow, answers: dict[str, str]) -> IndexRow:
    words = row.waiting_words or row.waiting_for
    told = [
        f"{said}, answered: {answers[name]}" if name in answers else said
        for name, said in zip(row.waiting_for, words, strict=False)
    ]
    return msgspec.structs.replace(row, waiting_words=tuple(told))


def with_jobs(rows: list[IndexRow], counts: dict[str, int]) -> list[IndexRow]:
    """The rows, with how many background jobs each session at rest has open."""
    return [_with_jobs(row, counts[row.session]) if row.session in counts else row for row in rows]


def _with_jobs(row: IndexRow, count: int) -> IndexRow:
    words = (*(row.waiting_words or row.waiting_for), number_words.plural(count, "background job"))
    return msgspec.structs.replace(row, waiting_for=row.waiting_for or ("jobs",), waiting_words=words)


def by_itself(row: IndexRow, drivers: dict[str, str], now: int, width: int) -> list[str]:
    """A session on a screen that has no room for columns."""
    name, *rest = cells_of(row, {}, now, 0)[: len(HEAD)]
    lines = [f"  {' · '.join(rest)}", *beneath(row, drivers, now)]
    return [name, *(piece for line in lines for piece in hung(line, width, "    "))]


def cells_of(row: IndexRow, drivers: dict[str, str], now: int, title: int) -> tuple[str, ...]:
    return (
        spelt(row.session),
        row.state,
        spelt(row.agent) or NOTHING,
        number_words.span(now - row.updated_ms) if row.updated_ms else NOTHING,
        number_words.dollars(row.cost_nanos),
        *((drivers.get(row.session, NOTHING),) if drivers else ()),
        ": ".join(filter(None, (stands(row), waits(row, drivers, now)))) or NOTHING,
        one_line(row.title, title) if row.title and title else NOTHING,
    )


def beneath(row: IndexRow, drivers: dict[str, str], now: int) -> list[str]:
    """What does not fit beside a session."""
    title = [f"  “{one_line(row.title, TITLE_CHARS[0])}”"] if row.title else []
    standing = [f"  {stands(row)}"] if row.stands else []
    driven = [f"  driven by {drivers[row.session]}"] if row.session in drivers else []
    waiting = waits(row, drivers, now)
    return title + standing + driven + ([f"  waits for {waiting}"] if waiting else [])


def coloured(lines: Sequence[Sequence[str]], rows: Sequence[IndexRow]) -> list[str]:
    """A table in which the state of a session has its colour."""
    at = HEAD.index("STATE")
    return tables.table(lines, colours=lambda line, n: COLOURS.get(rows[line - 1].state, "") if n == at else "")


def stands(row: IndexRow) -> str:
    """Where its workflow or its state machine stands; empty if it has none."""
    return one_line(row.stands, STANDS_CHARS_MAX)


def waits(row: IndexRow, drivers: dict[str, str], now: int) -> str:
    """What would make a session go on; empty if it waits for nothing."""
    if row.waiting_for:
        return one_line(", ".join(row.waiting_words or row.waiting_for), 200)
    if row.next_wake_ms is not None:
        left = row.next_wake_ms - now
        return f"a timer, in {number_words.span(left)}" if left > 0 else "a process that drives it: its timer is due"
    if row.owed and row.session not in drivers:
        return f"a process that runs {spelt(row.agent)!r} (cut off)"
    return ""
