"""Prompts of MCP servers in a chat, in a real terminal: listed, sent, and refused in words."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

from tests.mcp_client.conftest import PATIENT_MS, STRANGE

from .test_chat import Chatting

AGENTS = f"""
import windlass
from windlass.mcp_servers import Mcp, McpServer
from windlass.testing.scripted import ScriptedModel, by_history

strange = McpServer(
    name="strange", command={sys.executable!r}, args=("-S", {STRANGE!r}, "."), trust="source", start_timeout_ms={PATIENT_MS}
)
greeter = windlass.Agent(
    "greeter",
    model=ScriptedModel(by_history(["Ready.", "Hallo!"])),
    mcp=Mcp(servers=(strange,), wait_ms={PATIENT_MS}),
)
"""


@pytest.fixture
def terminal(tmp_path: pathlib.Path) -> Iterator[Chatting]:
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "able").write_text("")
    found = Chatting(tmp_path, columns=100, rows=40)
    with found:
        yield found


def test_a_prompt_of_a_server_is_listed_and_sent(terminal: Chatting) -> None:
    terminal.chat("greeter")
    terminal.line("are you there?")  # a prompt waits for the server
    terminal.ready()
    terminal.line("/prompts")
    terminal.wait_for("/strange:greet language [tone]  Greets.")
    terminal.line("/strange:greet")
    terminal.wait_for("/strange:greet needs language: write /strange:greet language=…")
    terminal.line("/strange:none")
    terminal.wait_for("no prompt 'strange:none': there are strange:greet, strange:plain")
    terminal.line("/strange:greet Dutch")
    terminal.wait_for("Hallo!")
    terminal.ready(2)
    terminal.leave()
