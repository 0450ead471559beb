"""What a runtime may be opened with: the words, what each means, and the life of the host that follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from windlass.runtime.bind.mounted_tools import tools_of
from windlass.runtime.drive.children import Children
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.host.host_life import HostLife, Opening
from windlass.runtime.host.host_settings import HostSettings
from windlass.runtime.host.ports import Ports, SystemPorts
from windlass.runtime.jobs.local_jobs import JOB_LIFE_MS, jobs_of
from windlass.runtime.owner.owner import SNAPSHOT_EVERY_RECORDS
from windlass.runtime.streams.log_follower import FollowerMaker
from windlass.store.base import Durability, Store
from windlass.store.rules.limits import check_ttl
from windlass.tools.jobs.job_host import JobHosts
from windlass.tools.named_secrets import NamedSecrets, SecretSource
from windlass.tools.planes.plane import PlaneKind
from windlass.tools.sandboxes.choice import sandbox_named
from windlass.tools.sandboxes.sandbox import SandboxKind

from .approvals import Approver

LEASE_MS = 15_000
POLL_MS = 100
DRAIN_MS = 10_000
"""How long a process that is asked to stop waits for what has begun."""


class RuntimeOptions(TypedDict, total=False):
    """What `windlass.open` and `windlass.Runtime` take beside the store and the agents."""

    durability: Durability
    tenant: str
    ports: Ports | None
    approver: Approver | None
    lease_ms: int
    poll_ms: int
    planes: Mapping[str, PlaneKind] | None
    """Where tools may run, by name."""
    sandbox: SandboxKind | str | None
    """Where their processes run: a kind, or its name ("auto" is the best that works here). Without it, a session has
    the kind that its log names, else processes are not confined."""
    snapshot_every: int
    take_up: bool
    """Whether sessions that are owed work are resumed unasked; else only those asked for by name are."""
    drain_ms: int
    """How long `drain`, and a SIGTERM in `drained_on_sigterm`, wait for what has begun."""
    tools: Sequence[Any]
    """The code of tools that sessions mounted before."""
    children: Children | None
    secrets: Iterable[str] | Mapping[str, SecretSource]
    """Values that this process leaves out of everything it writes; keys of models need not be named. By name, with a
    value or a function that gives it, they can be used: `ctx.secret`, `ctx.run(secrets=...)`."""
    jobs: str | os.PathLike[str] | JobHosts | None
    """The folder for background jobs: one in the user's state folder if the store is a file or directory; if it is
    neither, jobs end with this process."""
    job_life_ms: int
    """How long a job may run, unless it is detached."""
    telemetry: FollowerMaker | None
    """Follows the sessions that are driven here, such as `windlass.telemetry.Telemetry(exporter)`."""


def host_life(
    store: Store | str | Opening,
    *,
    durability: Durability = "full",
    tenant: str = "default",
    ports: Ports | None = None,
    approver: Approver | None = None,
    lease_ms: int = LEASE_MS,
    poll_ms: int = POLL_MS,
    planes: Mapping[str, PlaneKind] | None = None,
    sandbox: SandboxKind | str | None = None,
    snapshot_every: int = SNAPSHOT_EVERY_RECORDS,
    take_up: bool = True,
    drain_ms: int = DRAIN_MS,
    tools: Sequence[Any] = (),
    children: Children | None = None,
    secrets: Iterable[str] | Mapping[str, SecretSource] = (),
    jobs: str | os.PathLike[str] | JobHosts | None = None,
    job_life_ms: int = JOB_LIFE_MS,
    telemetry: FollowerMaker | None = None,
) -> HostLife:
    """The host of these options, before its life begins. Raises `UsageError` for what means nothing."""
    files = files_of(store)
    kind = sandbox_named(sandbox, hidden=files) if isinstance(sandbox, str) else sandbox
    runners = ToolRunners(planes, kind, jobs_of(jobs, store, tenant, job_life_ms), NamedSecrets(secrets), files)
    ports = ports or SystemPorts()
    settings = HostSettings(
        tenant=tenant,
        runner=ports.runner(),
        lease_ms=check_ttl(lease_ms),
        poll_ms=poll_ms,
        snapshot_every=snapshot_every,
        take_up=take_up,
        drain_ms=drain_ms,
        approver=approver,
        children=children,
        library=tuple(tools_of(tools)),
        sandbox=runners.sandbox,
    )
    place = store if isinstance(store, str) else None
    follower = telemetry.follower(tenant, place, ports.now_ms) if telemetry is not None else None
    return HostLife(store, durability, ports, settings, runners, follower)


def files_of(store: object) -> tuple[str, ...]:
    """The files of a store that is named by its place, which no sandboxed process may see."""
    if not isinstance(store, str) or store == ":memory:":
        return ()
    path = os.path.realpath(store.removeprefix("sqlite:").removeprefix("jsonl:"))
    return (path, f"{path}-wal", f"{path}-shm")
