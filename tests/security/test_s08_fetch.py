"""S8: the fetch tool reaches the public internet only, whatever names, numbers, redirects and servers do."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from windlass.tools.context import ToolContext, ToolError
from windlass.tools.description import CallPlace, described
from windlass.tools.tool import AnyTool
from windlass.tools.web import fetch_tool, web_client
from windlass.tools.web.urls import BadUrl, parse_url

from .loopback import DnsStub, Site, answer, moved

MIB = 1024 * 1024
CONTEXT = ToolContext(session="s", call_id="c", secrets={"TOKEN": "canary-token-4711"}.__getitem__)


@contextlib.asynccontextmanager
async def site(**options: Any) -> AsyncIterator[tuple[Site, AnyTool]]:
    """A site that may be reached, and a fetch tool that knows it."""
    async with Site().serving() as there:
        yield there, fetch_tool(allow_private=(there.endpoint,), **options)


async def fetched(tool: AnyTool, url: str, **args: Any) -> str:
    text = await tool(CONTEXT, url, **args)
    assert isinstance(text, str)
    return text


async def refused(tool: AnyTool, url: str) -> ToolError:
    with pytest.raises(ToolError) as raised:
        await tool(CONTEXT, url)
    return raised.value


# --- where it leads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "127.0.0.2", "[::]"],
)
async def test_a_server_of_this_machine_cannot_be_reached(host: str) -> None:
    """Such as a console: whatever listens here, no spelling of this machine leads there."""
    async with Site().serving() as console:
        error = await refused(fetch_tool(), console.url("/", host))
        assert error.code == "refused_address"
        assert console.connections == 0


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f000001", "0x7f.0.0.1", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "127.0.0.1.1",
        "１２７.0.0.1", "127。0。0。1", "evil@127.0.0.1", "127.0.0.1\\@example.com", "example.com@127.0.0.1",
        "example.com:80@127.0.0.1", "127.0.0.1%00.example.com", "127.0.0.1\0.example.com", "127.0.0.1 .example.com",
        "127.0.0.1\t", "127.0.0.1\r\nX: y", "[::1%25lo]", "%6c%6f%63alhost", "localhost#.example.com@x",
    ],
)  # fmt: skip
async def test_a_host_that_can_be_read_in_two_ways_is_not_asked_for(host: str) -> None:
    async with site() as (there, tool):
        error = await refused(tool, f"http://{host}:{there.port}/")
        assert error.code in ("bad_url", "refused_address")
        assert there.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "gopher://127.0.0.1/", "data:text/plain,hi", "ftp://127.0.0.1/", "javascript:alert(1)",
        "http:/127.0.0.1", "//127.0.0.1/", "http://", "http://?x", "http://a:b", "http://a:0/", "http://a:99999/",
        "http://a:8o/", " http://a/", "http://a/\n", "jar:http://a/", "HTTP//a", "http://[::1]x/",
    ],
)  # fmt: skip
async def test_only_http_and_https_are_addresses(url: str) -> None:
    assert (await refused(fetch_tool(), url)).code == "bad_url"


@pytest.mark.parametrize("address", ["169.254.169.254", "10.1.2.3", "192.168.0.1", "100.64.0.1", "[fd00:ec2::254]"])
async def test_numbers_of_private_networks_are_not_asked_for(address: str) -> None:
    assert (await refused(fetch_tool(), f"http://{address}/latest/meta-data/")).code == "refused_address"


async def test_a_name_that_flips_is_looked_up_once_and_connected_to_as_checked() -> None:
    """The classic rebinding: the check sees one address, the connection would get another."""
    async with site() as (there, _), Site("127.0.0.2").serving(there.port) as inside:
        there.pages["/"] = answer(b"the site")
        async with DnsStub([["127.0.0.1"], ["127.0.0.2"]]).serving() as dns:
            tool = fetch_tool(allow_private=(there.endpoint,), resolver=dns.resolve)
            assert "the site" in await fetched(tool, there.url("/", "flip.example"))
            assert dns.asked == ["flip.example"]
            error = await refused(tool, there.url("/", "flip.example"))
            assert (error.code, dns.asked) == ("refused_address", ["flip.example"] * 2)
        assert inside.connections == 0
        assert f"Host: flip.example:{there.port}\r\n" in there.heard[0]


async def test_one_private_address_among_others_refuses_the_name() -> None:
    async with site() as (there, _), DnsStub([["127.0.0.1", "127.0.0.2"]]).serving() as dns:
        tool = fetch_tool(allow_private=(there.endpoint,), resolver=dns.resolve)
        assert (await refused(tool, there.url("/", "two.example"))).code == "refused_address"
        assert there.connections == 0


async def test_a_redirect_is_resolved_and_checked_anew() -> None:
    async with site() as (there, _), Site("127.0.0.2").serving(there.port) as inside:
        there.pages["/"] = moved("/next")
        async with DnsStub([["127.0.0.1"], ["127.0.0.2"]]).serving() as dns:
            tool = fetch_tool(allow_private=(there.endpoint,), resolver=dns.resolve)
            assert (await refused(tool, there.url("/", "flip.example"))).code == "refused_address"
        assert (len(there.heard), inside.connections) == (1, 0)


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/", "//127.0.0.2:{port}/", "http://localhost:{port}/", "http://[::1]:{port}/",
        "http://other.example/", "http://127.0.0.1:1/", "http://0x7f000001:{port}/", "file:///etc/passwd",
        "http://user@127.0.0.1:{port}/", "gopher://127.0.0.1:{port}/", "http://127.0.0.1:{port}\\@x/",
    ],
)  # fmt: skip
async def test_a_redirect_to_another_host_is_told_and_not_followed(location: str) -> None:
    """An approval or a rule is about one host. The model may ask for the other one, and is judged again."""
    async with site() as (there, tool), Site("127.0.0.2").serving(there.port) as inside:
        there.pages["/"] = moved(location.format(port=there.port))
        error = await refused(tool, there.url())
        assert error.code in ("moved", "bad_url")
        assert (len(there.heard), inside.connections) == (1, 0)


async def test_a_redirect_with_a_split_header_makes_one_request() -> None:
    async with site() as (there, tool):
        there.pages["/"] = moved("/a%0d%0aX-Evil:%201")
        there.pages["/a%0d%0aX-Evil:%201"] = answer(b"here")
        assert "here" in await fetched(tool, there.url())
        assert not any("\r\nX-Evil" in head for head in there.heard)


async def test_redirects_within_a_host_are_followed_so_far() -> None:
    async with site() as (there, tool):
        for step in range(9):
            there.pages[f"/{step}"] = moved(f"/{step + 1}")
        there.pages["/9"] = answer(b"the end")
        assert "the end" in await fetched(tool, there.url("/4"))
        assert (await refused(tool, there.url("/0"))).code == "redirects"
        assert len(there.heard) == 6 + 6


async def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    from windlass.tools.web.fetch_tool import _check_same_host

    with pytest.raises(ToolError, match="not encrypted"):
        _check_same_host(parse_url("https://example.com/a"), parse_url("http://example.com/a"))
    _check_same_host(parse_url("http://example.com/a"), parse_url("https://example.com/b"))


async def test_nothing_of_this_process_goes_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No cookies, no netrc, no proxy of the environment, no referrer."""
    (tmp_path / ".netrc").write_text("default login me password CANARY-netrc\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with site() as (there, tool):
        there.pages["/"] = answer(b"", status="302 Found", headers=("Location: /b", "Set-Cookie: id=CANARY-cookie"))
        there.pages["/b"] = answer(b"here")
        await fetched(tool, there.url())
        heads = "".join(there.heard)
        assert [name for name in ("CANARY", "Cookie", "Authorization", "Referer") if name in heads] == []


async def test_a_credential_goes_to_its_host_and_to_nobody_else() -> None:
    """Given by the author for one host, with the secret by its name; redirects, other names and plain http get none."""
    async with site() as (there, _), DnsStub([["127.0.0.1"]]).serving() as dns:
        there.pages["/"] = answer(b"hello")
        there.pages["/away"] = moved(f"http://other.example:{there.port}/")
        headers = {name: {"Authorization": "Bearer {TOKEN}"} for name in ("127.0.0.1", "mine.example")}
        tool = fetch_tool(allow_private=(there.endpoint,), resolver=dns.resolve, headers=headers)
        assert "hello" in await fetched(tool, there.url())
        assert "Authorization: Bearer canary-token-4711\r\n" in there.heard.pop()
        assert "hello" in await fetched(tool, there.url("/", "other.example"))
        assert (await refused(tool, there.url("/away"))).code == "moved"
        there.heard.pop()
        assert (await refused(tool, there.url("/", "mine.example"))).code == "not_encrypted"
        assert "canary" not in "".join(there.heard)


async def test_the_name_is_told_to_the_server_that_answers_for_the_checked_address() -> None:
    """SNI names the host, though the connection is made to an address: read off the first bytes of a TLS client."""
    seen: list[bytes] = []

    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(4_096))
        writer.close()

    async with DnsStub([["127.0.0.1"]]).serving() as dns:
        server = await asyncio.start_server(hello, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        tool = fetch_tool(allow_private=(f"127.0.0.1:{port}",), resolver=dns.resolve)
        assert (await refused(tool, f"https://named.example:{port}/")).code == "unreachable"
        server.close()
    assert b"\x00\x0dnamed.example" in seen[0]


# --- what it sends back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
async def test_a_bomb_is_unpacked_only_so_far(encoding: str) -> None:
    whole = zlib.compress(b"a" * (24 * MIB), 9) if encoding != "gzip" else gzip.compress(b"a" * (24 * MIB), 9)
    packed = whole[2:-4] if encoding == "raw" else whole
    assert len(packed) < MIB / 8
    async with site() as (there, tool):
        header = f"Content-Encoding: {'gzip' if encoding == 'gzip' else 'deflate'}"
        there.pages["/"] = answer(packed, headers=(header,))
        text = await fetched(tool, there.url())
        assert 9 * MIB < len(text) < 11 * MIB
        assert text.endswith("[the page goes on; it was cut here]")


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "exi"])
async def test_a_packing_that_nobody_asked_for_is_refused(encoding: str) -> None:
    async with site() as (there, tool):
        there.pages["/"] = answer(b"x", headers=(f"Content-Encoding: {encoding}",))
        assert (await refused(tool, there.url())).code == "bad_body"
        assert "Accept-Encoding: gzip, deflate\r\n" in there.heard[0]


async def test_damaged_packing_is_refused() -> None:
    async with site() as (there, tool):
        there.pages["/"] = answer(b"not gzip at all", headers=("Content-Encoding: gzip",))
        assert (await refused(tool, there.url())).code == "bad_body"


async def test_an_endless_body_is_cut() -> None:
    async def endless(writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()

    async with site() as (there, tool):
        there.pages["/"] = endless
        text = await fetched(tool, there.url())
        assert 5 * MIB <= len(text) < 6 * MIB
        assert text.endswith("[the page goes on; it was cut here]")


@pytest.mark.parametrize("part", ["head", "body"])
async def test_a_server_that_dribbles_is_given_up_on(part: str) -> None:
    async def slow(writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + (b"" if part == "head" else b"\r\n"))
        while True:
            writer.write(b"X-More: 1\r\n" if part == "head" else b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with site(timeout_ms=300) as (there, tool):
        there.pages["/"] = slow
        begun = time.monotonic()
        assert (await refused(tool, there.url())).code in ("timeout", "unreachable")
        assert time.monotonic() - begun < 60


async def test_a_silent_server_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_client, "IDLE_S", 0.2)

    async def silent(writer: asyncio.StreamWriter, path: str) -> None:
        await asyncio.Event().wait()

    async with site() as (there, tool):
        there.pages["/"] = silent
        assert (await refused(tool, there.url())).code == "timeout"


@pytest.mark.parametrize(
    "head",
    [
        b"X-Long: " + b"a" * MIB + b"\r\n", b"".join(b"X-%d: 1\r\n" % n for n in range(200_000)),
        b"Location: " + b"/a" * MIB + b"\r\n", b"\0\0\0\r\n", b"No colon\r\n", b"Content-Length: 1\r\nContent-Length: 2\r\n",
    ],
    ids=["long", "many", "location", "nul", "no colon", "two lengths"],
)  # fmt: skip
async def test_a_bomb_of_headers_is_refused(head: bytes) -> None:
    async with site() as (there, tool):
        there.pages["/"] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + head + b"\r\nhello"
        assert (await refused(tool, there.url())).code == "unreachable"


@pytest.mark.parametrize(
    "garbage", [b"", b"\0" * 10_000, b"SSH-2.0-OpenSSH\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 99999 x\r\n\r\n"]
)
async def test_what_is_no_answer_is_an_error(garbage: bytes) -> None:
    async with site() as (there, tool):
        there.pages["/"] = garbage
        assert (await refused(tool, there.url())).code == "unreachable"


@pytest.mark.parametrize(
    ("media_type", "body"),
    [("image/png", b"\x89PNG"), ("application/octet-stream", b"x"), ("text/plain", b"a\0b"), ("", b"\x7fELF\0\0")],
)
async def test_what_is_no_text_is_refused_with_its_size_and_type(media_type: str, body: bytes) -> None:
    async with site() as (there, tool):
        there.pages["/"] = answer(body, media_type)
        error = await refused(tool, there.url())
        assert error.code == "not_text"
        assert error.message.endswith(f"is no text: {media_type or 'an unknown type'}, {len(body)} bytes")


# --- what is said of a call ----------------------------------------------------------------------------------------


def about(url: str) -> Any:
    return described(fetch_tool(), {"url": url, "raw": False}, CallPlace())


def test_a_call_is_about_the_host_that_is_asked() -> None:
    found = about("HTTPS://Example.COM:443/a/../b/%2E%2e/c?q=1#frag")
    assert (found.hosts, found.exact, found.subject) == (("example.com",), True, "https://example.com/c?q=1")
    assert found.detail.url == found.subject
    tool = fetch_tool()
    assert (tool.spec.kind, tool.spec.traits, tool.spec.labels) == ("url", ("read", "egress"), ("untrusted",))


def test_what_is_judged_is_what_is_sent() -> None:
    """No two readings: the form that policies see parses to itself."""
    for url in ("http://a/b//c/", "http://ä.example/ö?ü=ß", "http://a?x", "http://a/%zz", 'http://a/"<>`{}|^'):
        once = parse_url(url).text
        assert parse_url(once).text == once


def test_a_call_that_cannot_be_made_has_no_traits() -> None:
    found = about("http://user:pw@example.com/")
    assert (found.hosts, found.traits, found.subject) == ((), (), None)
    assert "user name" in found.detail.intention
    with pytest.raises(BadUrl):
        parse_url("http://user:pw@example.com/")
