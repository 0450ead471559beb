"""MCP servers: which a session has, and how each stands. Their tools are those of the tool set, and their calls calls.

mcp.connected ─┬─▶ connected ──▶ its tools are mounted      (see `toolset`)
               ├─▶ frozen    ──▶ its tools are unmounted
               ├─▶ lost      ──▶ its tools stay: the next call connects it again
               └─▶ failed    ──▶ nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.tools.mcp import McpConnected, McpStatus
from windlass.kernel.part import Part, Row
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.state import State

SERVERS_MAX = 256


class McpServerState(msgspec.Struct, kw_only=True, gc=False):
    """How one server stands."""

    status: McpStatus
    launch: str = ""
    listing: str = ""
    tools: int = 0
    seq: int = 0


class Mcp(msgspec.Struct, kw_only=True, gc=False):
    """The servers of a session, by name."""

    servers: dict[str, McpServerState] = {}


def mcp_connected(state: State, event: McpConnected) -> None:
    state.mcp.servers[event.server] = McpServerState(
        status=event.status, launch=event.launch, listing=event.listing, tools=event.tools, seq=state.seq
    )


def check_connected(state: State, fact: McpConnected) -> None:
    if fact.server not in state.mcp.servers and len(state.mcp.servers) >= SERVERS_MAX:
        raise Refused("too_many", f"at most {SERVERS_MAX} MCP servers")


PART = Part(
    name="mcp",
    facts={McpConnected: Row(when=STARTED, check=check_connected, fold=mcp_connected)},
    decisions={},
)
