"""One request to the web: the address checked, connected to as checked, answered within bounds of size and time.

It keeps no cookies, heeds no proxy and no netrc, and follows no redirect by itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from .addresses import AddressRefused, Reachable
from .bodies import BadBody, Unpacker, is_text, unpacker
from .urls import Url

if TYPE_CHECKING:
    import aiohttp

SENT_BYTES_MAX = 5 * 1024 * 1024
"""How much of an answer is read, as it is sent."""
HEADER_BYTES_MAX = 8 * 1024
PIECE_BYTES = 64 * 1024
CONNECT_S = 10.0
IDLE_S = 10.0
"""How long nothing at all may come."""
HEADERS = {
    "User-Agent": "windlass-fetch",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}


class WebFailure(Exception):
    """No answer that can be used. The message is for the model."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answered: whole, or its beginning if it was too much."""

    url: Url
    status: int
    reason: str
    media_type: str
    charset: str
    location: str | None
    body: bytes
    cut: bool
    text: bool
    size: str
    """How large it says it is, in words."""


async def get(url: Url, reachable: Reachable, headers: Mapping[str, str] | None = None) -> Answer:
    """Asks for one address. Raises `WebFailure` for whatever is not an answer."""
    import aiohttp

    try:
        addresses = await reachable.addresses(url.host, url.port)
    except AddressRefused as error:
        raise WebFailure(f"{url.host.shown} is not reached: {error}", "refused_address") from None
    try:
        async with _session(addresses, url) as session:
            sent = {**HEADERS, **(headers or {})}
            async with session.get(_exact(url), headers=sent, allow_redirects=False) as response:
                _check_peer(response, addresses)
                return await _answer(response, url)
    except TimeoutError:
        raise WebFailure(f"{url.host.shown} did not answer in time", "timeout") from None
    except BadBody as error:
        raise WebFailure(str(error), "bad_body") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        told = str(error)[:200] or type(error).__name__
        raise WebFailure(f"{url.host.shown} could not be asked: {told}", "unreachable") from None


@contextlib.asynccontextmanager
async def _session(addresses: tuple[str, ...], url: Url) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that knows one host only, by the addresses that were checked."""
    import aiohttp

    connector = aiohttp.TCPConnector(resolver=_pinned(addresses, url), use_dns_cache=False, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=IDLE_S),
        auto_decompress=False,
        trust_env=False,
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
        raise_for_status=False,
    ) as session:
        yield session


def _pinned(addresses: tuple[str, ...], url: Url) -> Any:
    """A resolver that answers with what was checked, and for this host alone."""
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Pinned(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            if host.rstrip(".") != url.host.name or port != url.port:
                raise OSError(f"{host!r} was not checked")
            return [_found(host, port, address) for address in addresses]

        async def close(self) -> None:
            return

    return Pinned()


def _found(host: str, port: int, address: str) -> Any:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": flags}


def _exact(url: Url) -> Any:
    """The address for the client, from its parts: nobody reads the text a second time."""
    from yarl import URL

    port = None if url.authority == url.host.shown else url.port
    return URL.build(
        scheme=url.scheme, host=url.host.name, port=port, path=url.path, query_string=url.query[1:], encoded=True
    )


def _check_peer(response: aiohttp.ClientResponse, addresses: tuple[str, ...]) -> None:
    """Whoever answers is whom we checked: said once more by the connection itself."""
    import ipaddress

    transport = response.connection.transport if response.connection is not None else None
    peer = transport.get_extra_info("peername") if transport is not None else None
    if peer is not None and str(ipaddress.ip_address(str(peer[0]).partition("%")[0])) not in addresses:
        raise WebFailure("the connection leads to an address that was not checked", "refused_address")


async def _answer(response: aiohttp.ClientResponse, url: Url) -> Answer:
    media_type, _, rest = response.headers.get("Content-Type", "").partition(";")
    media_type = media_type.strip().lower()
    charset = next((part.partition("=")[2] for part in rest.split(";") if "charset=" in part.lower()), "")
    body, cut, text = b"", False, True
    if not _moves(response) and response.status not in (204, 304):
        body, cut, text = await _body(response, media_type, unpacker(response.headers.get("Content-Encoding", "")))
    length = response.headers.get("Content-Length", "")
    return Answer(
        url=url,
        status=response.status,
        reason=(response.reason or "")[:80],
        media_type=media_type[:100],
        charset=charset[:60],
        location=response.headers.get("Location") if _moves(response) else None,
        body=body,
        cut=cut,
        text=text,
        size=f"{int(length):,} bytes" if length.isascii() and length.isdigit() and len(length) < 18 else "unknown size",
    )


def _moves(response: aiohttp.ClientResponse) -> bool:
    return response.status in (301, 302, 303, 307, 308) and "Location" in response.headers


async def _body(response: aiohttp.ClientResponse, media_type: str, packed: Unpacker) -> tuple[bytes, bool, bool]:
    """The body within its bounds, whether it was cut, and whether it is text. What is not text is not read on."""
    pieces: list[bytes] = []
    sent = made = 0
    while True:
        piece = await response.content.read(PIECE_BYTES)
        if not piece:
            return b"".join(pieces), False, bool(made) or is_text(media_type, b"")
        sent += len(piece)
        unpacked = packed.feed(piece)
        if not made and unpacked and not is_text(media_type, unpacked):
            return b"", True, False
        made += len(unpacked)
        pieces.append(unpacked)
        if packed.full or sent >= SENT_BYTES_MAX:
            return b"".join(pieces), True, True
        await asyncio.sleep(0)  # a body that is all there must not keep everybody else waiting
