"""The expression language of policies: CEL, which has no loops, no effects and no way out. Compiled once each."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from windlass.events.errors import UsageError

EXPRESSION_CHARS_MAX = 2_000
FUNCTIONS = frozenset(
    {
        "size", "startsWith", "endsWith", "contains", "matches", "int", "uint", "double", "string", "bytes", "type",
        "dyn", "duration", "timestamp", "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek",
        "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds",
    }
)  # fmt: skip
"""What an expression may call. Another name could never be judged, so it is refused when the policy is written."""

VARIABLES = ("args", "call", "session")
"""What an expression may speak of: the arguments, what the call is about (tool, kind, subject, paths, writes, hosts,
commands, labels, traits, exact), and the session (id, agent, mode, metadata, folder)."""

LOOPS = re.compile(
    r"\.(all|exists|exists_one|map|filter)\(|\(|\)|[rR]?(?:\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")",
    re.DOTALL,
)
EFFORT = {"all": 1, "exists": 1, "exists_one": 1, "map": 2, "filter": 2}
"""How the work of a loop grows with the number of its elements: those that build a list copy it at each step."""
WORK_MAX = 200_000
"""Steps that one judgement may take, a few hundredths of a second; what would take more is not judged."""
TEXT_WORK_MAX = 2_000_000_000
"""Characters that all the steps of one judgement may look at or copy, if each does so with every text that it is given:
a few tenths of a second."""

BINDS = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*([A-Za-z_]\w*)\s*,")
OPERATOR = re.compile(r"\W")


class Expression:
    """A compiled condition."""

    def __init__(self, source: str) -> None:
        try:
            import cel
        except ImportError as error:
            raise UsageError(
                f"condition {source!r} needs the expression language: pip install 'windlass[cel]'"
            ) from error

        if len(source) > EXPRESSION_CHARS_MAX:
            raise UsageError(f"condition of {len(source)} characters: at most {EXPRESSION_CHARS_MAX}")
        try:
            self._program = cel.compile(source)
        except ValueError as error:
            raise UsageError(f"condition {source!r} is not CEL: {error}") from error
        unknown = set(self._program.variables()) - {*VARIABLES, *BINDS.findall(source)}
        if unknown:
            known = " and ".join(f"`{name}`" for name in VARIABLES)
            raise UsageError(f"condition {source!r} uses {', '.join(sorted(unknown))}: known are {known}")
        called = {name for name in self._program.functions() if not OPERATOR.search(name)} - FUNCTIONS
        if called:
            raise UsageError(
                f"condition {source!r} calls {', '.join(sorted(called))}: known are {', '.join(sorted(FUNCTIONS))}"
            )
        self.source = source
        self._power = loop_power(source)

    @staticmethod
    @lru_cache(maxsize=512)
    def of(source: str) -> Expression:
        """The expression, compiled once. Raises `UsageError` if it is not CEL."""
        return Expression(source)

    def holds(self, variables: dict[str, Any]) -> bool | None:
        """Whether it holds; None if it cannot be said: a field is missing, types do not fit, it is no yes or no, or its
        loops would run too long over this call."""
        if self._power and not is_bounded(variables, self._power):
            return None
        try:
            outcome = self._program.execute(variables)
        except Exception:  # whatever the evaluator raises means the same: not judged
            return None
        return outcome if isinstance(outcome, bool) else None


def loop_power(source: str) -> int:
    """How the work of an expression grows with what it is given: the efforts of the loops that stand in each other."""
    open_: list[int] = []
    most = 0
    for match in LOOPS.finditer(source):
        if match[0] == ")":
            if open_:
                open_.pop()
        elif match[0].endswith("("):
            open_.append(EFFORT.get(match[1] or "", 0))
            most = max(most, sum(open_))
    return most


def is_bounded(variables: dict[str, Any], power: int) -> bool:
    """Whether loops of this power over these values end soon: there are so many steps, and each may read every text."""
    elements, characters = size_of(variables)
    steps: int = elements**power
    return steps <= WORK_MAX and steps * characters <= TEXT_WORK_MAX


def size_of(value: Any) -> tuple[int, int]:
    """How many things a value holds, and how many characters its texts have, all levels together."""
    elements, characters, waiting = 0, 0, [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict | list | tuple):
            elements += len(inner)
            waiting += inner.values() if isinstance(inner, dict) else inner
        elif isinstance(inner, str):
            characters += len(inner)
    return elements, characters
