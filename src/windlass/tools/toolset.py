"""The tools of an agent as one value: found by canonical name or by the model's name, restricted, searched.

A set with two tools of one name, on either side, cannot be made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.values.items import ToolSchema
from windlass.events.values.tools import ToolSpec, ToolText

from .tool import AnyTool, as_tool

FOUND_MAX = 10
"""How many tools a search gives at most, unless told."""
TOOLS_MAX = 4_096
_WORD = r"[a-z0-9]+"
_HUMP = r"(?<=[a-z0-9])(?=[A-Z])"


class ToolSet:
    """Tools in the order they were given."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, AnyTool] = {}
        self._by_model_name: dict[str, AnyTool] = {}
        for thing in tools:
            self._add(as_tool(thing))

    def _add(self, tool: AnyTool) -> None:
        if len(self._tools) >= TOOLS_MAX:
            raise UsageError(f"more than {TOOLS_MAX} tools: mount what is needed, when it is needed")
        for name in dict.fromkeys((tool.name, tool.model_name)):
            other = self._tools.get(name) or self._by_model_name.get(name)
            if other is not None:
                raise UsageError(
                    f"two tools are called {name!r} ({_place(other)} and {_place(tool)}): "
                    "give one of them another name, or an alias for the model's side"
                )
        self._tools[tool.name] = tool
        self._by_model_name[tool.model_name] = tool

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical names."""
        return tuple(self._tools)

    def get(self, name: str) -> AnyTool | None:
        """By canonical name, as in the log and in policies."""
        return self._tools.get(name)

    def called(self, model_name: str) -> AnyTool | None:
        """By the name that a model used. Where a tool has an alias, its canonical name means nothing to models."""
        return self._by_model_name.get(model_name)

    def near(self, model_name: str) -> tuple[str, ...]:
        """Names on the model's side that resemble one it made up."""
        import difflib

        return tuple(difflib.get_close_matches(model_name, self._by_model_name, n=3))

    def only(self, names: Iterable[str]) -> ToolSet:
        """The tools whose canonical names match one of these names or globs. A plain name that is not there is refused,
        so that a restriction never fails silently."""
        import fnmatch

        wanted = list(names)
        missing = [name for name in wanted if not any(mark in name for mark in "*?[") and name not in self._tools]
        if missing:
            raise UsageError(f"no tool {missing[0]!r}: there are {', '.join(self._tools) or 'none'}")
        return ToolSet(tool for tool in self if any(fnmatch.fnmatchcase(tool.name, glob) for glob in wanted))

    def joined(self, more: Iterable[Any]) -> ToolSet:
        """This set with further tools; one of the same canonical name takes the old one's place."""
        added = {tool.name: tool for tool in map(as_tool, more)}
        kept = [added.pop(tool.name, tool) for tool in self]
        return ToolSet([*kept, *added.values()])

    def without(self, names: Iterable[str]) -> ToolSet:
        """This set without some tools."""
        gone = set(names)
        return ToolSet(tool for tool in self if tool.name not in gone)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self)

    @property
    def texts(self) -> tuple[ToolText, ...]:
        return tuple(tool.text for tool in self)

    def schemas(self, loaded: Iterable[str] = ()) -> tuple[ToolSchema, ...]:
        """What a model is shown: every tool that is not deferred, and the deferred ones that were loaded."""
        shown = set(loaded)
        return tuple(tool.schema for tool in self if not tool.options.deferred or tool.name in shown)

    @property
    def deferred(self) -> tuple[str, ...]:
        """The canonical names of tools that models must load before they see them."""
        return tuple(tool.name for tool in self if tool.options.deferred)

    def search(self, query: str, limit: int = FOUND_MAX) -> tuple[ToolText, ...]:
        """The deferred tools that fit a query best: words in the name count most, then the description, then the
        parameters. The same query always gives the same order."""
        wanted = words(query)
        scored = []
        for place, tool in enumerate(tool for tool in self if tool.options.deferred):
            score = _score(tool, wanted)
            if score > 0 or not wanted:
                scored.append((-score, place, tool))
        return tuple(tool.text for _, _, tool in sorted(scored, key=lambda entry: entry[:2])[: max(0, limit)])


def words(text: str) -> list[str]:
    """The words of a text in lower case; names are split at underscores, hyphens and humps."""
    return re.findall(_WORD, re.sub(_HUMP, " ", text).lower())


def _score(tool: AnyTool, wanted: list[str]) -> int:
    weighed = (
        (8, words(f"{tool.name} {tool.options.alias or ''}")),
        (2, words(tool.description)),
        (1, words(" ".join(tool.parameters.schema.get("properties", ())))),
    )
    score = 0
    for word in dict.fromkeys(wanted):
        for weight, there in weighed:
            if word in there:
                score += 2 * weight
            elif len(word) > 2 and any(
                other.startswith(word) or word.startswith(other) for other in there if len(other) > 2
            ):
                score += weight
    return score


def _place(tool: AnyTool) -> str:
    module, name = getattr(tool, "__module__", ""), getattr(tool, "__qualname__", tool.name)
    return f"{module}.{name}" if tool.function is not None and module else f"external tool {tool.name!r}"
