"""`windlass handoff`: what it prints and what it refuses. What becomes of the session is tried in
`tests/server/test_handoff.py`."""

from __future__ import annotations

import asyncio
import os
import pathlib

import windlass
from tests.server.support import clerk, serving
from windlass.cli.main import main

from .screens import proves
from .terminal import PROGRAM

TOKEN = "WINDLASS_TO_TOKEN"
WAIT_S = 200


async def asking(folder: pathlib.Path) -> None:
    """A session `march` that asks for a permission, driven by nobody."""
    agent = clerk()
    async with windlass.open(str(folder / "here.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Pay the invoice.")
        assert (await session.result()).status == "asked"


async def ran(folder: pathlib.Path, token: str, *words: str) -> tuple[int, str, str]:
    environ = {**os.environ, TOKEN: token}
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "handoff",
        *words,
        "--store",
        "here.db",
        cwd=folder,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(WAIT_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@proves("handoff", "normal")
async def test_it_says_where_the_session_goes_on_and_when_it_had_arrived_before(tmp_path):
    await asking(tmp_path)
    (tmp_path / "there").mkdir()
    async with serving(tmp_path / "there", [clerk()]) as running:
        url, token = running.server.url, str(running.client().token)
        goes_on = f"march goes on as march at {url}"
        assert await ran(tmp_path, token, "march", url) == (0, f"handed over: {goes_on}\n", "")
        assert await ran(tmp_path, token, "march", url) == (0, f"had arrived before: {goes_on}\n", "")


@proves("handoff", "empty")
async def test_a_session_that_is_not_there_is_not_handed_over(tmp_path, monkeypatch, capsys):
    await asking(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TOKEN, "a-token")
    code = await asyncio.to_thread(main, ["handoff", "april", "http://127.0.0.1:9", "--store", "here.db"])
    assert (code, "april" in capsys.readouterr().err) == (2, True)


@proves("handoff", "error")
async def test_without_a_token_of_the_server_it_says_where_one_is_expected(tmp_path, monkeypatch, capsys):
    await asking(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(TOKEN, raising=False)
    code = await asyncio.to_thread(main, ["handoff", "march", "http://127.0.0.1:9", "--store", "here.db"])
    assert (code, f"set {TOKEN}" in capsys.readouterr().err) == (2, True)
