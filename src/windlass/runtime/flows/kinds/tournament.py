"""Tournament: entrants that a judge compares in pairs, until one is left."""

from __future__ import annotations

from typing import Any

from windlass.runtime.flows.references import filled, text_of

from .model_answers import Misread, one_of
from .move import Calls, Ended, Move, Work, child, failed, told, why_not

NAMED_MAX = 5


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
