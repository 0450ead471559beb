"""A process table as a diagram: each session below the one that started it."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.runtime.diagrams import mermaid as text
from windlass.runtime.diagrams import svg as picture
from windlass.runtime.diagrams.boxes import Box, Link
from windlass.runtime.operate.process_table import Process

COLOURS = {"running": "working", "damaged": "failed"}
ENDED = {"completed": "done", "failed": "failed"}


def mermaid(processes: Sequence[Process]) -> str:
    """Trees of sessions as Mermaid text."""
    return text.mermaid(*drawn(processes))


def svg(processes: Sequence[Process]) -> str:
    """Trees of sessions as SVG."""
    return picture.svg(*drawn(processes), "a tree of sessions")


def drawn(processes: Sequence[Process]) -> tuple[list[Box], list[Link]]:
    """What the diagram shows: of each session its place, its agent, what it does and what it waits for."""
    there = {process.session for process in processes}
    boxes = [_box(process) for process in processes]
    return boxes, [Link(one.parent, one.session) for one in processes if one.parent in there and one.parent]


def _box(process: Process) -> Box:
    place = process.scope.rpartition("~")[2] or process.session
    waits = ", ".join(wait.kind for wait in process.waits_for)
    how = f" ({process.ended})" if process.ended else f": {waits}" if waits else ""
    colour = ENDED.get(process.ended, "cancelled") if process.ended else COLOURS.get(process.state, "")
    title = f"{place} {process.agent}".strip()
    return Box(process.session, title, f"{process.state}{how}", colour, "box" if process.scope else "round")
