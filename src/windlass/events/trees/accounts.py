"""What a tree of sessions has used, once the last of it has come to its end, and what is granted to it meanwhile."""

from __future__ import annotations

from typing import ClassVar

from windlass.events.base import Category, Command, Decision, Nat
from windlass.events.trees.children import Used
from windlass.events.values.setup import Limits


class ChildSettled(Command, frozen=True, kw_only=True, tag="child.settled"):
    """A child that had ended before those below it: now they have ended too. What it and they used is known, and the
    rest of what was set aside goes back. The child says so itself, under a derived command id; no client can."""

    CATEGORY: ClassVar[Category] = "proc"
    child_id: str
    call_id: str
    child_seq: Nat = 0
    """Where in its log it says so."""
    used: Used = Used()
    """What it used over its whole life, with all below it."""


class ChildGranted(Decision, frozen=True, kw_only=True, tag="child.granted"):
    """A child may use more than was set aside for it at first: as much more is set aside from here on."""

    CATEGORY: ClassVar[Category] = "proc"
    child_id: str
    call_id: str
    more: Limits
    """How much more of each limit that it has."""


class GrantReceived(Command, frozen=True, kw_only=True, tag="grant.received"):
    """A session was granted more by its parent: its limits are higher. The parent says so, under an id that is derived
    from its own record; no client can."""

    CATEGORY: ClassVar[Category] = "proc"
    more: Limits
    """How much more of each limit that it has."""
