"""The model that a session uses, as data."""

from __future__ import annotations

from .blocks import Positive, Value
from .items import ModelSettings
from .usage import Price


class ModelRef(Value, frozen=True, kw_only=True):
    """The model a session uses, with what the kernel must know of it. No price = the price is unknown."""

    name: str
    provider: str = ""
    model: str = ""
    window_tokens: Positive = 128_000
    max_output_tokens: Positive = 16_384
    price: Price | None = None
    settings: ModelSettings | None = None
    """What was set on it: temperature, thinking and the like."""
