"""The times of a schedule: cron expressions in a time zone, or an interval. The only place that knows calendars."""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from windlass.events.errors import UsageError
from windlass.events.values.plans import SchedulePlan

DUE_MAX = 100
"""How many times that have come are told one by one; those before are counted."""
LOOK_BACK_MS = 7 * 24 * 3_600_000
"""Times that were missed longer ago are not counted either."""
EVERY_MIN_MS = 100
CRON_FIELDS = 5
CRON_RANGES = "minute is 0 to 59, hour 0 to 23, day 1 to 31, month 1 to 12, weekday 0 to 7"


class Times(NamedTuple):
    """What has come of a schedule, and what comes next."""

    due: tuple[int, ...]
    missed: int
    next_ms: int | None


def check_plan(plan: SchedulePlan) -> None:
    """Raises `UsageError` for a plan that no schedule could run by."""
    if (plan.cron is None) == (plan.every_ms is None):
        raise UsageError("a schedule needs either cron='0 2 * * *' or every=<seconds>, and not both")
    if plan.every_ms is not None and plan.every_ms < EVERY_MIN_MS:
        raise UsageError(f"every={plan.every_ms / 1000:g}: at least {EVERY_MIN_MS / 1000:g} seconds")
    zone_of(plan.timezone)
    if plan.signal and not plan.session:
        raise UsageError("a signal goes to a session: name it with session=...")
    if not plan.signal and not plan.prompt:
        raise UsageError("a schedule needs a prompt, or a signal to a session")
    if plan.cron is not None:
        if len(plan.cron.split()) != CRON_FIELDS:
            raise UsageError(f"cron {plan.cron!r}: five fields, minute hour day month weekday, such as '0 2 * * *'")
        times_after(plan, plan.start_ms)


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone by its name. Raises `UsageError` if there is none."""
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"timezone {name!r} is not known here: give a name such as 'Europe/Berlin' or 'UTC'") from None


def times_after(plan: SchedulePlan, after_ms: int) -> Iterator[int]:
    """The times of a plan after a moment, each later than the one before."""
    if plan.every_ms is not None:
        return every(plan.start_ms, plan.every_ms, after_ms)
    return cron(plan.cron or "", plan.timezone, after_ms)


def every(start_ms: int, every_ms: int, after_ms: int) -> Iterator[int]:
    at = start_ms + max(0, (after_ms - start_ms) // every_ms + 1) * every_ms
    while True:
        yield at
        at += every_ms


def cron(expression: str, timezone: str, after_ms: int) -> Iterator[int]:
    from cronsim import CronSim, CronSimError

    then = datetime.datetime.fromtimestamp(after_ms / 1000, zone_of(timezone))
    try:
        times = CronSim(expression, then)
    except CronSimError as error:
        raise UsageError(f"cron {expression!r}: {str(error).lower()}; {CRON_RANGES}") from None
    return later(times, after_ms)


def later(times: Iterator[datetime.datetime], after_ms: int) -> Iterator[int]:
    """Milliseconds that only rise, whatever a clock does that is set back in autumn."""
    last = after_ms
    for time in times:
        at = round(time.timestamp() * 1000)
        if at > last:
            last = at
            yield at


def computed(plan: SchedulePlan, since_ms: int, now_ms: int) -> Times:
    """The times after `since_ms` that have come, and the next one. A clock that was set back brings no time twice."""
    now = max(since_ms, now_ms)
    due: deque[int] = deque(maxlen=DUE_MAX)
    count = 0
    for at in times_after(plan, max(since_ms, now - LOOK_BACK_MS)):
        if at > now:
            return Times(tuple(due), count - len(due), at)
        due.append(at)
        count += 1
    return Times(tuple(due), count - len(due), None)
