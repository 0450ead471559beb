"""The remote worker over real HTTP on loopback: who may ask, what runs once, and that nothing goes on for nobody."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

import windlass
from tests.runtime.support import agent_of, events_of, only, sound
from tests.sandboxes.programs import flooded
from windlass.events.errors import UsageError
from windlass.events.tools.calls import ToolFinished
from windlass.testing.scripted import call
from windlass.tools.context import ToolError
from windlass.tools.sandboxes.local import LocalSandboxes
from windlass.tools.sandboxes.remote import client, remote_runs, server
from windlass.tools.sandboxes.remote.client import RemoteSandbox, RemoteSandboxes
from windlass.tools.sandboxes.remote.server import WorkerServer
from windlass.tools.sandboxes.sandbox import Output, Process, ProcessResult

TOKEN = "a-token-for-tests-only"
PATIENCE_S = 60.0


@contextlib.asynccontextmanager
async def worker(root: pathlib.Path, **more: Any) -> AsyncIterator[WorkerServer]:
    server = WorkerServer(root, TOKEN, LocalSandboxes(), **more)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def opened(root: pathlib.Path, **more: Any) -> AsyncIterator[tuple[WorkerServer, RemoteSandbox]]:
    async with worker(root) as server:
        box = await RemoteSandboxes(server.url, TOKEN, **more).open("s", None)
        try:
            yield server, box
        finally:
            await box.close()


def shell(text: str, **more: Any) -> Process:
    return Process(argv=("/bin/sh", "-c", text), **more)


async def until(reached: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not reached():
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


HANGS = "echo $$ > pid.part; mv pid.part pid; sleep 600"


async def pid_in(folder: pathlib.Path) -> int:
    await until((folder / "pid").exists)
    return int((folder / "pid").read_text())


# --- a sandbox like any other ---


async def test_processes_and_files_are_those_of_the_other_machine(tmp_path):
    async with opened(tmp_path) as (_, box):
        ran = await box.run(shell("cat; echo err >&2; pwd > where; exit 3", stdin=b"\xffin", env={"A": "b"}))
        assert ran == ProcessResult(
            exit_code=3, stdout=Output(head=b"\xffin", size=3), stderr=Output(head=b"err\n", size=4)
        )
        assert (tmp_path / "where").read_text().strip() == str(tmp_path.resolve())
        large = os.urandom(3_000_000)
        await box.write("a.bin", large)
        assert await box.read("a.bin") == large
        assert (await box.run(shell("wc -c", stdin=large))).stdout.text.split() == ["3000000"]
        assert await box.list() == ("a.bin", "where")
        about = await box.capabilities()
        assert (about.name, about.jobs, about.confines_files) == ("remote-local", False, False)
        with pytest.raises(ToolError, match="the program 'nothing-like-this' cannot be run"):
            await box.run(Process(argv=("nothing-like-this",)))
        with pytest.raises(ToolError):
            await box.read("../outside")
        late = await box.run(shell("sleep 600", timeout_ms=200))
        assert late.timed_out


async def test_what_a_process_writes_is_told_while_it_runs(tmp_path):
    seen: list[tuple[int, bytes]] = []

    def heard(stream: int, data: bytes) -> None:
        seen.append((stream, data))
        (tmp_path / "go").touch()

    async with opened(tmp_path) as (_, box):
        words = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second >&2"
        assert (await box.run(shell(words), heard)).stdout.head == b"first\n"
    assert seen == [(1, b"first\n"), (2, b"second\n")]


async def test_sessions_may_have_a_folder_each_beneath_the_root(tmp_path):
    async with worker(tmp_path) as server:
        kind = RemoteSandboxes(server.url, TOKEN, own_folders=True)
        one, two = await kind.open("one", "/some/folder/here"), await kind.open("two", None)
        await one.write("mine", b"1")
        assert (await one.list(), await two.list()) == (("mine",), ())
        again = await kind.open("one", None)
        assert await again.list() == ("mine",)
        for box in (one, two, again):
            await box.close()
        outside = await RemoteSandboxes(server.url, TOKEN, folder="../..").open("s", None)
        with pytest.raises(ToolError):
            await outside.list()
        await outside.close()


async def test_an_agent_works_on_another_machine(tmp_path):
    @windlass.tool(contract="pure")
    async def shell_tool(ctx: windlass.ToolContext, text: str) -> str:
        "Run a line of shell."
        return (await ctx.run(["/bin/sh", "-c", text], live=True)).stdout.text

    agent = agent_of(call("shell_tool", text="echo hi > made; pwd"), "done", tools=[shell_tool])
    async with worker(tmp_path) as server:
        remote = RemoteSandboxes(server.url, TOKEN)
        async with windlass.open(agents=[agent], sandbox=remote) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("go")
            assert (await session.result()).text == "done"
            (finished,) = only(await events_of(session), ToolFinished)
            assert finished.body.content[0].text.strip() == str(tmp_path.resolve())
            await sound(session)
    assert (tmp_path / "made").read_text() == "hi\n"


# --- who may ask ---


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": f"Bearer {TOKEN}", "host": "evil.example"}, 403),
        ({"authorization": f"Bearer {TOKEN}", "host": "evil.example:80"}, 403),
        ({"authorization": f"Bearer {TOKEN}", "host": ""}, 403),
        ({"authorization": f"Bearer {TOKEN}", "origin": "http://127.0.0.1"}, 403),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer {TOKEN}", "host": "localhost:1"}, 200),
    ],
)
async def test_every_route_needs_the_token_this_host_and_no_browser(tmp_path, headers, status):
    routes = [
        *[("GET", path) for path in ("/v1/health", "/v1/sandboxes/a/capabilities", "/v1/sandboxes/a/file", "/", "/x")],
        *[("PUT", path) for path in ("/v1/sandboxes/a", "/v1/sandboxes/a/file?path=made")],
        *[("DELETE", path) for path in ("/v1/sandboxes/a", "/v1/sandboxes/a/runs/b")],
        ("POST", "/v1/sandboxes/a/runs/b"),
    ]
    async with worker(tmp_path) as server, aiohttp.ClientSession() as http:
        for method, path in routes:
            async with http.request(method, server.url + path, headers=headers, data=b'{"session":"s"}') as response:
                seen = response.status
                assert response.headers.get("access-control-allow-origin") is None
            if status != 200:
                assert seen == status, path
            else:
                assert seen not in (401, 403), path
    assert os.listdir(tmp_path) == ([] if status != 200 else ["made"])


@pytest.mark.parametrize(
    ("method", "path", "data", "status"),
    [
        ("PUT", "/v1/sandboxes/a%2Fb", b'{"session":"s"}', 400),
        ("PUT", "/v1/sandboxes/" + "a" * 200, b'{"session":"s"}', 400),
        ("PUT", "/v1/sandboxes/ok", b"no json", 400),
        ("PUT", "/v1/sandboxes/ok", b'{"session":"s","folder":"../.."}', 422),
        ("PUT", "/v1/sandboxes/held/file?path=big", bytes(33 * 1024 * 1024), 413),
        ("POST", "/v1/sandboxes/held/runs/r", b'{"argv":[]}', 400),
        ("POST", "/v1/sandboxes/held/runs/r", b'{"argv":["a\\u0000b"]}', 400),
        ("POST", "/v1/sandboxes/held/runs/r", b'{"argv":["true"],"timeout_ms":-1}', 400),
        ("POST", "/v1/sandboxes/nobody/runs/r", b'{"argv":["true"]}', 410),
        ("GET", "/v1/sandboxes/held/file?path=../x", b"", 422),
        ("PATCH", "/v1/sandboxes/held", b"", 405),
    ],
)
async def test_what_is_no_request_is_refused_with_a_reason(tmp_path, method, path, data, status):
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with worker(tmp_path) as server, aiohttp.ClientSession(headers=headers) as http:
        async with http.put(server.url + "/v1/sandboxes/held", data=b'{"session":"s"}') as response:
            assert response.status == 200
        async with http.request(method, server.url + path, data=io.BytesIO(data)) as response:
            assert response.status == status
            assert (await response.json())["message"]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "wrong", [("ftp://x", TOKEN), ("127.0.0.1", TOKEN), ("http://x", "short"), ("http://x", "é" * 20)]
)
def test_an_address_or_a_token_that_cannot_be_is_refused(tmp_path, wrong):
    with pytest.raises(UsageError):
        RemoteSandboxes(*wrong)
    with pytest.raises(UsageError):
        WorkerServer(tmp_path, "short", LocalSandboxes())


async def test_a_wrong_token_is_said_so(tmp_path):
    async with worker(tmp_path) as server:
        box = await RemoteSandboxes(server.url, TOKEN + "x").open("s", None)
        with pytest.raises(ToolError, match="does not know this token"):
            await box.run(shell("true"))
        await box.close()


# --- once, and for somebody ---


class Flaky:
    """A way to the worker that can be cut, and counts who came by."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cut_after: int | None = None
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.sleep(0)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, inner_writer}
        try:
            await asyncio.gather(self._pump(reader, inner_writer, False), self._pump(inner_reader, writer, True))
        finally:
            self._writers -= {writer, inner_writer}
            for each in (writer, inner_writer):
                each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if answers and self.cut_after is not None:
                    if self.cut_after == 0:
                        self.cut_after = None
                        self.cut()
                        return
                    self.cut_after -= 1
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()


@pytest.mark.parametrize("answers", [0, 1])
async def test_a_request_that_is_sent_again_does_not_run_twice(tmp_path, answers):
    """The connection is cut after the process began: before its answer begins (0), and in the middle of it (1)."""
    async with worker(tmp_path) as server:
        flaky = Flaky(server.port)
        box = await RemoteSandboxes(await flaky.start(), TOKEN).open("s", None)
        assert await box.list() == ()  # the sandbox is open
        flaky.cut_after = answers
        words = shell("echo x >> ran; echo begun; while [ ! -e go ]; do sleep 0.01; done; echo done")
        running = asyncio.ensure_future(box.run(words))
        await until((tmp_path / "ran").exists)
        await until(lambda: flaky.connections >= 2)
        (tmp_path / "go").touch()
        assert (await running).stdout.head == b"begun\ndone\n"
        assert (tmp_path / "ran").read_text() == "x\n"
        await box.close()
        await flaky.close()


async def test_a_process_that_nobody_watches_any_more_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_runs, "LINGER_S", 0.1)
    async with worker(tmp_path) as server:
        flaky = Flaky(server.port)
        box = await RemoteSandboxes(await flaky.start(), TOKEN).open("s", None)
        monkeypatch.setattr(client, "ATTEMPTS", 1)
        running = asyncio.ensure_future(box.run(shell(HANGS)))
        pid = await pid_in(tmp_path)
        flaky.cut()
        with pytest.raises(ToolError, match="lost the process") as raised:
            await running
        assert raised.value.code == "worker_lost"
        await until(lambda: not alive(pid))
        await box.close()
        await flaky.close()


async def test_a_process_that_is_given_up_is_gone_when_that_is_through(tmp_path):
    async with opened(tmp_path) as (_, box):
        running = asyncio.ensure_future(box.run(shell("trap '' TERM INT; setsid sleep 600 & " + HANGS)))
        pid = await pid_in(tmp_path)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not alive(pid)


async def test_closing_a_sandbox_ends_what_runs_in_it(tmp_path):
    async with opened(tmp_path) as (_, box):
        running = asyncio.ensure_future(box.run(shell(HANGS)))
        pid = await pid_in(tmp_path)
        await box.close()
        assert not alive(pid)
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_one_name_is_one_process(tmp_path):
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with worker(tmp_path) as server, aiohttp.ClientSession(headers=headers) as http:
        async with http.put(server.url + "/v1/sandboxes/a", data=b'{"session":"s"}'):
            pass
        run = server.url + "/v1/sandboxes/a/runs/r"
        answers = []
        for _ in range(2):
            async with http.post(run, data=b'{"argv":["sh","-c","echo x >> ran; echo hi"]}') as response:
                answers.append((await response.text()).splitlines()[-1])
        assert answers[0] == answers[1]
        assert (tmp_path / "ran").read_text() == "x\n"
        async with http.post(run, data=b'{"argv":["sh","-c","another"]}') as response:
            assert (response.status, (await response.json())["code"]) == (409, "taken")


async def test_a_worker_that_was_started_anew_runs_nothing_a_second_time(tmp_path):
    async with worker(tmp_path) as first:
        port = first.port
        box = await RemoteSandboxes(first.url, TOKEN).open("s", None)
        running = asyncio.ensure_future(box.run(shell("echo x >> ran; " + HANGS)))
        await pid_in(tmp_path)
    async with worker(tmp_path, port=port):
        with pytest.raises(ToolError) as raised:
            await running
        assert raised.value.code in ("worker_lost", "cancelled")
        assert (tmp_path / "ran").read_text() == "x\n"
        # What had not begun before is no matter: the sandbox is opened anew.
        assert (await box.run(shell("echo again"))).stdout.head == b"again\n"
        await box.close()


async def test_a_worker_that_is_not_there_is_said_so(monkeypatch, tmp_path):
    monkeypatch.setattr(client, "PAUSE_S", 0.001)
    async with worker(tmp_path) as server:
        url = server.url
    box = await RemoteSandboxes(url, TOKEN).open("s", None)
    for ask in (box.run(shell("true")), box.list(), box.capabilities()):
        with pytest.raises(ToolError, match=f"the worker at {re.escape(url)} cannot be reached") as raised:
            await ask
        assert raised.value.code == "worker_unreachable"
    await box.close()
    await box.close()


async def test_one_that_reads_slowly_does_not_make_the_worker_grow(tmp_path):
    async with opened(tmp_path) as (_, box):
        flood = await flooded(box, Process(argv=("yes",), output_bytes_max=1_000), lambda *_: None)
        assert len(flood.stdout.head) + len(flood.stdout.tail) == 1_000 < flood.stdout.size


# --- the verb ---


@contextlib.contextmanager
def started(tmp_path: pathlib.Path) -> Any:
    words = ["worker", "--root", str(tmp_path), "--token-file", str(tmp_path.parent / f"{tmp_path.name}.token")]
    child = subprocess.Popen([sys.executable, "-m", "windlass.cli.main", *words], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield child, child.stdout.readline().split()[-1], pathlib.Path(words[-1]).read_text().strip()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_verb_offers_a_folder_and_ends_everything_with_itself(tmp_path, number):
    with started(tmp_path) as (child, url, token):
        assert (tmp_path.parent / f"{tmp_path.name}.token").stat().st_mode & 0o777 == 0o600

        async def through() -> int:
            box = await RemoteSandboxes(url, token).open("s", None)
            assert (await box.run(shell("echo hi"))).stdout.head == b"hi\n"
            running = asyncio.ensure_future(box.run(shell("setsid sleep 600 & " + HANGS)))
            pid = await pid_in(tmp_path)
            child.send_signal(number)
            with pytest.raises(ToolError) as raised:
                await running
            assert raised.value.code in ("worker_lost", "cancelled")
            await until(lambda: not alive(pid))
            await box.close()
            return pid

        asyncio.run(through())
        assert child.wait(PATIENCE_S) == (0 if number == signal.SIGTERM else -9)


RUNTIME = """
import asyncio, sys
from windlass.tools.sandboxes.remote.client import RemoteSandboxes
from windlass.tools.sandboxes.sandbox import Process

async def main():
    box = await RemoteSandboxes(sys.argv[1], sys.argv[2]).open("s", None)
    await box.run(Process(argv=("/bin/sh", "-c", sys.argv[3])))

asyncio.run(main())
"""


def test_a_runtime_that_is_killed_leaves_nothing_on_the_other_machine(tmp_path):
    with started(tmp_path) as (_, url, token):
        runtime = subprocess.Popen([sys.executable, "-c", RUNTIME, url, token, HANGS])
        pid = asyncio.run(pid_in(tmp_path))
        runtime.kill()
        runtime.wait()
        asyncio.run(until(lambda: not alive(pid)))


def test_a_token_that_others_can_read_is_refused(tmp_path):
    token = tmp_path / "token"
    token.write_text("x" * 40)
    token.chmod(0o644)
    words = ["worker", "--root", str(tmp_path), "--token-file", str(token)]
    done = subprocess.run(
        [sys.executable, "-m", "windlass.cli.main", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert f"others can read the token: chmod 600 {token}" in done.stderr


async def test_a_worker_that_falls_silent_is_lost_after_the_bound_however_often_it_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "SILENCE_LEAST_S", 0.1)
    monkeypatch.setattr(server, "BEAT_S", 0.05)
    silent, real = asyncio.Event(), remote_runs.Watcher.next

    async def next_or_nothing(self: remote_runs.Watcher, within_s: float) -> Any:
        if silent.is_set():
            await asyncio.sleep(600)
        return await real(self, within_s)

    monkeypatch.setattr(remote_runs.Watcher, "next", next_or_nothing)
    async with opened(tmp_path, silence_s=2.0) as (_, box):
        running = asyncio.ensure_future(box.run(shell(HANGS)))
        pid = await pid_in(tmp_path)
        loop = asyncio.get_running_loop()
        began = loop.time()
        silent.set()
        with pytest.raises(ToolError, match="the worker lost the process"):
            await running
        assert loop.time() - began < 2 * 2.0  # an attempt after the other would take four times the bound
    await until(lambda: not alive(pid))


def test_a_bound_below_the_signs_of_life_is_refused():
    with pytest.raises(UsageError, match="at least 15"):
        RemoteSandboxes("http://127.0.0.1:1", TOKEN, silence_s=5)
