"""The request of a run as AG-UI clients send it. What later versions add is passed over, as their protocol says."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.protocol.wire_commands import WireError, read_object
from windlass.server.http_call import Call
from windlass.tools.tool import AnyTool, external_tool

Json = dict[str, Any]


class ContextEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the application tells the agent beside the conversation."""

    description: str
    value: str


class ClientTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the application runs."""

    name: str
    description: str = ""
    parameters: Json | None = None


class ResumeEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a client says, and what it knows."""

    thread_id: str
    run_id: str
    messages: list[Json]
    parent_run_id: str | None = None
    state: Any = None
    tools: list[ClientTool] | None = None
    context: list[ContextEntry] | None = None
    resume: list[ResumeEntry] | None = None


async def read_input(call: Call) -> RunInput:
    """The input of a run. It holds a whole history, so it may be as large as a blob. Raises `WireError`."""
    plain = read_object(await call.json_bytes(call.limits.blob_bytes) or b"{}")
    try:
        return msgspec.convert(plain, RunInput)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        raise WireError(path.strip("`") or "$", message) from None


def tools_of(given: RunInput) -> list[AnyTool]:
    """The tools that the application runs. Raises `UsageError` for a schema that is none."""
    empty = {"type": "object", "properties": {}}
    return [external_tool(tool.name, tool.description, tool.parameters or empty) for tool in given.tools or ()]
