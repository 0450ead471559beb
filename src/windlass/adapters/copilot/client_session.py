"""One client at one session: what it wants to be told and asked there, and what it brings along."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from windlass.protocol.json_rpc.rpc_peer import RpcPeer

if TYPE_CHECKING:
    from windlass.events.values.tools import ToolSpec
    from windlass.kernel.state import State


@dataclass(eq=False)
class Seat:
    """Ends with the client's connection; what must outlive that is in the session's log."""

    peer: RpcPeer
    session_id: str
    streaming: bool = False
    asks_permissions: bool = False
    answers_questions: bool = False
    answers_forms: bool = False
    answers_plans: bool = False
    hooks: bool = False
    available: list[str] | None = None
    """The tools that its prompts are limited to; None for all."""
    excluded: list[str] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    """Those that it runs."""
    commands: dict[str, str] = field(default_factory=dict)
    """Its slash commands, with what they are for."""

    def tell(self, event: dict[str, Any]) -> None:
        """Tells the client of an event."""
        params = {"sessionId": self.session_id, "event": event}
        self.peer.notify("session.event", params, droppable=bool(event.get("ephemeral")))

    def offered(self, state: State) -> tuple[str, ...] | None:
        """The tools that a prompt of this client may use; None if it said nothing of them."""
        if self.available is None and not self.excluded:
            return None
        return tuple(
            name
            for name, spec in state.toolset.tools.items()
            if (self.available is None or _is_meant(self.available, spec)) and not _is_meant(self.excluded, spec)
        )


def seat_of(peer: RpcPeer, session_id: str, params: dict[str, Any]) -> Seat:
    """The seat that a client asks for."""
    return Seat(
        peer,
        session_id,
        streaming=bool(params.get("streaming")),
        asks_permissions=bool(params.get("requestPermission")),
        answers_questions=bool(params.get("requestUserInput")),
        answers_forms=bool(params.get("requestElicitation")),
        answers_plans=bool(params.get("requestExitPlanMode")),
        hooks=bool(params.get("hooks")),
        available=params.get("availableTools"),
        excluded=params.get("excludedTools") or [],
        commands={one["name"]: one.get("description") or "" for one in params.get("commands") or ()},
    )


def _is_meant(patterns: list[str], spec: ToolSpec) -> bool:
    """Whether a client's patterns name a tool: by its name alone, or behind where it comes from."""
    kind, _, server = spec.source.partition(":")
    word = "custom" if spec.runs == "client" else "mcp" if kind == "mcp" else "builtin"
    meant = {spec.name, f"{word}:{spec.name}", f"{word}:*", "*"}
    return any(pattern in meant or (word == "mcp" and pattern == f"mcp:{server}") for pattern in patterns)
