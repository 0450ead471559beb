"""What an authorization server gives for a code or for an older login, and how a login is taken back there."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote

import msgspec

from windlass.events.stored.known_secrets import SECRETS

from .addresses import LoginEnded, LoginError
from .consent import Consent
from .discovery import words
from .json_requests import request
from .kept_logins import Login
from .registration import Client, said

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,16384}\Z")
"""Shorter ones can be guessed, and hiding them would hide words of the log."""
LIFETIME_S_MAX = 10 * 365 * 86_400
ENDED = ("invalid_grant", "invalid_client", "unauthorized_client")
"""What says that a login is over, and not that something went wrong."""


async def exchanged(consent: Consent, code: str, now_s: float) -> Login:
    """The login that a code stands for. Raises `LoginError`."""
    discovery, server = consent.found, consent.found.server
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": consent.redirect,
        "code_verifier": consent.verifier,
        "resource": discovery.resource,
    }
    before = Login(
        url=discovery.url,
        resource=discovery.resource,
        issuer=server.issuer,
        token_endpoint=server.token_endpoint,
        revocation_endpoint=server.revocation_endpoint,
        client=consent.client,
        scope=" ".join(consent.scopes),
        access_token="",
    )
    return await _granted(before, form, now_s)


async def renewed(login: Login, now_s: float) -> Login:
    """A login in the place of one that is over. It is asked for only where that one was given. Raises `LoginEnded` if
    a person has to log in again, and `LoginError` if it may be had later."""
    if not login.refresh_token:
        raise LoginEnded("its login is over, and cannot be renewed")
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
    return await _granted(login, form, now_s)


async def _granted(before: Login, form: dict[str, str], now_s: float) -> Login:
    form, headers = _as_client(before.client, form)
    answer = await request("POST", before.token_endpoint, form=form, headers=headers)
    if answer.status != 200:
        ended = answer.status in (400, 401) and answer.body.get("error") in ENDED
        told = f"{before.issuer} gives no login: {said(answer.status, answer.body)}"
        raise (LoginEnded if ended else LoginError)(told)
    return _checked(before, answer.body, now_s)


def _checked(before: Login, body: dict[str, Any], now_s: float) -> Login:
    kind, token, again = body.get("token_type"), body.get("access_token"), body.get("refresh_token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise LoginError(f"{before.issuer} gives logins that are used otherwise than by a bearer's token")
    for each in (token, again):
        if each is not None and not (isinstance(each, str) and TOKEN.match(each)):
            raise LoginError(f"{before.issuer} gave a token of a strange form: 16 to 16384 letters, digits, '._~+/=-'")
    if not isinstance(token, str):
        raise LoginError(f"{before.issuer} gave no token")
    lasts = body.get("expires_in")
    if isinstance(lasts, str) and lasts.isascii() and lasts.isdigit():
        lasts = int(lasts[:12])
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 <= lasts <= LIFETIME_S_MAX:
        lasts = None
    scope = body.get("scope")
    login = msgspec.structs.replace(
        before,
        access_token=token,
        refresh_token=again or before.refresh_token,
        expires_s=now_s + lasts if lasts is not None else None,
        scope=" ".join(words(scope)) if isinstance(scope, str) else before.scope,
    )
    hide(login)
    return login


async def revoked(login: Login) -> bool:
    """Takes a login back where it was given; whether that server knows how to. Raises `LoginError`."""
    if not login.revocation_endpoint:
        return False
    for kind, token in (("refresh_token", login.refresh_token), ("access_token", login.access_token)):
        if token:
            form, headers = _as_client(login.client, {"token": token, "token_type_hint": kind})
            answer = await request("POST", login.revocation_endpoint, form=form, headers=headers)
            if answer.status != 200:
                raise LoginError(f"{login.issuer} did not take it back: {said(answer.status, answer.body)}")
    return True


def _as_client(client: Client, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A form, and headers, that say who we are."""
    if client.method == "client_secret_basic":
        pair = f"{quote(client.client_id, safe='')}:{quote(client.secret, safe='')}"
        return {**form, "client_id": client.client_id}, {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"
        }
    more = {"client_secret": client.secret} if client.method == "client_secret_post" else {}
    return {**form, "client_id": client.client_id, **more}, {}


def hide(login: Login) -> None:
    """Has the secrets of a login left out of everything that is written."""
    for secret in (login.access_token, login.refresh_token, login.client.secret):
        SECRETS.add_key(secret or None)
