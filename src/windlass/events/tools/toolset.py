"""The set of tools of a session, and how it changes."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.base import Category, Command, Decision, Nat
from windlass.events.values.blocks import Value
from windlass.events.values.tools import ToolSpec, ToolText


class ToolBody(Value, frozen=True, kw_only=True):
    """What models are told of mounted tools."""

    tools: tuple[ToolText, ...] = ()


class MountReceived(Command, frozen=True, kw_only=True, tag="mount.received"):
    """Offer more tools, or newer ones, from the next turn on."""

    tools: tuple[ToolSpec, ...]
    source: str = ""
    body: ToolBody | None = None


class UnmountReceived(Command, frozen=True, kw_only=True, tag="unmount.received"):
    """Take tools away at the next turn. `force` gives up calls that still run."""

    tools: tuple[str, ...]
    force: bool = False


class ToolsetChanged(Decision, frozen=True, kw_only=True, tag="toolset.changed"):
    """The set of tools changes: staged, in force, waiting for calls to end, forced, or failed."""

    CATEGORY: ClassVar[Category] = "syscall"
    operation: Literal["add", "remove", "reload", "load"]
    phase: Literal["pending", "applied", "draining", "forced", "failed"]
    target: str = ""
    tools: tuple[ToolSpec, ...] = ()
    names: tuple[str, ...] = ()
    revision: Nat = 0
    hidden: Nat = 0
    error: str = ""
