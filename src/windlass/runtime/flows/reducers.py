"""The reducers that are there without code of one's own: pure functions over the outputs that a node needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .references import text_of

Reducer = Callable[..., Any]
"""A function of the outputs that a node needs, in the order in which it names them."""


def texts(outputs: Sequence[Any]) -> list[str]:
    """The outputs as texts; of a list, such as a map gives, each element."""
    return [text_of(each) for output in outputs for each in (output if isinstance(output, list) else [output])]


def dedupe_lines(outputs: Sequence[Any]) -> str:
    """All lines, each once, in the order in which they came first."""
    lines = (line.rstrip() for text in texts(outputs) for line in text.splitlines())
    return "\n".join(dict.fromkeys(line for line in lines if line))


def merge_json_arrays(outputs: Sequence[Any]) -> list[Any]:
    """The elements of all outputs, each of which is an array or the text of one. Raises `ValueError` for another."""
    merged: list[Any] = []
    for number, output in enumerate(outputs, start=1):
        value = msgspec.json.decode(output) if isinstance(output, str) else output
        if not isinstance(value, list):
            raise ValueError(f"output {number} is no JSON array")
        merged += value
    return merged


def concat(outputs: Sequence[Any]) -> str:
    """All outputs, one after the other, with an empty line between them."""
    return "\n\n".join(texts(outputs))


def count(outputs: Sequence[Any]) -> int:
    """How many elements there are: those of arrays, else one for each output."""
    return sum(len(output) if isinstance(output, list) else 1 for output in outputs)


REDUCERS: dict[str, Reducer] = {
    "dedupe_lines": dedupe_lines,
    "merge_json_arrays": merge_json_arrays,
    "concat": concat,
    "count": count,
}
