"""The bubblewrap sandbox: processes in namespaces of their own, which see programs, their folder and little else.

They have no network but their own loopback, write only their folder and a /tmp and home of the sandbox's, see no other
process, hold no privilege and can gain none. Inside, Landlock (if the kernel has it) and a filter of system calls hold
them once more. `Access` opens paths to write, and hosts through a proxy.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from . import confine
from .confined_sandboxes import ConfinedKind, ConfinedSandboxes
from .guarded_names import guarded_names
from .process_group import Plan, Starter
from .proxy import PROXY_PORT, Doors, proxy_variables
from .sandbox import Capabilities, Launch, Limits, Process
from .scratch import Scratch
from .visible_paths import Visible, beneath, home, visible_paths

PROBE_S = 20.0
CONFINE = confine.__file__
INSIDE = "/run/windlass"
NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
PRIVILEGES = ("--cap-drop", "ALL", "--die-with-parent")


class Bubblewrap:
    """How a process is started inside bubblewrap."""

    def __init__(self, root: str, *, readable: tuple[str, ...] = (), hidden: tuple[str, ...] = ()) -> None:
        self._root = root
        self._readable = readable
        self._hidden = hidden
        self._scratch = Scratch()
        self._doors = Doors(self._scratch.doors)

    async def capabilities(self) -> Capabilities:
        """Files and network are held by the kernel."""
        return Capabilities(
            name="bubblewrap",
            confines_files=True,
            confines_network=True,
            gives_hosts=True,
            hides=True,
            pty=True,
            jobs=True,
        )

    async def ready(self, process: Process) -> None:
        """Opens the door to the hosts that were granted."""
        if process.access.hosts:
            await self._doors.open(process.access.hosts)

    def launch(self, process: Process, cwd: str, env: dict[str, str], status: int | None) -> Launch:
        """Bubblewrap, around the last step, around the program."""
        words = [_program(), *NAMESPACES, *PRIVILEGES, *_more_flags(), *([] if process.pty else ["--new-session"])]
        words += [
            *self._system(process),
            *self._own(process),
            *self._hosts(process),
            "--remount-ro",
            "/",
            "--chdir",
            cwd,
            "--",
        ]
        words += [
            os.path.realpath(sys.executable),
            "-I",
            "-S",
            f"{INSIDE}/confine.py",
            *self._last_step(process, status),
        ]
        reach = proxy_variables(PROXY_PORT) if process.access.hosts else {}
        inner = {**env, "TMPDIR": "/tmp", "HOME": home(), **reach}
        mangled = {confine.PREFIX + name: value for name, value in inner.items()}
        return Launch(argv=(*words, "--", *process.argv), cwd="/", env=mangled)

    def plan(self, process: Process, start: Starter, limits: Limits) -> Plan:
        """Names that are not there are watched from outside."""
        guarded = guarded_names(self._root, process.access.writable)
        return Plan(process, start, limits, tells=True, guarded=guarded, scratch=self._scratch.path)

    def heard(self) -> tuple[str, ...]:
        """What was asked of the proxy."""
        return self._doors.heard()

    async def close(self) -> None:
        """Closes the doors and removes what processes wrote beside their folder."""
        import asyncio

        await self._doors.close()
        await asyncio.to_thread(self._scratch.close)

    def _system(self, process: Process) -> list[str]:
        """Programs, libraries, settings; devices and the processes of the sandbox itself."""
        visible = self._visible(process)
        words: list[str] = []
        for path in visible.system:
            if os.path.islink(path) and os.path.dirname(path) == "/":
                words += ["--symlink", os.readlink(path), path]
            else:
                words += ["--ro-bind", path, path]
        words += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
        words += ["--bind", self._scratch.tmp, "/tmp", "--bind", self._scratch.tmp, "/var/tmp"]
        words += ["--dir", "/run"]
        words += ["--bind", self._scratch.home, home()]
        for path in visible.toolchains:
            words += ["--ro-bind-try", path, path]
        return words

    def _own(self, process: Process) -> list[str]:
        """The folder, what is held and hidden in it, and what was granted beside it."""
        granted = process.access.writable
        guarded = guarded_names(self._root, granted)
        words = ["--bind", self._root, self._root]
        for option, names in (("--bind", guarded.pinned), ("--ro-bind", (*guarded.held, *guarded.live))):
            for path in (os.path.join(self._root, name) for name in names):
                words += [option, path, path]
        for path in (*self._visible(process).hidden, *process.unseen):
            words += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
        for path in granted:
            if not beneath(path, self._root):
                words += ["--bind", path, path]
        return words

    def _visible(self, process: Process) -> Visible:
        return visible_paths(self._root, (*self._readable, *process.access.readable), self._hidden)

    def _hosts(self, process: Process) -> list[str]:
        """What leads out: the script of the last step, and the proxy's socket."""
        words = ["--ro-bind", CONFINE, f"{INSIDE}/confine.py"]
        if process.access.hosts:
            words += ["--ro-bind", self._doors.path(process.access.hosts), f"{INSIDE}/proxy"]
        return words

    def _last_step(self, process: Process, status: int | None) -> list[str]:
        words = [f"status={status}"] if status is not None else []
        words.append("filter=inner")
        if confine.landlock_version() >= 3:  # before that, files could not be moved between folders, or be shortened
            writable = (self._root, "/tmp", home(), "/dev", *process.access.writable)
            words += ["held=writes", *(f"write={path}" for path in writable)]
        if process.access.hosts:
            words.append(f"forward={PROXY_PORT}:{INSIDE}/proxy")
        return words


def _program() -> str:
    return shutil.which("bwrap") or "bwrap"


@functools.cache
def _more_flags() -> tuple[str, ...]:
    """What newer versions can do besides: no namespaces within the namespaces."""
    try:
        told = subprocess.run([_program(), "--help"], capture_output=True, text=True, timeout=PROBE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ()
    return ("--disable-userns",) if "--disable-userns" in told.stdout + told.stderr else ()


@functools.cache
def bubblewrap_problem() -> str | None:
    """Why bubblewrap cannot be used; None if it can. It is tried once, by running a program in it."""
    if sys.platform != "linux":
        return "it is a program for Linux"
    if shutil.which("bwrap") is None:
        return "there is no program 'bwrap' (Debian's package is bubblewrap)"
    words = [
        _program(),
        *NAMESPACES,
        *PRIVILEGES,
        *_more_flags(),
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    try:
        tried = subprocess.run([*words, "--", "true"], capture_output=True, text=True, timeout=PROBE_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"bwrap cannot be run: {error}"
    if tried.returncode != 0:
        told = tried.stderr.strip().splitlines()
        return f"bwrap does not work: {told[-1] if told else f'it ended with {tried.returncode}'}"
    return None


def _inside(root: str, readable: tuple[str, ...], hidden: tuple[str, ...]) -> Bubblewrap:
    return Bubblewrap(root, readable=readable, hidden=hidden)


BubblewrapSandboxes = functools.partial(
    ConfinedSandboxes, ConfinedKind("bubblewrap", lambda: bubblewrap_problem(), _inside)
)
"""Gives each session a sandbox of bubblewrap over its folder."""
