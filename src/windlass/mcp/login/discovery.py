"""Where a server's logins are given: the metadata of the protected resource, and of the authorization server that it
names (RFC 9728, RFC 8414). Each is believed about itself only."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from windlass.events.values.blocks import Value

from .addresses import LoginError, address, covers, origin, resource
from .json_requests import Answer, request

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
SCOPE = re.compile(r"[!#-\[\]-~]{1,200}\Z")
SCOPES_MAX = 50
OFFLINE = "offline_access"
"""What some servers want to be asked for before they let a login be renewed."""
PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
METHODS = ("none", "client_secret_post", "client_secret_basic")
"""How a client may say who it is, the ones that need the least first."""


class AuthorizationServer(Value, frozen=True, kw_only=True):
    """Who gives logins, by its own metadata."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    method: str = "none"
    """How a client says there who it is."""
    scopes: tuple[str, ...] = ()
    says_issuer: bool = False
    """Whether whoever comes back from it says who sent them (RFC 9207)."""


class Found(Value, frozen=True, kw_only=True):
    """Where a server's logins are given, and what for."""

    url: str
    resource: str
    server: AuthorizationServer
    scopes: tuple[str, ...] = ()
    """What the server wants to be asked for."""


async def discovered(url: str, *, stream: bool = False) -> Found:
    """Asks a server where its logins are given; one that is reached by a `stream` (SSE) otherwise than others. Raises
    `LoginError`."""
    url = resource(address(url, "the server's address", url))
    challenge = await _challenge(url, stream=stream)
    metadata, own = await _resource_metadata(url, challenge)
    named = address(metadata.get("resource", url), "the resource", url)
    if not (covers(named, url) if own else resource(named) == url):
        raise LoginError(f"the server at {url} says that it is {named!r}: a login for that is not asked for")
    issuers = metadata.get("authorization_servers") or []
    if metadata and not (isinstance(issuers, list) and issuers):
        raise LoginError(f"the server at {url} does not say who gives logins for it")
    issuer = issuers[0] if metadata else "{}://{}".format(*urlsplit(url)[:2])
    server = await _authorization_server(address(issuer, "the issuer of logins", url), url)
    wanted = words(parameter(challenge, "scope")) or listed(metadata.get("scopes_supported"))
    return Found(url=url, resource=named, server=server, scopes=wanted)


async def _challenge(url: str, *, stream: bool) -> str:
    """What a server says to whoever comes without a login; empty if it says nothing."""
    accept = {"Accept": "text/event-stream" if stream else "application/json, text/event-stream"}
    answer = await request("GET" if stream else "POST", url, body=None if stream else PING, headers=accept, reads=False)
    return answer.challenge if answer.status == 401 else ""


async def _resource_metadata(url: str, challenge: str) -> tuple[dict[str, Any], bool]:
    """A server's own metadata, empty if it has none, as older servers have not; and whether they lie where its host's
    owner puts them. Elsewhere on a host that several share they speak for that very address, and no more."""
    at = urlsplit(url)
    base = f"{at.scheme}://{at.netloc}"
    places = [f"{base}{RESOURCE_METADATA}{at.path.rstrip('/')}", f"{base}{RESOURCE_METADATA}"]
    owned = tuple(places)
    named = parameter(challenge, "resource_metadata")
    if named:
        if origin(address(named, "the address of its metadata", url)) != origin(url):
            raise LoginError(f"the server at {url} has its metadata elsewhere, at {named!r}: it is not believed")
        places.insert(0, named)
    for place in dict.fromkeys(places):
        answer = await request("GET", place)
        if _is_there(answer, place):
            return answer.body, place in owned
    return {}, True


async def _authorization_server(issuer: str, url: str) -> AuthorizationServer:
    """The metadata of an authorization server, from where it itself must have put them."""
    at = urlsplit(issuer)
    if at.query:
        raise LoginError(f"the issuer of logins {issuer!r} has a query in it")
    base, path = f"{at.scheme}://{at.netloc}", at.path.rstrip("/")
    places = [f"{base}{SERVER_METADATA}{path}", f"{base}{OPENID}{path}", f"{base}{path}{OPENID}"]
    for place in dict.fromkeys(places):
        answer = await request("GET", place)
        if _is_there(answer, place):
            return _checked(answer.body, issuer, url)
    raise LoginError(f"{issuer} does not say how it gives logins, at {' or '.join(dict.fromkeys(places))}")


def _is_there(answer: Answer, place: str) -> bool:
    if answer.status >= 500 or answer.status == 429:
        raise LoginError(f"{place} answered {answer.status}: try again later")
    if answer.status == 200 and not answer.body:
        raise LoginError(f"{place} is no object of JSON")
    return answer.status == 200


def _checked(body: dict[str, Any], issuer: str, url: str) -> AuthorizationServer:
    said = body.get("issuer")
    if not isinstance(said, str) or said.rstrip("/") != issuer.rstrip("/"):
        raise LoginError(f"the metadata of {issuer} are those of {str(said)[:200]!r}: they are not believed")
    if "S256" not in listed(body.get("code_challenge_methods_supported")):
        raise LoginError(f"{issuer} does not take PKCE with S256: a login could be stolen on its way back")
    kinds = listed(body.get("response_types_supported")) or ("code",)
    if "code" not in kinds:
        raise LoginError(f"{issuer} gives no codes (it gives {', '.join(kinds)[:200]})")
    named = {
        name: address(body[name], f"the {name} of {issuer}", url)
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")
        if body.get(name)
    }
    for name in ("authorization_endpoint", "token_endpoint"):
        if name not in named:
            raise LoginError(f"{issuer} names no {name}")
    says_issuer = body.get("authorization_response_iss_parameter_supported") is True
    elsewhere = [name for name, each in named.items() if origin(each) != origin(issuer)]
    if elsewhere and not says_issuer:
        raise LoginError(
            f"{issuer} has its {elsewhere[0]} elsewhere ({named[elsewhere[0]]!r}) and does not say who sends people "
            "back: a login of somebody else could be taken for one of it"
        )
    takes = listed(body.get("token_endpoint_auth_methods_supported")) or METHODS
    method = next((each for each in METHODS if each in takes), None)
    if method is None:
        raise LoginError(f"{issuer} takes none of {', '.join(METHODS)}")
    scopes = listed(body.get("scopes_supported"))
    return AuthorizationServer(issuer=said, method=method, scopes=scopes, says_issuer=says_issuer, **named)


def parameter(challenge: str, name: str) -> str:
    """A parameter of what `WWW-Authenticate` says; empty if it is not there."""
    match = re.search(rf'(?:^|[\s,]){name}\s*=\s*(?:"([^"]*)"|([^\s,"]+))', challenge, re.IGNORECASE)
    return (match[1] or match[2] or "") if match else ""


def words(scope: Any) -> tuple[str, ...]:
    """Scopes out of a text; those that are none are passed over."""
    return listed(scope.split()) if isinstance(scope, str) else ()


def listed(value: Any) -> tuple[str, ...]:
    """The words of a list; what is none is passed over."""
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(each for each in value if isinstance(each, str) and SCOPE.match(each)))[:SCOPES_MAX]
