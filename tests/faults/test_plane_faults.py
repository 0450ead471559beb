"""The tool fault matrix (promises 3.6) on every plane that this machine can run. A test is a row of it; what a plane in
this very process cannot promise (a tool that never gives another its turn, a crash) is a row of process planes only."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import uuid
from typing import Any

import pytest

from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext
from windlass.tools.planes.local import LocalPlane
from windlass.tools.planes.process import worker_process
from windlass.tools.planes.process.worker_process import command
from windlass.tools.tool import tool

from . import hostile_tools as tools
from .places import PLANES, PROCESS_PLANES, limited, marked, plane

PATIENCE_S = 180.0
SHORT_MS = 400

# A worker beneath Landlock has one call only, so that its rows take long; what differs there is tried always.
LONGER = {name: pytest.mark.long for name in PLANES if name == "process-in-landlock"}
everywhere = pytest.mark.parametrize("name", [pytest.param(name, marks=LONGER.get(name, ())) for name in PLANES])
in_processes = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONGER.get(name, ())) for name in PROCESS_PLANES]
)
in_all_processes = pytest.mark.parametrize("name", PROCESS_PLANES)


async def appeared(path: pathlib.Path) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while not _is_there(path):
            await asyncio.sleep(0.005)
    return int(path.read_text())  # noqa: ASYNC240


def _is_there(path: pathlib.Path) -> bool:
    return path.exists()


@everywhere
async def test_whatever_is_raised_is_an_error_result_and_the_next_call_runs(name, tmp_path):
    async with plane(name, tmp_path) as place:
        errors = [*tools.ERRORS, "recursion"]
        if "landlock" in name:
            errors = errors[:2]  # each call has a worker of its own there, since nobody can see what it left
        for function in (tools.raises, tools.raises_async, tools.raises_generating):
            for error in errors:
                outcome = await place.run(function, error=error)
                assert (outcome.status, outcome.ok) == ("finished", False), (function, error)
                assert "secret" not in outcome.text, (function, error)
        assert (await place.run(tools.tells)).text == "no city 'Rome' here\nknown is: Paris"
        assert (await place.run(tools.add, a=1)).ok


@pytest.mark.parametrize("ending", ["timeout", "cancel"])
@pytest.mark.parametrize("function", [tools.hangs, tools.hangs_async, tools.ignores_cancel])
@everywhere
async def test_a_tool_that_never_returns_or_ignores_its_cancellation_is_given_up(name, tmp_path, function, ending):
    pid = tmp_path / "pid"
    async with plane(name, tmp_path) as place:
        if ending == "timeout":
            outcome = await place.run(function, pid=str(pid), _timeout_ms=SHORT_MS)
            assert (outcome.status, outcome.error_code) == ("timed_out", "tool_timed_out")
        else:
            call = asyncio.ensure_future(place.run(function, pid=str(pid)))
            await appeared(pid)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        if name != "local" and function is not tools.hangs_async:  # which ended when told, and its worker serves on
            assert place.left == []
        assert (await place.run(tools.add, a=1)).ok


@pytest.mark.parametrize("function", [tools.computes, tools.holds_everything])
@in_processes
async def test_a_tool_that_gives_nobody_else_a_turn_ends_at_its_time(name, tmp_path, function):
    async with plane(name, tmp_path) as place:
        outcome = await place.run(function, pid=str(tmp_path / "pid"), _timeout_ms=SHORT_MS)
        assert (outcome.status, place.left) == ("timed_out", [])


@everywhere
async def test_a_tool_that_looks_at_its_flag_or_cleans_up_gets_the_time_for_it(name, tmp_path):
    async with plane(name, tmp_path) as place:
        for function, after in ((tools.looks_at_its_flag, "stopped"), (tools.cleans_up, "clean")):
            pid = tmp_path / after
            call = asyncio.ensure_future(place.run(function, pid=str(pid)))
            await appeared(pid)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await appeared(pid.with_name(f"{pid.name}.{after}"))


@everywhere
async def test_huge_output_is_kept_whole_beside_a_short_view(name, tmp_path):
    async with plane(name, tmp_path) as place:
        for function in (tools.writes_much, tools.writes_much_async):
            outcome = await place.run(function, size=5_000_000)
            (blob,) = outcome.blobs
            assert (outcome.spooled, blob.ref.size, len(outcome.text) < 6_000) == (5_000_000, 5_000_000, True)
            blob.close()


@everywhere
async def test_strange_bytes_texts_and_values_come_out_as_from_the_local_plane(name, tmp_path):
    local = LocalPlane()
    cases: list[tuple[Any, dict[str, Any]]] = [
        (tools.returns_bytes, {}),
        (tools.returns_surrogate, {}),
        (tools.yields, {}),
        *((tools.returns_strange, {"kind": kind}) for kind in ("object", "cycle", "nan", "huge", "inner")),
    ]
    async with plane(name, tmp_path) as place:
        for function, args in cases:
            outcome = await place.run(function, **args)
            context = ToolContext(session="s", call_id="c1.0")
            wanted = await local.run(tool(function), CallBody(args=args), context)
            assert outcome.body is not None
            assert wanted.body is not None
            assert (outcome.ok, outcome.error_code, outcome.failure) == (wanted.ok, wanted.error_code, wanted.failure)
            assert (outcome.body.content, outcome.body.whole) == (wanted.body.content, wanted.body.whole), function
            assert [blob.read() for blob in outcome.blobs] == [blob.read() for blob in wanted.blobs]
            for blob in (*outcome.blobs, *wanted.blobs):
                blob.close()
    await local.close()


@everywhere
async def test_a_tool_that_changes_its_arguments_changes_its_own(name, tmp_path):
    given = {"items": [1, 2]}
    async with plane(name, tmp_path) as place:
        made = tool(tools.changes_args)
        outcome = await place.plane.run(made, CallBody(args=given), ToolContext(session="s", call_id="c"))
        assert (outcome.ok, given) == (True, {"items": [1, 2]})


@in_processes
async def test_a_tool_that_changes_its_process_changes_neither_the_runtime_nor_the_next_call(name, tmp_path):
    before = (os.getcwd(), dict(os.environ), os.umask(0o22), os.umask(0o22))
    async with plane(name, tmp_path) as place:
        assert (await place.run(tools.changes_process, where=str(tmp_path))).ok
        after = (await place.run(tools.state)).body
        assert after is not None
        seen: Any = after.content[0]
        assert seen.value["changed"] is None
    assert (os.getcwd(), dict(os.environ), os.umask(before[2]), os.umask(before[2])) == (*before[:2], 0o22, before[2])


@in_processes
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("SIGSEGV", "was ended by SIGSEGV"),
        ("SIGKILL", "was ended by SIGKILL"),
        ("SIGABRT", "was ended by SIGABRT"),
        ("exit", "ended with status 3"),
    ],
)
async def test_a_crash_is_the_outcome_of_its_call_and_of_no_other(name, tmp_path, how, told):
    async with plane(name, tmp_path) as place:
        outcome = await place.run(tools.ends_itself, how=how)
        assert (outcome.ok, outcome.error_code) == (False, "process_died")
        assert told in outcome.text
        assert "may have had effects" in outcome.text
        assert place.left == []
        assert (await place.run(tools.add, a=1)).ok


@in_all_processes
async def test_a_crash_is_answered_by_the_contract(name, tmp_path):
    async with plane(name, tmp_path) as place:
        assert not (await place.run(tools.counts, path=str(tmp_path / "once"))).ok
        assert (tmp_path / "once").read_text() == "x"  # at most once: never again
        for contract in ("pure", "idempotent"):
            marker = str(tmp_path / contract)
            assert (await place.run(tools.ends_once, marker=marker, _contract=contract)).text == "second"
            count = tmp_path / f"{contract}-count"
            assert not (await place.run(tools.counts, path=str(count), _contract=contract)).ok
            assert count.read_text() == "xx"  # once more, and not for ever


@pytest.mark.parametrize("name", ["process", *[name for name in PROCESS_PLANES if "landlock" in name]])
async def test_a_tool_that_is_killed_from_outside_is_a_failed_call(name, tmp_path):
    pid = tmp_path / "pid"
    async with plane(name, tmp_path) as place:
        call = asyncio.ensure_future(place.run(tools.hangs, pid=str(pid)))
        os.kill(await appeared(pid), signal.SIGKILL)
        outcome = await call
        assert (outcome.error_code, place.left) == ("process_died", [])
        assert (await place.run(tools.add, a=1)).ok


@pytest.mark.parametrize("kind", ["child", "daemon"])
@in_all_processes
async def test_what_a_tool_leaves_behind_ends_with_its_call(name, tmp_path, kind):
    async with plane(name, tmp_path) as place:
        assert (await place.run(tools.leaves_children, pids=str(tmp_path / "pid"), kind=kind)).text == "left"
        assert place.left == []


@in_processes
async def test_a_fork_bomb_is_ended_with_all_its_processes(name, tmp_path):
    async with plane(name, tmp_path, **limited(processes=20)) as place:
        counted = "landlock" not in name  # it shows no processes, so that nobody can count them: the time ends it
        outcome = await place.run(tools.bombs, _timeout_ms=60_000 if counted else SHORT_MS)
        assert ("started too many others" in outcome.text) == counted
        assert place.left == []


@in_processes
async def test_limits_of_memory_files_and_sizes_are_errors_of_the_tool(name, tmp_path):
    limits = limited(memory_bytes=1024**3, open_files=128, file_bytes=1024 * 1024)
    async with plane(name, tmp_path, **limits) as place:
        assert (await place.run(tools.eats_memory)).error_code == "MemoryError"
        assert (await place.run(tools.leaks_files)).error_code == "OSError"
        outcome = await place.run(tools.fills_disk, path=str(tmp_path / "big"))
        assert (outcome.ok, (tmp_path / "big").stat().st_size) == (False, 1024 * 1024)
        assert (await place.run(tools.fills_disk, path="/dev/full")).error_code == "OSError"


async def test_a_slow_start_does_not_count_and_one_that_never_ends_is_said_so(tmp_path, monkeypatch):
    def slow(limits: Any) -> tuple[str, ...]:
        return ("/bin/sh", "-c", 'sleep 3.1; exec "$0" "$@"', *command(limits))

    replaced = "windlass.tools.planes.process.plane.command"
    monkeypatch.setattr(replaced, slow)
    async with plane("process", tmp_path) as place:
        assert (await place.run(tools.add, a=1, _timeout_ms=3_000)).ok
    monkeypatch.setattr(replaced, lambda of: ("/bin/sh", "-c", "echo cannot >&2; sleep 600", *command(of)))
    monkeypatch.setattr(worker_process, "START_S", 0.3)
    monkeypatch.setattr(worker_process, "END_S", 0.3)  # this one has no guard to ask
    async with plane("process", tmp_path) as place:
        outcome = await place.run(tools.add, a=1)
        assert outcome.failure is not None
        assert outcome.failure.kind == "tool_unavailable"
        assert outcome.body is not None
        assert "cannot" in (outcome.body.private_error or "")
        assert place.left == []


@in_processes
async def test_a_call_that_is_cancelled_at_any_moment_leaves_nothing(name, tmp_path):
    async with plane(name, tmp_path) as place:
        for step in range(7):
            call = asyncio.ensure_future(place.run(tools.hangs_async, pid=str(tmp_path / f"pid{step}")))
            for _ in range(step):
                await asyncio.sleep(0.06)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert (await place.run(tools.add, a=1)).ok
        assert place.kind.places.count <= 1


@everywhere
async def test_a_program_that_a_tool_runs_ends_with_its_call(name, tmp_path):
    from windlass.tools.sandboxes.local import LocalSandbox

    pid, mark = tmp_path / "pid", uuid.uuid4().hex
    box = LocalSandbox(tmp_path)
    context = ToolContext(session="s", call_id="c1.0", tool="t", sandbox=box)
    async with plane(name, tmp_path) as place:
        call = asyncio.ensure_future(place.run(tools.runs_for_ever, context=context, pid=str(pid), mark=mark))
        await appeared(pid)
        assert marked(mark) != []
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        if name == "local":  # its thread is left behind at once, and the program is told to end
            async with asyncio.timeout(PATIENCE_S):
                while marked(mark):
                    await asyncio.sleep(0.01)
        assert marked(mark) == []
    await box.close()


def test_the_list_of_planes_has_what_this_machine_can_run():
    import shutil

    assert {"local", "process"} <= set(PLANES)
    if shutil.which("bwrap"):
        assert "process-in-bubblewrap" in PLANES
