"""Agents to serve, a real server for them on loopback or behind a bridge, and the official client in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import windlass
from windlass.cli.mcp.agent_service import AskWords
from windlass.mcp_server.desk import LABEL
from windlass.mcp_server.http_app import McpApp
from windlass.server.access.limits import Limits
from windlass.server.access.token_file import TokenFile
from windlass.server.http_server import HttpServer
from windlass.testing.scripted import ScriptedModel, by_history, call

if TYPE_CHECKING:
    from mcp.client.client import Client

ROOT = pathlib.Path(__file__).parent.parent.parent
PATIENCE_S = 240.0
QUESTION = {"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}], "free_text": False}


@windlass.tool
def pay(amount: int) -> str:
    """Pays an amount."""
    return f"paid {amount}"


def office(folder: pathlib.Path) -> tuple[windlass.Agent, ...]:
    """An agent that asks before it pays, one that takes as long as it is told to, one that asks a question, one that
    plans, and one whose tool asks while it runs."""

    @windlass.tool(contract="pure")
    async def look(page: int) -> str:
        """Looks at a page, once it is there."""
        draft = folder / f"begun.{os.getpid()}"
        draft.write_text(str(os.getpid()))
        draft.replace(folder / "begun")
        while not (folder / "go").exists():
            await asyncio.sleep(0.02)
        return f"page {page}"

    @windlass.tool
    async def order(ctx: windlass.ToolContext) -> str:
        """Orders a shirt, of a size that it asks for."""
        size = (await ctx.ask("Which size?", options=["S", "L"])).body.answers[0]
        return f"ordered {size.text or size.selected[0]}"

    paying = ScriptedModel(by_history([call("pay", amount=3), "It is paid."]))
    asks = windlass.Policy(rules=(windlass.ask("pay"),))
    asking = ScriptedModel(by_history([call("ask_user", questions=[QUESTION]), "As you wish."]))
    planning = ScriptedModel(by_history([call("plan", summary="paint", content="1. paint"), "Planned."]))
    return (
        windlass.Agent("clerk", paying, tools=[pay], policy=asks),
        windlass.Agent(
            "reader", ScriptedModel(by_history([call("look", page=1), "Read.", "Read it again."])), tools=[look]
        ),
        windlass.Agent("painter", asking, tools=["ask_user"]),
        windlass.Agent("planner", planning, tools=["plan"], mode="plan"),
        windlass.Agent("tailor", ScriptedModel(by_history([call("order"), "It is ordered."])), tools=[order]),
    )


async def exists(path: pathlib.Path) -> None:
    """Waits until a file is there."""
    async with asyncio.timeout(PATIENCE_S):
        while not path.exists():  # noqa: ASYNC240
            await asyncio.sleep(0.02)


class People:
    """Those before a client: what they are asked, and what they say to it."""

    def __init__(self, *said: tuple[str, dict[str, Any] | None]) -> None:
        self._said = list(said)
        self.asked: list[Any] = []

    async def __call__(self, ctx: Any, params: Any) -> Any:
        from mcp_types import ElicitResult

        self.asked.append(params)
        action, content = self._said.pop(0) if self._said else ("cancel", None)
        return ElicitResult(action=action, content=content)  # type: ignore[arg-type]


APPROVE = ("accept", {"decision": "approve"})
DENY = ("accept", {"decision": "deny", "feedback": "too much"})


def told(result: Any) -> Any:
    """The data of a result."""
    return result.structured_content


async def read(client: Client, uri: str) -> Any:
    """The JSON of a resource."""
    (content,) = (await client.read_resource(uri)).contents
    return json.loads(content.text)  # type: ignore[union-attr]


def kinds(log: Any) -> list[str]:
    """The kinds of the records of a log, in order."""
    return [record["event"]["type"] for record in log["records"]]


# --- over HTTP ---


class Served:
    """A server over HTTP that answers."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.url = f"{server.url}/mcp"

    def token(self, *roles: str, name: str | None = None, tenant: str = "default") -> str:
        """A token of these roles; the first one without any."""
        if not roles:
            return self.server.tokens.first_path.read_text().strip()
        return self.server.tokens.add(name or "-".join((*roles, tenant)), roles, tenant=tenant)

    @contextlib.asynccontextmanager
    async def client(self, token: str, mode: str = "auto", people: People | None = None) -> AsyncIterator[Client]:
        """The official client, with a token."""
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
        async with http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=mode, elicitation_callback=people) as client:  # type: ignore[arg-type]
                yield client


@contextlib.asynccontextmanager
async def serving(
    folder: pathlib.Path, agents: Sequence[windlass.Agent] | None = None, limits: Limits | None = None
) -> AsyncIterator[Served]:
    """A server over `folder/store.db` on loopback, open as long as the block is."""
    made: list[McpApp] = []

    def app_of(state: Any, gate: Any) -> McpApp:
        made.append(McpApp(state, gate, AskWords(""), (LABEL,)))
        return made[0]

    agents = agents if agents is not None else office(folder)
    server = HttpServer(
        str(folder / "store.db"), agents, TokenFile(folder / "tokens.json"), limits=limits, app_of=app_of
    )
    await server.open()
    async with made[0].running():
        running = asyncio.ensure_future(server.run())
        try:
            yield Served(server)
        finally:
            server.stop()
            await running
    await server.close()


# --- over stdio ---


def agents_file(folder: pathlib.Path) -> str:
    """A file of agents, as a user has one."""
    path = folder / "office.py"
    path.write_text(
        f"import pathlib, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.mcp_server.support import office\n"
        "clerk, reader, painter, planner, tailor = office(pathlib.Path(__file__).parent)\n"
    )
    return str(path)


def serve_words(folder: pathlib.Path, *more: str) -> list[str]:
    """How a client starts the server."""
    words = [sys.executable, "-m", "windlass.cli.main", "mcp", "serve", agents_file(folder)]
    return [*words, "--store", str(folder / "store.db"), *more]


@contextlib.asynccontextmanager
async def stdio_client(
    folder: pathlib.Path, *more: str, mode: str = "auto", people: People | None = None
) -> AsyncIterator[Client]:
    """The official client, with a server of its own as its child."""
    from mcp.client import stdio
    from mcp.client.client import Client

    command, *args = serve_words(folder, *more)
    parameters = stdio.StdioServerParameters(command=command, args=args, cwd=str(folder))
    # By default errors go to what stderr was when the package was imported, and that may be no file.
    with (folder / "server.log").open("a", encoding="utf-8") as errors:
        server = stdio.stdio_client(parameters, errlog=errors)
        async with Client(server, mode=mode, elicitation_callback=people) as client:  # type: ignore[arg-type]
            yield client
