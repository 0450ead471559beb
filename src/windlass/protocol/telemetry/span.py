"""A span and a measurement as values: what every exporter is given, whatever it writes."""

from __future__ import annotations

from typing import Literal

import msgspec

Attribute = str | int | float | bool | tuple[str, ...]
Kind = Literal["internal", "client"]


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Another span that one belongs with."""

    trace_id: str
    span_id: str


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that began and ended. Ids are those of the log: whoever reads it again gets the same span."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str
    kind: Kind = "internal"
    start_ms: int
    end_ms: int
    attributes: dict[str, Attribute] = {}
    error: str = ""
    """What kind of error it ended with; empty if it ended well."""
    links: tuple[Link, ...] = ()
    flags: int = 1


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One value for a histogram."""

    metric: str
    value: float
    at_ms: int
    attributes: dict[str, Attribute]


Form = Span | Measurement
