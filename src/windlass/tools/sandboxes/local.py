"""The plain local sandbox: processes of this user on this machine, in a folder. It keeps order (everything that a
process started is killed with it, an environment without secrets, bounded output) and isolates from nothing."""

from __future__ import annotations

import os

from .folder_sandbox import FolderSandbox
from .sandbox import ENV_ALLOWED, Limits, SecretsByName

LocalSandbox = FolderSandbox
"""A sandbox over a folder that confines nothing, which is what one is without a confinement."""


class LocalSandboxes:
    """Gives each session a local sandbox over its folder, or over the directory that was current at the start."""

    name = "local"

    def __init__(
        self,
        *,
        env_allowed: tuple[str, ...] = ENV_ALLOWED,
        limits: Limits | None = None,
        secrets: SecretsByName | None = None,
    ) -> None:
        self._env_allowed = env_allowed
        self._limits = limits
        self._here = os.getcwd()
        self.secrets = secrets

    async def open(self, session: str, folder: str | None) -> LocalSandbox:
        """A session's sandbox."""
        return LocalSandbox(
            folder or self._here, env_allowed=self._env_allowed, limits=self._limits, secrets=self.secrets
        )
