"""What tools give and how they end: every kind of content, failures, time, suspension, clients, files, notes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import windlass
from windlass.events.tools.calls import ToolDelegated, ToolSuspended
from windlass.events.values.blocks import (
    Audio,
    Data,
    Document,
    Icon,
    Image,
    Resource,
    ResourceLink,
    Terminal,
    Text,
)
from windlass.events.workspace import FileChange
from windlass.testing.scripted import call
from windlass.tools.planes.results import ToolResult

from .stage import QUICK, Stage, scripted

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(24)).decode()
WAV = base64.b64encode(b"RIFF" + bytes(16)).decode()
PDF = base64.b64encode(b"%PDF-1.4").decode()


@windlass.tool(contract="pure", alias="everything_at_once")
async def everything(ctx: windlass.ToolContext) -> Any:
    "Gives every kind of content."
    ctx.progress("half way", fraction=0.5, content=[Text(text="so far")])
    ctx.note("looked at everything", kinds=7)
    icon = Icon(src="https://example.com/i.png", media_type="image/png", sizes=("16x16",), theme="dark")
    blocks = (
        Text(text="words"),
        Terminal(text="$ true", exit_code=0, cwd="/srv"),
        Image(media_type="image/png", data=PNG, width=1, height=1),
        Audio(media_type="audio/wav", data=WAV),
        Document(media_type="application/pdf", data=PDF, name="a.pdf"),
        ResourceLink(
            uri="https://example.com/a", name="a", title="A", description="a page", media_type="text/html", size=9,
            icons=(icon,),
        ),
        Resource(uri="file:///a", media_type="text/plain", text="inside"),
        Resource(uri="file:///b", media_type="image/png", data=PNG),
        Data(value={"n": 1}),
    )  # fmt: skip
    return ToolResult(
        value=blocks,
        display=[Text(text="shown to people")],
        telemetry={"took": 3},
        labels=("private",),
        changes=(FileChange(path="a.py", operation="create", lines_added=9, lines_removed=1),),
    )


@windlass.tool(contract="pure")
def spill() -> str:
    "Gives far too much."
    return "a line of it\n" * 6_000


@windlass.tool(contract="pure")
def break_down() -> str:
    "Raises."
    raise ValueError("the drawer is stuck")


@windlass.tool(contract="pure")
def refuse() -> str:
    "Says no."
    raise windlass.ToolError("no such drawer", code="no_drawer", hint="open another one")


@windlass.tool(contract="pure")
def odd() -> Any:
    "Gives what has no form."
    return object()


@windlass.tool(contract="pure", timeout_ms=50)
async def sleepy(ctx: windlass.ToolContext) -> str:
    "Takes too long."
    ctx.changed("b.py", "delete", lines_removed=3)
    await asyncio.sleep(30)
    return "never"


@windlass.tool(contract="pure")
async def given_up() -> str:
    "Gives itself up."
    raise asyncio.CancelledError


@windlass.tool
def park(ctx: windlass.ToolContext) -> str:
    "Waits for a web hook."
    ctx.changed("c.py")
    ctx.suspend({"ticket": 7}, note="a web hook will come")


click = windlass.external_tool("click", "Click in the browser.", {"type": "object", "properties": {}})


async def results(stage: Stage) -> None:
    """A call of each kind, and a person's own."""
    model = scripted(
        [
            call("everything_at_once"),
            call("spill"),
            call("break_down"),
            call("refuse"),
            call("odd"),
            call("sleepy"),
            call("given_up"),
        ],
        [call("park"), call("click")],
        "done",
    )
    agent = windlass.Agent(
        "worker",
        model=model,
        tools=[everything, spill, break_down, refuse, odd, sleepy, given_up, park, click],
        policy=windlass.ALLOW_ALL,
        settings=QUICK,
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "results")
        await session.prompt("use them")
        (parked,) = await stage.until(session, ToolSuspended)
        (delegated,) = await stage.until(session, ToolDelegated)
        await session.result()
        await session.tool_result(parked.call_id, "the hook came")
        await session.tool_result(delegated.call_id, [Text(text="no button")], ok=False, error_code="no_button")
        await session.result()
        await session.call_tool("spill")
        await session.result()
        await session.close("done for today")


SCENARIOS = {"results": results}
