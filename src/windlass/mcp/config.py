"""Which MCP servers an agent has: those that it is given, those of files, and those of a trusted workspace."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Value

from .normal_form import normalized
from .server import FIRST_SIGHT, SAMPLING_TOKENS, McpServer

FILE_BYTES_MAX = 1024 * 1024
WORKSPACE_FILE = ".mcp.json"
DEFER_ABOVE = 60
"""Above so many tools of servers, those that say nothing else are found by searching only."""


WAIT_MS = 60_000


class Mcp(Value, frozen=True, kw_only=True):
    """The MCP servers of an agent."""

    servers: tuple[McpServer, ...] = ()
    workspace: bool = False
    """Whether the servers of the workspace's `.mcp.json` are taken too; those of a workspace that is not trusted
    never are."""
    defer_above: int = DEFER_ABOVE
    """Above so many tools, they are found by searching only (`search_tools`, `load_tools`)."""
    wait_ms: int = WAIT_MS
    """How long a prompt waits for servers that are still being connected. The opening of a session waits for none."""


def mcp_of(given: Any) -> Mcp | None:
    """The servers that an agent is given: none, those of the workspace (True), a file, servers in any shape, or `Mcp`.
    Raises `UsageError` that names the place and the fix."""
    if given is None or given is False:
        return None
    if given is True:
        return Mcp(workspace=True)
    if isinstance(given, Mcp):
        return msgspec.structs.replace(given, servers=normalized(given.servers))
    if isinstance(given, str | os.PathLike):
        return Mcp(servers=servers_of_file(given))
    if isinstance(given, Sequence) and not isinstance(given, bytes | Mapping):
        servers: list[McpServer] = []
        for index, each in enumerate(given):
            if isinstance(each, str | os.PathLike):
                servers += servers_of_file(each)
            else:
                servers += normalized([each], f"mcp, entry {index + 1}")
        return Mcp(servers=normalized(servers))
    return Mcp(servers=normalized(given))


def servers_of_file(path: str | os.PathLike[str]) -> tuple[McpServer, ...]:
    """The servers of a file, JSON or TOML. Raises `UsageError` for one that cannot be read."""
    name = os.path.realpath(path)
    return normalized(_read(name), os.fspath(path), origin=name)


def workspace_servers(folder: str | None, *, trusted: bool) -> tuple[McpServer, ...]:
    """The servers of a workspace's own file, as it writes them; none unless the workspace is trusted, and then the file
    is not even read. Raises `UsageError` for one that cannot be read."""
    if folder is None or not trusted:
        return ()
    path = os.path.join(folder, WORKSPACE_FILE)
    return servers_of_file(path) if os.path.lexists(path) else ()


def without_own_word(server: McpServer) -> tuple[McpServer, str]:
    """A server of a workspace's file as it is used, and what of its words is passed over. Whoever can write that file
    must not say how far it is trusted: a person does that, and before it gets no secret, since it is not started."""
    said = {
        "trust": server.trust not in ("record", FIRST_SIGHT),
        "read_only": bool(server.read_only),
        "contracts": bool(server.contracts),
        "roots": server.roots,
        "sampling": server.sampling != "off" or server.sampling_tokens != SAMPLING_TOKENS,
    }
    passed_over = [field for field, there in said.items() if there]
    used = msgspec.structs.replace(
        server,
        trust="record",
        read_only=(),
        contracts={},
        roots=False,
        sampling="off",
        sampling_tokens=SAMPLING_TOKENS,
    )
    if not passed_over:
        return used, ""
    why = "a workspace's file does not say itself how far its servers are trusted: name the server in code for that"
    return used, f"{server.name!r} of the workspace: {', '.join(passed_over)} passed over: {why}"


def _read(path: str) -> Any:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise UsageError(f"{path}: this is no file: give a file of JSON or TOML")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(f"{path}: more than {FILE_BYTES_MAX} bytes are not read: name fewer servers")
    try:
        if path.endswith(".toml"):
            return msgspec.toml.decode(data)
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        kind = "TOML" if path.endswith(".toml") else "JSON"
        raise UsageError(f"{path} is no {kind}: {error}") from None
