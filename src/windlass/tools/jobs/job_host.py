"""What runs commands that may outlive their call, as an interface: a job is started once, found again by its id, read,
and ended. Which machine it is on and how it is kept alive is the host's affair."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec

from windlass.events.stored.known_secrets import SECRETS
from windlass.events.tools.jobs import JobStatus
from windlass.events.values.blocks import ResultBlock, Value
from windlass.tools.context import ToolError
from windlass.tools.sandboxes.sandbox import Launch

StopReason = Literal["killed", "stopped", "session_ended", "given_up"]
"""Why a job is made to end: somebody asked for it, its run was stopped with it, its session ended, or its call was
given up before it was a job."""

Born = Callable[[], Awaitable[str]]
"""Says what tells the log of a session from every other log, one of the same name in the same place included; empty as
long as nothing is in it."""


class JobEnd(Value, frozen=True, kw_only=True):
    """How a job ended. `left` = processes that it left running, which were ended with it."""

    status: JobStatus
    exit_code: int | None = None
    duration_ms: int = 0
    output_bytes: int = 0
    left: int = 0
    not_started: str = ""
    """Why its program could not be started at all, if it could not."""


class JobOutput(Value, frozen=True, kw_only=True):
    """Some of what a job printed: the bytes from `offset` on. `size` is how much it has printed so far; what lies
    between is there to be read, unless it was dropped."""

    data: bytes = b""
    offset: int = 0
    size: int = 0

    @property
    def next_offset(self) -> int:
        """Where to read on."""
        return self.offset + len(self.data)


class Background(Value, frozen=True, kw_only=True):
    """What a tool returns whose command goes on as a job: the call is closed with `content`."""

    job_id: str
    title: str = ""
    content: tuple[ResultBlock, ...] = ()
    late: bool = False
    detached: bool = False


class JobRow(Value, frozen=True, kw_only=True):
    """A job as it is listed. `status` is `running`, `ending`, or how it ended."""

    job_id: str
    status: str
    title: str = ""
    tool: str = ""
    call_id: str = ""
    since_ms: int = 0
    age_ms: int = 0
    detached: bool = False
    exit_code: int | None = None
    output_bytes: int = 0
    labels: tuple[str, ...] = ()
    """What it prints is marked with."""


class JobsFull(ToolError):
    """No more jobs may be started here before others have ended."""


class JobHost(Protocol):
    """The jobs of one session. Every method may be called again after a crash, by another process, with the same id."""

    async def start(self, job_id: str, launch: Launch, title: str, *, detached: bool = False) -> None:
        """Starts a job under an id that nothing was started under before; it ends with this process unless it is kept.
        Raises `ToolError` if that cannot be done."""
        ...

    async def keep(self, job_id: str) -> None:
        """From now on the job goes on without this process."""
        ...

    async def ended(self, job_id: str) -> JobEnd:
        """Waits for the end of a job, which is lost if nothing is left of it."""
        ...

    async def stop(self, job_id: str, reason: StopReason) -> None:
        """Has a job end, with all that it started. It returns at once."""
        ...

    async def output(self, job_id: str, offset: int, most: int) -> JobOutput:
        """What a job printed from an offset on; a negative one counts from the end. What was dropped is skipped."""
        ...

    async def forget(self, job_id: str) -> None:
        """A job is over and nothing of it is needed any more."""
        ...

    async def end_all(self) -> None:
        """The session is gone: ends its jobs, but for those that are detached, and waits for that."""
        ...

    async def close(self) -> None:
        """This process lets the session go; what is kept goes on."""
        ...

    async def sweep(self, known: frozenset[str]) -> None:
        """Ends every job that is not known: it was started, and whoever did so died before that was on record."""
        ...


class JobHosts(Protocol):
    """What a runtime is opened with: the jobs of its sessions."""

    def for_session(self, session: str, born: Born) -> JobHost:
        """The jobs of a session, and of no other that has its name later or elsewhere: `born` tells them apart."""
        ...

    async def close(self) -> None:
        """This process ends; what is kept goes on."""
        ...


class JobDesk(Protocol):
    """The jobs of a session as its tools see them."""

    @property
    def host(self) -> JobHost: ...

    async def listed(self) -> tuple[JobRow, ...]:
        """The open jobs, and the last that have ended."""
        ...


AROUND = 4_096
"""How much is looked at on both sides of a part for what no model may see."""


async def clean_output(
    host: JobHost, job_id: str, offset: int, most: int, blotted: Callable[[bytes], bytes] | None = None
) -> JobOutput:
    """What a job printed, with asterisks for known secrets and for what `blotted` takes out, also if it lies across the
    ends of this part: half of it is not known any more."""
    printed = await host.output(job_id, offset, most)
    if printed.offset == 0 and len(printed.data) == printed.size:
        blotted = None  # nothing is cut, so nothing is missed later
    around = max(SECRETS.longest, AROUND if blotted is not None else 0)
    if not around or not printed.data:
        return printed
    whole = await host.output(job_id, max(0, printed.offset - around), len(printed.data) + 2 * around)
    begin = max(0, printed.offset - whole.offset)
    clean = SECRETS.blotted(whole.data)
    clean = blotted(clean) if blotted is not None else clean
    return msgspec.structs.replace(printed, data=clean[begin : begin + len(printed.data)])
