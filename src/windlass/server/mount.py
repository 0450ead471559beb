"""What an adapter adds to a server: its routes, which join the one closed list, and what they are described by.

The server knows no adapter. Whoever puts a server together (`windlass serve --with`) hands it their mounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.events.errors import UsageError

from .route import Route


@dataclass(frozen=True, eq=False)
class Mount:
    """The routes of one adapter."""

    name: str
    routes: tuple[Route, ...]
    names: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """The schemas of what its paths name."""
    schemas: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Schemas that its routes take or give by name."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """The agents that must be served for it to do what it says, each with what needs it."""


def check_agents(mounts: Sequence[Mount], served: Collection[str]) -> None:
    """Raises `UsageError` if a mount needs an agent that nobody serves: else its clients would find that out."""
    for mount in mounts:
        for agent, needed_by in mount.agents.items():
            if agent not in served:
                there = f"there are {', '.join(served)}" if served else "there are none"
                raise UsageError(f"{needed_by} needs the agent {agent!r}, which is not served here: {there}")


def joined(routes: Sequence[Route], mounts: Sequence[Mount]) -> tuple[Route, ...]:
    """The routes of a server with those of its mounts. Raises `UsageError` if two are the same."""
    owners = {(route.method, route.path): "the server" for route in routes}
    called = {route.name for route in routes}
    for mount in mounts:
        for route in mount.routes:
            place = (route.method, route.path)
            if place in owners or route.name in called:
                other = owners.get(place, "another")
                raise UsageError(f"{mount.name!r} and {other!r} both have {route.method} {route.path}: leave one out")
            owners[place] = mount.name
            called.add(route.name)
    return (*routes, *(route for mount in mounts for route in mount.routes))
