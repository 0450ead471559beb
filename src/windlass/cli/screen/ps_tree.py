"""A process table as lines: each session below the one that started it, with its state and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.cli.terminal.text import one_line
from windlass.cli.terminal.visible_text import spelt
from windlass.runtime.operate.process_table import Process

from . import number_words, tables
from .ps_table import NOTHING

HEAD = ("SESSION", "STATE", "AGENT", "COST", "WAITS FOR")
INDENT = "  "
WHY_CHARS_MAX = 100
COLOURS = {"running": "green", "blocked": "yellow", "suspended": "blue", "damaged": "red", "ready": "cyan"}


def tree_lines(processes: Sequence[Process], width: int) -> list[str]:
    """The table. On a screen too narrow for it, each session by itself."""
    rows = [HEAD, *(cells_of(process) for process in processes)]
    if not number_words.fits(rows, width):
        return number_words.fitted(rows, width)
    at = HEAD.index("STATE")
    return tables.table(rows, colours=lambda row, n: COLOURS.get(processes[row - 1].state, "") if n == at else "")


def cells_of(process: Process) -> tuple[str, ...]:
    """One session; below another it is named by its call."""
    name = process.scope.rpartition("~")[2] or process.session
    waits = ", ".join(spelt(str(wait)) for wait in process.waits_for)
    return (
        f"{INDENT * process.depth}{spelt(name)}",
        process.state,
        spelt(process.agent) or NOTHING,
        number_words.dollars(process.cost_nanos),
        f"in {spelt(process.machine)}: {waits or _end(process)}" if process.machine else waits or _end(process),
    )


def _end(process: Process) -> str:
    """How a session that is done ended, and why if it failed."""
    if not process.ended:
        return NOTHING
    why = one_line(process.why, WHY_CHARS_MAX)
    return f"({process.ended}: {why})" if why else f"({process.ended})"
