"""Clients that start their server themselves: served over their standard streams, killed, and back again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
from collections.abc import AsyncIterator
from typing import Any

from windlass.tools.processes.process_tree import is_alive

from .support import APPROVE, PATIENCE_S, People, exists, kinds, read, serve_words, stdio_client, told

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Raw:
    """A client that is nothing but bytes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._next = 1

    async def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        await self.process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = await self.process.stdout.readline()
        assert line, "the server has left"
        found: dict[str, Any] = json.loads(line)
        return found

    async def greet(self) -> None:
        await self.send(json.dumps(HELLO).encode())
        assert (await self.hear())["id"] == 1
        await self.send(json.dumps(READY).encode())

    async def begin(self, tool: str, **arguments: Any) -> int:
        """Calls a tool, and does not wait."""
        self._next += 1
        params = {"name": tool, "arguments": arguments}
        wish = {"jsonrpc": "2.0", "id": self._next, "method": "tools/call", "params": params}
        await self.send(json.dumps(wish).encode())
        return self._next

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The same, and what comes of it."""
        number = await self.begin(tool, **arguments)
        while (heard := await self.hear()).get("id") != number:
            continue
        return heard["result"]

    async def gone(self) -> int:
        """Waits until the process that we started has ended."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def raw(folder: pathlib.Path, *more: str) -> AsyncIterator[Raw]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *serve_words(folder, *more),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        limit=2**24,
        start_new_session=True,
        cwd=folder,
    )
    try:
        yield Raw(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def host_of(folder: pathlib.Path) -> int:
    """The process that a tool has begun in: the host behind the bridge."""
    return int((folder / "begun").read_text())


async def ended(pid: int) -> None:
    """Waits until a process is gone."""
    async with asyncio.timeout(PATIENCE_S):
        while is_alive(pid):
            await asyncio.sleep(0.02)


async def test_a_client_that_is_killed_with_its_group_leaves_a_run_that_goes_on_and_the_next_one_finds_it(tmp_path):
    async with raw(tmp_path) as first:
        await first.greet()
        await first.begin("agent_reader", prompt="Read.", session_id="long", key="k1")
        await exists(tmp_path / "begun")
        os.killpg(first.process.pid, signal.SIGKILL)
        await first.gone()
    async with stdio_client(tmp_path) as second:
        still = told(await second.call_tool("wait", {"session_id": "long", "wait_s": 0}))
        assert still["status"] == "running"
        (tmp_path / "go").touch()
        done = told(await second.call_tool("agent_reader", {"prompt": "Read.", "session_id": "long", "key": "k1"}))
        assert (done["status"], done["text"]) == ("completed", "Read.")
        log = await read(second, "windlass://sessions/long/log")
    assert [kinds(log).count(kind) for kind in ("prompt.received", "tool.started", "run.completed")] == [1, 1, 1]
    await ended(host_of(tmp_path))


async def test_a_server_that_is_killed_in_the_middle_is_started_again_and_nothing_is_lost_or_doubled(tmp_path):
    wish = {"prompt": "Read.", "session_id": "long", "key": "k1"}
    async with raw(tmp_path) as first:
        await first.greet()
        await first.begin("agent_reader", **wish)
        await exists(tmp_path / "begun")
        os.kill(host_of(tmp_path), signal.SIGKILL)
        assert await first.gone() == 1
    (tmp_path / "go").touch()
    people = People(APPROVE)
    async with stdio_client(tmp_path, mode="legacy", people=people) as second:
        again = told(await second.call_tool("agent_reader", wish))
        assert (again["status"], again["text"]) == ("completed", "Read.")
        log = await read(second, "windlass://sessions/long/log")
        paid = told(await second.call_tool("agent_clerk", {"prompt": "Pay.", "session_id": "march"}))
        assert paid["text"] == "It is paid."
    assert [kinds(log).count(kind) for kind in ("prompt.received", "run.completed", "tool.finished")] == [1, 1, 1]
    (asked,) = people.asked
    assert '"amount": 3' in asked.message


async def test_garbage_is_answered_as_such_and_harms_nobody(tmp_path):
    deep = b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    bad = [
        b"no JSON at all",
        b"\xff\xfe\x00",
        b'{"jsonrpc": "2.0", "id": 4',
        b'[{"jsonrpc": "2.0", "id": 4, "method": "ping"}]',
        b'{"jsonrpc": "2.0", "id": 4, "id": 5, "method": "ping"}',
        b'{"jsonrpc": "1.0", "id": 4, "method": "ping"}',
        deep,
        b'{"jsonrpc": "2.0", "id": 4, "method": "' + b"x" * 3_000_000 + b'"}',
    ]
    async with raw(tmp_path) as client:
        await client.greet()
        for line in bad:
            await client.send(line)
            heard = await client.hear()
            assert heard["error"]["code"] in (-32700, -32600), (line[:80], heard)
            assert heard.get("id") is None
        # What is no answer to anything of ours, what nobody has asked, and what there is not.
        await client.send(b"", b'{"jsonrpc": "2.0", "id": 99, "result": {}}')
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12345}}
        await client.send(json.dumps(cancelled).encode())
        await client.send(b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}')
        heard = await client.hear()
        assert (heard["id"], heard["error"]["code"]) == (7, -32601)
        refused: list[tuple[str, dict[str, Any], str]] = [
            ("no_such", {}, "no_tool"),
            ("wait", {"session_id": "nobody"}, "not_found"),
            ("wait", {"session_id": "../../etc/passwd"}, "usage"),
            ("wait", {"session_id": "x" * 5_000}, "usage"),
            ("wait", {"session_id": 3}, "malformed"),
            ("wait", {"session_id": "m", "wait_s": -1}, "malformed"),
            ("wait", {"session_id": "m", "surprise": 1}, "malformed"),
            ("agent_clerk", {"prompt": "Pay.", "key": "a:b"}, "usage"),
            ("read_log", {"session_id": "nobody", "after": "c1.1.x"}, "not_found"),
        ]
        for tool, arguments, code in refused:
            result = await client.call(tool, **arguments)
            assert (result["isError"], result["structuredContent"]["code"]) == (True, code), (tool, arguments, result)
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert await client.gone() == 0


async def test_a_file_that_cannot_be_served_is_told_of_and_ends_the_server(tmp_path):
    async with raw(tmp_path, "nothing.py") as client:
        assert client.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            said = await client.process.stderr.read()
        assert b"there is no file 'nothing.py'" in said
        assert await client.gone() == 2
