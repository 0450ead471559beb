"""Background jobs: commands that outlive their call. The call is closed when one starts; its end is told once.

(call started) ──▶ job.started ──▶ open ──▶ job.finished   told at the next boundary, or by a run that begins with it
                                    │ └──▶ job.stopping    it is to end; `job.finished` follows
                                    └────▶ job.dropped     a fork or a copy: it belongs to the origin

A job is watched as long as it is open, whoever owns the session: a new owner finds its process again, or reports that
it is lost. Stopping a run leaves jobs alone unless it is said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.errors import Refused
from windlass.events.hooks import HookRuled
from windlass.events.runs import RunCancelled, RunCompleted, RunFailed, RunInterrupted, RunSlept
from windlass.events.tools.jobs import JobDropped, JobFinished, JobStarted, JobStatus, JobStopping, KillReceived
from windlass.events.values.ids import job_id
from windlass.kernel import parts
from windlass.kernel.effects import WatchJob
from windlass.kernel.part import Decisions, Misfit, Part, Row
from windlass.kernel.parts import asks, budgets, queue, retries, runs, workspace
from windlass.kernel.parts.context import context_size
from windlass.kernel.parts.tools import calls, labels
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import STARTED, WORKING

if TYPE_CHECKING:
    from windlass.kernel.state import State

ENDED_MAX = 32
"""How many jobs that have ended are remembered."""
TOLD_TOKENS = 24
WAKING: tuple[JobStatus, ...] = ("completed", "failed", "aborted", "retired", "lost")
"""Ends that may wake a session at rest; of the others somebody knows already."""
RESTED = ("completed", "task_complete", "awaiting_time")
"""Ends of a run of the agent's own, behind which it may be woken."""


class Job(msgspec.Struct, kw_only=True, gc=False):
    """A job whose end is not in the log yet."""

    job_id: str
    call_id: str
    tool: str
    seq: int
    at_ms: int
    detached: bool = False
    stopping: str = ""
    """Why it is to end; empty unless it is."""
    labels: tuple[str, ...] = ()
    """What it prints is marked with: all that the result of its call was."""


class EndedJob(msgspec.Struct, kw_only=True, gc=False):
    """A job that has ended: where that is in the log."""

    job_id: str
    status: JobStatus
    seq: int
    started_seq: int
    labels: tuple[str, ...] = ()


class Jobs(msgspec.Struct, kw_only=True, gc=False):
    """The jobs that are open, and the last that have ended."""

    open: dict[str, Job] = {}
    ended: list[EndedJob] = []
    wakes: bool = False
    """Whether the session came to rest by itself, so that the end of a job may wake it."""


# --- fold ---------------------------------------------------------------------------------------------------------


def job_started(state: State, event: JobStarted) -> None:
    call = state.calls.by_id[event.call_id]
    spec = state.toolset.tools.get(call.tool)
    brought = labels.brought(spec, call.labels) if spec is not None else call.labels
    if event.labels:
        calls.marked(state, event)
    calls.close(state, event.call_id, event.tokens, event.bytes)
    state.jobs.open[event.job_id] = Job(
        job_id=event.job_id,
        call_id=event.call_id,
        tool=call.tool,
        seq=state.seq,
        at_ms=state.now_ms,
        detached=event.detached,
        labels=tuple(dict.fromkeys((*brought, *event.labels))),
    )


def job_finished(state: State, event: JobFinished) -> None:
    job = state.jobs.open.pop(event.job_id)
    if job.labels:  # also if a person took one away meanwhile: what it printed since is new
        labels.meet(state, job.labels, job.call_id, job.tool)
    ended = EndedJob(job_id=job.job_id, status=event.status, seq=state.seq, started_seq=job.seq, labels=job.labels)
    state.jobs.ended = [*state.jobs.ended, ended][-ENDED_MAX:]
    told = queue.Input(
        seq=state.seq,
        kind="note",
        tokens=event.tokens + TOLD_TOKENS,
        bytes=event.bytes,
        part="job",
        waits=not state.setup.settings.jobs_wake or event.status not in WAKING,
    )
    queue.steer(state, told)


def job_stopping(state: State, event: JobStopping) -> None:
    job = state.jobs.open[event.job_id]
    if job.stopping:
        raise Misfit(f"{event.job_id} is to end already")
    job.stopping = event.reason


def job_dropped(state: State, event: JobDropped) -> None:
    del state.jobs.open[event.job_id]
    queue.steer(state, queue.Input(seq=state.seq, kind="note", tokens=TOLD_TOKENS, part="job", waits=True))


def run_rested(state: State, event: RunCompleted | RunSlept) -> None:
    state.jobs.wakes = event.stop in RESTED


def run_stopped(state: State, event: RunInterrupted | RunFailed | RunCancelled) -> None:
    """Who stopped it, or whoever looks at why it failed, is to say when it goes on."""
    state.jobs.wakes = False


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_started(state: State, fact: JobStarted) -> None:
    calls.check_running(state, fact)
    if fact.job_id != job_id(fact.call_id, state.calls.by_id[fact.call_id].attempt):
        raise Refused("malformed", "the id of a job is derived from its call and the attempt")


def check_finished(state: State, fact: JobFinished) -> None:
    if fact.job_id not in state.jobs.open:
        raise Refused("stale", f"job {fact.job_id} is not open")


def check_kill(state: State, fact: KillReceived) -> None:
    if fact.job_id not in state.jobs.open:
        raise Refused("not_open", f"there is no open job {fact.job_id}")


def on_started(state: State, fact: JobStarted) -> Decisions:
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    yield from asks.withdraw_inside(state, fact.call_id, "superseded")
    yield from workspace.changed_files(fact)


def on_finished(state: State, fact: JobFinished) -> Decisions:
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    stopped = any(ruling.denies and ruling.fatal for ruling in fact.hooks)
    if fact.status in WAKING and not stopped and may_wake(state):
        yield from runs.begin(state, "job", continues=True)


def may_wake(state: State) -> bool:
    """Whether a run begins with the end of a job: the session rests of its own accord, nobody is asked, nothing is
    waited for first, and there is something left to pay it from."""
    return state.setup.settings.jobs_wake and rests_freely(state)


def rests_freely(state: State) -> bool:
    """The same, whatever has ended."""
    return (
        state.jobs.wakes
        and not child_side.has_ended(state)
        and not state.active
        and not parts.awaits_somebody(state)
        and retries.waited_for(state) is None
        and budgets.exhausted(state, context_size.context_tokens(state)) is None
    )


def on_kill(state: State, fact: KillReceived) -> Decisions:
    yield from _stop(state, fact.job_id, "killed")
    yield queue.done(fact.command_id)


def stop_all(state: State) -> Decisions:
    """Has every job end that is not detached."""
    for job in list(state.jobs.open.values()):
        if not job.detached:
            yield from _stop(state, job.job_id, "stopped")


def _stop(state: State, name: str, reason: Literal["killed", "stopped"]) -> Decisions:
    if not state.jobs.open[name].stopping:
        yield JobStopping(job_id=name, reason=reason)


def forked(state: State) -> Decisions:
    for name in list(state.jobs.open):
        yield JobDropped(job_id=name)


def owes(state: State) -> Iterable[WatchJob]:
    """Owed until the end is there, also by a session at rest; one that is detached keeps no session busy."""
    return [
        WatchJob(
            effect_id=f"{job.job_id}/{'stop' if job.stopping else 'watch'}",
            job_id=job.job_id,
            call_id=job.call_id,
            since_ms=job.at_ms,
            stop=job.stopping,
        )
        for job in state.jobs.open.values()
        if state.active or job.stopping or not job.detached
    ]


def behind(state: State) -> Iterable[str]:
    """The process of a job is on this machine, and nobody would hear of its end."""
    return [f"job {name} runs here: wait for its end, or end it first (kill_job)" for name in state.jobs.open]


PART = Part(
    name="jobs",
    facts={
        JobStarted: Row(when=WORKING, check=check_started, fold=job_started, then=on_started),
        JobFinished: Row(when=STARTED, check=check_finished, fold=job_finished, then=on_finished),
        KillReceived: Row(when=STARTED, check=check_kill, then=on_kill),
    },
    decisions={JobStopping: job_stopping, JobDropped: job_dropped},
    hears={
        RunCompleted: run_rested,
        RunSlept: run_rested,
        RunInterrupted: run_stopped,
        RunFailed: run_stopped,
        RunCancelled: run_stopped,
    },
    keeps=lambda state: state.jobs.open,
    owes=owes,
    forked=forked,
    behind=behind,
)
