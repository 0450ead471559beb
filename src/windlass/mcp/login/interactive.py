"""Logging in and out, with a person at the other end: found out, shown, agreed to, exchanged, kept."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from windlass.events.values.blocks import Value

from .addresses import LoginError, address, resource
from .consent import Consent, asked_for
from .discovery import discovered
from .grants import exchanged, revoked
from .kept_logins import KeptLogins, Login
from .redirect_listener import listening
from .registration import Client, registered

WAIT_S = 300.0
"""How long a person may take."""


class LoginAsk(Value, frozen=True, kw_only=True):
    """What a person is shown before they agree."""

    server: str
    issuer: str
    scopes: tuple[str, ...]
    url: str
    """Where they agree, in a browser on this machine."""


Shown = Callable[[LoginAsk], Awaitable[None]]


async def login(
    url: str,
    show: Shown,
    *,
    stream: bool = False,
    client_id: str = "",
    scopes: tuple[str, ...] = (),
    port: int = 0,
    wait_s: float = WAIT_S,
    logins: KeptLogins | None = None,
) -> Login:
    """Has a person log in at a server, and keeps the login. Raises `LoginError`; what was kept before stays then."""
    kept = logins or KeptLogins()
    discovery = await discovered(url, stream=stream)
    async with listening(port) as listener:
        wanted, redirect = asked_for(discovery, scopes), listener.redirect
        client = Client(client_id=client_id) if client_id else await registered(discovery.server, redirect, wanted)
        consent = Consent(discovery, client, redirect, wanted)
        ask = LoginAsk(server=discovery.url, issuer=discovery.server.issuer, scopes=consent.scopes, url=consent.url)
        listener.consent = consent
        await show(ask)
        code = await listener.code(wait_s)
    given = await exchanged(consent, code, time.time())
    async with kept.alone(discovery.url):
        kept.keep(given)
    return given


async def logout(url: str, *, logins: KeptLogins | None = None) -> bool | None:
    """Takes a login back where it was given, as far as that is known there, and forgets it even if that cannot be done;
    None if there is none. Raises `LoginError` if it could not be taken back, or could not be forgotten either: then
    `KeptLogins.mark` still tells of it."""
    kept, url = logins or KeptLogins(), resource(address(url, "the server's address", url))
    async with kept.alone(url):
        try:
            kept_login = kept.of(url)
        finally:
            kept.forget(url)
        return await revoked(kept_login) if kept_login is not None else None


__all__ = ["LoginAsk", "LoginError", "login", "logout"]
