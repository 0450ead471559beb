"""The limits that a provider reports with its answers, read off the headers of whichever family it sends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from windlass.events.values.usage import Quota

from .failures import duration_ms, number

EPOCH_MS_MIN = 1_000_000_000_000
EPOCH_S_MIN = 1_000_000_000
"""A bare number that large is a moment, not a span: the year 2001 has long passed."""


class Family(NamedTuple):
    """The headers of one limit: what it is called here, how much there is, how much is left, when it is full again."""

    name: str
    limit: str
    remaining: str
    reset: str


FAMILIES = (
    *(
        Family(
            name.replace("-", "_"),
            f"x-ratelimit-limit-{name}",
            f"x-ratelimit-remaining-{name}",
            f"x-ratelimit-reset-{name}",
        )
        for name in ("requests", "tokens")
    ),
    *(
        Family(
            name.replace("-", "_"),
            f"anthropic-ratelimit-{name}-limit",
            f"anthropic-ratelimit-{name}-remaining",
            f"anthropic-ratelimit-{name}-reset",
        )
        for name in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    Family("requests", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
)


def quotas(headers: Mapping[str, str]) -> tuple[Quota, ...]:
    """The provider's limits, if it reports them."""
    if "ratelimit" not in " ".join(headers).lower():  # a word that is in all of them
        return ()
    limits = (_quota(family, headers) for family in FAMILIES if family.limit in headers or family.remaining in headers)
    return tuple(quota for quota in limits if quota is not None)


def _quota(family: Family, headers: Mapping[str, str]) -> Quota | None:
    limit, left = _count(headers.get(family.limit)), _count(headers.get(family.remaining))
    if limit is None and left is None:
        return None
    return Quota(
        name=family.name,
        limit=limit,
        remaining=left,
        used=None if limit is None or left is None else max(0, limit - left),
        resets_at_ms=reset_at_ms(headers.get(family.reset)),
    )


def _count(value: str | None) -> int | None:
    count = number(value)
    return int(count) if count is not None and 0 <= count < 1e18 else None


def reset_at_ms(value: str | None) -> int | None:
    """When a limit is full again: given as a duration, as a moment, or as a number that is one of the two."""
    if value is None:
        return None
    plain = number(value)
    if plain is not None and plain >= EPOCH_S_MIN:
        return int(plain) if plain >= EPOCH_MS_MIN else int(plain * 1000)
    span = duration_ms(value)
    if span is not None:
        return int(time.time() * 1000) + span
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return None
