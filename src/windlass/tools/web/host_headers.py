"""Headers for single hosts, with secrets in them by name. A model neither sees them nor says whom they are sent to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from windlass.events.errors import UsageError
from windlass.tools.context import ToolContext, ToolError

from .hosts import BadHost, parse_host
from .urls import Url

HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}\Z")
SECRET = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,63})\}")
NOT_YOURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
"""What belongs to the request itself."""


class HostHeaders:
    """What is sent to which host beside the request."""

    def __init__(self, given: Mapping[str, Mapping[str, str]], exceptions: tuple[str, ...]) -> None:
        self._exceptions = exceptions
        self._by_host: dict[str, dict[str, str]] = {}
        for host, headers in given.items():
            try:
                name = parse_host(host).name
            except BadHost as error:
                raise UsageError(f"headers for {host!r}: {error}") from None
            for header, value in headers.items():
                if not HEADER.match(header) or header.lower() in NOT_YOURS or not value.isprintable():
                    raise UsageError(f"headers for {host!r}: {header!r} cannot be given, or not with such a value")
            self._by_host[name] = dict(headers)

    async def of(self, url: Url, ctx: ToolContext) -> dict[str, str]:
        """The headers for an address, with the values of their secrets, looked up now."""
        headers = self._by_host.get(url.host.name, {})
        secret = any(SECRET.search(value) for value in headers.values())
        if secret and url.scheme != "https" and f"{url.host.shown}:{url.port}" not in self._exceptions:
            raise ToolError(f"what {url.host.shown} asks for is sent over https only", code="not_encrypted")
        return {name: await asyncio.to_thread(_filled, value, ctx) for name, value in headers.items()}


def _filled(value: str, ctx: ToolContext) -> str:
    made = SECRET.sub(lambda match: ctx.secret(match[1]), value)
    if not made.isprintable() or not made.isascii():
        raise ToolError("a secret cannot stand in a header: it holds control characters", code="no_secret")
    return made
