"""Every plane and every sandbox that this machine can run, by name: the fault suite goes over these two lists."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.sandboxes import real_container
from tests.sandboxes.test_container import engine_at
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext
from windlass.tools.planes.local import LocalPlanes
from windlass.tools.planes.outcome import Outcome
from windlass.tools.planes.process.plane import ProcessPlanes
from windlass.tools.planes.process.worker_process import Limits
from windlass.tools.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.tools.sandboxes.container import ContainerSandboxes
from windlass.tools.sandboxes.landlock import LandlockSandboxes
from windlass.tools.sandboxes.local import LocalSandboxes
from windlass.tools.sandboxes.remote.client import RemoteSandboxes
from windlass.tools.sandboxes.remote.server import WorkerServer
from windlass.tools.sandboxes.sandbox import Limits as SandboxLimits
from windlass.tools.tool import AnyTool, tool

GRACE_S = 0.2
TOKEN = "a-token-for-faults-only"
MARK = "FAULT_MARK"
"""A variable that marks everything that a test starts, so that it is found wherever it has gone."""

CONFINED: dict[str, Callable[..., Any]] = {
    name: kind
    for name, kind in (("bubblewrap", BubblewrapSandboxes), ("landlock", LandlockSandboxes))
    if kind().problem() is None
}
"""Kinds of sandboxes that hold processes to something, and work here."""

PROCESS_PLANES = ["process", *(f"process-in-{name}" for name in CONFINED)]
PLANES = ["local", *PROCESS_PLANES]
ENGINES = ["podman"] if real_container.engine()[1] is None else []
SANDBOXES = ["local", *CONFINED, "container", *ENGINES, "remote"]
"""The engine of `container` is a program of the tests that notes its words and really runs the command; that of `podman`
is a real one."""


class Place:
    """A plane of one session, and the mark of everything that it starts."""

    def __init__(self, plane: Any, kind: Any, mark: str, folder: pathlib.Path) -> None:
        self.plane = plane
        self.kind = kind
        self.mark = mark
        self.folder = folder
        """A folder that its tools can write."""

    async def run(self, function: Any, *, context: ToolContext | None = None, **given: Any) -> Outcome:
        """Runs a function as a tool; options of the tool are given by names that begin with an underscore."""
        options = {name[1:]: value for name, value in given.items() if name.startswith("_")}
        args = {name: value for name, value in given.items() if not name.startswith("_")}
        made: AnyTool = tool(**options)(function)
        context = context or ToolContext(session="s", call_id="c1.0", tool=made.name)
        outcome: Outcome = await self.plane.run(made, CallBody(args=args), context)
        return outcome

    @property
    def left(self) -> list[int]:
        """The processes that it started and that have not ended."""
        return marked(self.mark)


@contextlib.asynccontextmanager
async def plane(name: str, folder: pathlib.Path, **more: Any) -> AsyncIterator[Place]:
    """A plane by its name, closed at the end; nothing that it started is left then."""
    mark = uuid.uuid4().hex
    if name == "local":
        kind: Any = LocalPlanes()
    else:
        sandbox = CONFINED[name.removeprefix("process-in-")]() if "-in-" in name else None
        where: dict[str, Any] = {"folder": folder} if sandbox is not None else {}
        kind = ProcessPlanes(sandbox=sandbox, grace_s=GRACE_S, env={MARK: mark}, **where, **more)
    opened = await kind.open("s")
    try:
        yield Place(opened, kind, mark, folder)
    finally:
        await opened.close()
        await kind.close()
        assert marked(mark) == []


@contextlib.asynccontextmanager
async def sandbox(name: str, folder: pathlib.Path, limits: SandboxLimits | None = None) -> AsyncIterator[Any]:
    """A sandbox by its name, over a folder, closed at the end."""
    kinds = {"local": LocalSandboxes, "remote": LocalSandboxes, **CONFINED}
    kind: Any = None
    if name in kinds:
        kind = kinds[name](limits=limits) if limits is not None else kinds[name]()
    server = None
    if name == "container":
        engines = pathlib.Path(tempfile.mkdtemp(dir=folder.parent))
        engine_at(engines)
        kind = ContainerSandboxes(engine=str(engines / "podman"), limits=limits)
    if name == "podman":
        kind = ContainerSandboxes(engine=real_container.engine()[0], image=real_container.IMAGE, limits=limits)
    if name == "remote":
        server = WorkerServer(folder, TOKEN, kind)
        await server.start()
        kind = RemoteSandboxes(server.url, TOKEN)
    box = await kind.open("s", str(folder))
    try:
        yield box
    finally:
        await box.close()
        if server is not None:
            await server.close()


def marked(mark: str) -> list[int]:
    """The processes that carry a mark in their environment, wherever they have gone, and have not ended."""
    needle = mark.encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            state = pathlib.Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
            if state not in (b"Z", b"X") and needle in pathlib.Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def limited(**given: int) -> dict[str, Any]:
    """What a plane of processes is opened with to hold its workers to limits."""
    return {"limits": Limits(**given)}
