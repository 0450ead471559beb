"""Background jobs: commands that go on after their call, and what became of each."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.base import Category, Command, Decision, Fact, Nat
from windlass.events.hooks import HookRuling
from windlass.events.values.blocks import ResultBlock, Value
from windlass.events.workspace import FileChange

JobStatus = Literal["completed", "failed", "aborted", "cancelled", "retired", "terminated", "lost"]
"""How a job ended: by itself with exit code 0, by itself with another one, by a signal from elsewhere, killed by
somebody who asked for it, at the end of the longest time that it may have, with its session, or nobody knows."""


class JobBody(Value, frozen=True, kw_only=True):
    """What a job is about, and what is told of it."""

    title: str = ""
    content: tuple[ResultBlock, ...] = ()


class JobStarted(Fact, frozen=True, kw_only=True, tag="job.started"):
    """A command goes on in the background; this is the result of its call. `late` = it was to end within its time, and
    did not; `detached` = it goes on when its session ends. Its id is derived from the call
    and the attempt, so that each attempt starts at most one."""

    CATEGORY: ClassVar[Category] = "proc"
    call_id: str
    job_id: str
    late: bool = False
    detached: bool = False
    tokens: Nat = 0
    bytes: Nat = 0
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    hooks: tuple[HookRuling, ...] = ()
    body: JobBody | None = None


class JobFinished(Fact, frozen=True, kw_only=True, tag="job.finished"):
    """A job came to its end, with the tail of its output. It is told once: to the model at the next boundary, or by a
    run that begins with it."""

    CATEGORY: ClassVar[Category] = "proc"
    job_id: str
    status: JobStatus
    exit_code: int | None = None
    duration_ms: Nat = 0
    output_bytes: Nat = 0
    tokens: Nat = 0
    bytes: Nat = 0
    hooks: tuple[HookRuling, ...] = ()
    body: JobBody | None = None


class KillReceived(Command, frozen=True, kw_only=True, tag="kill.received"):
    """Somebody wants a job to end."""

    CATEGORY: ClassVar[Category] = "proc"
    job_id: str


class JobStopping(Decision, frozen=True, kw_only=True, tag="job.stopping"):
    """A job is to end; whoever watches it sees to that."""

    CATEGORY: ClassVar[Category] = "proc"
    job_id: str
    reason: Literal["killed", "stopped"]
    """A person asked for this job's end, or stopped a run with its jobs."""


class JobDropped(Decision, frozen=True, kw_only=True, tag="job.dropped"):
    """A job of the session that this one was made from: it is not carried over, and its end is not told here."""

    CATEGORY: ClassVar[Category] = "proc"
    job_id: str
