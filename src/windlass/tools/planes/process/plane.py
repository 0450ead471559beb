"""The process plane: runs the author's tools out of this process, in workers that belong to one session each.

A worker has one call at a time, so that what ends the worker ends that call and no other.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any, Literal

from windlass.events.errors import UsageError
from windlass.events.tools.calls import CallBody
from windlass.events.values.tools import Contract
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.planes.inline import GRACE_S
from windlass.tools.planes.outcome import GONE, Outcome, failed, timed_out
from windlass.tools.planes.timeout import Deadline
from windlass.tools.sandboxes.sandbox import ENV_ALLOWED, Access, Launch, Process, Sandbox, SandboxKind, environment
from windlass.tools.tool import AnyTool
from windlass.tools.tool_digest import code_digest

from .addresses import address_of
from .calls import RunningCall
from .messages import Address, Call, Cancel
from .places import SESSION_WORKERS_MAX, WORKERS_MAX, Places, SessionWorkers
from .worker_process import Limits, WorkerDied, WorkerProcess, code_folders, command

AGAIN: tuple[Contract, ...] = ("pure", "idempotent")
"""Contracts under which a call whose worker died is run once more."""
ABOUT = (
    "session",
    "call_id",
    "tool",
    "run_id",
    "agent",
    "epoch",
    "attempt",
    "depth",
    "exclude",
    "basis",
    "folder",
    "traceparent",
)


class ProcessPlanes:
    """Gives each session workers of its own, which it shares with no other.

    With a `sandbox`, workers are started inside of it: one of that kind for each session, over `folder` or over an
    empty folder that ends with the session; or, with `"session"`, the session's own."""

    def __init__(
        self,
        *,
        sandbox: SandboxKind | Literal["session"] | None = None,
        folder: str | os.PathLike[str] | None = None,
        env_allowed: tuple[str, ...] = ENV_ALLOWED,
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        workers_max: int = WORKERS_MAX,
        session_workers_max: int = SESSION_WORKERS_MAX,
        grace_s: float = GRACE_S,
    ) -> None:
        if workers_max < 1 or session_workers_max < 1:
            raise UsageError("a plane of processes has at least one worker, and one for each session")
        if folder is not None and (sandbox is None or sandbox == "session"):
            raise UsageError("folder= is where the sandbox of the workers is: give sandbox= a kind of sandbox")
        self.sandbox = sandbox
        self.folder = os.fspath(folder) if folder is not None else None
        self.env_allowed = env_allowed
        self.env = dict(env or {})
        self.limits = limits or Limits()
        self.grace_s = grace_s
        self.places = Places(workers_max, session_workers_max)
        self._found: weakref.WeakKeyDictionary[AnyTool, tuple[Address, str]] = weakref.WeakKeyDictionary()

    def check(self, tool: AnyTool) -> None:
        """Raises `UsageError` for a tool that a worker could not find."""
        self.found(tool)

    def found(self, tool: AnyTool) -> tuple[Address, str]:
        """Where a tool is found, and the digest of its code as it was when that was first asked."""
        if tool not in self._found:
            self._found[tool] = (address_of(tool), code_digest(tool.function))
        return self._found[tool]

    async def open(self, session: str) -> ProcessPlane:
        """A session's plane. No worker is started before it is needed."""
        return ProcessPlane(self, session)

    async def close(self) -> None:
        """Ends every worker that is left. Safe twice."""
        await self.places.close()


class ProcessPlane:
    """The workers of one session."""

    def __init__(self, kind: ProcessPlanes, session: str) -> None:
        self._kind = kind
        self._session = session
        self._workers = SessionWorkers(kind.places)
        self._sandbox: Sandbox | None = None
        self._made: str | None = None
        self._lock = asyncio.Lock()

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Runs a tool within its time. Waiting for a person, or for a worker, does not count."""
        try:
            self._kind.found(tool)
        except UsageError as error:
            return failed("tool_unavailable", f"the tool {tool.name!r} cannot run", str(error))
        context.attach(asyncio.get_running_loop())
        deadline = Deadline(tool.options.timeout_ms, context)
        try:
            outcome = await self._run(tool, call, context)
        except asyncio.CancelledError:
            if not deadline.settle():
                raise
            return timed_out(tool.options.timeout_ms)
        finally:
            deadline.close()
        if deadline.settle():
            for blob in outcome.blobs:
                blob.close()
            return timed_out(tool.options.timeout_ms)
        return outcome

    async def close(self) -> None:
        """Ends the session's workers, then the sandbox that they were in. Safe twice."""
        await self._workers.close()
        async with self._lock:
            if self._sandbox is not None:
                await self._sandbox.close()
                self._sandbox = None
            if self._made is not None:
                await asyncio.to_thread(shutil.rmtree, self._made, ignore_errors=True)
                self._made = None

    async def _run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """One run; another one if its worker died and the contract of the tool allows it."""
        again = tool.options.contract in AGAIN
        while True:
            try:
                return await self._once(tool, call, context)
            except WorkerDied as died:
                context.notice("worker_died", f"{tool.name!r}: {died.how}")
                if again and not context.cancelled:
                    again = False
                    continue
                return _died(tool, died)

    async def _once(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        context.waits.begin()
        try:
            sandbox = await self._place(context)
            worker = await self._workers.worker(sandbox, lambda: self._launch(sandbox), context)
        except (UsageError, ToolError, WorkerDied) as error:
            told = f"the tool {tool.name!r} cannot run now: its process does not come up"
            why = f"{error}\n{error.told}" if isinstance(error, WorkerDied) else str(error)
            return failed("tool_unavailable", told, told, private=why)
        finally:
            context.waits.end()
        running = RunningCall(worker, context, sandbox)
        try:
            while not context.holds:
                if not await context.hold():
                    running.stained = False
                    return failed("tool_cancelled", GONE, GONE)
            worker.begins(tool.name)
            await worker.send(self._message(tool, call, context))
            return await running.outcome()
        except asyncio.CancelledError:
            context.cancel()
            await self._give_up(worker, running)
            raise
        except WorkerDied:
            raise await worker.died() from None
        finally:
            await self._done(worker, running)

    async def _done(self, worker: WorkerProcess, running: RunningCall) -> None:
        """The worker is kept for the next call, or ended with all that the tool left."""
        try:
            await running.close()
        finally:
            await self._workers.give_back(worker, keep=not running.stained)

    async def _give_up(self, worker: WorkerProcess, running: RunningCall) -> None:
        """Lets the tool clean up for a moment."""
        await worker.send(Cancel())
        await asyncio.wait([running.ended], timeout=self._kind.grace_s)

    def _message(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Call:
        address, code = self._kind.found(tool)
        return Call(
            address=address,
            tool=tool.name,
            code=code,
            parameters=tool.options.parameters,
            args=call.args or {},
            about={name: getattr(context, name) for name in ABOUT},
        )

    async def _place(self, context: ToolContext) -> Sandbox | None:
        """The sandbox that workers are started in, if any; what a tool runs, it runs there too."""
        kind = self._kind.sandbox
        if kind is None:
            return None
        if kind == "session":
            return context.sandbox
        async with self._lock:
            if self._sandbox is None:
                folder = self._kind.folder
                if folder is None:
                    folder = self._made = await asyncio.to_thread(tempfile.mkdtemp, prefix="windlass-plane-")
                self._sandbox = await kind.open(self._session, folder)
            return self._sandbox

    async def _launch(self, sandbox: Sandbox | None) -> Launch:
        process = Process(argv=command(self._kind.limits), env=self._kind.env, access=Access(readable=code_folders()))
        if sandbox is None:
            env = environment(os.environ, self._kind.env_allowed, self._kind.env)
            return Launch(argv=process.argv, cwd=os.getcwd(), env=env)
        launcher: Any = sandbox
        if not hasattr(launcher, "launch"):
            raise UsageError("this kind of sandbox cannot start workers: it has no launch()")
        launched: Launch = await launcher.launch(process)
        return launched


def _died(tool: AnyTool, died: WorkerDied) -> Outcome:
    effects = "it changes nothing" if tool.options.contract == "pure" else "it may have had effects"
    told = f"the tool {tool.name!r} did not end by itself: {died.how}; {effects}"
    return failed("tool_raised", told, f"the tool's process died: {died.how}", code="process_died", private=died.told)
