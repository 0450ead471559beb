"""Which addresses a login may have to do with. What a server or its authorization server names is a stranger's word:
nothing of it is asked before it is seen to be an address that keeps secrets on the way and does not point inwards."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

CHARS_MAX = 2_000
PLAIN = re.compile(r"[!-~]+\Z")
"""What an address is written with: no blanks, no control characters, nothing that people cannot tell apart."""
DEFAULT_PORTS = {"https": 443, "http": 80}
OUTSIDE, INSIDE, HERE = range(3)
"""Where a host is: anywhere, in a private network by its own words, or on this machine."""


class LoginError(Exception):
    """A login cannot be had, and why. The words hold no secret."""


class LoginEnded(LoginError):
    """A login is not taken any more: a person must log in again."""


def address(url: Any, what: str, server: str) -> str:
    """An address that a login may use, of a server at `server`. Raises `LoginError` that says what it is of."""
    if not isinstance(url, str) or len(url) > CHARS_MAX or not PLAIN.match(url):
        raise LoginError(f"{what} is no address of at most {CHARS_MAX} plain characters")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise LoginError(f"{what} is no address: {error}") from None
    if parts.username is not None or parts.password is not None or "#" in url or not parts.hostname:
        raise LoginError(f"{what} {url!r} has a name, a password or a fragment in it, or no host")
    place = whereabouts(parts.hostname)
    if parts.scheme != "https" and not (parts.scheme == "http" and place == HERE):
        raise LoginError(f"{what} {url!r} is not https: what is sent there could be read on the way")
    if place > whereabouts(urlsplit(server).hostname or ""):
        raise LoginError(f"{what} {url!r} points into this machine or a private network, and the server is outside")
    return url


def whereabouts(host: str) -> int:
    """Where a host is, by its name or number alone: what a name stands for is not looked up."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return HERE
    try:
        number = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        try:
            number = ipaddress.ip_address(socket.inet_aton(name))  # 127.1, 0x7f000001 and the like
        except (OSError, ValueError):
            return OUTSIDE
    mapped = getattr(number, "ipv4_mapped", None) or number
    if mapped.is_loopback or mapped.is_unspecified:
        return HERE
    return OUTSIDE if mapped.is_global else INSIDE


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme.lower(), (parts.hostname or "").lower(), parts.port or DEFAULT_PORTS.get(parts.scheme, 0)


def resource(url: str) -> str:
    """A server's address as logins are kept under it: one form for all that mean the same."""
    parts = urlsplit(url)
    scheme, host, port = origin(url)
    shown = f"[{host}]" if ":" in host else host
    place = shown if port == DEFAULT_PORTS.get(scheme) else f"{shown}:{port}"
    path = "" if parts.path == "/" else parts.path
    return urlunsplit(SplitResult(scheme, place, path, parts.query, ""))


def covers(named: str, server: str) -> bool:
    """Whether a resource that metadata name is the server, or a folder that it lies in."""
    if origin(named) != origin(server):
        return False
    above, path = urlsplit(named), urlsplit(server).path.rstrip("/") + "/"
    return path.startswith(above.path.rstrip("/") + "/") and above.query in ("", urlsplit(server).query)
