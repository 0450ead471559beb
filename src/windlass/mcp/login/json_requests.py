"""Requests to authorization servers: one answer of JSON, bounded in size and time. No redirect is followed, no proxy of
the environment is used, and nothing packed is taken."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from .addresses import LoginError

BYTES_MAX = 256 * 1024
TIMEOUT_S = 30.0
JSON_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class Answer(NamedTuple):
    """What came back. `body` is empty if it was no object of JSON."""

    status: int
    body: dict[str, Any]
    challenge: str = ""
    """What `WWW-Authenticate` says."""


async def request(
    method: str,
    url: str,
    *,
    form: dict[str, str] | None = None,
    body: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    reads: bool = True,
) -> Answer:
    """Asks for something once. Raises `LoginError` if nobody answers, or with too much."""
    import httpx2

    given = {**JSON_HEADERS, **(headers or {})}
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_S, follow_redirects=False) as client,
            client.stream(method, url, data=form, json=body, headers=given) as response,
        ):
            challenge = ", ".join(response.headers.get_list("www-authenticate"))
            content = await _body(response, url) if reads else b""
            return Answer(response.status_code, _object(content), challenge)
    except TimeoutError:
        raise LoginError(f"{url} did not answer within {TIMEOUT_S:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise LoginError(f"{url} cannot be asked: {type(error).__name__}") from None


async def _body(response: Any, url: str) -> bytes:
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise LoginError(f"{url} packed its answer, which it was asked not to do")
    content = bytearray()
    async for piece in response.aiter_raw():
        content += piece
        if len(content) > BYTES_MAX:
            raise LoginError(f"{url} answered with more than {BYTES_MAX} bytes")
    return bytes(content)


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
