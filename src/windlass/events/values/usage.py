"""What a model request cost: tokens, money, and the provider's own limits."""

from __future__ import annotations

from typing import Literal

from .blocks import Nat, Value

NANOS_PER_USD = 1_000_000_000
TOKENS_PER_PRICE = 1_000_000


class Usage(Value, frozen=True, kw_only=True, gc=False):
    """Tokens of one request or of many. `input_tokens` counts everything sent, cached parts included;
    `cache_read` and `cache_write` say how much of it came from or went into the provider's cache.
    `estimated` marks counts that no provider reported."""

    input_tokens: Nat = 0
    output_tokens: Nat = 0
    cache_read_tokens: Nat = 0
    cache_write_tokens: Nat = 0
    reasoning_tokens: Nat = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            estimated=self.estimated or other.estimated,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Price(Value, frozen=True, kw_only=True):
    """Micro-dollars per million tokens, as whole numbers, so that sums are exact. `as_of` dates the figure."""

    input: Nat
    output: Nat
    cache_read: Nat | None = None
    cache_write: Nat | None = None
    as_of: str | None = None

    def cost_nanos(self, usage: Usage) -> int:
        """Billionths of a dollar, rounded up: a budget is never overspent by rounding."""
        if not usage.cache_read_tokens and not usage.cache_write_tokens:
            scaled = usage.input_tokens * self.input + usage.output_tokens * self.output
            return -(-scaled * 1_000 // TOKENS_PER_PRICE)
        read = min(usage.cache_read_tokens, usage.input_tokens)
        write = min(usage.cache_write_tokens, usage.input_tokens - read)
        fresh = usage.input_tokens - read - write
        read_price = self.input if self.cache_read is None else self.cache_read
        write_price = self.input if self.cache_write is None else self.cache_write
        micros_scaled = fresh * self.input + read * read_price + write * write_price + usage.output_tokens * self.output
        return -(-micros_scaled * 1_000 // TOKENS_PER_PRICE)


class Quota(Value, frozen=True, kw_only=True):
    """One limit that a provider reported with its answer, such as requests left in this minute."""

    name: str
    limit: Nat | None = None
    used: Nat | None = None
    remaining: Nat | None = None
    resets_at_ms: Nat | None = None


Initiator = Literal["user", "compaction", "judge", "tool"]
"""On whose behalf a model request was made."""

Lane = Literal["main", "compact", "judge", "tool"]
"""The lane of a model request; each lane has its own retries, budget share and interrupt."""

ASIDE: frozenset[str] = frozenset({"judge", "tool"})
"""The lanes whose requests belong to no turn: what they bring is for whoever asked, and enters no history."""
