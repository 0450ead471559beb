"""Runs the tools of one session: on the plane that each names, with the session's sandbox; and sees what came of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused, StoreError
from windlass.events.tools.calls import CallBody
from windlass.mcp.offered_tools import PLANE
from windlass.mcp.plane import McpPlanes
from windlass.runtime.bind.sandbox_terms import terms_of
from windlass.runtime.jobs.local_jobs import LocalJobs
from windlass.runtime.workspace.folder import may_change
from windlass.tools.planes.local import LocalPlanes
from windlass.tools.planes.plane import Plane, PlaneKind, Planes
from windlass.tools.planes.process.plane import ProcessPlanes
from windlass.tools.sandboxes.choice import name_of, sandbox_on_record
from windlass.tools.sandboxes.local import LocalSandboxes
from windlass.tools.sandboxes.read_only import ReadOnly
from windlass.tools.sandboxes.sandbox import Sandboxes, SandboxKind, SecretsByName
from windlass.tools.tool import LOCAL, PROCESS

if TYPE_CHECKING:
    from windlass.events.values.access import SandboxTerms
    from windlass.runtime.workspace.session_instructions import SessionInstructions
    from windlass.tools.context import ToolContext
    from windlass.tools.description import Description
    from windlass.tools.jobs.job_host import Born, JobHost, JobHosts
    from windlass.tools.planes.outcome import Outcome
    from windlass.tools.sandboxes.sandbox import Sandbox
    from windlass.tools.tool import AnyTool


class ToolRunners:
    """What the tools of a runtime run with: its planes, and the sandboxes of its sessions."""

    def __init__(
        self,
        planes: Mapping[str, PlaneKind] | None,
        sandbox: SandboxKind | None,
        jobs: JobHosts | None = None,
        secrets: SecretsByName | None = None,
        hidden: tuple[str, ...] = (),
    ) -> None:
        self._planes = Planes({LOCAL: LocalPlanes(), PROCESS: ProcessPlanes(), PLANE: McpPlanes(), **(planes or {})})
        self.sandbox = None if sandbox is None else name_of(sandbox)
        """The name of the sandbox that this runtime was given; None if it was given none."""
        self._sandboxes = {self.sandbox: Sandboxes(sandbox or LocalSandboxes(), secrets)}
        self._secrets = secrets
        self._hidden = hidden
        self.jobs = jobs or LocalJobs(None)

    def check(self, tools: Iterable[AnyTool]) -> None:
        """Raises `UsageError` for a tool that could not run here."""
        self._planes.check(tools)

    def for_session(
        self,
        session: str,
        instructions: SessionInstructions,
        born: Born,
        sandbox: str | None = None,
        *,
        read_only: bool = False,
    ) -> ToolRunner:
        """What runs the tools of one session, in the sandbox that its options name."""
        sandboxes, jobs = self._sandboxes_of(sandbox), self.jobs.for_session(session, born)
        return ToolRunner(session, self._planes, sandboxes, instructions, jobs, read_only=read_only)

    def _sandboxes_of(self, name: str | None) -> Sandboxes:
        """Those of one kind: this runtime's own if it is of that name or none is named."""
        name = self.sandbox if name is None else name
        if name not in self._sandboxes:
            assert name is not None
            self._sandboxes[name] = Sandboxes(sandbox_on_record(name, hidden=self._hidden), self._secrets)
        return self._sandboxes[name]

    async def terms(
        self, session: str, folder: str | None, sandbox: str | None, about: Description
    ) -> SandboxTerms | None:
        """Where a command would run that a session gives to the sandbox that it has. None if that cannot be opened."""
        sandboxes = self._sandboxes_of(sandbox).for_session(session)
        try:
            terms, _ = await terms_of(sandboxes.over(folder), about)
        finally:
            await sandboxes.close()
        return terms

    async def close(self) -> None:
        """Closes whatever is still open."""
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self.jobs.close)
            closing.push_async_callback(self._planes.close)
            for sandboxes in tuple(self._sandboxes.values()):
                closing.push_async_callback(sandboxes.close)


class ToolRunner:
    """One session's planes and sandboxes. What a tool reports on the way joins its outcome, and after a tool that may
    have changed something the folder is looked at, before the outcome is recorded."""

    def __init__(
        self,
        session: str,
        planes: Planes,
        sandboxes: Sandboxes,
        instructions: SessionInstructions,
        jobs: JobHost,
        *,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self._planes = planes.for_session(session)
        self._sandboxes = sandboxes.for_session(session)
        self._instructions = instructions
        self.secrets = sandboxes.secrets
        self.jobs = jobs

    @property
    def sandbox(self) -> Sandbox:
        """Where the processes of a call run, and its files are: over the folder that the session works in now."""
        place = self._instructions.place
        sandbox = self._sandboxes.over(place.folder.path if place is not None else None)
        return ReadOnly(sandbox) if self._read_only else sandbox

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Runs a call to its outcome."""
        outcome = await self._planes.run(tool, call, context)
        if context.changes:
            outcome = msgspec.structs.replace(outcome, changes=(*outcome.changes, *context.changes))
        if context.labels:
            outcome = msgspec.structs.replace(outcome, labels=(*outcome.labels, *context.labels))
        if self._instructions.place is not None and may_change(tool.spec):
            try:
                await self._instructions.look(files=False)
            except (Refused, StoreError):
                return outcome  # the outcome counts more; whoever records it learns what is wrong with the store
        return outcome

    async def plane(self, name: str) -> Plane | None:
        """One of the session's planes, which is opened if it is not."""
        return await self._planes.plane(name)

    @property
    def is_open(self) -> bool:
        """Whether there is anything to close."""
        return self._planes.is_open or self._sandboxes.is_open

    async def close(self) -> None:
        """The session is let go: closes what its tools had open. Jobs that are kept go on."""
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self.jobs.close)
            closing.push_async_callback(self._planes.close)
            closing.push_async_callback(self._sandboxes.close)
