"""Who we are to an authorization server: a client that it knows, or one that registers itself (RFC 7591)."""

from __future__ import annotations

from typing import Any

from windlass.events.values.blocks import Value

from .addresses import CHARS_MAX, PLAIN, LoginError
from .discovery import METHODS, AuthorizationServer
from .json_requests import request

CLIENT_NAME = "Windlass"
SECRET_CHARS_MAX = 4_096


class Client(Value, frozen=True, kw_only=True):
    """A client of one authorization server."""

    client_id: str
    secret: str = ""
    method: str = "none"


async def registered(server: AuthorizationServer, redirect: str, scopes: tuple[str, ...]) -> Client:
    """A new client, which may ask for no more than this. Raises `LoginError` if the server takes none."""
    if not server.registration_endpoint:
        raise LoginError(
            f"{server.issuer} takes only clients that it knows: register one there for the address {redirect}, and "
            "give its id (--client) and port (--port)"
        )
    wanted = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": server.method,
        "application_type": "native",
    }
    if scopes:
        wanted["scope"] = " ".join(scopes)
    answer = await request("POST", server.registration_endpoint, body=wanted)
    if answer.status not in (200, 201):
        raise LoginError(f"{server.issuer} did not register a client: {said(answer.status, answer.body)}")
    return _checked(answer.body, server)


def _checked(body: dict[str, Any], server: AuthorizationServer) -> Client:
    client_id, secret = body.get("client_id"), body.get("client_secret") or ""
    method = body.get("token_endpoint_auth_method") or server.method
    if not isinstance(client_id, str) or not PLAIN.match(client_id) or len(client_id) > CHARS_MAX:
        raise LoginError(f"{server.issuer} registered a client without an id")
    if not isinstance(secret, str) or len(secret) > SECRET_CHARS_MAX or (secret and not PLAIN.match(secret)):
        raise LoginError(f"{server.issuer} registered a client with a secret of a strange form")
    if method not in METHODS or (method != "none" and not secret):
        raise LoginError(f"{server.issuer} registered a client that is to say who it is by {str(method)[:100]!r}")
    return Client(client_id=client_id, secret=secret, method=method)


def said(status: int, body: dict[str, Any]) -> str:
    """An error as an authorization server gives it, within bounds."""
    why = body.get("error")
    more = body.get("error_description")
    told = [each[:200] for each in (why, more) if isinstance(each, str) and each.isprintable()]
    return " ".join([str(status), *told])
