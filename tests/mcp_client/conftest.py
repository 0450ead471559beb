"""What the tests of MCP servers share: a place for records of trust that is nobody's, and a server to be asked."""

from __future__ import annotations

import asyncio
import pathlib
import sys
from typing import Any

import pytest

from windlass.mcp.config import Mcp
from windlass.mcp.server import McpServer
from windlass.tools.processes.process_tree import is_alive

STRANGE = str(pathlib.Path(__file__).with_name("strange_server.py"))
PATIENCE_S = 240.0
PATIENT_MS = 240_000
"""How long a server may take to start where a test is not about that: the machine may be busy."""


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Records of trust are kept where no other test looks."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def patient(*servers: McpServer, **more: Any) -> Mcp:
    """Servers that a prompt waits for however long they take."""
    return Mcp(servers=servers, wait_ms=PATIENT_MS, **more)


class Strange:
    """The strange server's folder: what it is told, and what it leaves."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def server(self, **more: object) -> McpServer:
        """The server, as it is configured."""
        given: dict[str, Any] = {"args": ("-S", STRANGE, str(self.folder)), "start_timeout_ms": PATIENT_MS, **more}
        return McpServer(name="strange", command=sys.executable, **given)

    def tell(self, name: str, text: str = "") -> None:
        (self.folder / name).write_text(text)

    def untell(self, name: str) -> None:
        (self.folder / name).unlink()

    def notes(self, what: str) -> list[str]:
        """The lines that it left which begin like this."""
        notes = self.folder / "notes"
        found = notes.read_text().splitlines() if notes.exists() else []
        return [line for line in found if line.startswith(what)]

    async def noted(self, what: str, times: int = 1) -> list[str]:
        """Waits until it has left such a line."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.notes(what)) < times:
                await asyncio.sleep(0.01)
        return found


@pytest.fixture
def strange(tmp_path: pathlib.Path) -> Strange:
    folder = tmp_path / "strange"
    folder.mkdir()
    return Strange(folder)


async def gone(pid: int) -> None:
    """Waits until a process is not there any more."""
    async with asyncio.timeout(PATIENCE_S):
        while is_alive(pid):
            await asyncio.sleep(0.01)
