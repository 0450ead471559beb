"""Which MCP servers a session is to have: those that its agent is given, then those of its workspace, if it is
trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.errors import UsageError
from windlass.mcp.config import Mcp, without_own_word, workspace_servers
from windlass.mcp.server import McpServer

if TYPE_CHECKING:
    from windlass.runtime.workspace.folder import Place


def configured(config: Mcp, place: Place | None) -> tuple[dict[str, McpServer], list[str]]:
    """The servers by name, and what is wrong with those of the workspace. Reads its file, so it is called in a
    thread."""
    servers = {server.name: server for server in config.servers if server.enabled}
    if not config.workspace or place is None:
        return servers, []
    try:
        more = workspace_servers(place.folder.path, trusted=place.folder.trusted)
    except UsageError as error:
        return servers, [str(error)]
    twins, told = [], []
    for server in more:
        if server.enabled and server.name in servers:
            twins.append(server.name)
        elif server.enabled:
            servers[server.name], passed_over = without_own_word(server)
            told += [passed_over] if passed_over else []
    if twins:
        told.append(f"{', '.join(twins)} of the workspace: the agent has a server of that name already")
    return servers, told
