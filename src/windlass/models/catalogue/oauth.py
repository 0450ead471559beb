"""OAuth 2.0 refresh: turns a refresh token into access tokens, one request at a time, for one endpoint.

It never follows a redirect, never signs anybody in and never pretends to be another product: the client id is the
host's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.failures import Failure, FailureKind, failure

from .credentials import CredentialError, Credentials, Rotated, RotationHook, Secret, checked, sign_in_again, tell
from .endpoints import Endpoint

if TYPE_CHECKING:
    import asyncio

EXPIRY_MARGIN_MS = 60_000
"""A token that ends sooner than this is renewed before it is used."""
LIFETIME_MAX_MS = 366 * 24 * 3_600_000
"""A longer lifetime is taken for this one."""
REFRESH_TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 65_536
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

KNOWN_ERRORS = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "temporarily_unavailable",
        "slow_down",
    }
)
"""Error codes of the standard. Anything else is not repeated in messages, since it may hold what was sent."""


class TokenAnswer(msgspec.Struct):
    """What a token endpoint answers."""

    access_token: str | None = None
    refresh_token: str | None = None
    expires_in: int | float | str | None = None
    error: Any = None


class OAuthSource:
    """Access tokens by refresh. Requests that find the token gone wait for one refresh together."""

    label = "an OAuth sign-in"

    def __init__(
        self,
        endpoint: str,
        *,
        token_url: str,
        client_id: str,
        refresh_token: str,
        client_secret: str | None = None,
        scope: str | None = None,
        access_token: str | None = None,
        expires_at_ms: int | None = None,
        on_rotate: RotationHook | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        parts = urlsplit(token_url)
        if parts.scheme != "https" and parts.hostname not in LOOPBACK_HOSTS:
            raise UsageError(f"the token endpoint {parts.hostname!r} must be https")
        self._endpoint = endpoint
        self._token_url = token_url
        self._client_id = client_id
        self._client_secret = None if client_secret is None else Secret(client_secret)
        self._scope = scope
        self._refresh = Secret(refresh_token)
        self._access = None if access_token is None else Secret(access_token)
        self._expires_at_ms = expires_at_ms
        self._on_rotate = on_rotate
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._revoked = False
        self._lock: tuple[Any, asyncio.Lock] | None = None

    async def get(self) -> str:
        if self._usable():
            return self._access.reveal()  # type: ignore[union-attr]
        async with self._alone():
            if not self._usable():
                await self._renew_now()
        return self._access.reveal()  # type: ignore[union-attr]

    async def renew(self, refused: str) -> bool:
        if self._access is not None and self._access.reveal() == refused:
            self._access = None
        return True

    def signed_in(
        self, refresh_token: str, *, access_token: str | None = None, expires_at_ms: int | None = None
    ) -> None:
        """A person signed in again: what was revoked is forgotten."""
        self._refresh = Secret(refresh_token)
        self._access = None if access_token is None else Secret(access_token)
        self._expires_at_ms = expires_at_ms
        self._revoked = False

    def _usable(self) -> bool:
        if self._access is None:
            return False
        return self._expires_at_ms is None or self._now_ms() < self._expires_at_ms - EXPIRY_MARGIN_MS

    def _alone(self) -> asyncio.Lock:
        """A lock of the running loop; one credential may serve several loops, one after the other."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = (loop, asyncio.Lock())
        return self._lock[1]

    async def _renew_now(self) -> None:
        if self._revoked:
            raise CredentialError(sign_in_again(self._endpoint))
        status, answer = await self._post()
        if status != 200 or not answer.access_token:
            why = refusal(self._endpoint, status, answer)
            self._revoked = why.kind == "reauth_required"
            raise CredentialError(why)
        self._access = Secret(checked(answer.access_token, self._endpoint))
        if answer.refresh_token:
            self._refresh = Secret(answer.refresh_token)
        self._expires_at_ms = expiry_ms(answer.expires_in, self._now_ms())
        await tell(self._on_rotate, Rotated(self._endpoint, self._access, self._refresh, self._expires_at_ms))

    async def _post(self) -> tuple[int, TokenAnswer]:
        import aiohttp

        form = {
            "grant_type": "refresh_token",
            "refresh_token": self._refresh.reveal(),
            "client_id": self._client_id,
        }
        if self._client_secret is not None:
            form["client_secret"] = self._client_secret.reveal()
        if self._scope:
            form["scope"] = self._scope
        kind: FailureKind = "connect_failed"
        try:
            timeout = aiohttp.ClientTimeout(total=REFRESH_TIMEOUT_S)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(
                    self._token_url, data=form, allow_redirects=False, headers={"Accept": "application/json"}
                ) as response,
            ):
                body = await response.content.read(ANSWER_BYTES_MAX)
                return response.status, decoded(body)
        except TimeoutError:
            kind = "total_timeout"
        except (aiohttp.ClientError, OSError):
            pass
        host = urlsplit(self._token_url).hostname
        raise CredentialError(failure(kind, f"the token endpoint {host!r} for {self._endpoint!r} did not answer"))


def decoded(body: bytes) -> TokenAnswer:
    """The answer, or an empty one if it is not what the standard says."""
    try:
        return msgspec.json.decode(body, type=TokenAnswer)
    except (msgspec.DecodeError, UnicodeError):
        return TokenAnswer()


def refusal(endpoint: str, status: int, answer: TokenAnswer) -> Failure:
    """Why a token endpoint gave no token, as a failure; by status and code, never by its prose."""
    code = answer.error if isinstance(answer.error, str) and answer.error in KNOWN_ERRORS else None
    if code == "invalid_grant":
        return sign_in_again(endpoint, code)
    kind: FailureKind = "auth"
    if status == 429 or code == "slow_down":
        kind = "rate_limited"
    elif status >= 500 or code == "temporarily_unavailable":
        kind = "server_error"
    elif 300 <= status < 400:
        kind = "redirected"
    elif status == 200:
        kind = "malformed_reply"
    message = f"the token endpoint for {endpoint!r} answered {status}" + (f" ({code})" if code else "")
    return failure(kind, message, status=status, code=code)


def expiry_ms(expires_in: int | float | str | None, now_ms: int) -> int | None:
    """When a token ends; none if the answer does not say or says nonsense."""
    try:
        seconds = float(expires_in or 0)
    except ValueError:
        return None
    if not 0 < seconds < float("inf"):
        return None
    return now_ms + min(LIFETIME_MAX_MS, int(seconds * 1000))


def from_oauth(
    endpoint: Endpoint,
    *,
    token_url: str,
    client_id: str,
    refresh_token: str,
    header: str | None = None,
    scheme: str | None = None,
    **more: Any,
) -> Credentials:
    """A credential that renews itself by OAuth refresh. `more` is as for `OAuthSource`; `on_rotate` gets every new
    token, so that the host can keep it."""
    source = OAuthSource(endpoint.name, token_url=token_url, client_id=client_id, refresh_token=refresh_token, **more)
    return Credentials(source, endpoint=endpoint, header=header, scheme=scheme)
