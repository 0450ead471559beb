"""The container sandbox: processes in a container of podman or docker, without network, over a read-only image.

Each process is a container of its own, which is removed at its end, whatever became of whoever started it. The image is
never downloaded from here: somebody has to have pulled it.
"""

from __future__ import annotations

import functools
import os
import resource
import secrets as random_names
import shutil
import subprocess

from windlass.tools.context import ToolError

from .folder_sandbox import FolderSandbox
from .guarded_names import guarded_names
from .process_group import Plan, Starter
from .sandbox import Capabilities, Launch, Limits, Process, SecretsByName
from .scratch import Scratch
from .visible_paths import beneath, secret_places

ENGINES = ("podman", "docker")
IMAGE = "debian:stable-slim"
PROBE_S = 20.0
REASON_CHARS = 300
PROCESSES = 1024
"""How many processes a container may have, unless the limits say otherwise."""
OWN_PROCESSES = 32_768
"""What podman holds itself to, so that it cannot give a container more without a privilege of its own."""
HOME = "/home/sandbox"
FOR_ENGINE = (
    "PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST", "TMPDIR",
)  # fmt: skip
"""What the engine's own program gets of our environment. The process inside gets none of it."""
POWERFUL = (
    "LD_", "DOCKER", "CONTAINER", "PODMAN", "BUILDAH", "STORAGE", "REGISTRY", "XDG_", "GO", "GLIBC", "MALLOC", "HTTP",
    "ALL_PROXY", "NO_PROXY", "SSL_", "TMP", "HOME", "PATH", "NOTIFY", "LISTEN", "DBUS", "SSH_", "BASH", "ENV", "IFS",
)  # fmt: skip
"""Names that the engine's own program might obey: their values are handed over as words of its command line."""
INSIDE_ALLOWED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
HELD = (
    "run", "--rm", "--interactive", "--init", "--pull", "never", "--network", "none", "--read-only",
    "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private", "--log-driver", "none",
)  # fmt: skip


class ContainerSandboxes:
    """Gives each session a sandbox of containers over its folder. `image` must be there already."""

    name = "container"

    def __init__(
        self,
        *,
        image: str = IMAGE,
        engine: str | None = None,
        limits: Limits | None = None,
        secrets: SecretsByName | None = None,
        hidden: tuple[str, ...] = (),
    ) -> None:
        self._image = image
        self._engine = engine
        self._limits = limits
        self._hidden = hidden
        self._here = os.getcwd()
        self.secrets = secrets

    def problem(self) -> str | None:
        """Why it cannot be used here; None if it can."""
        return container_problem(self._image, self._engine, os.environ.get("PATH", ""))

    async def open(self, session: str, folder: str | None) -> FolderSandbox:
        """A session's sandbox. Raises `ToolError` if there is no engine that works, or no image."""
        import asyncio

        problem = await asyncio.to_thread(self.problem)
        if problem is not None:
            raise ToolError(f"the sandbox 'container' cannot be used here: {problem}", code="no_sandbox")
        return await asyncio.to_thread(self._made, folder or self._here)

    def _made(self, folder: str) -> FolderSandbox:
        root = os.path.realpath(folder)
        inside = Container(
            root, _engine(self._engine) or ENGINES[0], self._image, self._limits or Limits(), self._hidden
        )
        return FolderSandbox(
            root,
            inside,
            env_allowed=INSIDE_ALLOWED,
            limits=Limits(file_bytes=None, open_files=None),
            secrets=self.secrets,
        )


class Container:
    """How a process is started in a container."""

    def __init__(self, root: str, engine: str, image: str, limits: Limits, hidden: tuple[str, ...] = ()) -> None:
        self._root = root
        self._engine = engine
        self._image = image
        self._limits = limits
        self._hidden = hidden
        self._scratch = Scratch()

    async def capabilities(self) -> Capabilities:
        """Files and network are held by the engine."""
        return Capabilities(name="container", confines_files=True, confines_network=True, hides=True, pty=True)

    async def ready(self, process: Process) -> None:
        """There is no way from a container without network to a proxy of ours."""
        if process.access.hosts:
            raise ToolError(
                "this sandbox has no way to give a process some hosts: that needs bubblewrap", code="no_network"
            )

    def launch(self, process: Process, cwd: str, env: dict[str, str], status: int | None) -> Launch:
        """The engine, with everything that holds the process; values of secrets stand in its environment only."""
        words = [self._engine, *HELD, "--workdir", cwd, *self._user(), *_bounds_of(self._limits)]
        words += ["--tty"] if process.pty else []
        for source, target, mode in self._mounts(process):
            words += ["--volume", f"{source}:{target}:{mode}"]
        plain = {**env, "HOME": HOME, "TMPDIR": "/tmp"}
        outer = {each: os.environ[each] for each in FOR_ENGINE if each in os.environ}
        for each, value in plain.items():
            by_name = (each in process.env or each in process.secrets) and not each.upper().startswith(POWERFUL)
            if by_name:  # its value may be a secret, and a command line can be read by anybody
                words += ["--env", each]
                outer[each] = value
            elif each in process.secrets:
                told = f"a secret cannot be handed to a container as {each}: give it another name"
                raise ToolError(told, code="bad_name")
            else:
                words += ["--env", f"{each}={value}"]
        return Launch(argv=(*words, self._image, *process.argv), cwd="/", env=outer)

    def plan(self, process: Process, start: Starter, limits: Limits) -> Plan:
        """The container is removed at the end, since it is nobody's child."""
        guarded = guarded_names(self._root, process.access.writable)
        name = f"windlass-{random_names.token_hex(8)}"
        after = (self._engine, "rm", "--force", name)

        def named(status: int | None) -> Launch:
            launch = start(status)
            argv = (*launch.argv[:2], "--name", name, *launch.argv[2:])
            return Launch(argv=argv, cwd=launch.cwd, env=launch.env)

        return Plan(process, named, limits, guarded=guarded, scratch=self._scratch.path, after=after)

    def _user(self) -> list[str]:
        """Files of the folder belong to whoever runs this, inside as outside."""
        if os.path.basename(self._engine) == "podman":
            return ["--security-opt", "label=disable", *(["--userns", "keep-id"] if os.getuid() else [])]
        return ["--user", f"{os.getuid()}:{os.getgid()}"]

    def _mounts(self, process: Process) -> list[tuple[str, str, str]]:
        """The folder, what is held in it, what is hidden, what was granted, and the scratch place."""
        granted = process.access.writable
        guarded = guarded_names(self._root, granted)
        mounts = [(self._scratch.tmp, "/tmp", "rw"), (self._scratch.home, HOME, "rw"), (self._root, self._root, "rw")]
        mounts += [(path, path, "rw") for path in (os.path.join(self._root, name) for name in guarded.pinned)]
        held = (os.path.join(self._root, name) for name in (*guarded.held, *guarded.live))
        mounts += [(path, path, "ro") for path in held]
        for path in (*secret_places(), *self._hidden):
            if beneath(path, self._root) and os.path.lexists(path):
                mounts.append((self._scratch.doors if os.path.isdir(path) else "/dev/null", path, "ro"))
        for path in process.unseen:
            mounts.append((self._scratch.doors if os.path.isdir(path) else "/dev/null", path, "ro"))
        mounts += [(path, path, "rw") for path in granted if not beneath(path, self._root)]
        if any(":" in path for mount in mounts for path in mount[:2]):
            raise ToolError("a path with a colon in it cannot be mounted in a container", code="bad_path")
        return mounts

    def heard(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    async def close(self) -> None:
        """Removes what processes wrote beside their folder."""
        import asyncio

        await asyncio.to_thread(self._scratch.close)


def _bounds_of(limits: Limits) -> list[str]:
    """Limits as an engine takes them."""
    words = ["--pids-limit", str(limits.processes or PROCESSES), "--ulimit", "core=0:0"]
    words += ["--ulimit", f"nofile={limits.open_files}:{limits.open_files}"] if limits.open_files else []
    words += ["--ulimit", f"fsize={limits.file_bytes}:{limits.file_bytes}"] if limits.file_bytes else []
    words += ["--memory", str(limits.address_bytes)] if limits.address_bytes else []
    return [*words, *_own_bounds()]


def _own_bounds() -> list[str]:
    """What holds for this process holds in a container too: engines ask for more by themselves, which not every root
    may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if most == resource.RLIM_INFINITY:
        return []
    most = min(most, OWN_PROCESSES)
    return ["--ulimit", f"nproc={most}:{most}"]


def _engine(named: str | None) -> str | None:
    return shutil.which(named) if named else next(filter(None, map(shutil.which, ENGINES)), None)


@functools.cache
def container_problem(image: str, named: str | None, searched: str) -> str | None:
    """Why containers cannot be used; None if they can. `searched` is where programs are looked for."""
    engine = _engine(named)
    if engine is None:
        return f"there is no {named or 'podman or docker'}"
    trial = [*HELD, "--workdir", "/", *_bounds_of(Limits()), image, "true"]
    for words, told in (
        (["version"], "its engine does not answer"),
        (["image", "inspect", image], f"there is no image {image!r}"),
        (trial, "it runs no container"),
    ):
        try:
            tried = subprocess.run(
                [engine, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_S, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"{engine} cannot be run: {error}"
        if tried.returncode != 0:
            why = tried.stderr.decode(errors="replace").strip()[-REASON_CHARS:] if words is trial else ""
            return f"{os.path.basename(engine)} is there, but {told}{f': {why}' if why else ''}"
    return None
