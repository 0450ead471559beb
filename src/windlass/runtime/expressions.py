"""The expression language of policies: CEL, which has no loops, no effects and no way out. Compiled once each."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from windlass.events.errors import UsageError

EXPRESSION_CHARS_MAX = 2_000


class Expression:
    """A compiled condition."""

    def __init__(self, source: str) -> None:
        import cel

        if len(source) > EXPRESSION_CHARS_MAX:
            raise UsageError(f"condition of {len(source)} characters: at most {EXPRESSION_CHARS_MAX}")
        try:
            self._program = cel.compile(source)
        except ValueError as error:
            raise UsageError(f"condition {source!r} is not CEL: {error}") from error
        unknown = set(self._program.variables()) - {"args"}
        if unknown:
            raise UsageError(f"condition {source!r} uses {', '.join(sorted(unknown))}: only `args` is known")
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
