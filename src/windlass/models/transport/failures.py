"""Turns what went wrong on the wire into a typed failure: by status and provider code first, never by text alone.

No key ever passes through: every text that leaves here is scrubbed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec

from windlass.events.stored import known_secrets
from windlass.events.stored.known_secrets import HIDDEN
from windlass.events.values.blocks import JsonObject
from windlass.events.values.failures import RETRYABLE_KINDS, Failure, FailureKind

RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000
MESSAGE_CHARS_MAX = 1_000
DETAIL_CHARS_MAX = 4_000

KIND_OF_CODE: dict[str, FailureKind] = {
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_reached": "rate_limited",
    "resource_exhausted": "rate_limited",
    "too_many_requests": "rate_limited",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "engine_overloaded": "overloaded",
    "unavailable": "overloaded",
    "insufficient_quota": "quota_exhausted",
    "billing_error": "quota_exhausted",
    "billing_hard_limit_reached": "quota_exhausted",
    "insufficient_balance": "quota_exhausted",
    "exceeded_current_quota_error": "quota_exhausted",
    "context_length_exceeded": "context_exceeded",
    "context_window_exceeded": "context_exceeded",
    "request_too_large": "request_too_large",
    "string_above_max_length": "request_too_large",
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "invalid_authentication": "auth",
    "unauthenticated": "auth",
    "api_key_invalid": "auth",
    "token_expired": "reauth_required",
    "permission_error": "permission",
    "permission_denied": "permission",
    "model_not_found": "invalid_model",
    "model_not_available": "invalid_model",
    "invalid_model": "invalid_model",
    "deploymentnotfound": "invalid_model",
    "content_filter": "content_filtered",
    "content_policy_violation": "content_filtered",
    "data_inspection_failed": "content_filtered",
    "previous_response_not_found": "server_error",
}
"""Codes that say by themselves what happened, whatever the status; written in lower case."""

INVALID_CODES = frozenset({"invalid_request_error", "invalid_argument", "invalid_request", "invalid_prompt"})
"""Codes that only say that the request was bad; inside a stream, where there is no status, they count."""

KIND_OF_STATUS: dict[int, FailureKind] = {
    400: "invalid_request",
    401: "auth",
    402: "quota_exhausted",
    403: "permission",
    404: "invalid_model",
    408: "server_error",
    409: "server_error",
    410: "invalid_model",
    413: "request_too_large",
    415: "invalid_request",
    422: "invalid_request",
    424: "server_error",
    425: "server_error",
    429: "rate_limited",
    499: "server_error",
    503: "overloaded",
    529: "overloaded",
}

CONTEXT_WORDS = re.compile(
    r"prompt is too long|maximum context length|context (length|window)|input token count .*exceed|"
    r"too many (input )?tokens|reduce the length of the messages|exceeds? the (available|maximum) (context|number of)",
    re.IGNORECASE,
)
"""Vendors without a code for it say so in the text of a 400 or 413; only then is the text looked at."""

CONTEXT_COUNTS = (
    re.compile(r"(?P<requested>\d+) tokens > (?P<limit>\d+) maximum"),
    re.compile(r"token count \((?P<requested>\d+)\) exceeds .*?\((?P<limit>\d+)\)"),
    re.compile(r"maximum context length is (?P<limit>\d+) tokens.*?(?P<requested>\d+) tokens", re.DOTALL),
    re.compile(r"request \((?P<requested>\d+) tokens\) exceeds .*?\((?P<limit>\d+) tokens\)"),
)
"""How vendors tell, in words alone, how much was sent and how much the window holds."""

SECRETS = re.compile(
    r"(?i)(\bkey=|\bapi[_-]?key[\"']?\s*[:=]\s*[\"']?|\bx-api-key:\s*|\bx-goog-api-key:\s*|\bbearer\s+|"
    r"\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer\s+)?)[^\s\"'&,;]+"
)
BARE_KEYS = re.compile(r"\b(?:sk|xai|gsk|pk|rk|AIza)[-_]?[A-Za-z0-9*_-]{8,}")


class ErrorBody(NamedTuple):
    """What an error answer says, in whichever shape."""

    message: str
    codes: tuple[str, ...]
    retry_after_ms: int | None
    detail: JsonObject | None
    quota: int | None = None
    """The limit that was reached, if the error names it."""


class Context(NamedTuple):
    """What every failure of one exchange carries."""

    provider: str
    model: str
    secret: str | None = None
    request_id: str | None = None
    duration_ms: int | None = None


def scrub(text: str, secret: str | None = None) -> str:
    """The text without keys: the one in use, and whatever looks like one."""
    if secret and len(secret) >= 4:
        text = text.replace(secret, HIDDEN)
    text = known_secrets.SECRETS.hidden_text(text)
    return BARE_KEYS.sub(HIDDEN, SECRETS.sub(lambda match: match.group(1) + HIDDEN, text))


def scrub_value(value: Any, secret: str | None) -> Any:
    if isinstance(value, str):
        return scrub(value, secret)[:MESSAGE_CHARS_MAX]
    if isinstance(value, dict):
        return {str(key): scrub_value(inner, secret) for key, inner in value.items()}
    if isinstance(value, list):
        return [scrub_value(inner, secret) for inner in value]
    return value


def failed(kind: FailureKind, message: str, context: Context, **more: Any) -> Failure:
    """A failure of this exchange; `retryable` follows from the kind unless given."""
    more.setdefault("retryable", kind in RETRYABLE_KINDS)
    return Failure(
        kind=kind,
        message=scrub(message, context.secret)[:MESSAGE_CHARS_MAX],
        provider=context.provider,
        model=context.model,
        request_id=context.request_id,
        duration_ms=context.duration_ms,
        **more,
    )


def from_response(status: int, headers: Mapping[str, str], body: bytes, context: Context) -> Failure:
    """The failure that an answer with an error status means."""
    if 300 <= status < 400:
        return failed("redirected", "the endpoint redirects elsewhere, which is not followed", context, status=status)
    if status < 300:
        return failed("malformed_reply", f"status {status} is no answer to a request", context, status=status)
    said = read_error(body, context.secret)
    retry_after_ms = retry_after(headers)
    if retry_after_ms is None:
        retry_after_ms = said.retry_after_ms
    return judged(status, said, retry_after_ms, context)


def from_body(body: bytes, context: Context) -> Failure | None:
    """The failure that an answer with a good status says in its body, if it says one."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return from_stream(error, context) if error else None


def from_stream(error: Any, context: Context) -> Failure:
    """The failure that an error event inside a good answer means: the same as its HTTP code would."""
    said = error_body(error, context.secret)
    status = error.get("code") if isinstance(error, dict) else None
    http = status if isinstance(status, int) and 400 <= status < 600 else None
    return judged(http, said, said.retry_after_ms, context)


def judged(status: int | None, said: ErrorBody, retry_after_ms: int | None, context: Context) -> Failure:
    kind = kind_of(status, said)
    code = said.codes[0] if said.codes else None
    words = said.message or "no message"
    where = f"{status} " if status else ""
    return failed(
        kind,
        f"{where}{code + ': ' if code else ''}{words}",
        context,
        status=status,
        code=code,
        retry_after_ms=retry_after_ms,
        detail=said.detail,
        **amounts(kind, said),
    )


def amounts(kind: FailureKind, said: ErrorBody) -> dict[str, int]:
    """How much was too much, if the error says it: the limit, and what was asked for."""
    if said.quota is not None:
        return {"limit": said.quota}
    if kind != "context_exceeded":
        return {}
    counts = next((match for match in (form.search(said.message) for form in CONTEXT_COUNTS) if match), None)
    return {} if counts is None else {name: int(value) for name, value in counts.groupdict().items()}


def kind_of(status: int | None, said: ErrorBody) -> FailureKind:
    """Code, then status; the text only to tell an overfull context from other bad requests."""
    for code in said.codes:
        kind = KIND_OF_CODE.get(code.lower())
        if kind is not None:
            return kind
    if status in (400, 413, 422, None) and CONTEXT_WORDS.search(said.message):
        return "context_exceeded"
    if status is None:
        bad = any(code.lower() in INVALID_CODES for code in said.codes)
        return "invalid_request" if bad else "server_error"
    kind = KIND_OF_STATUS.get(status)
    if kind is not None:
        return kind
    return "server_error" if status >= 500 else "invalid_request"


def read_error(body: bytes, secret: str | None) -> ErrorBody:
    """Reads an error answer. One that is not JSON (a proxy's page) gives no codes and only its size."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return ErrorBody(f"{len(body)} bytes that are no JSON", (), None, None)
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict) and isinstance(value.get("error"), str):
        return error_body({**value, "message": value["error"]}, secret)
    if isinstance(value, dict) and "error" in value:
        return error_body(value["error"], secret)
    return error_body(value, secret)


def error_body(error: Any, secret: str | None) -> ErrorBody:
    if isinstance(error, str):
        return ErrorBody(scrub(error, secret), (), None, None)
    if not isinstance(error, dict):
        return ErrorBody("", (), None, None)
    details = error.get("details")
    reasons: list[str] = []
    delay_ms: int | None = None
    quota: int | None = None
    for entry in details if isinstance(details, list) else ():
        if isinstance(entry, dict):
            reason = entry.get("reason")
            reasons += [reason] if isinstance(reason, str) else []
            delay_ms = delay_ms or duration_ms(entry.get("retryDelay"))
            quota = quota or _violated(entry.get("violations"))
    named = [error.get("code"), error.get("type"), error.get("status")]
    codes = [str(code) for code in named if isinstance(code, str) and code]
    message = error.get("message") or error.get("detail") or ""
    clean = scrub_value(error, secret)
    small = len(msgspec.json.encode(clean)) <= DETAIL_CHARS_MAX
    return ErrorBody(scrub(str(message), secret), (*reasons, *codes), delay_ms, clean if small else None, quota)


def _violated(violations: Any) -> int | None:
    """The quota that a request went over, as Google's errors name it."""
    for violation in violations if isinstance(violations, list) else ():
        value = violation.get("quotaValue") if isinstance(violation, dict) else None
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
    return None


def retry_after(headers: Mapping[str, str], now: float | None = None) -> int | None:
    """The server's hint in milliseconds: `retry-after-ms`, or `Retry-After` as seconds or as a date. Nonsense gives
    none; more than a day is a day."""
    exact = bounded(number(headers.get("retry-after-ms")))
    if exact is not None:
        return exact
    value = headers.get("Retry-After")
    if value is None:
        return None
    seconds = number(value)
    if seconds is not None:
        return bounded(seconds * 1000)
    try:
        at = parsedate_to_datetime(value)
        return bounded(max(0.0, (at.timestamp() - (time.time() if now is None else now)) * 1000))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def bounded(ms: float | None) -> int | None:
    if ms is None or not ms >= 0:
        return None
    return int(min(ms, RETRY_AFTER_MAX_MS))


def number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
UNIT_MS = {
    "d": 86_400_000.0,
    "h": 3_600_000.0,
    "m": 60_000.0,
    "s": 1_000.0,
    "ms": 1.0,
    "us": 1e-3,
    "µs": 1e-3,
    "ns": 1e-6,
}


def duration_ms(value: Any) -> int | None:
    """A duration such as `6m0s`, `12.5s` or `250ms`; bare numbers are seconds."""
    if not isinstance(value, str):
        return None
    plain = number(value)
    if plain is not None:
        return bounded(plain * 1000)
    parts = DURATION.findall(value)
    return bounded(sum(float(size) * UNIT_MS[unit] for size, unit in parts)) if parts else None
