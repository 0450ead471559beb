"""Which addresses may be reached: only those of the public internet. One table, asked by everything that connects for
an agent. It sends nothing, apart from asking a resolver.

A name is looked up once, every address that came of it is checked, and those addresses are what is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

from windlass.events.errors import UsageError

from .hosts import Host

RESOLVE_S = 10.0
ADDRESSES_MAX = 64
"""More answers for one name than this are no answer."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Says which addresses a name has. Asked once for each connection."""

REFUSED_V4 = (
    ("0.0.0.0/8", "this machine"),
    ("10.0.0.0/8", "a private network"),
    ("100.64.0.0/10", "a carrier's own network"),
    ("127.0.0.0/8", "this machine"),
    ("168.63.129.16/32", "a cloud's own services"),
    ("169.254.0.0/16", "this network segment or a cloud's metadata"),
    ("172.16.0.0/12", "a private network"),
    ("192.0.0.0/24", "a reserved range"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "a relay to another protocol"),
    ("192.168.0.0/16", "a private network"),
    ("198.18.0.0/15", "measurements within a network"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "many receivers at once"),
    ("240.0.0.0/4", "a reserved range"),
)
PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
REFUSED_V6 = (
    ("::/128", "this machine"),
    ("::1/128", "this machine"),
    ("fc00::/7", "a private network"),
    ("fe80::/10", "this network segment"),
    ("ff00::/8", "many receivers at once"),
    ("2001::/23", "a reserved range or a tunnel"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "a tunnel (6to4)"),
    ("3fff::/20", "documentation"),
    ("64:ff9b:1::/48", "a translator within a network"),
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""A translator's range: the last four bytes say who is reached."""
V4_TABLE = tuple((ipaddress.IPv4Network(network), what) for network, what in REFUSED_V4)
V6_TABLE = tuple((ipaddress.IPv6Network(network), what) for network, what in REFUSED_V6)


class AddressRefused(Exception):
    """A host leads somewhere that agents do not go, or nowhere."""


def refusal(address: str | Address) -> str | None:
    """What an address belongs to, if it is not of the public internet; None for one that may be reached."""
    if isinstance(address, str):
        try:
            address = ipaddress.ip_address(address)
        except ValueError:
            return "nothing that is an address"
    if isinstance(address, ipaddress.IPv4Address):
        return next((what for network, what in V4_TABLE if address in network), None)
    inner = _carried(address)
    if inner is not None:
        return refusal(inner)
    if address.scope_id is not None:
        return "this network segment"
    special = next((what for network, what in V6_TABLE if address in network), None)
    return special or (None if address in PUBLIC_V6 else "a reserved range")


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address only wraps."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def is_own(address: str, port: int) -> bool:
    """Whether an address is one of this machine's, whatever range it is in: what is sent there comes from there.
    Nothing is sent to find out."""
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback or parsed.is_unspecified:
        return True
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))
            return ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0]) == parsed
    except OSError:
        return False  # there is no way there at all


class Reachable:
    """Says of hosts where they lead, and refuses what is not public. `allow_private` are exceptions by address and
    port, such as "127.0.0.1:8080", for what an operator runs itself; names are not taken, since they can be made to
    lead anywhere."""

    def __init__(self, *, resolver: Resolver | None = None, allow_private: Iterable[str] = ()) -> None:
        self._resolver = resolver or system_resolver
        self._allowed = frozenset(_endpoint(text) for text in allow_private)

    async def addresses(self, host: Host, port: int) -> tuple[str, ...]:
        """Every address of a host, each of them checked. Raises `AddressRefused` if one of them may not be reached: a
        name that leads to both sides is no mistake."""
        addresses = (host.name,) if host.address else await self._resolved(host, port)
        for address in addresses:
            self.check(address, port)
        return addresses

    def check(self, address: str, port: int) -> None:
        """Raises `AddressRefused` for an address that may not be reached at this port."""
        if self.allows(address, port):
            return
        what = refusal(address)
        if what is None and is_own(address, port):
            what = "this machine"
        if what is not None:
            raise AddressRefused(f"{address} belongs to {what}, and only the public internet is reached from here")

    def allows(self, address: str, port: int) -> bool:
        """Whether an operator named this very address and port."""
        return (address, port) in self._allowed

    async def _resolved(self, host: Host, port: int) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(RESOLVE_S):
                answers = await self._resolver(host.name, port)
        except TimeoutError:
            raise AddressRefused(f"the name {host.name!r} was not resolved in {RESOLVE_S:g} s") from None
        except (OSError, UnicodeError) as error:
            raise AddressRefused(f"the name {host.name!r} cannot be resolved: {error}") from None
        addresses = tuple(dict.fromkeys(str(answer) for answer in answers))
        if not addresses or len(addresses) > ADDRESSES_MAX:
            raise AddressRefused(f"the name {host.name!r} has {len(addresses)} addresses")
        return tuple(_canonical(answer) for answer in addresses)


async def system_resolver(name: str, port: int) -> Sequence[str]:
    """The addresses that this machine's resolver knows."""
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in entries]


def _canonical(answer: str) -> str:
    try:
        return str(ipaddress.ip_address(answer))
    except ValueError:
        raise AddressRefused(f"the resolver answered {answer[:80]!r}, which is no address") from None


def _endpoint(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    try:
        number = int(port)
        if not 0 < number < 65536:
            raise ValueError(port)
        return str(ipaddress.ip_address(address.strip("[]"))), number
    except ValueError:
        raise UsageError(f"{text!r} is no address with a port, such as '127.0.0.1:8080'") from None
