"""Diagrams of attention: each urgency, and what becomes of signals of it by what the session is busy with."""

from __future__ import annotations

from windlass.events.values.attention import URGENCIES, Attend, Attention
from windlass.runtime.diagrams import mermaid as text
from windlass.runtime.diagrams import svg as picture
from windlass.runtime.diagrams.boxes import Box, Link

ENDS: dict[Attend, tuple[str, str, str]] = {
    "interrupt": ("interrupt", "cut off, asked again", "failed"),
    "next_turn": ("next turn", "it brings a turn", "done"),
    "queue": ("queue", "with the next turn", "working"),
    "observe": ("observe", "beside the task", "skipped"),
    "drop": ("drop", "on record alone", "pruned"),
}
"""What becomes of a signal, in two lines, and the colour of that."""
BUSY = {"resting": "resting", "sleeping": "sleeping", "model": "answering", "tools": "calls run", "people": "asking"}
Drawn = tuple[list[Box], list[Link]]


def mermaid(attention: Attention) -> str:
    """The table of a session's attention as Mermaid text."""
    return text.mermaid(*drawn(attention))


def svg(attention: Attention) -> str:
    """The same as SVG."""
    return picture.svg(*drawn(attention), "what becomes of signals")


def drawn(attention: Attention) -> Drawn:
    """Each urgency, what becomes of it, and what the session is busy with then, unless it is always the same."""
    boxes = [Box(urgency, urgency, "a signal comes", shape="round") for urgency in URGENCIES]
    links = []
    reached: list[Attend] = []
    for urgency in URGENCIES:
        ends: dict[Attend, list[str]] = {}
        for busy, words in BUSY.items():
            ends.setdefault(getattr(getattr(attention, urgency), busy), []).append(words)
        for end, when in ends.items():
            links.append(Link(urgency, end, "" if len(ends) == 1 else _shown(when)))
            reached.append(end)
    boxes += [Box(end, *ENDS[end]) for end in ENDS if end in reached]
    return boxes, links


def _shown(when: list[str]) -> str:
    """What it is busy with; if that is nearly all there is, what it is not."""
    others = [words for words in BUSY.values() if words not in when]
    return ", ".join(when) if len(when) <= len(others) else f"not {', '.join(others)}"
