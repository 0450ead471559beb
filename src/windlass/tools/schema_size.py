"""How much a JSON Schema is once its references are followed: a page of text can stand for more than can be checked in
a lifetime, if each part refers to the next one twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PARTS_MAX = 20_000
"""How many parts a schema may have, references followed; those that refer to themselves count once."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMES = ("$anchor", "$dynamicAnchor")


def is_too_large(schema: Any) -> bool:
    """Whether a schema has more parts than are checked. Raises nothing, whatever it is given."""
    try:
        return _Parts(schema).count(schema) > PARTS_MAX
    except RecursionError:
        return True


class _Parts:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._named = dict(_named(root))
        self._counts: dict[str, int] = {}

    def count(self, value: Any) -> int:
        """The parts of a value, itself included; no more than tells that they are too many."""
        total = 1
        for inner in _inner(value):
            total += self.count(inner)
            if total > PARTS_MAX:
                return total
        for word in REFERENCES if isinstance(value, dict) else ():
            if isinstance(to := value.get(word), str):
                total += self._behind(to)
        return total

    def _behind(self, reference: str) -> int:
        if reference not in self._counts:
            self._counts[reference] = 0  # one that leads back to itself ends here
            self._counts[reference] = self.count(self._target(reference))
        return self._counts[reference]

    def _target(self, reference: str) -> Any:
        if reference in self._named:
            return self._named[reference]
        base, _, pointer = reference.partition("#")
        node = self._named.get(base, self._root)
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(step)
            elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            else:
                return None
        return node


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """What a schema calls by names of its own."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from ((f"#{one[word]}", one) for word in NAMES if isinstance(one.get(word), str))
            if isinstance(one.get("$id"), str):
                yield one["$id"], one
        waiting += _inner(one)
