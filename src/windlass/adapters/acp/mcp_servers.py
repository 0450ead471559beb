"""MCP servers that an editor names for a session, as ours: known by what they say, like any other (decision 039)."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.mcp.config import Mcp
from windlass.mcp.normal_form import normalized
from windlass.mcp.server import McpServer
from windlass.runtime.api.agent import Agent

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9-]+")
NAME_CHARS_MAX = 31


def servers_of(given: object) -> tuple[McpServer, ...]:
    """The servers of a request. Raises `UsageError` for what is none, and for a way to reach one that there is not."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise UsageError("mcpServers is a list")
    return normalized([_plain(one) for one in given], "mcpServers")


def _plain(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise UsageError("mcpServers: each server is an object with a name")
    kind = given.get("type", "stdio")
    named: dict[str, Any] = {"name": name_of(given["name"])}
    match kind:
        case "stdio":
            return {**named, "command": given["command"], "args": given.get("args") or [], "env": _pairs(given, "env")}
        case "http" | "sse":
            return {**named, "type": kind, "url": given["url"], "headers": _pairs(given, "headers")}
        case _:
            raise UsageError(f"mcpServers: {given['name']!r} is of type {kind!r}: stdio, http and sse are taken")


def _pairs(given: dict[str, Any], field: str) -> dict[str, str]:
    return {str(pair["name"]): str(pair["value"]) for pair in given.get(field) or ()}


def name_of(given: str) -> str:
    """A name as servers have them here: editors take any words."""
    name = NOT_IN_NAMES.sub("-", given).strip("-")[:NAME_CHARS_MAX].strip("-")
    return name if name[:1].isalpha() else f"mcp-{name}"[:NAME_CHARS_MAX].strip("-")


def digest_of(servers: tuple[McpServer, ...]) -> str:
    """What tells one choice of servers from another; its values never leave the process."""
    return msgspec.json.encode(servers, order="deterministic").decode() if servers else ""


def with_servers(agent: Agent, servers: tuple[McpServer, ...]) -> Agent:
    """An agent with these servers beside its own. Raises `UsageError` for two of one name."""
    if not servers:
        return agent
    config = agent.mcp_config or Mcp()
    both = normalized([*config.servers, *servers], "mcpServers")
    return dataclasses.replace(agent, mcp=msgspec.structs.replace(config, servers=both))
