"""The proxy that leads out of a sandbox: to the hosts that were granted, at the addresses that were checked, and nowhere
else. Through a real socket, and through a real bubblewrap."""

from __future__ import annotations

import asyncio
import http.server
import os
import pathlib
import threading
from collections.abc import Iterator, Sequence

import pytest

from windlass.tools.context import ToolError
from windlass.tools.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.tools.sandboxes.proxy import Doors, read_request
from windlass.tools.sandboxes.sandbox import Access

from .programs import script, shell

needs_bubblewrap = pytest.mark.skipif(
    BubblewrapSandboxes().problem() is not None, reason="bubblewrap cannot be used here"
)


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.command} {self.path} host={self.headers['Host']} proxy={self.headers['Proxy-X']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


async def connected(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a socket, however deep the folder is in which it lies: an address has no room for long paths."""
    folder, name = os.path.split(path)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{at}/{name}")
    finally:
        os.close(at)


async def asked(doors: Doors, hosts: tuple[str, ...], request: str) -> str:
    """What the proxy answers to the first words of a connection."""
    await doors.open(hosts)
    reader, writer = await connected(doors.path(hosts))
    writer.write(request.replace("\n", "\r\n").encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> str:
    return str(tmp_path)


async def test_a_granted_host_is_reached_and_told_of(folder, port):
    doors, hosts = Doors(folder), (f"127.0.0.1:{port}",)
    answer = await asked(doors, hosts, f"GET http://127.0.0.1:{port}/a?b HTTP/1.1\nHost: evil\nProxy-X: 1\n\n")
    assert answer.endswith(f"GET /a?b host=127.0.0.1:{port} proxy=None")
    tunnel = f"CONNECT 127.0.0.1:{port} HTTP/1.1\n\nGET /t HTTP/1.0\n\n"
    answer = await asked(doors, hosts, tunnel)
    assert answer.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200")
    assert answer.endswith("GET /t host=None proxy=None")
    assert doors.heard() == (f"a process reached 127.0.0.1:{port} through the proxy (2 times)",)
    assert doors.heard() == ()
    await doors.close()


@pytest.mark.parametrize(
    ("granted", "target", "reason"),
    [
        (("example.org",), "example.com:443", "nobody granted"),
        (("example.org",), "evil.example.org:443", "nobody granted"),
        (("example.org",), "example.org.evil.com:443", "nobody granted"),
        (("*.example.org",), "example.org:443", "nobody granted"),
        (("*.example.org",), "badexample.org:443", "nobody granted"),
        (("example.org:443",), "example.org:22", "nobody granted"),
        (("example.org",), "127.0.0.1:80", "nobody granted"),
        (("127.0.0.1",), "127.0.0.1:80", "belongs to this machine"),
        (("127.0.0.1:81",), "127.0.0.1:80", "nobody granted"),
        (("169.254.169.254",), "169.254.169.254:80", "belongs to"),
        (("inner.example",), "inner.example:443", "belongs to a private network"),
        (("mixed.example",), "mixed.example:443", "belongs to this machine"),
        (("[::ffff:10.0.0.1]",), "[::ffff:10.0.0.1]:80", "belongs to a private network"),
        (("nowhere.example",), "nowhere.example:443", "cannot be resolved"),
    ],
)
async def test_what_was_not_granted_or_leads_inside_is_refused_with_the_reason_and_told_of(
    folder, granted, target, reason
):
    async def resolver(name: str, port: int) -> Sequence[str]:
        known = {"inner.example": ["10.1.2.3"], "mixed.example": ["127.0.0.1", "93.184.216.34"]}
        if name not in known:
            raise OSError("unknown")
        return known[name]

    doors = Doors(folder, resolver)
    answer = await asked(doors, granted, f"CONNECT {target} HTTP/1.1\n\n")
    assert answer.startswith("HTTP/1.1 403 Forbidden\r\n")
    assert reason in answer
    (told,) = doors.heard()
    assert told.startswith("the proxy refused a process ")
    assert reason in told
    await doors.close()


async def test_a_name_is_looked_up_once_and_the_checked_address_is_connected_to(folder, port):
    times: list[str] = []

    async def flipping(name: str, port: int) -> Sequence[str]:
        times.append(name)
        return ["127.0.0.1"] if len(times) == 1 else ["10.0.0.1"]

    doors, hosts = Doors(folder, flipping), ("flip.example", f"127.0.0.1:{port}")
    answer = await asked(doors, hosts, f"GET http://flip.example:{port}/ HTTP/1.1\n\n")
    assert "200 OK" in answer
    assert times == ["flip.example"]
    assert "403" in await asked(doors, hosts, f"GET http://flip.example:{port}/ HTTP/1.1\n\n")
    await doors.close()


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1",
        "GET https://example.com/ HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://user@example.com/ HTTP/1.1",
        "CONNECT example.com HTTP/1.1",
        "CONNECT 0x7f.1:80 HTTP/1.1",
        "CONNECT 2130706433:80 HTTP/1.1",
        "CONNECT example.com:99999 HTTP/1.1",
        "GET http://example.com/ HTTP/1.1\r\nA: b\nHost: c",
        "GET http://example.com/ HTTP/1.1\r\n .evil.example",
        "GET http://example.com/ HTTP/1.1\r\n\tHost: evil.example",
        "GET http://example.com/ HTTP/1.1\r\nA: b\r\n\x0bHost: evil.example",
        "GET http://example.com/ HTTP/1.1\r\nHost",
        "nonsense",
    ],
)
def test_what_can_be_read_in_two_ways_is_not_read(head):
    with pytest.raises(ValueError, match=r"."):
        read_request(head.encode() + b"\r\n\r\n")


@pytest.mark.parametrize("host", ["", "a b", "http://x", "example.com:x", "*.", "0x7f000001"])
async def test_what_is_no_host_is_not_granted(folder, host):
    with pytest.raises(ToolError):
        await Doors(folder).open((host,))


async def test_a_door_keeps_the_hosts_of_others_apart(folder, port):
    doors = Doors(folder)
    await doors.open((f"127.0.0.1:{port}",))
    assert "403" in await asked(doors, ("example.com",), f"GET http://127.0.0.1:{port}/ HTTP/1.1\n\n")
    await doors.close()


async def test_too_long_a_head_and_a_silent_client_hold_nothing_up(folder, monkeypatch):
    from windlass.tools.sandboxes import proxy

    monkeypatch.setattr(proxy, "HEAD_S", 0.05)
    doors = Doors(folder)
    assert await asked(doors, ("example.com",), "") == ""
    assert await asked(doors, ("example.com",), "GET " + "x" * 100_000) == ""
    await doors.close()


# --- from inside ---

FETCH = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:PORT/in', timeout=20).read().decode())"
AROUND = "import socket; s = socket.create_connection(('127.0.0.1', PORT), 2)"


@needs_bubblewrap
async def test_a_process_in_bubblewrap_reaches_what_was_granted_and_only_through_the_proxy(tmp_path, port):
    box = await BubblewrapSandboxes().open("s", str(tmp_path))
    access = Access(hosts=(f"127.0.0.1:{port}",))
    done = await box.run(script(FETCH.replace("PORT", str(port)), access=access))
    assert done.stdout.text == f"GET /in host=127.0.0.1:{port} proxy=None\n", done.stderr.text
    assert done.notices == (f"a process reached 127.0.0.1:{port} through the proxy",)
    around = await box.run(script(AROUND.replace("PORT", str(port)), access=access))
    assert "ConnectionRefusedError" in around.stderr.text
    without = await box.run(script(FETCH.replace("PORT", str(port))))
    assert "Connection refused" in without.stderr.text
    await box.close()


@needs_bubblewrap
async def test_a_process_in_bubblewrap_is_told_why_a_host_is_refused(tmp_path, port):
    box = await BubblewrapSandboxes().open("s", str(tmp_path))
    text = f"import urllib.request as r\ntry: r.urlopen('http://127.0.0.1:{port}/')\nexcept OSError as e: print(e, e.read().decode())"
    done = await box.run(script(text, access=Access(hosts=("example.org",))))
    assert "403" in done.stdout.text
    assert f"windlass: 127.0.0.1:{port} is not reached from this sandbox: nobody granted" in done.stdout.text
    assert done.notices == (f"the proxy refused a process 127.0.0.1:{port}: nobody granted this host to the process",)
    waits = await box.run(shell("sleep 0 & wait; echo all", access=Access(hosts=("example.org",)), timeout_ms=20_000))
    assert waits.stdout.text == "all\n"
    await box.close()
