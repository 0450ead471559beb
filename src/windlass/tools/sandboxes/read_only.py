"""The sandbox of a session that works read-only: files can be read, nothing is written and nothing is run."""

from __future__ import annotations

from windlass.tools.context import ToolError

from .sandbox import Capabilities, Heard, Launch, Process, ProcessResult, Sandbox

TOLD = "this session works read-only: nothing is written and no program is run"


class ReadOnly:
    """Another sandbox, for reading alone."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def capabilities(self) -> Capabilities:
        """What the other one says of itself."""
        return await self._sandbox.capabilities()

    async def run(self, process: Process, heard: Heard | None = None) -> ProcessResult:
        """Nothing is run: what a program does to files, nobody could say."""
        raise ToolError(TOLD, code="read_only")

    async def launch(self, process: Process) -> Launch:
        """Neither is anything in the background."""
        raise ToolError(TOLD, code="read_only")

    async def read(self, path: str) -> bytes:
        """A file as it is."""
        return await self._sandbox.read(path)

    async def write(self, path: str, data: bytes) -> None:
        """Nothing is written."""
        raise ToolError(TOLD, code="read_only")

    async def list(self, path: str = ".") -> tuple[str, ...]:
        """The names in a directory."""
        return await self._sandbox.list(path)

    async def close(self) -> None:
        """The other one's owner closes it."""
