"""A server with many sessions at work: does its memory grow, who is held up by clients that never read, how soon is a
command acknowledged.

    python -m benchmarks.served [--seconds 300] [--warm 120] [--sessions 200] [--mute 50]

The server is a process of its own over one SQLite file, with `normal` durability. Each session streams an answer of
1,000 deltas to one client, over `--seconds`. Before that it streams another over `--warm` seconds, of which nothing is
measured: what is kept for readers that come late (the last 1,024 deltas of a session) fills up then. `--mute` of the
clients ask for the stream and never read a byte, and ask again when they are let go. Meanwhile commands are sent to a
session beside them. Exits with 1 if a bound is missed. What it needs is `--seconds` and `--warm`, and a little more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

import windlass
from windlass.events.values.items import AssistantItem
from windlass.server.access.limits import Limits
from windlass.server.access.token_file import TokenFile
from windlass.server.http_server import HttpServer
from windlass.server.listener import listen_on_address
from windlass.testing.scripted import Pause, ScriptedModel, turn

DELTAS = 1_000
SLOPE_MB_MAX = 1.0
ACK_MS_MAX = 20.0
ROUNDS = 2
SAMPLE_S = 1.0
COMMAND_S = 0.25
REOPEN_S = 60.0
LATE_S = 60.0
"""How long behind the end of the answers readers are waited for."""
SENT_BYTES = 16 * 1024
"""What the kernel may keep for a connection: on loopback it would take whole answers for those who never read."""
BESIDE = "beside"


def talker(warm: float, seconds: float) -> windlass.Agent:
    """An agent whose first answer takes one time, and each that follows the other."""
    model = ScriptedModel([])
    pauses = [Pause(ms=max(1, round(whole * 1000 / DELTAS))) for whole in (warm, seconds)]
    words = [f"word {number} " for number in range(DELTAS)]
    answers = [[part for word in words for part in (word, pause)] for pause in pauses]

    def answer(request: Any) -> Any:
        model.requests.clear()
        return turn(*answers[any(isinstance(item, AssistantItem) for item in request.items)])

    model = ScriptedModel(answer)
    return windlass.Agent("talker", model=model, policy=windlass.ALLOW_ALL)


async def serve(folder: pathlib.Path, warm: float, seconds: float) -> None:
    """The server's side."""
    limits = Limits(rate=5_000, burst=20_000, streams_of_token=2_000, connections=4_000)
    tokens = TokenFile(folder / "tokens.json")
    listening = listen_on_address("127.0.0.1", 0)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
    agents = [talker(warm, seconds)]
    server = HttpServer(str(folder / "s.db"), agents, tokens, limits=limits, durability="normal", listening=listening)
    await server.open()
    print(server.url, flush=True)
    await server.run()


class Reader(msgspec.Struct):
    """What one client that reads was told."""

    deltas: int = 0
    records: int = 0
    answers: int = 0
    at: float = 0.0
    """When it was told something last."""
    gap_s: float = 0.0
    """The longest time in which it was told nothing."""


class Clients:
    """Everybody who asks the server."""

    def __init__(self, http: aiohttp.ClientSession, url: str, token: str) -> None:
        self._http = http
        self._url = url
        self._heads = {"Authorization": f"Bearer {token}"}

    async def post(self, path: str, body: dict[str, Any]) -> None:
        async with self._http.post(self._url + path, json=body, headers=self._heads) as answer:
            assert answer.status in (200, 201, 202), await answer.text()
            await answer.read()

    async def begin(self, session: str) -> None:
        await self.post("/v1/sessions", {"agent": "talker", "session_id": session})

    async def prompt(self, session: str) -> None:
        body = {"content": [{"type": "text", "text": "Talk."}]}
        await self.post(f"/v1/sessions/{session}/commands", {"type": "prompt.received", "body": body})

    async def read(self, session: str, seen: Reader) -> None:
        """Reads the stream of a session to the end of its run."""
        seen.at = time.monotonic()
        async with self._http.get(f"{self._url}/v1/sessions/{session}/events", headers=self._heads) as answer:
            async for line in answer.content:
                if not line.startswith(b"data: "):
                    continue
                now = time.monotonic()
                seen.gap_s, seen.at = max(seen.gap_s, now - seen.at), now
                event = msgspec.json.decode(line[6:])
                kind = event["event"]["type"] if "event" in event else event.get("type", "")
                seen.deltas += kind == "text.delta"
                seen.records += "seq" in event
                if kind == "run.completed":
                    seen.answers += 1
                    if seen.answers == ROUNDS:
                        return

    async def stay_mute(self, session: str) -> None:
        """Asks for the stream of a session and never reads it; again and again."""
        place = urlsplit(self._url)
        head = f"GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: {place.netloc}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in self._heads.items())
        while True:
            plain = socket.socket()
            plain.setblocking(False)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SENT_BYTES)
            await asyncio.get_running_loop().sock_connect(plain, (place.hostname, place.port))
            reader, writer = await asyncio.open_connection(sock=plain, limit=1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(f"{head}\r\n".encode())
            await asyncio.sleep(REOPEN_S)
            writer.transport.abort()
            del reader

    async def acknowledged(self, told: list[float]) -> None:
        """Sends commands to a session beside the others, and notes how long each takes, in milliseconds."""
        number = 0
        while True:
            number += 1
            command = {"type": "change.received", "change": {"what": "title", "title": f"title {number}"}}
            began = time.monotonic()
            await self.post(f"/v1/sessions/{BESIDE}/commands", command)
            told.append((time.monotonic() - began) * 1000)
            await asyncio.sleep(COMMAND_S)


def used_mb(pid: int) -> float:
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def sampled(pid: int, seconds: float, told: list[tuple[float, float]]) -> None:
    began = time.monotonic()
    while (at := time.monotonic() - began) < seconds:
        told.append((at, used_mb(pid)))
        await asyncio.sleep(SAMPLE_S)


async def measure(pid: int, clients: Clients, args: argparse.Namespace) -> bool:
    """Has everybody at it for the time that is given, and prints what came of it."""
    names = [f"s{number}" for number in range(args.sessions)]
    for name in (BESIDE, *names):
        await clients.begin(name)
    readers = {name: Reader() for name in names[args.mute :]}
    aside = [asyncio.ensure_future(clients.stay_mute(name)) for name in names[: args.mute]]
    reading = [asyncio.ensure_future(clients.read(name, seen)) for name, seen in readers.items()]
    await asyncio.gather(*map(clients.prompt, names))
    async with asyncio.timeout(args.warm + LATE_S):
        while not all(seen.answers for seen in readers.values()):
            await asyncio.sleep(SAMPLE_S)
    for seen in readers.values():
        seen.gap_s, seen.at = 0.0, time.monotonic()
    await asyncio.gather(*map(clients.prompt, names))
    acks: list[float] = []
    memory: list[tuple[float, float]] = []
    aside.append(asyncio.ensure_future(clients.acknowledged(acks)))
    began = time.monotonic()
    await sampled(pid, args.seconds, memory)
    late = await asyncio.wait(reading, timeout=LATE_S)
    took = time.monotonic() - began
    for task in (*aside, *late[1]):
        task.cancel()
    await asyncio.gather(*aside, *reading, return_exceptions=True)
    return report(list(readers.values()), acks, memory, took, args)


def report(
    readers: list[Reader], acks: list[float], memory: list[tuple[float, float]], took: float, args: argparse.Namespace
) -> bool:
    """Prints the figures. Whether all bounds hold."""
    slope = statistics.linear_regression([at for at, _ in memory], [mb for _, mb in memory]).slope * 60
    whole = sum(seen.answers == ROUNDS and seen.deltas == ROUNDS * DELTAS for seen in readers)
    ack = statistics.median(acks)
    gap = statistics.median(seen.gap_s for seen in readers)
    rows = [
        (f"memory, MB each minute (at most {SLOPE_MB_MAX:g})", f"{slope:.2f}", slope <= SLOPE_MB_MAX),
        ("memory at the beginning and the end, MB", f"{memory[0][1]:.0f} {memory[-1][1]:.0f}", True),
        (
            f"readers that saw all {ROUNDS * DELTAS:,} deltas and the end",
            f"{whole} of {len(readers)}",
            whole == len(readers),
        ),
        ("longest silence of a reader, median, s", f"{gap:.2f}", True),
        (f"command acknowledged, median ms (at most {ACK_MS_MAX:g})", f"{ack:.1f}", ack <= ACK_MS_MAX),
        ("command acknowledged, 99 in 100, ms", f"{statistics.quantiles(acks, n=100)[98]:.1f}", True),
        (f"time until all were done, s ({args.seconds:g} at best)", f"{took:.0f}", True),
    ]
    for what, said, is_well in rows:
        print(f"{what:58} {said:>14}  {'' if is_well else 'MISSED'}", flush=True)
    return all(is_well for _, _, is_well in rows)


async def run(args: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as name:
        words = [sys.executable, "-m", "benchmarks.served", "--serve", name]
        words += ["--warm", str(args.warm), "--seconds", str(args.seconds)]
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            url = (await process.stdout.readline()).decode().strip()
            token = TokenFile(f"{name}/tokens.json").first_path.read_text().strip()
            connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
            async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
                return await measure(process.pid, Clients(http, url, token), args)
        finally:
            process.kill()
            await process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--warm", type=float, default=120)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--mute", type=int, default=50)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(pathlib.Path(args.serve), args.warm, args.seconds))
        return 0
    return 0 if asyncio.run(run(args)) else 1


if __name__ == "__main__":
    sys.exit(main())
