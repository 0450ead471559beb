"""The rate limits that a vendor reports with each answer, in the headers that it documents for them."""

from __future__ import annotations

import datetime

from windlass.testing.model_server.wires.parsed import Format

REQUESTS_PER_MINUTE = 60
TOKENS_PER_MINUTE = 150_000
RESET_S = 60

# docs: platform.claude.com/docs/en/api/rate-limits and platform.openai.com/docs/guides/rate-limits
ANTHROPIC_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
OPENAI_KINDS = ("requests", "tokens")


def rate_limit_headers(form: Format, number: int, tokens: int) -> dict[str, str]:
    """What is left in this minute after request `number`, which took so many tokens. Gemini sends no such headers:
    what a request went over stands in the body of its error."""
    limits = {kind: REQUESTS_PER_MINUTE if kind == "requests" else TOKENS_PER_MINUTE for kind in ANTHROPIC_KINDS}
    left = {kind: max(0, limit - (number if kind == "requests" else tokens)) for kind, limit in limits.items()}
    if form == "anthropic":
        at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=RESET_S)
        said: dict[str, str] = {}
        for kind in ANTHROPIC_KINDS:
            said[f"anthropic-ratelimit-{kind}-limit"] = str(limits[kind])
            said[f"anthropic-ratelimit-{kind}-remaining"] = str(left[kind])
            said[f"anthropic-ratelimit-{kind}-reset"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return said
    if form == "gemini":
        return {}
    said = {}
    for kind in OPENAI_KINDS:
        said[f"x-ratelimit-limit-{kind}"] = str(limits[kind])
        said[f"x-ratelimit-remaining-{kind}"] = str(left[kind])
        said[f"x-ratelimit-reset-{kind}"] = "1m0s"
    return said
