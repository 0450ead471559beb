"""Addresses of the web: read once, strictly, into the one form that is judged, shown and sent."""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin

from windlass.events.values.blocks import Value

from .hosts import BadHost, Host, parse_host

URL_CHARS_MAX = 4_000
PORTS = {"http": 80, "https": 443}
FORM = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]+)(?P<path>[^?#]*)(?P<query>\?[^#]*)?", re.IGNORECASE)
SAFE = "%:@!$&'()*+,;=~-._/"
DOTS = {".": 1, "%2e": 1, "..": 2, ".%2e": 2, "%2e.": 2, "%2e%2e": 2}


class BadUrl(ValueError):
    """What is no address that can be fetched."""


class Url(Value, frozen=True, kw_only=True):
    """An address in its one form, without a fragment."""

    scheme: str
    host: Host
    port: int
    path: str
    query: str
    """With its question mark; empty if there is none."""

    @property
    def authority(self) -> str:
        """Host and port, the port only if it is not the scheme's own."""
        return self.host.shown if self.port == PORTS[self.scheme] else f"{self.host.shown}:{self.port}"

    @property
    def text(self) -> str:
        """The address as it is sent."""
        return f"{self.scheme}://{self.authority}{self.path}{self.query}"


def parse_url(text: str) -> Url:
    """The address that a text is. Raises `BadUrl` for other schemes, for user names, for anything invisible, and for
    hosts that can be read in two ways."""
    if len(text) > URL_CHARS_MAX:
        raise BadUrl(f"the address has {len(text)} characters, more than {URL_CHARS_MAX}")
    if not text.isprintable() or any(char.isspace() or char == "\\" for char in text):
        raise BadUrl("the address holds spaces, control characters or backslashes")
    parts = FORM.match(text)
    if parts is None:
        raise BadUrl("the address must begin with http:// or https:// and name a host")
    if "@" in parts["authority"]:
        raise BadUrl("the address holds a user name; credentials are never part of an address here")
    scheme = parts["scheme"].lower()
    host, port = _authority(parts["authority"], scheme)
    query = parts["query"] or ""
    return Url(scheme=scheme, host=host, port=port, path=_path(parts["path"]), query=quote(query, safe=SAFE + "?"))


def joined(base: Url, location: str) -> Url:
    """Where a redirect leads. Raises `BadUrl`."""
    if not location.isprintable() or len(location) > URL_CHARS_MAX:
        raise BadUrl("the redirect holds control characters or is too long")
    try:
        whole = urljoin(base.text, location)
    except ValueError as error:
        raise BadUrl(f"the redirect cannot be read: {error}") from None
    return parse_url(whole)


def _authority(text: str, scheme: str) -> tuple[Host, int]:
    name, port = text, ""
    if not text.endswith("]"):
        name, colon, port = text.rpartition(":")
        if not colon:
            name, port = text, ""
        elif not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
            raise BadUrl(f"{port[:20]!r} is no port")
    if ":" in name and not name.startswith("["):
        raise BadUrl("an IPv6 address stands in brackets")
    try:
        return parse_host(name), int(port) if port else PORTS[scheme]
    except BadHost as error:
        raise BadUrl(str(error)) from None


def _path(text: str) -> str:
    """A path without steps up and with everything unusual escaped, so that what is judged is what is sent."""
    kept: list[str] = []
    parts = text.split("/")[1:] or [""]
    for index, part in enumerate(parts):
        dots = DOTS.get(part.lower())
        if dots is None:
            kept.append(part)
            continue
        if dots == 2 and kept:
            kept.pop()
        if index == len(parts) - 1:
            kept.append("")
    return "/" + quote("/".join(kept), safe=SAFE)
