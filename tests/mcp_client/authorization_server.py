"""An authorization server that gives logins, with the routes of the official package: metadata, registration, consent,
tokens, renewal and revocation; and an MCP server that listens to nobody else. Imported by the tests that need it."""

from __future__ import annotations

import secrets
import time
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

SCOPE = "files"


class Logins(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Who may do what. Everybody agrees at once; renewing takes the older login away."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.asked: list[AuthorizationParams] = []
        self.renewals = 0
        self.lasts_s: int | None = 3_600
        """How long a login holds, as it says; None says nothing of it."""
        self.renewable = True
        self.refuses = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append(params)
        if self.refuses:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 600,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._given(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.renewals += 1
        await self.revoke_token(refresh_token)
        return self._given(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """All that this client has."""
        for kept in (self.access, self.refresh):
            for name in [name for name, each in kept.items() if each.client_id == token.client_id]:
                del kept[name]

    def _given(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        mine = {"client_id": client.client_id or "", "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken(token=access, **mine)  # type: ignore[arg-type]
        if self.renewable:
            self.refresh[refresh] = RefreshToken(token=refresh, **mine)  # type: ignore[arg-type]
        given = refresh if self.renewable else None
        return OAuthToken(access_token=access, expires_in=self.lasts_s, scope=" ".join(scopes), refresh_token=given)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)


def issuing(logins: Logins, issuer: str) -> Any:
    """The authorization server as an ASGI application."""
    routes = create_auth_routes(
        logins,
        AnyHttpUrl(issuer),
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]
        ),
        revocation_options=RevocationOptions(enabled=True),
    )
    return Starlette(routes=routes)


def guarded(logins: Logins, issuer: str, origin: str, kind: str) -> Any:
    """An MCP server whose tools only those may call who are logged in."""
    path = "/mcp" if kind == "http" else "/sse"
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(issuer),
        resource_server_url=AnyHttpUrl(f"{origin}{path}"),
        required_scopes=[SCOPE],
        validate_token_resource=True,
    )
    server = MCPServer("vault", auth=settings, token_verifier=logins)

    async def opens(door: str) -> str:
        return f"opened {door}"

    server.add_tool(opens)
    return server.streamable_http_app() if kind == "http" else server.sse_app()
