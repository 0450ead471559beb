"""What a server says by itself: lines of its log. Those that matter become notices, and no server writes a log full."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from .foreign_words import visible
from .server import LogLevel, McpServer

LOG = logging.getLogger("windlass.mcp")
LINES_MAX = 50
"""How many lines of a server one session keeps."""
LINE_CHARS_MAX = 1_000
LEVELS: tuple[str, ...] = get_args(LogLevel)
Level = Literal["info", "warning", "error"]


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line, as it is put on record."""

    level: Level
    message: str


class ServerLogs:
    """The log of one server."""

    def __init__(self, server: McpServer, told: Callable[[LogLine], None]) -> None:
        self._server = server
        self._told = told
        self._count = 0

    async def heard(self, params: Any) -> None:
        """Takes a line of the server's."""
        LOG.debug("MCP server %r says: %.500s", self._server.name, params.data)
        if LEVELS.index(params.level) < LEVELS.index(self._server.log_level):
            return
        self._count += 1
        if self._count > LINES_MAX + 1:
            return
        head = f"MCP server {self._server.name!r}"
        if self._count > LINES_MAX:
            self._told(LogLine(level="warning", message=f"{head} says more than the {LINES_MAX} lines that are kept"))
            return
        text = params.data if isinstance(params.data, str) else msgspec.json.encode(params.data).decode()
        logger = f" ({visible(params.logger)[:100]})" if params.logger else ""
        words = visible(text)[:LINE_CHARS_MAX]
        self._told(LogLine(level=_level(params.level), message=f"{head}{logger} says: {words}"))


def _level(said: str) -> Level:
    if LEVELS.index(said) >= LEVELS.index("error"):
        return "error"
    return "warning" if said == "warning" else "info"
