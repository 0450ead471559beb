"""The tools by which a model looks after its background jobs: `jobs`, `job_output` and `kill_job`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from windlass.events.values.blocks import Terminal
from windlass.events.values.ids import JOB_ID
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.planes.results import ToolResult
from windlass.tools.shell.shown_output import shown_text
from windlass.tools.tool import AnyTool, Options, Tool

from .job_host import JobDesk, JobRow, clean_output

OUTPUT_BYTES_MAX = 16_000
WAIT_MS_MAX = 300_000
TIMEOUT_MS = WAIT_MS_MAX + 60_000

JobId = Annotated[str, Meta(pattern=f"^{JOB_ID}$", description="Such as 'j12.0'; the tool 'jobs' lists them.")]


async def jobs(ctx: ToolContext) -> str:
    """List your background jobs: those that run, and the last that have ended."""
    rows = await _desk(ctx).listed()
    return "\n".join(map(row_line, rows)) or "There are no background jobs."


async def job_output(
    ctx: ToolContext,
    job_id: JobId,
    offset: Annotated[
        int | None, Meta(ge=0, description="The byte to begin with, to go on where a result ended; else the tail.")
    ] = None,
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX, description="Wait so long for its end first.")] = 0,
) -> ToolResult:
    """Read what a background job has printed."""
    desk = _desk(ctx)
    row = await _row(desk, job_id)
    if wait_ms and row.status in ("running", "ending"):
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await desk.host.ended(job_id)
        except TimeoutError:
            pass
    begin = -OUTPUT_BYTES_MAX if offset is None else offset
    printed = await clean_output(desk.host, job_id, begin, OUTPUT_BYTES_MAX, ctx.blotted)
    head = f"[bytes {printed.offset:,} to {printed.next_offset:,} of {printed.size:,}; go on with offset "
    block = Terminal(text=f"{head}{printed.next_offset}]\n{shown_text(printed.data)}", exit_code=row.exit_code)
    return ToolResult(value=[block], labels=row.labels)


async def kill_job(ctx: ToolContext, job_id: JobId) -> str:
    """End a background job, with all that it started. You are told when it has ended."""
    desk = _desk(ctx)
    row = await _row(desk, job_id)
    if row.status not in ("running", "ending"):
        return f"Job {job_id} has ended already ({row.status})."
    await desk.host.stop(job_id, "killed")
    return f"Job {job_id} is being ended."


def row_line(row: JobRow) -> str:
    """A job on one line."""
    code = f", exit code {row.exit_code}" if row.exit_code is not None else ""
    detached = ", detached" if row.detached else ""
    title = " ".join(shown_text(row.title).split())
    return f"{row.job_id}  {row.status}{code}, {row.age_ms / 1000:.1f} s{detached}, {row.output_bytes:,} bytes: {title}"


def _desk(ctx: ToolContext) -> JobDesk:
    if ctx.jobs is None:
        raise ToolError("there are no background jobs here", code="no_jobs")
    return ctx.jobs


async def _row(desk: JobDesk, job_id: str) -> JobRow:
    for row in await desk.listed():
        if row.job_id == job_id:
            return row
    raise ToolError(f"there is no job {job_id!r}: the tool 'jobs' lists them", code="not_found")


MADE: dict[str, Any] = {"jobs": jobs, "job_output": job_output, "kill_job": kill_job}


def made(name: str) -> AnyTool:
    """One of the tools; they concern what the session itself has started, and nothing else."""
    options = Options(
        name=name,
        contract="pure" if name == "jobs" else "idempotent",
        traits=("read",),
        kind="read",
        source="builtin",
        timeout_ms=TIMEOUT_MS,
    )
    return Tool(MADE[name], options)
