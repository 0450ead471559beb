"""Nodes whose work several child sessions do at once: map and tournament."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.runtime.flows.references import ITEM, filled, text_of

from .answers import Misread, one_of
from .moves import Calls, Ended, Move, Work, child, failed, told, why_not

NAMED_MAX = 5


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
    """A child for each item, or a function; the output is the list of what they gave, in the order of the items."""
    node = work.node
    try:
        items = items_of(work.values.get(node.over))
    except ValueError as error:
        return failed(str(error))
    if len(items) > node.items_max:
        return failed(f"{len(items)} items, and it takes {node.items_max} at the most: raise items_max")
    if node.reducer:
        return Ended([work.functions[node.reducer](item) for item in items])
    if not items:
        return Ended([])
    if not work.rounds:
        return Calls([child(work, told(work, node.task, *_shown(node.task, item), item=item)) for item in items])
    results = work.rounds[0]
    lost = [str(number) for number, result in enumerate(results, start=1) if not result.ok]
    if lost:
        first = next(result for result in results if not result.ok)
        return failed(f"items {', '.join(lost[:NAMED_MAX])} did not end well: {why_not(first)}")
    return Ended([result.value for result in results])


def _shown(task: str, item: Any) -> list[str]:
    """The item, if the task does not name it."""
    return [] if f"{{{ITEM}" in task else [f"Item:\n{text_of(item)}"]


def tournament(work: Work) -> Move:
    """Entrants by their tasks and the outputs that it needs; a judge decides between two until one is left."""
    node, rounds = work.node, list(work.rounds)
    entered: list[Any] = list(work.outputs.values())
    if node.entrants:
        if not rounds:
            return Calls([child(work, told(work, f"{node.task}\n\n{task}".strip())) for task in node.entrants])
        results = rounds.pop(0)
        entered = [result.value for result in results if result.ok] + entered
        if not entered:
            return failed(f"no entrant ended well: {why_not(results[0])}")
    for results in rounds:
        try:
            entered = _winners(entered, results)
        except Misread as error:
            return failed(str(error))
    if len(entered) == 1:
        return Ended(entered[0])
    pairs = zip(entered[::2], entered[1::2], strict=False)
    return Calls([child(work, _match(work, one, other), node.judge) for one, other in pairs])


def _match(work: Work, one: Any, other: Any) -> str:
    """What a judge is told: nothing but the task and the two answers, in no telling order."""
    task = filled(work.node.task, work.values)
    return (
        f"Two answers to a task follow. Say which is better.\n\nTask:\n{task}\n\nAnswer A:\n{text_of(one)}\n\n"
        f'Answer B:\n{text_of(other)}\n\nAnswer with JSON alone: {{"winner": "A" or "B"}}'
    )


def _winners(entered: list[Any], results: Any) -> list[Any]:
    """Who goes on: of each pair the one that the judge named, and whoever had no other to meet. Raises `Misread`."""
    winners = []
    for number, result in enumerate(results):
        if not result.ok:
            raise Misread(f"a judge did not end well: {why_not(result)}")
        winners.append(entered[2 * number + (one_of(result.value, "winner", ("A", "B")) == "B")])
    return winners + (entered[-1:] if len(entered) % 2 else [])
