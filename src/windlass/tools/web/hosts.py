"""Names of hosts: one strict reading, so that the name which is judged is the very one that is looked up."""

from __future__ import annotations

import ipaddress
import re

from windlass.events.values.blocks import Value

NAME_CHARS_MAX = 253
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
"""A last label like this makes resolvers read the whole name as a number, each in its own way."""
NEVER_ASKED = ("onion", "alt")
"""Names of other networks, which must not reach a resolver."""


class BadHost(ValueError):
    """What is no name of a host, or one that can be read in two ways."""


class Host(Value, frozen=True, kw_only=True):
    """A host in its one form: a name in lower case without a final dot, or an address."""

    name: str
    address: bool = False
    """Whether the name is an address itself, so that nobody need be asked."""

    @property
    def shown(self) -> str:
        """As it stands in an address of the web: an IPv6 address in brackets."""
        return f"[{self.name}]" if ":" in self.name else self.name


def parse_host(text: str) -> Host:
    """The host that a text names. Raises `BadHost` for whatever a resolver might read otherwise than we do: white
    space, control characters, escapes, numbers that are not four plain decimals, zones."""
    if not text or len(text) > NAME_CHARS_MAX + 2:
        raise BadHost("a host has 1 to 253 characters")
    if text.startswith("[") or ":" in text:
        return _sixth(text)
    if not text.isascii():
        name = _ascii(text)
        if _looks_numeric(name):
            raise BadHost(f"{text!r} is a number in disguise")
        return _named(name, text)
    return _named(text.lower(), text)


def _named(name: str, text: str) -> Host:
    name = name[:-1] if name.endswith(".") else name
    if _looks_numeric(name):
        try:
            return Host(name=str(ipaddress.IPv4Address(name)), address=True)
        except ValueError:
            raise BadHost(f"{text!r} is a number that is not written as four plain decimals") from None
    labels = name.split(".")
    if len(name) > NAME_CHARS_MAX or not all(LABEL.match(label) for label in labels):
        raise BadHost(f"{text[:80]!r} is no name of a host")
    if labels[-1] in NEVER_ASKED:
        raise BadHost(f"names under .{labels[-1]} are of another network")
    return Host(name=name)


def _looks_numeric(name: str) -> bool:
    last = name.rstrip(".").rpartition(".")[2]
    return bool(NUMBER.match(last))


def _sixth(text: str) -> Host:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if "%" in inner or "[" in inner or "]" in inner:
        raise BadHost(f"{text[:80]!r} is no address: zones are not taken")
    try:
        return Host(name=str(ipaddress.IPv6Address(inner)), address=True)
    except ValueError:
        raise BadHost(f"{text[:80]!r} is no address") from None


def _ascii(text: str) -> str:
    """A name in other scripts as resolvers know it, by the rules of IDNA 2008."""
    import idna

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise BadHost(f"{text[:80]!r} is no name of a host: {error}") from None
