"""The background jobs of a session as an operator sees them, who may not be the process that drives it: what the log
says of them, and what is found of them on this machine."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec

from windlass.runtime.drive.jobs import job_rows
from windlass.runtime.jobs.job_place import place_for_store
from windlass.runtime.jobs.local_jobs import LocalJobs, SessionJobs
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import IndexRow, Key, Store
from windlass.tools.jobs.job_host import JobRow

from .log_point import Point, read_point

NOT_TOLD = "ended, not told yet"
"""Of a job that is over, and whose session has nobody who would put that on record."""
LOOKED_AT_MAX = 200
"""How many logs are read to see whether their sessions have jobs."""


def jobs_on_this_machine(store_place: str, store: Store, key: Key) -> SessionJobs:
    """Where the jobs of a session are, if their runtime was opened with no other folder for them."""
    born = functools.partial(LogReader(store).born, key)
    return LocalJobs(place_for_store(store_place), tenant=key.tenant).for_session(key.session, born)


def jobs_at(point: Point, now_ms: int) -> tuple[JobRow, ...]:
    """The jobs of a session: those that run, and the last that have ended."""
    return job_rows(point.state, point.events, now_ms)


async def looked_up(rows: tuple[JobRow, ...], point: Point, store_place: str, store: Store) -> tuple[JobRow, ...]:
    """Jobs as they are on this machine: the log learns of an end only when somebody drives the session."""
    host, told = jobs_on_this_machine(store_place, store, point.key), []
    for row in rows:
        ended = row.job_id in point.state.jobs.open and await host.over(row.job_id)
        told.append(msgspec.structs.replace(row, status=NOT_TOLD) if ended else row)
    return tuple(told)


async def job_counts(store: Store, rows: Iterable[IndexRow], store_place: str) -> dict[str, int]:
    """How many jobs run of sessions that are owed something though they rest; those that are over here do not count."""
    resting = [row for row in rows if row.owed and row.state != "running"][:LOOKED_AT_MAX]
    counts = {}
    for row in resting:
        point = await read_point(store, Key(row.tenant, row.session))
        if not point.state.jobs.open:
            continue
        host = jobs_on_this_machine(store_place, store, point.key)
        running = sum([not await host.over(name) for name in point.state.jobs.open])
        if running:
            counts[row.session] = running
    return counts
