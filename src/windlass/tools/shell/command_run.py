"""One command in the session's sandbox: waited for within its time, or left to go on as a background job."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec

from windlass.events.values.blocks import ResultBlock, Terminal, Text, Value
from windlass.events.values.ids import job_id
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.jobs.job_host import Background, JobEnd, JobHost
from windlass.tools.planes.results import ToolResult
from windlass.tools.sandboxes.sandbox import Access, Capabilities, Launch, Offer, Process

from .refused_hints import refusal_hint
from .shown_output import HEAD_CHARS_MAX, TAIL_CHARS_MAX, bounded_text, shown_text

TITLE_CHARS_MAX = 200
END_S = 5.0
"""How long the end of a command that is given up is waited for."""
WHOLE_BYTES = HEAD_CHARS_MAX + TAIL_CHARS_MAX
GOES_ON = (
    "It goes on in the background as job {job}. You are told when it ends; job_output shows what it prints, kill_job "
    "ends it."
)
LATE = "It did not end within {seconds:g} s. "
DETACHED = " It is detached: it goes on even when this session ends."


class Command(Value, frozen=True, kw_only=True):
    """What is to be run, and how long it is waited for."""

    argv: tuple[str, ...]
    title: str
    cwd: str
    timeout_ms: int
    background: bool | Literal["detached"] = False
    env: dict[str, str] = {}
    note: str = ""
    """What is said before its output."""
    success_codes: tuple[int, ...] = (0,)
    late: Literal["goes_on", "ends"] = "goes_on"
    """What becomes of it if it takes too long: it goes on as a background job, or is ended."""


async def run_command(ctx: ToolContext, command: Command) -> ToolResult | Background:
    """Runs a command to its end, or to the moment from which it goes on as a job."""
    await _still_opened(ctx)
    process = Process(
        argv=command.argv,
        cwd=command.cwd,
        env=command.env,
        timeout_ms=command.timeout_ms,
        access=ctx.access or Access(),
        unseen=ctx.exclude,
    )
    holds = await ctx.sandbox.capabilities()
    if ctx.jobs is None or not holds.jobs:
        return await _without_jobs(ctx, command, holds)
    sandbox: Any = ctx.sandbox
    launch: Launch = await sandbox.launch(process)
    host, name, detached = ctx.jobs.host, job_id(ctx.call_id, ctx.attempt), command.background == "detached"
    await _to_its_end(host, name, host.start(name, launch, command.title, detached=detached))
    if command.background:
        return _going_on(command, name, ())
    try:
        async with asyncio.timeout(command.timeout_ms / 1000):
            end = await host.ended(name)
    except TimeoutError:
        if command.late == "ends":
            return await _ended_late(host, name, command)
        return _going_on(command, name, (Terminal(text=await _printed(host, name), cwd=command.cwd),))
    except BaseException:
        await _give_up(host, name)
        raise
    printed = await _printed(host, name)
    hint = "" if end.status == "completed" else refusal_hint(printed, holds, ctx.access)
    result = _result(command, end, printed, hint)
    await host.forget(name)
    return result


async def _still_opened(ctx: ToolContext) -> None:
    """Raises `ToolError` if a path that was opened for the call leads elsewhere by now."""
    if ctx.access is None:
        return
    sandbox: Any = ctx.sandbox
    offer: Offer = await sandbox.offer(ctx.access, Access())
    if offer.problem is not None or offer.access != ctx.access:
        told = "what was to be opened for this command is not any more what was agreed to: call again"
        raise ToolError(told, code="access_changed")


async def _ended_late(host: JobHost, name: str, command: Command) -> ToolResult:
    """The result of a command that is ended because its time is over."""
    printed = await _printed(host, name)
    await _give_up(host, name)
    told = f"{printed}\n[it was ended after {command.timeout_ms / 1000:g} s]"
    return ToolResult(value=Terminal(text=bounded_text(told), cwd=command.cwd), ok=False, error_code="timeout")


async def _to_its_end(host: JobHost, name: str, starting: Any) -> None:
    """A start is seen through even if the call is given up meanwhile: nothing is left running that nobody knows of."""
    task = asyncio.ensure_future(starting)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if task.exception() is None:
            await _give_up(host, name)
        raise


async def _give_up(host: JobHost, name: str) -> None:
    await host.stop(name, "given_up")
    ended = asyncio.ensure_future(host.ended(name))
    await asyncio.wait([ended], timeout=END_S)
    if ended.done():
        await host.forget(name)
    ended.cancel()


async def _without_jobs(ctx: ToolContext, command: Command, holds: Capabilities) -> ToolResult:
    """In a sandbox whose processes cannot be found again: one that takes too long is ended."""
    if command.background:
        raise ToolError("nothing can go on in the background here: wait for the command instead", code="no_jobs")
    ended = await ctx.run(command.argv, cwd=command.cwd, env=command.env, timeout_ms=command.timeout_ms)
    printed = shown_text(ended.stdout.text) + shown_text(ended.stderr.text)
    if ended.timed_out:
        printed += f"\n[it was ended after {command.timeout_ms / 1000:g} s]"
    hint = "" if ended.ok else refusal_hint(printed, holds, ctx.access)
    well = not ended.timed_out and ended.exit_code in command.success_codes
    result = _told(command, printed, ended.exit_code, hint, ok=well)
    late = ended.timed_out and command.late == "ends"
    return msgspec.structs.replace(result, error_code="timeout") if late else result


def _result(command: Command, end: JobEnd, printed: str, hint: str) -> ToolResult:
    if end.status == "lost":
        printed += "\n[whatever supervised it was killed: how it ended is not known]"
    if end.left:
        what = "a process" if end.left == 1 else f"{end.left} processes"
        printed += f"\n[{what} that it left running ended with it: background=true lets a command go on]"
    well = end.status in ("completed", "failed") and end.exit_code in command.success_codes
    return _told(command, printed, end.exit_code, hint, ok=well)


def _told(command: Command, printed: str, exit_code: int | None, hint: str, *, ok: bool) -> ToolResult:
    block = Terminal(text=command.note + bounded_text(printed) + hint, exit_code=exit_code, cwd=command.cwd)
    return ToolResult(value=block, ok=ok, error_code=None if ok else "exit_code")


def _going_on(command: Command, name: str, printed: tuple[ResultBlock, ...]) -> Background:
    detached = command.background == "detached"
    told = GOES_ON.format(job=name) + (DETACHED if detached else "")
    if printed:
        told = LATE.format(seconds=command.timeout_ms / 1000) + told
    return Background(
        job_id=name,
        title=command.title[:TITLE_CHARS_MAX],
        content=(*printed, Text(text=told)),
        late=bool(printed),
        detached=detached,
    )


async def _printed(host: JobHost, name: str) -> str:
    """What a command has printed: whole, or its head and its tail."""
    first = await host.output(name, 0, WHOLE_BYTES)
    if first.size <= WHOLE_BYTES:
        return shown_text(first.data)
    tail = await host.output(name, -TAIL_CHARS_MAX, TAIL_CHARS_MAX)
    missing = first.size - HEAD_CHARS_MAX - len(tail.data)
    between = f"\n[… {missing:,} of {first.size:,} bytes are left out here …]\n"
    return shown_text(first.data[:HEAD_CHARS_MAX]) + between + shown_text(tail.data)
