"""A guard that denies what fits a pattern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.hooks import HookPoint
from windlass.tools.linear_patterns import LinearPattern, NotLinear

from .hook import Denied, Hook, Moment, Said


def pattern_guard(
    patterns: Sequence[str],
    *,
    point: HookPoint = "before_tool",
    tool: str = "*",
    message: str = "the pattern {pattern!r} is not allowed here",
    fatal: bool = False,
) -> Hook:
    """A guard that denies if any regular expression is found: in a text or a name anywhere in the value, as it is,
    or in the whole value as JSON; at `prompt` also in what is attached. Every pattern is tried; none can hide another.
    The expressions are RE2's: no text can make them run long, and one that is too long to be searched is denied. Raises
    `UsageError` for other patterns."""

    compiled = [(pattern, _compiled(pattern)) for pattern in patterns]

    async def search(moment: Moment) -> Said:
        judged = [moment.value, *moment.attachments]
        texts = [msgspec.json.encode(moment.value).decode(), *_texts(judged)]
        for pattern, expression in compiled:
            if any(len(text) > expression.chars_max or expression.found_in(text) for text in texts):
                return Denied(message=message.format(pattern=pattern), reason="policy", fatal=fatal)
        return None

    search.__name__ = "pattern_guard"
    return Hook(point=point, run=search, kind="guard", tool=tool)


def _compiled(pattern: str) -> LinearPattern:
    try:
        return LinearPattern(pattern)
    except NotLinear as error:
        raise UsageError(f"the pattern {pattern!r} cannot guard anything: {error}") from None


def _texts(value: Any) -> Iterable[str]:
    """Every text in a plain value. In JSON a line break is two characters, and a quote is not alone."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part
