"""MCP servers: one that is called, asked about, lost and changed, and those that cannot be had."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import windlass
from windlass.events.questions import QuestionRequested
from windlass.events.tools.mcp import McpConnected
from windlass.events.tools.toolset import ToolsetChanged
from windlass.mcp.server import McpServer
from windlass.mcp_servers import ready, send_prompt
from windlass.runtime.hooks.hook import Changed, Hook, Moment
from windlass.testing.scripted import call

from .stage import Stage, scripted

SERVER = pathlib.Path(__file__).parents[2] / "tests" / "mcp_client" / "strange_server.py"
NOWHERE = "http://127.0.0.1:9/mcp"
"""The port for what is thrown away: nobody listens there."""


async def servers(stage: Stage) -> None:
    """Every standing of a server, every transport, and a call that a person is asked about."""
    folder, before = stage.folder / "server", os.environ.get("XDG_STATE_HOME")
    folder.mkdir()
    os.environ["XDG_STATE_HOME"] = str(stage.folder / "state")
    strange = McpServer(name="strange", command=sys.executable, args=("-S", str(SERVER), str(folder)))
    away = [
        McpServer(name="away", transport="http", url=NOWHERE),
        McpServer(name="older", transport="sse", url=NOWHERE),
    ]
    model = scripted(
        call("strange__echo", text="hallo"), call("strange__dies"), call("strange__echo", text="again"),
        call("strange__changes"), "changed",
    )  # fmt: skip
    policy = windlass.Policy(rules=(windlass.ask("strange__echo", missing_ok=True),))
    agent = windlass.Agent("plugged", model, policy=policy, mcp=[strange, *away])
    try:
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "mcp")
            await ready(session)
            await session.prompt("go")
            await session.wait_idle()
            while waiting := await session.requests():
                for asked in waiting:
                    await session.approve(asked)
                await session.wait_idle()
            await stage.until_event(session, lambda event: isinstance(event, McpConnected) and event.status == "frozen")
            await stage.until(session, ToolsetChanged, 4)
    finally:
        os.environ.pop("XDG_STATE_HOME")
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


FORM = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "say hallo"}}], "maxTokens": 20}


async def asking(stage: Stage) -> None:
    """A server with resources, prompts and a log, that asks a person and a model; and hooks that hear and change."""
    folder, before = stage.folder / "server", os.environ.get("XDG_STATE_HOME")
    folder.mkdir()
    os.environ["XDG_STATE_HOME"] = str(stage.folder / "state")
    told = {"able": "", "elicit.json": json.dumps(FORM), "sample.json": json.dumps(SAMPLE)}
    told["log.json"] = json.dumps([["warning", "the disk is nearly full"]])
    for name, text in told.items():
        (folder / name).write_text(text)
    strange = McpServer(name="strange", command=sys.executable, args=("-S", str(SERVER), str(folder)), sampling="allow")
    model = scripted(
        call("strange__list_resources"), call("strange__read_resource", uri="note://1"), call("strange__meta"),
        call("strange__logs"), call("strange__samples"), "hallo", call("strange__elicits"), call("strange__dies"),
        "done",
    )  # fmt: skip
    away = McpServer(name="away", transport="http", url=NOWHERE)
    hooks = [
        *map(observes, ("mcp_connect", "mcp_error", "mcp_close")),
        Hook(point="before_mcp", run=marks, kind="transform"),
    ]
    agent = windlass.Agent("plugged", model, policy=windlass.ALLOW_ALL, mcp=[strange, away], hooks=hooks)
    try:
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "mcp_asking")
            await ready(session)
            await (await send_prompt(session, "strange:greet", "Dutch"))
            await stage.until(session, QuestionRequested, 1)
            (question,) = [
                record.event async for record in session.records() if isinstance(record.event, QuestionRequested)
            ]
            await session.answer(question.question_id, {"name": "Ada"})
            await session.wait_idle()
            await stage.until_event(session, lambda event: isinstance(event, McpConnected) and event.status == "lost")
    finally:
        os.environ.pop("XDG_STATE_HOME")
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


def observes(point: Any) -> Hook:
    """An observer that hears how a server stands."""

    def hear(moment: Moment) -> None:
        return None

    return Hook(point=point, run=hear, name=f"hears_{point}")


def marks(moment: Moment) -> Changed:
    """Sends something beside the arguments of a call."""
    return Changed(value={**moment.value, "meta": {"trace": "t1"}})


SCENARIOS = {"mcp": servers, "mcp_asking": asking}
