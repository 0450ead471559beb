"""Figures in words for people: ages, times of day, money, tokens, tables. Pure functions."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import UTC, datetime
from typing import Any

from windlass.cli.terminal.text import cells, hung, padded
from windlass.cli.terminal.visible_text import spelt
from windlass.events.values.usage import NANOS_PER_USD, Usage
from windlass.runtime.operate.item_text import call_text

STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span(ms: int) -> str:
    """A duration in its largest unit."""
    for size, unit in STEPS:
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{max(0, ms)} ms"


def seconds(ms: int) -> str:
    """A duration to the tenth of a second."""
    return f"{ms / 1000:.1f} s" if ms >= 100 else f"{ms} ms"


def wait(ms: int) -> str:
    """How long something waits: to the tenth of a second if it is short."""
    return seconds(ms) if ms < STEPS[2][0] else span(ms)


def clock(at_ms: int) -> str:
    """The time of day, here."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S")


def day(at_ms: int) -> str:
    """The day, here, and which clock that is."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %Z")


def moment(at_ms: int) -> str:
    """A day and time that can be read anywhere."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def dollars(nanos: int) -> str:
    """Money with as many digits as it needs."""
    usd = nanos / NANOS_PER_USD
    if nanos == 0:
        return "$0"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}" if usd >= 0.0001 else f"${usd:.9f}".rstrip("0")


def tokens(usage: Usage) -> str:
    """Tokens in and out, the cached part named."""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def called(tool: str, args: Any) -> str:
    """A call as one would write it, in one line, whole, without anything that a terminal would obey."""
    return spelt(call_text(tool, args))


def table(rows: Sequence[Sequence[str]], *, right: Container[int] = ()) -> list[str]:
    """Rows as aligned columns, those named in `right` to the right. Expects visible text."""
    if not rows:
        return []
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(_cell(text, widths[n], n in right) for n, text in enumerate(row)).rstrip() for row in rows]


def fits(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether there is room for a table of them."""
    return max(map(cells, table(rows)), default=0) <= width


def fitted(rows: Sequence[Sequence[str]], width: int, *, right: Container[int] = ()) -> list[str]:
    """Rows, the first of them headings, as a table; on a screen too narrow for it, each row by itself: its first cell,
    and beneath that the others with their headings. Expects visible text."""
    if fits(rows, width):
        return table(rows, right=right)
    heads, *rest = rows
    shown = []
    for row in rest:
        told = [f"{head.lower()} {cell}" for head, cell in zip(heads[1:], row[1:], strict=True) if cell]
        shown += [row[0], *hung(f"  {' · '.join(told)}", width, "    ")]
    return shown


def _cell(text: str, width: int, right: bool) -> str:
    return " " * max(0, width - cells(text)) + text if right else padded(text, width)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
