"""MCP servers of a session: whether each is there, and what it is known by."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.base import Category, Fact, Nat
from windlass.events.values.blocks import Value

McpStatus = Literal["connected", "frozen", "failed", "lost"]
"""It is there and trusted; it is not what was trusted, so that its tools are not offered; it could not be had; or it
was there and is gone."""
McpTransport = Literal["stdio", "http", "sse"]


class McpTool(Value, frozen=True, kw_only=True):
    """A tool of a server: its name here, and what its server calls it and says of it."""

    name: str
    tool: str
    title: str = ""
    read_only: bool = False
    """Whether the server says that it only reads. Shown to people, and not believed."""


class McpBody(Value, frozen=True, kw_only=True):
    """What a server said: itself content, since it may be anything."""

    about: str = ""
    """The name and version that it gives itself."""
    tools: tuple[McpTool, ...] = ()
    why: str = ""
    """Why it is not connected."""


class McpConnected(Fact, frozen=True, kw_only=True, tag="mcp.connected"):
    """An MCP server was connected, frozen, lost, or could not be had."""

    CATEGORY: ClassVar[Category] = "ipc"
    server: str
    """The server, by the name that the agent has for it."""
    status: McpStatus
    """How it stands from here on."""
    transport: McpTransport
    """How it is reached."""
    launch: str
    """The digest of its command or address."""
    listing: str = ""
    """The digest of the whole list of its tools."""
    tools: Nat = 0
    """How many of its tools are taken."""
    protocol: str = ""
    """The revision of the protocol that is spoken."""
    body: McpBody | None = None
