"""The kinds that confine processes of this machine: each gives a session a sandbox of its own, over its folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import NamedTuple

from windlass.tools.context import ToolError

from .folder_sandbox import Confinement, FolderSandbox
from .sandbox import ENV_ALLOWED, Limits, SecretsByName


class ConfinedKind(NamedTuple):
    """What one kind is."""

    name: str
    problem: Callable[[], str | None]
    """Why it cannot be used here; None if it can."""
    inside: Callable[[str, tuple[str, ...], tuple[str, ...]], Confinement]
    """How processes are held over a folder: given that, what they may see beside, and what they may not. Raises
    `ToolError` if they could not be held."""


class ConfinedSandboxes:
    """Gives each session a sandbox of a kind over its folder. `readable` are paths that its processes may see beside
    programs and libraries, `hidden` are some that they may not see though they lie in the folder."""

    def __init__(
        self,
        kind: ConfinedKind,
        *,
        env_allowed: tuple[str, ...] = ENV_ALLOWED,
        limits: Limits | None = None,
        secrets: SecretsByName | None = None,
        readable: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> None:
        self.name = kind.name
        self._kind = kind
        self._env_allowed = env_allowed
        self._limits = limits
        self._readable = readable
        self._hidden = hidden
        self._here = os.getcwd()
        self.secrets = secrets

    def problem(self) -> str | None:
        """Why it cannot be used here; None if it can."""
        return self._kind.problem()

    async def open(self, session: str, folder: str | None) -> FolderSandbox:
        """A session's sandbox. Raises `ToolError` if it does not work here, or not over this folder."""
        problem = await asyncio.to_thread(self.problem)
        if problem is not None:
            raise ToolError(f"the sandbox {self.name!r} cannot be used here: {problem}", code="no_sandbox")
        return await asyncio.to_thread(self._made, folder or self._here)

    def _made(self, folder: str) -> FolderSandbox:
        root = os.path.realpath(folder)
        return FolderSandbox(
            root,
            self._kind.inside(root, self._readable, self._hidden),
            env_allowed=self._env_allowed,
            limits=self._limits,
            secrets=self.secrets,
            kept=self._hidden,
        )
