"""What a person is sent to agree to, and what they come back with: one request for a login, with a proof that only
we can give (PKCE, RFC 7636), for one server (RFC 8707)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from .addresses import LoginError
from .discovery import OFFLINE, Found, words
from .registration import Client

CODE_CHARS_MAX = 4_096


class NotOurs(Exception):
    """Somebody came who does not belong to this login."""


class Consent:
    """One request for a login."""

    def __init__(self, discovery: Found, client: Client, redirect: str, scopes: tuple[str, ...]) -> None:
        self.found = discovery
        self.client = client
        self.redirect = redirect
        self.verifier = secrets.token_urlsafe(64)
        self._state = secrets.token_urlsafe(32)
        self.scopes = scopes

    @property
    def url(self) -> str:
        """Where the person agrees."""
        at = urlsplit(self.found.server.authorization_endpoint)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        ours = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect,
            "state": self._state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": self.found.resource,
        }
        if self.scopes:
            ours["scope"] = " ".join(self.scopes)
        theirs = parse_qsl(at.query, keep_blank_values=True)
        if twice := [name for name, _ in theirs if name in ours or name == "scope"]:
            raise LoginError(f"{self.found.server.issuer} sets {twice[0]!r} in its own address: that is ours to say")
        return urlunsplit(at._replace(query=urlencode([*theirs, *ours.items()])))

    def code(self, given: Mapping[str, str]) -> str:
        """The code that somebody comes back with. Raises `NotOurs` for whoever does not know what was sent, and
        `LoginError` if the login was refused, or given by somebody else."""
        if not hmac.compare_digest(given.get("state", "").encode(), self._state.encode()):
            raise NotOurs
        issuer = self.found.server.issuer
        by = given.get("iss")
        if by is None and self.found.server.says_issuer:
            raise LoginError(f"whoever came back does not say who sent them, which {issuer} does")
        if by is not None and by != issuer:
            raise LoginError(f"whoever came back was sent by {by[:200]!r}, not by {issuer}")
        if "error" in given:
            why = " ".join(given[name][:200] for name in ("error", "error_description") if given.get(name))
            raise LoginError(f"{issuer} gave no login: {why if why.isprintable() else 'it does not say why'}")
        code = given.get("code", "")
        if not 0 < len(code) <= CODE_CHARS_MAX:
            raise LoginError(f"whoever came back from {issuer} brought no code")
        return code


def asked_for(discovery: Found, more: tuple[str, ...]) -> tuple[str, ...]:
    """What a login is to allow: what the server names, what a person adds, and that it can be renewed."""
    scopes = (*discovery.scopes, *more)
    offline = (OFFLINE,) if scopes and OFFLINE in discovery.server.scopes else ()
    return tuple(dict.fromkeys((*scopes, *offline)))


def chosen(scope: str) -> tuple[str, ...]:
    """Scopes as a person gives them. Raises `LoginError` for what is none."""
    scopes = words(scope)
    if len(scopes) != len(set(scope.split())):
        raise LoginError(f"{scope!r} are no scopes: write them with blanks between them")
    return scopes
