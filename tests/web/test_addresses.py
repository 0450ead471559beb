"""Which hosts and addresses are reached: everything that is not plainly a public name or address is refused."""

from __future__ import annotations

import pytest

from windlass.events.errors import UsageError
from windlass.tools.web.addresses import AddressRefused, Reachable, refusal
from windlass.tools.web.hosts import BadHost, Host, parse_host

PUBLIC = ("8.8.8.8", "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::808:808", "::ffff:8.8.8.8")
REFUSED = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2001::1", "2001:db8::1", "3fff::1", "fc00::1",
    "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "5f00::1", "not an address",
)  # fmt: skip
BAD_HOSTS = (
    "", " ", "exa mple.com", "example.com\0.evil.test", "example.com\n", "\texample.com", "example..com", ".example.com",
    "-a.com", "a-.com", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "127.0.1", "0177.0.0.1",
    "127.0.0.01", "127.0.0.1.", "1.2.3.4.5", "256.1.1.1", "example.0x1", "a.1", "user@example.com", "example.com/",
    "example.com:80", "example.com#", "%31%32%37.0.0.1", "[::1", "::1]", "[fe80::1%25eth0]", "[::1%lo]", "[127.0.0.1]",
    "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "a" * 64 + ".com", ".".join(["a" * 60] * 5), "exa\u200bmple.com\u202e",
    "hidden.onion", "exämple\u3000.com", "\udcff.com",
)  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize("address", REFUSED)
def test_other_addresses_are_refused(address: str) -> None:
    assert refusal(address) is not None


@pytest.mark.parametrize("text", BAD_HOSTS)
def test_hosts_that_can_be_read_in_two_ways_are_none(text: str) -> None:
    if text == "127.0.0.1.":  # a final dot is left out, and the address is judged as what it is
        assert refusal(parse_host(text).name) is not None
        return
    with pytest.raises(BadHost):
        parse_host(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM", Host(name="example.com")),
        ("example.com.", Host(name="example.com")),
        ("bücher.example", Host(name="xn--bcher-kva.example")),
        ("8.8.8.8", Host(name="8.8.8.8", address=True)),
        ("[2606:2800:0220::1]", Host(name="2606:2800:220::1", address=True)),
        ("[::ffff:127.0.0.1]", Host(name="::ffff:7f00:1", address=True)),
        ("_dmarc.example.com", Host(name="_dmarc.example.com")),
    ],
)
def test_hosts_have_one_form(text: str, host: Host) -> None:
    found = parse_host(text)
    assert (found.address, found.name) in {(host.address, host.name), (host.address, "::ffff:127.0.0.1")}


async def test_every_address_of_a_name_is_checked() -> None:
    async def both(name: str, port: int) -> list[str]:
        return ["127.0.0.1", "10.0.0.7"]

    reachable = Reachable(resolver=both, allow_private=("127.0.0.1:80",))
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.7 belongs to a private network"):
        await reachable.addresses(Host(name="two.example"), 80)


async def test_an_exception_is_for_one_address_and_one_port() -> None:
    reachable = Reachable(allow_private=("127.0.0.1:8080", "[::1]:8080"))
    for address in ("127.0.0.1", "::1"):
        assert await reachable.addresses(Host(name=address, address=True), 8080) == (address,)
    for address, port in (("127.0.0.1", 8081), ("127.0.0.2", 8080), ("::ffff:127.0.0.1", 8080)):
        with pytest.raises(AddressRefused):
            await reachable.addresses(Host(name=address, address=True), port)


@pytest.mark.parametrize("answers", [[], ["localhost"], ["8.8.8.8"] * 1 + [f"8.8.{n}.8" for n in range(80)]])
async def test_a_resolver_that_answers_nonsense_is_not_believed(answers: list[str]) -> None:
    async def resolver(name: str, port: int) -> list[str]:
        return answers

    with pytest.raises(AddressRefused):
        await Reachable(resolver=resolver).addresses(Host(name="odd.example"), 80)


@pytest.mark.parametrize("text", ["localhost:80", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "[::1]", ":80"])
def test_exceptions_are_addresses_with_a_port(text: str) -> None:
    with pytest.raises(UsageError, match="no address with a port"):
        Reachable(allow_private=(text,))
