"""Where the commands of a session run, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.cli.terminal.visible_text import spelt

if TYPE_CHECKING:
    from windlass.kernel.state import State

UNCONFINED = "unconfined"


def sandbox_name(sandbox: str | None) -> str:
    """A sandbox by its name; of the local one, and of none, what it is worth."""
    return UNCONFINED if sandbox in (None, "local") else spelt(sandbox or "")


def sandbox_said(state: State) -> str:
    """Where commands of a session run; empty if it has no tools that run any and nobody said."""
    sandbox = state.setup.options.sandbox
    runs = any(spec.kind == "shell" for spec in state.toolset.tools.values())
    return sandbox_name(sandbox) if runs or sandbox is not None else ""
