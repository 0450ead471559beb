"""`windlass.connect` gives the sessions of a server, and they do what those of a store do."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

import windlass
from tests.server.support import clerk, serving
from windlass.events.base import Command
from windlass.events.errors import NotFound, StoreError
from windlass.events.live import Live
from windlass.runtime.streams.record import Record
from windlass.server.access.token_file import TokenFile
from windlass.store.remote.asker import Asker, Place
from windlass.store.remote.served_sessions import ServedSessions
from windlass.testing.scripted import ScriptedModel

from .support import Way, connected, way_to

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("answer", [b"<html>", b"{}", b"[]", b'{"agents": [{"name": "\xff"}]}', b"[" * 5000])
async def test_an_answer_that_is_none_of_ours_is_told_with_the_address(answer, status):
    async def say(request: web.BaseRequest) -> web.Response:
        return web.Response(body=answer, status=status)

    async with RawTestServer(say, host="127.0.0.1") as other:
        asker = Asker(Place(f"http://127.0.0.1:{other.port}"), {"default": "a token"})
        try:
            with pytest.raises(StoreError, match=f":{other.port}"):
                await ServedSessions(asker).agents("default")
        finally:
            await asker.close()


async def test_a_session_is_begun_prompted_approved_and_read_from_outside(tmp_path):
    async with serving(tmp_path, [clerk()]) as running, connected(running) as runtime:
        session = await runtime.session("clerk", "march", title="March", metadata={"who": "ada"})
        assert type(session) is windlass.Session
        told = [event async for event in session.prompt("Pay the invoice.")]
        assert isinstance(told[-1], windlass.RunAsked)
        assert any(isinstance(event, windlass.PermissionRequested) for event in told)
        result = await session.result()
        assert (result.status, result.text) == ("asked", "")
        (asked,) = await session.requests()
        await session.approve(asked)
        result = await session.result()
        assert (result.status, result.text) == ("completed", "It is paid.")
        (row,) = await runtime.sessions()
        assert (row.session, row.title, row.tenant, row.metadata) == ("march", "March", "default", {"who": "ada"})
        here = [record async for record in (await runtime.get("march")).records()]
        local = await running.server.tenants.runtime("default")
        there = [record async for record in (await local.get("march")).records()]
        assert here == there
        assert await session.cursor() == here[-1].cursor
        assert await session.state() == await (await local.get("march")).state()


async def test_deltas_come_live_and_in_their_place(tmp_path):
    agent = windlass.Agent("teller", model=ScriptedModel(["one two three four"]))
    async with serving(tmp_path, [agent]) as running, connected(running) as runtime:
        session = await runtime.session("teller", "march")
        told = [event async for event in session.prompt("Tell.")]
        live = [event for event in told if isinstance(event, windlass.TextDelta)]
        assert "".join(delta.text for delta in live) == "one two three four"
        replied = next(at for at, event in enumerate(told) if isinstance(event, windlass.ModelReplied))
        assert max(at for at, event in enumerate(told) if isinstance(event, windlass.TextDelta)) < replied


async def test_commands_are_recorded_under_the_name_of_the_token_whatever_a_client_says(tmp_path):
    async with serving(tmp_path, [clerk()]) as running, connected(running, "drive", "approve") as runtime:
        session = await runtime.session("clerk", "march")
        await session.prompt("Pay.", actor="the queen")
        await session.result()
        (asked,) = await session.requests()
        await session.approve(asked, actor="the queen", auth="token")
        assert (await session.result()).ok
        given = [record.event async for record in session.records() if isinstance(record.event, Command)]
        told = [(event.actor, event.auth) for event in given if event.command_id]
        assert told[-2:] == [("drive-approve-default", "token")] * 2
        assert "the queen" not in str(given)


async def test_a_role_that_is_not_enough_reads_and_does_nothing_else(tmp_path):
    async with serving(tmp_path, [clerk()]) as running, connected(running) as admin:
        theirs = await admin.session("clerk", "march")
        await theirs.prompt("Pay.")
        await theirs.result()
        before = [record async for record in theirs.records()]
        async with connected(running, "read") as reader, connected(running, "drive") as driver:
            (asked,) = await (await reader.get("march")).requests()
            with pytest.raises(windlass.UsageError, match="role 'drive'"):
                await (await reader.get("march")).prompt("Pay more.")
            with pytest.raises(windlass.UsageError, match="role 'approve'"):
                await (await driver.get("march")).approve(asked)
            with pytest.raises(windlass.UsageError, match="role 'admin'"):
                await (await driver.get("march")).erase(2, "because")
            with pytest.raises(windlass.UsageError, match="role 'drive'"):
                await reader.session("clerk", "april")
        assert [record async for record in theirs.records()] == before


async def test_what_is_refused_there_is_the_same_error_here(tmp_path):
    async with serving(tmp_path, [clerk()]) as running, connected(running) as runtime:
        with pytest.raises(windlass.UsageError, match="no agent 'cook' is served here"):
            await runtime.session("cook")
        with pytest.raises(NotFound, match="no session 'april'"):
            await runtime.get("april")
        with pytest.raises(windlass.UsageError, match=r"none of this process: name it, such as session\('clerk'\)"):
            await runtime.session(clerk(ask=False), "march")
        assert await runtime.sessions() == []
        with pytest.raises(windlass.UsageError, match="takes no workspace"):
            await runtime.session("clerk", workspace=tmp_path)
        session = await runtime.session("clerk", "march")
        await session.prompt("Pay.")
        await session.result()
        (asked,) = await session.requests()
        await session.deny(asked, "no")
        with pytest.raises(windlass.Refused) as refused:
            await session.approve(asked)
        assert refused.value.code == "not_open"
        with pytest.raises(windlass.UsageError, match="no cursor"):
            await anext(aiter(session.tail(after="nonsense")))


async def test_a_session_is_forked_erased_and_compared_from_outside(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running, connected(running) as runtime:
        session = await runtime.session("clerk", "march")
        await session.prompt("Pay.")
        assert (await session.result()).ok
        branch = await session.fork("retry")
        assert (await branch.state()).session_id == "retry"
        assert (await session.diff("retry")).same
        prompt = next([record.seq async for record in session.records() if "Pay." in str(record.event)].__iter__())
        await session.erase(prompt, "private")
        erased = [record.event async for record in session.records() if record.seq == prompt]
        assert "Pay." not in str(erased)


async def test_files_are_read_where_the_client_is(tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("the amount is 3")
    async with serving(tmp_path, [clerk(ask=False)]) as running, connected(running, "drive") as runtime:
        session = await runtime.session("clerk", "march")
        await session.prompt("Pay what it says.", attachments=[note])
        assert (await session.result()).ok
        assert "the amount is 3" in str([record.event async for record in session.records()])


async def test_a_stream_that_is_cut_off_behind_every_record_misses_none_and_tells_none_twice(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running, way_to(running.server.url) as way:
        async with connected(running, url=way.url) as runtime:
            session = await runtime.session("clerk", "march")
            seqs = []
            async for told in session.prompt("Pay.").tail():
                if isinstance(told, Record):
                    seqs.append(told.seq)
                    way.cut()
                else:
                    assert isinstance(told, Live)
            whole = [record.seq async for record in session.records()]
            assert seqs == [seq for seq in whole if seqs[0] <= seq <= seqs[-1]]
            assert (await session.result()).ok


class Killed:
    """A server in a process that can be killed and started again, over one store."""

    def __init__(self, folder: pathlib.Path) -> None:
        words = [sys.executable, "-m", "tests.server.kill_target", str(folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        self._pid = 0

    def start(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        word, pid, url = self._process.stdout.readline().split()
        assert word == "up"
        self._pid = int(pid)
        return url

    def kill(self) -> None:
        assert self._process.stdout is not None
        os.kill(self._pid, 9)
        assert self._process.stdout.readline() == "gone\n"

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


async def test_a_client_sees_a_server_killed_and_started_again_as_a_pause(tmp_path):
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.ensure_first(tenant="default", now_ms=0)
    server = Killed(tmp_path)
    try:
        async with way_to(await asyncio.to_thread(server.start)) as way:
            async with windlass.connect(way.url, token=tokens.first_path.read_text().strip()) as runtime:
                session = await runtime.session("reader", "march")
                seqs = []
                async for told in session.prompt("Read.").tail():
                    if isinstance(told, Record):
                        seqs.append(told.seq)
                        if len(seqs) in (3, 6):
                            await restarted(server, way)
                whole = [record.seq async for record in session.records()]
                assert seqs == [seq for seq in whole if seqs[0] <= seq <= seqs[-1]]
                assert (await session.result()).text == "Read."
        server.kill()
    finally:
        server.end()


async def restarted(server: Killed, way: Way) -> None:
    await asyncio.to_thread(server.kill)
    way.cut()
    way.target = await asyncio.to_thread(server.start)


async def test_a_server_on_a_unix_socket_is_reached_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a path of a socket is short, and this folder may lie deep
    async with serving(tmp_path, [clerk(ask=False)], socket_path="w.sock") as running:
        token = running.server.tokens.first_path.read_text().strip()
        async with windlass.connect("unix:w.sock", token=token) as runtime:
            session = await runtime.session("clerk", "march")
            await session.prompt("Pay.")
            assert (await session.result()).text == "It is paid."


async def test_a_token_is_taken_from_the_environment_and_a_wrong_one_is_said_at_once(tmp_path, monkeypatch):
    async with serving(tmp_path, [clerk()]) as running:
        monkeypatch.delenv("WINDLASS_TOKEN", raising=False)
        with pytest.raises(windlass.UsageError, match="WINDLASS_TOKEN"):
            windlass.connect(running.server.url)
        monkeypatch.setenv("WINDLASS_TOKEN", running.server.tokens.first_path.read_text().strip())
        async with windlass.connect(running.server.url) as runtime:
            assert await runtime.sessions() == []
        with pytest.raises(windlass.UsageError, match="this needs a token"):
            await windlass.connect(running.server.url, token="wl_wrong").start()


@pytest.mark.parametrize("url", ["", "march", "ftp://x", "http://", "unix:", "http://u:p@x", "http://x?token=1"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(windlass.UsageError):
        windlass.connect(url, token="wl_x")


async def test_nobody_there_is_a_store_error_after_a_while(monkeypatch):
    monkeypatch.setattr("windlass.store.remote.asker.PATIENCE_S", 0.0)
    with pytest.raises(StoreError, match="no server answers"):
        await windlass.connect("http://127.0.0.1:9", token="wl_x").start()


def test_connecting_loads_no_server_and_importing_no_client():
    script = (
        "import sys, windlass; assert not any(m in sys.modules for m in ('aiohttp', 'windlass.store.remote.asker'));"
        "windlass.connect('http://127.0.0.1:9', token='x');"
        "assert not any(m in sys.modules for m in ('starlette', 'uvicorn', 'windlass.server'))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


async def test_a_workflow_and_a_schedule_are_refused_at_once_and_nothing_is_left_there(tmp_path):
    from windlass.flows import Flow, spawn

    async with serving(tmp_path, [clerk()]) as running, connected(running) as runtime:
        with pytest.raises(windlass.UsageError, match="a workflow is not begun over a server"):
            await runtime.flow(Flow("march", [spawn("pay", clerk(), "Pay.")]))
        with pytest.raises(windlass.UsageError, match="a schedule is not begun over a server"):
            await runtime.schedule(clerk(), "daily", every=3_600, prompt="Pay.")
        assert await runtime.sessions() == []


async def test_an_agent_that_was_given_for_its_types_is_named_by_itself(tmp_path):
    mine = clerk()
    async with serving(tmp_path, [clerk()]) as running, connected(running, agents=[mine]) as runtime:
        session = await runtime.session(mine, "march")
        assert (await session.state()).setup.agent.name == "clerk"
