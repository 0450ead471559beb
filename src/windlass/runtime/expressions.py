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
        unknown = set(self._program.variables()) - {"args", *BINDS.findall(source)}
        if unknown:
            raise UsageError(f"condition {source!r} uses {', '.join(sorted(unknown))}: only `args` is known")
        called = {name for name in self._program.functions() if not OPERATOR.search(name)} - FUNCTIONS
        if called:
            raise UsageError(
                f"condition {source!r} calls {', '.join(sorted(called))}: known are {', '.join(sorted(FUNCTIONS))}"
            )
        self.source = source

    @staticmethod
    @lru_cache(maxsize=512)
    def of(source: str) -> Expression:
        """The expression, compiled once. Raises `UsageError` where it is not CEL."""
        return Expression(source)

    def holds(self, variables: dict[str, Any]) -> bool | None:
        """Whether it holds; None where it cannot be said: a field is missing, types do not fit, it is no yes or no."""
        try:
            found = self._program.execute(variables)
        except Exception:  # whatever the evaluator raises means the same: not judged
            return None
        return found if isinstance(found, bool) else None
