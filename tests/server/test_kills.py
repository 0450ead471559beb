"""kill -9 of a server with clients attached, and two servers on one store: whoever reconnects sees each committed event
once, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import random
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from windlass.server.access.token_file import TokenFile

from .support import PROMPT, Client, clerk, serving

ROOT = pathlib.Path(__file__).parent.parent.parent
GONE = (aiohttp.ClientError, ConnectionError, AssertionError, TimeoutError)
"""What a client meets whose server dies: no answer, half of one, or a stream that ends."""
AGAIN_S = 0.01
CLIENTS = 3


class Killed:
    """A process that forks servers to be killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = 0
        self.url = ""

    async def start(self) -> None:
        """Has a server come up."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        word, pid, self.url = await self._line()
        assert word == "up"
        self.pid = int(pid)

    async def kill(self) -> None:
        """Kills it, and waits until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        assert await self._line() == ["gone"]

    async def _line(self) -> list[str]:
        assert self._process.stdout is not None
        async with asyncio.timeout(300):
            return (await self._process.stdout.readline()).decode().split()


@contextlib.asynccontextmanager
async def killable(folder: pathlib.Path) -> AsyncIterator[Killed]:
    words = (sys.executable, "-m", "tests.server.kill_target", str(folder))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdin=pipe, stdout=pipe)
    target = Killed(process)
    try:
        yield target
    finally:
        if target.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target.pid, signal.SIGKILL)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(300):
            await process.wait()


class Talker:
    """A client that begins sessions, prompts them and follows them, whatever happens to the server."""

    def __init__(self, name: str, target: Killed, http: aiohttp.ClientSession, token: str) -> None:
        self.name = name
        self._target = target
        self._http = http
        self._token = token
        self.acknowledged: dict[str, str] = {}
        """The key of the prompt that each session has acknowledged."""
        self.seen: dict[str, list[dict[str, Any]]] = {}
        """The records of each session, as they came, over all connections."""
        self.cuts = 0
        self.stopping = False

    def client(self) -> Client:
        return Client(self._http, self._target.url, self._token)

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            number += 1
            session = f"{self.name}{number}"
            self.seen[session] = []
            await self.until_done(self.begin, session)
            await asyncio.gather(self.until_done(self.follow, session), self.until_done(self.prompt, session))

    async def until_done(self, step: Any, session: str) -> None:
        """Does something again and again until it was answered."""
        while True:
            try:
                await step(session)
                return
            except GONE:
                self.cuts += 1
                await asyncio.sleep(AGAIN_S)

    async def begin(self, session: str) -> None:
        await self.client().begin(session, "reader")

    async def prompt(self, session: str) -> None:
        key = f"key-{session}"
        await self.client().post(f"/v1/sessions/{session}/commands", PROMPT, key)
        self.acknowledged[session] = key

    async def follow(self, session: str) -> None:
        seen = self.seen[session]
        async with self.client().stream(session, seen[-1]["cursor"] if seen else None) as stream:
            while not seen or seen[-1]["event"]["type"] != "run.completed":
                seen.append(await stream.record())
                if seen[-1]["event"]["type"] == "run.failed":
                    raise RuntimeError(f"{session} was given up: {seen[-1]['event']}")


async def survived(folder: pathlib.Path, kills: int, seed: int) -> None:
    """Kills a server so many times at moments that a seed decides, and looks at what is left."""
    chance = random.Random(seed)
    tokens = TokenFile(folder / "tokens.json")
    tokens.ensure_first(tenant="default", now_ms=0)
    token = tokens.first_path.read_text().strip()
    async with (
        killable(folder) as target,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as http,
    ):
        await target.start()
        talkers = [Talker(f"{name}-", target, http, token) for name in "abcdefgh"[:CLIENTS]]
        talking = [asyncio.ensure_future(talker.run()) for talker in talkers]
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.0, 0.15))
            await target.kill()
            await target.start()
        for talker in talkers:
            talker.stopping = True
        await asyncio.gather(*talking)
        client = Client(http, target.url, token)
        for talker in talkers:
            assert talker.acknowledged.keys() == talker.seen.keys()
            for session, key in talker.acknowledged.items():
                await check(client, session, key, talker.seen[session])
        assert sum(talker.cuts for talker in talkers) >= kills, "the kills met nobody"
        await target.kill()
        target.pid = 0


async def check(client: Client, session: str, key: str, seen: list[dict[str, Any]]) -> None:
    """What was accepted is in the log once, and what a client saw is the log."""
    log = await client.records(session)
    prompts = [one["event"]["command_id"] for one in log if one["event"]["type"] == "prompt.received"]
    assert prompts == [key]
    assert seen == log[: len(seen)]
    assert [one["event"]["type"] for one in log].count("run.completed") == 1
    verdict = await client.get(f"/v1/sessions/{session}/verify")
    assert (verdict["sound"], verdict["problems"]) == (True, [])


@pytest.mark.guard(900)
async def test_clients_survive_two_hundred_kills_of_their_server(tmp_path):
    await survived(tmp_path, kills=200, seed=7)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
async def test_clients_survive_many_kills_of_their_server(tmp_path, seed):
    await survived(tmp_path, kills=400, seed=seed)


async def test_two_servers_share_a_store_and_one_takes_over_what_a_killed_one_left(tmp_path):
    async with killable(tmp_path) as target, serving(tmp_path, [clerk()]) as running:
        await target.start()
        here = running.client()
        there = Client(here.http, target.url, here.token)
        for session in ("shared", "left"):
            await there.begin(session)
        async with here.stream("shared") as stream:
            assert (await here.prompt("shared", "k1"))["command_id"] == "k1"
            await stream.until("permission.requested")
            asked = await here.asked("shared")
            answer = {"decision": "approve", "digest": asked["digest"]}
            await here.post(f"/v1/sessions/shared/requests/{asked['request_id']}", answer)
            await stream.until("run.completed")
        late = await there.ask("POST", f"/v1/sessions/shared/requests/{asked['request_id']}", json=answer)
        assert (late.status, late.json["code"]) == (409, "not_open")
        assert "first" in late.json["detail"]
        logs = [await client.records("shared") for client in (here, there)]
        assert logs[0][:20] == logs[1][:20]

        await there.prompt("left", "k2")
        asked = await there.asked("left")
        async with here.stream("left") as stream:
            await stream.until("permission.requested")
            await target.kill()
            target.pid = 0
            answer = {"decision": "approve", "digest": asked["digest"]}
            await here.post(f"/v1/sessions/left/requests/{asked['request_id']}", answer)
            await stream.until("run.completed")
