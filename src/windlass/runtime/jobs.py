"""What a session is busy with, or waits for: named, typed and dated. Read off the state; changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from windlass.events.calls import ToolDelegated, ToolOutcomeUnknown, ToolRequested, ToolStarted, ToolSuspended
from windlass.events.errors import WindlassError
from windlass.events.ids import timer_id
from windlass.events.permissions import PermissionRequested
from windlass.events.questions import QuestionRequested
from windlass.events.runs import TimerSet
from windlass.events.turns import ModelRequested, RetryPlanned
from windlass.kernel.state import Call, State

from .hub import Record

JobKind = Literal["model", "tool", "client", "permission", "question", "settle", "timer"]
"""A request to a model, a tool at work, a result that comes from outside, a call that needs a person's word, a question
to a person, a call whose outcome somebody must tell, a time that must come."""

SHOWN_MAX = 10
SECOND_MS = 1_000

STATUS_KINDS: dict[str, JobKind] = {"delegated": "client", "suspended": "client", "unknown": "settle"}
"""What the calls of these statuses wait for; asked-about ones are listed as what was asked."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a session is busy with. `job_id` is the id of the request, call, question or timer."""

    kind: JobKind
    job_id: str
    tool: str = ""
    model: str = ""
    attempt: int = 1
    since_ms: int = 0
    """When it began, by the log's clock."""
    age_ms: int = 0

    def __str__(self) -> str:
        what = self.tool or self.model
        tries = f", attempt {self.attempt}" if self.attempt > 1 else ""
        return f"{self.kind} {f'{what!r} ' if what else ''}({self.job_id}{tries}, for {_lasting(self.age_ms)})"


class StillBusy(WindlassError):
    """A session did not come to rest in time. `jobs` are what it is busy with."""

    def __init__(self, session: str, jobs: Sequence[Job], why: str) -> None:
        self.jobs = tuple(jobs)
        shown = [str(job) for job in self.jobs[:SHOWN_MAX]]
        if len(self.jobs) > SHOWN_MAX:
            shown.append(f"{len(self.jobs) - SHOWN_MAX} more")
        super().__init__(
            f"session {session!r} {why}: {', '.join(shown) or 'between two steps'}; wait longer, or interrupt it"
        )


def seq_in(name: str) -> int | None:
    """The seq that an id was derived from; None for what is no id of ours."""
    found = re.fullmatch(r"[a-z](\d{1,15})(?:\.\d+)?", name, re.ASCII)
    return int(found[1]) if found is not None else None


def _lasting(ms: int) -> str:
    return f"{ms} ms" if ms < SECOND_MS else f"{ms / SECOND_MS:.1f} s"


def begun(state: State) -> int:
    """The seq of the earliest record that says when something open began; past the end where nothing is open."""
    seqs = [call.source_seq for call in state.open_calls()]
    seqs += [ask.seq for ask in state.asks.values()]
    seqs += [timer.seq for timer in state.timers.values()]
    seqs += [seq for name in state.requests if (seq := seq_in(name)) is not None]
    return min(seqs, default=state.seq + 1)


def jobs_of(state: State, since: dict[str, int], now_ms: int) -> tuple[Job, ...]:
    """What is open in a state: requests first, then calls, what was asked of people, and times to come. `since` says
    by id when each began."""
    found: list[Job] = [
        Job(kind="model", job_id=request.request_id, model=request.model, attempt=request.attempt)
        for request in state.requests.values()
    ]
    found += [job for call in state.open_calls() if (job := _of_call(call)) is not None]
    found += [Job(kind=ask.kind, job_id=ask.ask_id, tool=ask.tool) for ask in state.asks.values()]
    found += [Job(kind="timer", job_id=timer.timer_id) for timer in state.timers.values()]
    return tuple(_dated(job, since.get(job.job_id, state.now_ms), now_ms) for job in found)


def _of_call(call: Call) -> Job | None:
    if call.status in ("asked", "answering") and call.ask_id is not None:
        return None
    kind = STATUS_KINDS.get(call.status, "tool")
    return Job(kind=kind, job_id=call.call_id, tool=call.tool, attempt=max(1, call.attempt))


def _dated(job: Job, since_ms: int, now_ms: int) -> Job:
    return msgspec.structs.replace(job, since_ms=since_ms, age_ms=max(0, now_ms - since_ms))


def dates(records: Iterable[Record]) -> dict[str, int]:
    """When each thing began, by id: a call when it was started, given away or parked, whichever came last."""
    since: dict[str, int] = {}
    for record in records:
        match record.event:
            case ModelRequested(request_id=name) | PermissionRequested(request_id=name):
                since[name] = record.at_ms
            case QuestionRequested(question_id=name) | TimerSet(timer_id=name):
                since[name] = record.at_ms
            case RetryPlanned():
                since[timer_id(record.seq)] = record.at_ms
            case ToolRequested() | ToolStarted() | ToolDelegated() | ToolSuspended() | ToolOutcomeUnknown() as of_call:
                since[of_call.call_id] = record.at_ms
            case _:
                pass
    return since
