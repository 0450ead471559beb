"""What an adapter adds to a server: its routes, which join the one closed list, and what they are described by.

The server knows no adapter. Whoever puts a server together (`windlass serve --with`) hands it their mounts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def joined(routes: Sequence[Route], mounts: Sequence[Mount]) -> tuple[Route, ...]:
    """The routes of a server with those of its mounts. Raises `UsageError` if two are the same."""
    found = {(route.method, route.path): "the server" for route in routes}
    called = {route.name for route in routes}
    for mount in mounts:
        for route in mount.routes:
            place = (route.method, route.path)
            if place in found or route.name in called:
                other = found.get(place, "another")
                raise UsageError(f"{mount.name!r} and {other!r} both have {route.method} {route.path}: leave one out")
            found[place] = mount.name
            called.add(route.name)
    return (*routes, *(route for mount in mounts for route in mount.routes))
