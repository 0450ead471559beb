"""The gate that every request passes: the host that it was sent to, the page that it came from, its token, its rate.

A name that points to loopback is not enough to be let in, nor is a page that is open in somebody's browser.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers

from windlass.events.errors import UsageError
from windlass.server.problems import Problem
from windlass.server.server_state import ServerState

from .limits import Bucket
from .token_file import Token

logger = logging.getLogger("windlass.server")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+))(?::(?P<port>[0-9]{1,5}))?\Z")
CLOSE = {"Connection": "close"}
METHODS = "GET, POST, DELETE"
HEADERS = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
BUCKETS_MAX = 2_000
SIGNER = Token(name="signed requests", roles=(), digest="")
"""Who has no token: its name is none that a token can have."""


class Gate:
    """Lets requests through, or says why not."""

    def __init__(self, server: ServerState, names: Collection[str], origins: Sequence[str]) -> None:
        self._server = server
        self._names = frozenset(name.lower() for name in names)
        self._origins = frozenset(origins)
        limits = server.limits
        self._failures = Bucket(limits.failures, limits.failure_burst)
        self._rates: dict[str, Bucket] = {}

    def check_place(self, headers: Headers) -> dict[str, str]:
        """What is to be said to a browser of another origin that is allowed. Raises `Problem` for a host that is not
        ours and for an origin that is not allowed."""
        if "content-length" in headers and "transfer-encoding" in headers:
            raise self._refused(400, "usage", "a body has a length or is sent in pieces, not both")
        host = HOST.match(headers.get("host", ""))
        name = (host["six"] or host["name"]).lower() if host is not None else ""
        if name not in self._names:
            raise self._refused(421, "host", "this server is not known by that host name: serve with --name NAME")
        origin = headers.get("origin")
        if origin is None:
            return {}
        if origin not in self._origins:
            raise self._refused(403, "origin", "pages of that origin may not ask here: serve with --origin ORIGIN")
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}

    def preflight(self) -> dict[str, str]:
        """What a browser is told that asks before it asks."""
        return {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": HEADERS,
            "Access-Control-Max-Age": "600",
        }

    def token(self, headers: Headers) -> Token:
        """The token of a request. Raises `Problem` if there is none that is known, or if it asks too often."""
        scheme, _, presented = headers.get("authorization", "").partition(" ")
        given = presented.strip() if scheme.lower() == "bearer" else ""
        token = self._known(given) if given else None
        if token is None:
            wait = self._failures.take()
            if wait:
                raise self._refused(429, "rate", "too many requests without a token", Retry_After=wait)
            raise Problem(
                401,
                "token",
                "this needs a token: Authorization: Bearer TOKEN ('windlass token add' makes one)",
                headers=CLOSE | {"WWW-Authenticate": "Bearer"},
            )
        self._check_rate(token.name)
        return token

    def signer(self) -> Token:
        """Whoever sends a request whose signature is still to be checked. Raises `Problem` if there are too many."""
        self._check_rate(SIGNER.name)
        return SIGNER

    def _known(self, given: str) -> Token | None:
        try:
            return self._server.tokens.found(given)
        except UsageError as error:  # somebody has damaged the file: nobody is let in, and strangers learn nothing
            logger.error("no token can be checked: %s", error)
            raise Problem(503, "tokens", "the server cannot read its tokens; its log says why", headers=CLOSE) from None

    def _check_rate(self, name: str) -> None:
        bucket = self._rates.get(name)
        if bucket is None:
            if len(self._rates) >= BUCKETS_MAX:
                self._rates.clear()
            bucket = self._rates[name] = Bucket(self._server.limits.rate, self._server.limits.burst)
        wait = bucket.take()
        if wait:
            raise self._refused(429, "rate", f"the token {name!r} asks too often", Retry_After=wait)

    def _refused(self, status: int, code: str, detail: str, **more: float) -> Problem:
        self._server.metrics.refused[code] += 1
        headers = {name.replace("_", "-"): str(max(1, round(value))) for name, value in more.items()}
        return Problem(status, code, detail, headers=CLOSE | headers)
