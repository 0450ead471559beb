"""What a diagram is made of: boxes with two lines of words, and arrows between them."""

from __future__ import annotations

from typing import Literal, NamedTuple

LABEL_CHARS_MAX = 24
COLOURS = {
    "done": "#d7f0dc",
    "failed": "#f8d7da",
    "cancelled": "#f8d7da",
    "skipped": "#eeeeee",
    "pruned": "#eeeeee",
    "computing": "#fff3cd",
    "working": "#fff3cd",
    "returned": "#fff3cd",
    "pausing": "#fff3cd",
}
"""What a box is filled with, by how far it has got."""
PLAIN = "#ffffff"


class Box(NamedTuple):
    """One thing."""

    name: str
    """What links know it by."""
    title: str
    below: str = ""
    status: str = ""
    """One of `COLOURS`, if it is filled with one."""
    shape: Literal["box", "round"] = "box"


class Link(NamedTuple):
    """An arrow from one box to another that stands below it; dashed if it is optional."""

    source: str
    target: str
    label: str = ""
    optional: bool = False


def short(text: str) -> str:
    return text if len(text) <= LABEL_CHARS_MAX else text[: LABEL_CHARS_MAX - 1] + "…"
