"""What a session's policy says of what its servers ask: whether one may have people or the model asked at all. It can
be stricter than the server's configuration, and never looser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from windlass.events.turns import Prepared
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools import verdicts
from windlass.mcp.offered_tools import SOURCE
from windlass.mcp.server import McpServer
from windlass.mcp.server_requests import Ruling, What
from windlass.runtime.bind.policy_conditions import judged
from windlass.tools.description import Description

if TYPE_CHECKING:
    from windlass.kernel.state import State

ASKABLE: tuple[What, ...] = ("sampling", "elicitation")


def asked_as(server: McpServer, what: What) -> ToolSpec:
    """What rules see of it: as of a tool of the server by this name, since what it is given goes to the server."""
    return ToolSpec(name=f"{server.name}__{what}", kind="mcp", source=f"{SOURCE}{server.name}", traits=("egress",))


def ruled(state: State, server: McpServer, what: What, args: dict[str, Any]) -> Ruling | None:
    """What the rules say; None if none speaks of it. The policy's default does not: that is said by the server's
    configuration."""
    spec = asked_as(server, what)
    hosts = (urlsplit(server.url).hostname or "",) if server.url else ()
    matched, unjudged = judged(state, spec, args, Description(hosts=hosts))
    verdict, _ = verdicts.ruled(state, spec, Prepared(digest="", matched=matched, unjudged=unjudged))
    return None if verdict is None else Ruling(verdict.action, verdict.rule, verdict.reason)
