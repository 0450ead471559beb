"""The agents whose code this process has, by name: only their sessions can be driven here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from windlass.events.errors import UsageError
from windlass.runtime.api.agent import Agent

from .bound_agent import Bound

if TYPE_CHECKING:
    from windlass.runtime.drive.tool_runner import ToolRunners

SHOWN_CHARS_MAX = 80


class BoundAgents:
    """Agents bound to code."""

    def __init__(self) -> None:
        self._bound: dict[str, Bound] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._bound

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._bound))

    def get(self, name: str) -> Bound | None:
        """An agent by name, if it is bound here."""
        return self._bound.get(name)

    def bind_given(self, agent: object, tools: ToolRunners) -> Bound:
        """Makes known the code of what a caller calls an agent: one, or a workflow. Raises `UsageError` for anything
        else, and for a tool that could not run here."""
        if not isinstance(agent, Agent) and hasattr(agent, "coordinator"):
            agent = agent.coordinator
        if not isinstance(agent, Agent):
            raise UsageError(
                f"an agent is a windlass.Agent, not {str(agent)[:SHOWN_CHARS_MAX]!r}: a session is made by "
                "session(agent, id), and found without an agent by get(id)"
            )
        tools.check(agent.toolset)
        return self.bind(agent)

    def bind(self, agent: Agent) -> Bound:
        """Makes an agent's code known. Raises `UsageError` if another agent has its name."""
        known = self._bound.get(agent.name)
        if known is not None and known.agent.is_like(agent):
            return known
        if known is not None:
            raise UsageError(f"another agent named {agent.name!r} is bound already: give one of them another name")
        model = agent.model
        if model is None or isinstance(model, str):
            from windlass.models.catalogue.names import open_model

            model = open_model(model)
        bound = self._bound[agent.name] = Bound(agent, model)
        for specialist in (*agent.agents, *([agent.workflows] if agent.workflows is not None else [])):
            bound.specialists[specialist.name] = self.bind(specialist)
        return bound

    def names(self) -> str:
        """Their names, for error messages."""
        return ", ".join(sorted(self._bound)) or "none"

    async def close(self) -> None:
        """Closes the models that were opened for them."""
        for bound in self._bound.values():
            await bound.close()
