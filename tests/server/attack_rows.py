"""A row of the attack table."""

from __future__ import annotations

from typing import Any

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """How a route is attacked: a body that it would take, and the role that it needs with that body."""

    body: Any = None
    role: str | None = None
    found: bool = True
    """Whether a caller of another tenant must get 404: it names something of a session or a blob."""
