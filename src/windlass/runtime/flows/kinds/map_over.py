"""Map: a child for each item of what was given at run time, or a function."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.runtime.flows.references import ITEM, text_of

from .move import Calls, Ended, Move, Work, child, failed, told, why_not
from .tournament import NAMED_MAX


def items_of(value: Any) -> list[Any]:
    """The items of an output: an array, the text of one, or lines."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return [line.strip() for line in str(value).splitlines() if line.strip()]
    if not isinstance(value, list):
        raise ValueError(f"it goes over a list, and was given {text_of(value)[:80]}")
    return value


def map_over(work: Work) -> Move:
    """A child for each item, or a function; the output is the list of what they gave, in the order of the items.
    An item that ended well in an earlier attempt is not worked on again."""
    node = work.node
    try:
        items = items_of(work.values.get(node.over))
    except ValueError as error:
        return failed(str(error))
    if len(items) > node.items_max:
        return failed(
            f"{len(items)} items, and it takes {node.items_max} at the most: raise items (in a file: items_max)"
        )
    if node.reducer:
        return Ended([work.functions[node.reducer](item) for item in items])
    kept = work.kept or [None] * len(items)
    left = [item for item, was in zip(items, kept, strict=True) if was is None]
    if left and not work.rounds:
        return Calls([child(work, told(work, node.task, *_shown(node.task, item), item=item)) for item in left])
    new = iter(work.rounds[0] if left else ())
    results = [was if was is not None else next(new) for was in kept]
    lost = [str(number) for number, result in enumerate(results, start=1) if not result.ok]
    if lost:
        first = next(result for result in results if not result.ok)
        return failed(f"items {', '.join(lost[:NAMED_MAX])} did not end well: {why_not(first)}")
    return Ended([result.value for result in results])


def _shown(task: str, item: Any) -> list[str]:
    """The item, if the task does not name it."""
    return [] if f"{{{ITEM}" in task else [f"Item:\n{text_of(item)}"]
