"""Everything that can go wrong with a provider, as values: one named `Fault` for each row of the fault matrix.

A fault is data. `content` changes what is said, `sending_steps` changes how it is sent, the server plays both.
"""

from __future__ import annotations

import random
from typing import Literal

import msgspec

HOUR_S = 3_600
DAY_S = 86_400
MEGABYTE = 1_000_000

HTTP_DATE = "@date"
"""A header value `@date+N` becomes the HTTP date of N seconds from when it is sent."""

Mechanism = Literal[
    "status",
    "html",
    "redirect",
    "gzip_bomb",
    "content_type",
    "headers_late",
    "first_late",
    "stall",
    "drip",
    "pings",
    "cut",
    "error_event",
    "flood",
    "mutate",
]
"""How a fault is brought about."""

INTACT = frozenset({"drip", "content_type", "usage_missing", "usage_wrong", "usage_negative", "usage_cumulative"})
"""Mechanisms and mutations that still deliver the script's answer whole, and so use it up."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault. Which fields matter depends on `how`:

    - status, html, redirect: `status`, `headers`, `code`, `message`; `retry_delay_s` goes into the body where the
      vendor puts it there (Gemini's RetryInfo)
    - headers_late, first_late, stall: `delay_ms`; None holds until the client leaves or the server stops
    - stall, cut, error_event: `after` content frames were sent
    - cut: `at` says where (between frames, inside a character, inside JSON, at byte `at_byte`), `end` how the
      connection ends: `clean` (a proper end of the body), `close`, `reset` (RST)
    - drip: `size` bytes every `delay_ms`; pings: `count` of them every `delay_ms`
    - flood, gzip_bomb: `size` bytes, `one_line` for a single frame
    - mutate: `mutation` names the change, `count` how many
    """

    name: str
    how: Mechanism
    status: int = 200
    headers: dict[str, str] = {}
    code: str | None = None
    error_type: str = ""
    message: str = ""
    retry_delay_s: float | None = None
    delay_ms: int | None = None
    after: int = 2
    at: Literal["frame", "utf8", "json", "byte"] = "frame"
    at_byte: int = 0
    end: Literal["clean", "close", "reset"] = "clean"
    size: int = 1
    count: int = 1
    one_line: bool = False
    mutation: str = ""

    @property
    def uses_answer(self) -> bool:
        """Whether the script's answer is spent by a request that meets this fault."""
        waits = self.how in ("headers_late", "first_late", "stall") and self.delay_ms is not None
        return waits or self.how in INTACT or self.mutation in INTACT


def refused(name: str, status: int, message: str, **more: object) -> Fault:
    return msgspec.convert({"name": name, "how": "status", "status": status, "message": message, **more}, Fault)


def mutated(mutation: str, *, count: int = 1) -> Fault:
    return Fault(name=mutation, how="mutate", mutation=mutation, count=count)


def limited(name: str, **headers: str) -> Fault:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return refused(name, 429, "rate limit reached for requests", headers=sent)


STATUS_FAULTS = (
    limited("429_seconds", retry_after="2"),
    limited("429_date", retry_after=f"{HTTP_DATE}+2"),
    limited("429_ms", retry_after_ms="150"),
    limited("429_none"),
    limited("429_hour", retry_after=str(HOUR_S)),
    limited("429_day", retry_after=str(DAY_S)),
    limited("429_negative", retry_after="-5"),
    limited("429_garbage", retry_after="soon"),
    refused("429_in_body", 429, "rate limit reached: try again later", retry_delay_s=2.0),
    refused("429_quota", 429, "you exceeded your current quota", code="insufficient_quota"),
    refused("500", 500, "the server had an error"),
    refused("502", 502, "bad gateway"),
    refused("503", 503, "the service is unavailable"),
    refused("503_retry_after", 503, "the model is overloaded", headers={"retry-after": "1"}),
    refused("504", 504, "gateway timeout"),
    refused("529", 529, "overloaded", error_type="overloaded_error"),
    refused("400", 400, "the request is not valid"),
    refused("400_context", 400, "@context"),
    refused("400_content_filter", 400, "the prompt was filtered", code="content_filter"),
    refused("401", 401, "invalid key"),
    refused("402", 402, "insufficient credits"),
    refused("403", 403, "this key may not use this model"),
    refused("404", 404, "@model"),
    refused("410", 410, "this model has been retired"),
    refused("413", 413, "request too large"),
)

TIMING_FAULTS = (
    Fault(name="headers_late", how="headers_late"),
    Fault(name="first_output_late", how="first_late"),
    Fault(name="stall", how="stall"),
    Fault(name="drip", how="drip", size=1, delay_ms=50),
    Fault(name="ping_only", how="pings", count=1_000, delay_ms=20),
)

CUT_FAULTS = (
    Fault(name="truncated", how="cut", end="clean"),
    Fault(name="closed", how="cut", end="close"),
    Fault(name="reset", how="cut", end="reset"),
    Fault(name="reset_at_once", how="cut", end="reset", at="byte", at_byte=0),
    Fault(name="cut_in_utf8", how="cut", at="utf8"),
    Fault(name="cut_in_json", how="cut", at="json"),
    Fault(name="no_end_marker", how="cut", after=1_000_000_000),
    Fault(name="error_event", how="error_event", status=500, message="an error in the stream"),
    Fault(name="error_event_overloaded", how="error_event", status=529, message="overloaded"),
    Fault(name="error_event_rate_limited", how="error_event", status=429, message="slow down"),
)

ANSWER_FAULTS = (
    mutated("malformed_args"),
    mutated("args_not_object"),
    mutated("length_partial_call"),
    mutated("partial_call_as_tool_calls"),
    mutated("unknown_tool"),
    mutated("wrong_case_tool"),
    mutated("duplicate_ids"),
    mutated("empty_ids"),
    mutated("reused_ids"),
    mutated("same_call_twice"),
    mutated("many_calls", count=120),
    mutated("empty_reply"),
    mutated("empty_text"),
    mutated("only_reasoning"),
    mutated("content_filter"),
    mutated("refusal"),
    mutated("max_tokens"),
    mutated("usage_missing"),
    mutated("usage_wrong"),
    mutated("usage_negative"),
    mutated("usage_cumulative"),
    mutated("model_switched"),
)

BODY_FAULTS = (
    Fault(name="huge_reply", how="flood", size=100 * MEGABYTE),
    Fault(name="huge_line", how="flood", size=50 * MEGABYTE, one_line=True),
    Fault(name="wrong_content_type", how="content_type"),
    Fault(name="html_error", how="html", status=502),
    Fault(name="html_ok", how="html", status=200),
    Fault(name="gzip_bomb", how="gzip_bomb", size=100 * MEGABYTE),
    Fault(name="redirect", how="redirect", status=307),
    Fault(name="redirect_302", how="redirect", status=302),
)

FAULTS: dict[str, Fault] = {
    each.name: each for each in (*STATUS_FAULTS, *TIMING_FAULTS, *CUT_FAULTS, *ANSWER_FAULTS, *BODY_FAULTS)
}
"""Every fault by name. A refused connection is not among them, since no request meets it: see `closed_port`."""


def fault(name: str, **changes: object) -> Fault:
    """A named fault, perhaps changed: `fault("drip", delay_ms=5)`. Raises KeyError with the known names."""
    named_fault = FAULTS.get(name)
    if named_fault is None:
        raise KeyError(f"no fault {name!r}: choose one of {', '.join(sorted(FAULTS))}")
    return msgspec.structs.replace(named_fault, **changes)


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Faults drawn from a seed: the same seed gives the same fault to the same request number, always."""

    seed: int
    rate: float = 0.1
    names: tuple[str, ...] = ("429_ms", "500", "503", "529", "reset", "truncated", "cut_in_json", "error_event")

    def draw(self, number: int) -> Fault | None:
        """The fault that request `number` meets, if any."""
        dice = random.Random(f"{self.seed}:{number}")
        return fault(dice.choice(self.names)) if dice.random() < self.rate else None
