"""Background jobs as the driver sees them: watched while they are open, their end reported as one fact."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from windlass.events.errors import UsageError
from windlass.events.tools.jobs import JobBody, JobFinished, JobStarted
from windlass.events.values.blocks import Terminal
from windlass.events.values.ids import job_id
from windlass.models.tokens import estimate_block
from windlass.tools.jobs.job_host import JobRow, clean_output
from windlass.tools.planes.withheld_content import withheld_by
from windlass.tools.shell.shown_output import shown_text

from .effect_outcome import Done
from .result_hooks import RuledText, ruled_text

if TYPE_CHECKING:
    from windlass.kernel.effects import WatchJob
    from windlass.kernel.parts.tools.jobs import EndedJob, Job
    from windlass.kernel.state import State
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.owner.owner import Owner
    from windlass.tools.jobs.job_host import JobEnd, JobHost, StopReason

TAIL_BYTES_MAX = 8 * 1024
"""How much of its output is on record with the end of a job."""
AROUND_BYTES = 4 * 1024
"""How much before that is searched too for what no model may see: it may lie across the cut."""


class Jobs:
    """The jobs of one session: a desk for its tools, and what its driver does about them."""

    def __init__(self, owner: Owner, host: JobHost, hooks: SessionHooks) -> None:
        self._owner = owner
        self.host = host
        self._hooks = hooks
        self._swept = False
        self._unrecorded: set[str] = set()
        """Jobs that go on by themselves, and are not on record yet."""

    # --- what is owed ---

    async def watch(self, effect: WatchJob) -> Done:
        """Waits for the end of a job, after it was told to end if it is to. Called again after a crash."""
        if effect.stop:
            await self.host.stop(effect.job_id, cast("StopReason", effect.stop))
        end = await self.host.ended(effect.job_id)
        most = TAIL_BYTES_MAX + AROUND_BYTES
        tail = await clean_output(self.host, effect.job_id, -most, most)
        text = await self._without_withheld(shown_text(tail.data))
        before = tail.offset + max(0, len(tail.data) - TAIL_BYTES_MAX)
        if before:
            last = text.encode()[-TAIL_BYTES_MAX:].decode(errors="ignore")
            text = f"[… {before:,} bytes before this …]\n{last}"
        ruled = await self._ruled(effect, end, text)
        text = text if ruled.text is None else await self._without_withheld(ruled.text)
        block = Terminal(text=text, exit_code=end.exit_code)
        self._owner.ports.point("job_ended")
        return Done(
            JobFinished(
                job_id=effect.job_id,
                status=end.status,
                exit_code=end.exit_code,
                duration_ms=end.duration_ms or max(0, self._owner.now_ms() - effect.since_ms),
                output_bytes=end.output_bytes or tail.size,
                tokens=estimate_block(block),
                bytes=len(text.encode()),
                hooks=ruled.rulings,
                body=JobBody(title=await self._title(effect.job_id), content=(block,)),
            )
        )

    async def _ruled(self, effect: WatchJob, end: JobEnd, text: str) -> RuledText:
        """What the hooks say to the end of a job. They may run again after a crash, as everywhere."""
        job = self._owner.state.jobs.open.get(effect.job_id)
        tool = job.tool if job is not None else ""
        about = {"job_id": effect.job_id, "status": end.status}
        value = {"ok": end.status == "completed", "text": text, "job": about}
        return await ruled_text(self._hooks, effect.call_id, tool, value)

    async def _without_withheld(self, text: str) -> str:
        """A text without what the session's policy keeps from every model."""
        withheld = withheld_by(tuple(self._owner.state.gate.policy.exclude_patterns))
        return text if withheld is None else await asyncio.to_thread(withheld.text, text)

    async def printed(self, call_id: str) -> str:
        """What the program of a call has printed until now; empty if nothing is known of it."""
        call = self._owner.state.calls.by_id.get(call_id)
        name = job_id(call_id, call.attempt if call is not None else 1)
        try:
            tail = await clean_output(self.host, name, -TAIL_BYTES_MAX, TAIL_BYTES_MAX)
        except (OSError, UsageError):
            return ""
        return await self._without_withheld(shown_text(tail.data))

    async def _title(self, name: str) -> str:
        job = self._owner.state.jobs.open.get(name)
        return await self._title_at(job.seq) if job is not None else ""

    async def _title_at(self, seq: int) -> str:
        """What a job is about, as the log has it."""
        body = getattr(await self._owner.event(seq), "body", None)
        return body.title if isinstance(body, JobBody) else ""

    # --- what is started and not on record ---

    async def keep(self, name: str) -> None:
        """Has a job go on without this process; what says so in the log follows."""
        self._unrecorded.add(name)
        await self.host.keep(name)
        self._owner.ports.point("job_kept")

    async def give_up_unrecorded(self, *, owned: bool = True) -> None:
        """Ends jobs whose call was given up before they could be put on record: all of them if the session is not
        owned any more, since nothing of this process can go on record then and the new owner may have swept before."""
        if not self._unrecorded:
            return
        state = self._owner.state
        known = {*state.jobs.open, *(ended.job_id for ended in state.jobs.ended)}
        calls = [call for call in state.calls.by_id.values() if owned and call.status == "started"]
        running = {job_id(call.call_id, call.attempt) for call in calls}
        for name in self._unrecorded - known - running:
            await self.host.stop(name, "given_up")
        self._unrecorded &= running - known

    async def sweep(self) -> None:
        """Ends what an owner before started and did not live to put on record. Once, before anything else is begun."""
        if not self._swept:
            with contextlib.suppress(OSError, UsageError):  # a folder that cannot be swept must not stop the session
                await self.host.sweep(frozenset(self._owner.state.jobs.open))
            self._swept = True

    # --- what there is ---

    async def listed(self) -> tuple[JobRow, ...]:
        """The open jobs, and the last that have ended."""
        state = self._owner.state
        seqs = [*(job.seq for job in state.jobs.open.values()), *(job.seq for job in state.jobs.ended)]
        rows = job_rows(state, {seq: await self._owner.event(seq) for seq in seqs}, self._owner.now_ms())
        return tuple([await self._measured(row) for row in rows])

    async def _measured(self, row: JobRow) -> JobRow:
        if row.status not in ("running", "ending"):
            return row
        printed = await self.host.output(row.job_id, -1, 0)
        return msgspec.structs.replace(row, output_bytes=printed.size)


def job_rows(state: State, events: Mapping[int, object], now_ms: int) -> tuple[JobRow, ...]:
    """The open jobs of a session and the last that have ended, the newest of these first; `events` has the events that
    say so, by seq."""
    running = [_open_row(job, events.get(job.seq), now_ms) for job in state.jobs.open.values()]
    return (*running, *[_ended_row(job, events.get(job.seq)) for job in reversed(state.jobs.ended)])


def _open_row(job: Job, event: object, now_ms: int) -> JobRow:
    """A job that is open; `event` is its start."""
    title = event.body.title if isinstance(event, JobStarted) and event.body is not None else ""
    return JobRow(
        job_id=job.job_id,
        status="ending" if job.stopping else "running",
        title=title,
        tool=job.tool,
        call_id=job.call_id,
        since_ms=job.at_ms,
        age_ms=max(0, now_ms - job.at_ms),
        detached=job.detached,
        labels=job.labels,
    )


def _ended_row(job: EndedJob, event: object) -> JobRow:
    """A job that has ended; `event` is its end."""
    if not isinstance(event, JobFinished):
        return JobRow(job_id=job.job_id, status=job.status, labels=job.labels)
    return JobRow(
        job_id=job.job_id,
        status=job.status,
        title=event.body.title if event.body is not None else "",
        age_ms=event.duration_ms,
        exit_code=event.exit_code,
        output_bytes=event.output_bytes,
        labels=job.labels,
    )
