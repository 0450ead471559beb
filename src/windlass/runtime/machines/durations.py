"""Durations and times as people write them: `90s`, `1h30m`, a number of seconds, a date."""

from __future__ import annotations

import datetime
import re
from typing import Any

from windlass.events.errors import UsageError

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")
MS_MAX = 10 * 366 * UNITS_MS["d"]
HOW = "write a number of seconds or a text such as '90s', '5m', '1h30m', '2d'"


def milliseconds(given: Any) -> int:
    """A duration in milliseconds. Raises `UsageError` and says how one is written."""
    if isinstance(given, datetime.timedelta):
        duration_ms = given.total_seconds() * 1000
    elif isinstance(given, bool) or not isinstance(given, int | float | str):
        raise UsageError(f"{given!r} is no duration: {HOW}")
    elif isinstance(given, str):
        text = given.strip().replace(" ", "")
        if not WHOLE.fullmatch(text):
            raise UsageError(f"{given!r} is no duration: {HOW}")
        duration_ms = sum(float(number) * UNITS_MS[unit] for number, unit in PART.findall(text))
    else:
        duration_ms = given * 1000
    if not 1 <= duration_ms <= MS_MAX:
        raise UsageError(f"{given!r} is no duration between a millisecond and ten years: {HOW}")
    return round(duration_ms)


def moment(given: Any) -> int:
    """A time in milliseconds since 1970. Raises `UsageError` for one without a time zone."""
    time = given
    if isinstance(given, str):
        try:
            time = datetime.datetime.fromisoformat(given)
        except ValueError:
            raise UsageError(f"{given!r} is no time: write one such as '2027-03-01T09:00:00+01:00'") from None
    if isinstance(time, datetime.datetime):
        if time.tzinfo is None:
            raise UsageError(f"{given!r} has no time zone: add one, such as '+00:00'")
        return max(0, round(time.timestamp() * 1000))
    if isinstance(time, bool) or not isinstance(time, int) or time < 0:
        raise UsageError(f"{given!r} is no time: write one such as '2027-03-01T09:00:00+01:00', or milliseconds")
    return time
