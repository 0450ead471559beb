"""The sandbox for machines without bubblewrap: Landlock holds what files a process may open, and a filter of system
calls holds the rest. The process applies both to itself before it becomes the program; nobody can take them off again.

It writes only its folder and a scratch place, reads only what bubblewrap would show, and has no sockets at all: even
one in a file leads out, to a container engine or a message bus, where no namespace hides it. A process that hosts were
granted to gets a network of its own, if the system lets it, with nothing in it but the way to our proxy: Landlock knows
ports, and no addresses. What it cannot do: hide
that other processes exist, hold modes and times of files of this user, or keep single names of the folder from being
written (they are put back at the end).
"""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys

from windlass.tools.context import ToolError

from . import confine
from .confined_sandboxes import ConfinedKind, ConfinedSandboxes
from .guarded_names import guarded_names
from .process_group import Plan, Starter
from .proxy import PROXY_PORT, Doors, proxy_variables
from .sandbox import Capabilities, Launch, Limits, Process
from .scratch import Scratch
from .visible_paths import DEVICES, KERNEL_FACTS, visible_paths

PROBE_S = 20.0
WHOLE_SINCE = 3
"""Before this version files could be shortened whatever the rules said."""
SIGNALS_SINCE = 6
"""Since this version processes outside cannot be signalled."""


class Landlock:
    """How a process is started that confines itself."""

    def __init__(self, root: str, *, readable: tuple[str, ...] = ()) -> None:
        self._root = root
        self._readable = readable
        self._scratch = Scratch()
        self._doors = Doors(self._scratch.doors)

    async def capabilities(self) -> Capabilities:
        """Files are held if this version of Landlock holds all that changes one; sockets are always refused."""
        import asyncio

        whole = confine.landlock_version() >= WHOLE_SINCE
        return Capabilities(
            name="landlock",
            confines_files=whole,
            confines_network=True,
            gives_hosts=await asyncio.to_thread(network_problem) is None,
            pty=True,
            jobs=True,
        )

    async def ready(self, process: Process) -> None:
        """Opens the door to the hosts that were granted, if a process can have a network of its own to reach it."""
        import asyncio

        if process.access.hosts:
            problem = await asyncio.to_thread(network_problem)
            if problem is not None:
                told = f"this sandbox has no way to give a process some hosts and not all: {problem}"
                raise ToolError(told, code="no_network")
            await self._doors.open(process.access.hosts)

    def launch(self, process: Process, cwd: str, env: dict[str, str], status: int | None) -> Launch:
        """The last step, which is the only one."""
        words = [sys.executable, "-I", "-S", confine.__file__, "filter=alone", "held=all"]
        words += [f"status={status}"] if status is not None else []
        if process.access.hosts:
            words += ["network=own", f"forward={PROXY_PORT}:{self._doors.path(process.access.hosts)}"]
        words += [f"read={path}" for path in self._reads(process)]
        words += [f"write={path}" for path in (self._root, self._scratch.tmp, self._scratch.home)]
        words += [f"write={path}" for path in process.access.writable]
        words += [f"write=/dev/{name}" for name in DEVICES]
        reach = proxy_variables(PROXY_PORT) if process.access.hosts else {}
        inner = {**env, "TMPDIR": self._scratch.tmp, "HOME": self._scratch.home, **reach}
        mangled = {confine.PREFIX + name: value for name, value in inner.items()}
        return Launch(argv=(*words, "--", *process.argv), cwd=cwd, env=mangled)

    def _reads(self, process: Process) -> list[str]:
        visible = visible_paths(self._root, (*self._readable, *process.access.readable), ())
        return [*visible.system, *visible.toolchains, *(f"/proc/{name}" for name in KERNEL_FACTS)]

    def plan(self, process: Process, start: Starter, limits: Limits) -> Plan:
        """Names that may not be written are watched from outside, since Landlock knows no exceptions beneath a path."""
        guarded = guarded_names(self._root, process.access.writable)
        return Plan(process, start, limits, tells=True, guarded=guarded, watches=True, scratch=self._scratch.path)

    def heard(self) -> tuple[str, ...]:
        """What was asked of the proxy."""
        return self._doors.heard()

    async def close(self) -> None:
        """Closes the doors and removes what processes wrote beside their folder."""
        import asyncio

        await self._doors.close()
        await asyncio.to_thread(self._scratch.close)


@functools.cache
def landlock_problem() -> str | None:
    """Why Landlock and seccomp cannot be used; None if they can. They are tried once, by running a program so held."""
    if sys.platform != "linux":
        return "it is a part of Linux"
    if confine.landlock_version() == 0:
        return "this kernel has no Landlock, or it is switched off"
    if platform.machine() not in confine.MACHINES:
        return f"no filter of system calls is known for {platform.machine()}"
    return _tried()


@functools.cache
def network_problem() -> str | None:
    """Why a process cannot have a network of its own, without which it cannot be given some hosts and not all; None if
    it can. It is tried once."""
    return landlock_problem() or _tried("network=own")


def _tried(*options: str) -> str | None:
    """Runs a program so held; what is wrong if that does not work."""
    script = [sys.executable, "-I", "-S", confine.__file__, "filter=alone", "held=all", *options]
    environ = {f"{confine.PREFIX}PATH": os.defpath}
    try:
        tried = subprocess.run(
            [*script, "read=/", "--", "true"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"it cannot be tried: {error}"
    if tried.returncode != 0:
        told = tried.stderr.strip().splitlines()
        return f"it does not work: {told[-1] if told else f'the trial ended with {tried.returncode}'}"
    return None


def _inside(root: str, readable: tuple[str, ...], hidden: tuple[str, ...]) -> Landlock:
    """Raises `ToolError` for a folder that holds what processes must not see."""
    exposed_paths = (*visible_paths(root, readable, hidden).hidden, *guarded_names(root).live)
    if exposed_paths:
        told = f"it cannot hold off {exposed_paths[0]}, which lies in what its processes see: work in another folder"
        raise ToolError(f"the sandbox 'landlock' cannot be used here: {told}", code="no_sandbox")
    return Landlock(root, readable=readable)


LandlockSandboxes = functools.partial(ConfinedSandboxes, ConfinedKind("landlock", lambda: landlock_problem(), _inside))
"""Gives each session a sandbox of Landlock and seccomp over its folder."""
