"""The spans and measurements of a session and of all below it, read from the store, and where they are sent."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from windlass.events.errors import UsageError
from windlass.protocol import log_tail
from windlass.store.base import Key, Store

from . import otlp_json
from .span import Measurement, Span
from .span_view import SpanView

SPANS_AT_ONCE = 512
SEND_S = 30.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def otlp_documents(
    store: Store, key: Key, *, content: bool = False, service: str = "windlass"
) -> list[tuple[str, bytes]]:
    """What a collector is told, each with its kind (`traces` or `metrics`), as OTLP/JSON. Only what has ended is told;
    told again later, it has the same ids."""
    views: dict[str, SpanView] = {}
    spans: list[Span] = []
    measured: list[Measurement] = []
    since_ms = 0
    async for scoped in log_tail.tree(store, key):
        view = views.setdefault(scoped.session, SpanView(scoped.session, content=content))
        since_ms = since_ms or getattr(scoped.told, "at_ms", 0)
        for form in view.feed(scoped.told):
            if isinstance(form, Span):
                spans.append(form)
            else:
                measured.append(form)
    parts = [spans[first : first + SPANS_AT_ONCE] for first in range(0, len(spans), SPANS_AT_ONCE)]
    told: list[tuple[str, dict[str, Any]]] = [
        ("traces", otlp_json.traces(part, service=service, tenant=key.tenant)) for part in parts
    ]
    if measured:
        made = otlp_json.metrics(measured, service=service, tenant=key.tenant, since_ms=since_ms)
        told.append(("metrics", made))
    return [(kind, msgspec.json.encode(document)) for kind, document in told]


def check_collector(url: str) -> str:
    """The address of a collector, without a slash at its end. Raises `UsageError` for one that would be sent to in the
    clear across a network."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"{url!r} is no address of a collector: write one such as http://127.0.0.1:4318")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise UsageError(f"{url!r} would be sent to in the clear: use https, or a collector on this machine")
    return url.rstrip("/")


async def send(url: str, documents: list[tuple[str, bytes]]) -> None:
    """Sends what `otlp_documents` gave to a collector. Raises `UsageError` if it does not take all of it."""
    import aiohttp

    address = check_collector(url)
    headers = {"Content-Type": "application/json"}
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SEND_S)) as http:
            for kind, body in documents:
                sent = http.post(f"{address}/v1/{kind}", data=body, headers=headers, allow_redirects=False)
                async with sent as answer:
                    if answer.status != 200:
                        raise UsageError(f"the collector at {address} refused {kind}: HTTP {answer.status}")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise UsageError(f"the collector at {address} cannot be reached: {why}") from None
