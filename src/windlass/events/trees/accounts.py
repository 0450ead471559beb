"""What a tree of sessions has used, once the last of it has come to its end."""

from __future__ import annotations

from typing import ClassVar

from windlass.events.base import Category, Command, Nat
from windlass.events.trees.children import Used


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
