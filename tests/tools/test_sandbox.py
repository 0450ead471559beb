"""The local sandbox with real processes: what they get, what they leave, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import os
import pathlib
import threading
import time
from typing import Any

import pytest

from tests.sandboxes.programs import PATIENCE_S, alive, appeared, flooded, gone, script, shell
from windlass.events.errors import UsageError
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.planes.local import LocalPlane
from windlass.tools.sandboxes.local import LocalSandbox, LocalSandboxes
from windlass.tools.sandboxes.sandbox import Output, Process, ProcessResult, Sandboxes
from windlass.tools.tool import tool

LONG_MS = 60_000


@pytest.fixture
def box(tmp_path: pathlib.Path) -> LocalSandbox:
    (tmp_path / "sub").mkdir()
    return LocalSandbox(tmp_path)


# --- what it gives back ---


async def test_a_process_gives_its_exit_code_and_both_outputs(box):
    assert await box.run(shell("echo out; echo err >&2; exit 3")) == ProcessResult(
        exit_code=3, stdout=Output(head=b"out\n", size=4), stderr=Output(head=b"err\n", size=4)
    )
    assert (await box.run(shell("true"))).ok


async def test_a_process_reads_what_it_is_given_and_nothing_else(box):
    given = os.urandom(300_000)
    sums = script("import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=given)
    import hashlib

    assert (await box.run(sums)).stdout.text.strip() == hashlib.sha256(given).hexdigest()
    assert (await box.run(shell("cat"))).stdout.size == 0
    assert (await box.run(shell("exec <&-; sleep 0.1; echo done", stdin=given))).stdout.text == "done\n"


async def test_no_shell_reads_the_words(box, tmp_path):
    result = await box.run(Process(argv=("echo", "$HOME; rm -rf *", "a b")))
    assert result.stdout.text == "$HOME; rm -rf * a b\n"
    assert (tmp_path / "sub").exists()


async def test_a_signal_is_a_negative_exit_code(box):
    assert (await box.run(shell("kill -TERM $$"))).exit_code == -15


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 5_000_000])
async def test_output_is_kept_within_its_bound_by_its_head_and_its_tail(box, size):
    result = await box.run(
        script(f"import sys; sys.stdout.write(('0123456789' * {size // 10 + 1})[:{size}])", output_bytes_max=100)
    )
    whole = (b"0123456789" * (size // 10 + 1))[:size]
    assert (result.exit_code, result.stdout.size, result.stdout.whole) == (0, size, size <= 100)
    kept = whole if size <= 100 else whole[:50] + whole[-50:]
    assert result.stdout.head + result.stdout.tail == kept
    if size > 100:
        assert f"\n[… {size - 100} of {size} bytes are missing here …]\n" in result.stdout.text


async def test_a_process_that_never_stops_writing_is_drained_in_bounded_memory(box):
    result = await flooded(box, Process(argv=("yes",), output_bytes_max=1_000))
    assert len(result.stdout.head) + len(result.stdout.tail) == 1_000 < result.stdout.size


async def test_many_run_at_once_and_none_waits_for_another(box):
    results = await asyncio.gather(*(box.run(shell(f"echo {n}")) for n in range(40)))
    assert [result.stdout.text for result in results] == [f"{n}\n" for n in range(40)]


# --- environment and folder ---


async def test_the_environment_is_what_is_allowed_and_what_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    result = await LocalSandbox(tmp_path, env_allowed=("PATH", "LANG")).run(
        Process(argv=("/usr/bin/env",), env={"GIVEN": "yes"})
    )
    lines = set(result.stdout.text.splitlines())
    assert lines == {f"PATH={os.environ['PATH']}", "LANG=C.UTF-8", "GIVEN=yes"}
    usual = await LocalSandbox(tmp_path).run(Process(argv=("/usr/bin/env",)))
    assert "s3cret" not in usual.stdout.text


async def test_a_process_starts_in_the_root_or_in_a_folder_beneath_it(box, tmp_path):
    assert (await box.run(shell("pwd"))).stdout.text.strip() == str(tmp_path.resolve())
    assert (await box.run(shell("pwd", cwd="sub"))).stdout.text.strip() == str((tmp_path / "sub").resolve())


@pytest.mark.parametrize("cwd", ["..", "/", "sub/../..", "out", "nowhere"])
async def test_a_folder_outside_of_the_root_is_refused(box, tmp_path, cwd):
    (tmp_path / "out").symlink_to("/")
    with pytest.raises(ToolError):
        await box.run(shell("pwd", cwd=cwd))


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("no-such-program-here",), "the program 'no-such-program-here' cannot be run: No such file or directory"),
        (("/etc/passwd",), "the program '/etc/passwd' cannot be run: Permission denied"),
    ],
)
async def test_a_program_that_cannot_be_started_is_said_so(box, argv, told):
    with pytest.raises(ToolError, match=told):
        await box.run(Process(argv=argv))


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": ("a\0b",)},
        {"argv": ("a", 7)},
        {"argv": ("a",), "env": {"a=b": "c"}},
        {"argv": ("a",), "env": {"": "c"}},
        {"argv": ("a",), "timeout_ms": 0},
        {"argv": ("a",), "output_bytes_max": -1},
    ],
)
def test_what_is_no_process_is_refused(wrong):
    with pytest.raises(UsageError):
        Process(**wrong)


# --- the end of it ---

CHILDREN = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pids", "w").write(f"{os.getpid()} {child.pid}\\n")
END
"""


@pytest.mark.parametrize("ending", ["timeout", "cancel", "exit", "close"])
async def test_whatever_a_process_started_ends_with_it(box, tmp_path, ending):
    end = "" if ending == "exit" else "time.sleep(600)"
    timeout_ms = 3_000 if ending == "timeout" else LONG_MS
    running = asyncio.ensure_future(box.run(script(CHILDREN.replace("END", end), timeout_ms=timeout_ms)))
    pids = [int(pid) for pid in (await appeared(tmp_path / "pids")).split()]
    if ending == "cancel":
        running.cancel()
    if ending == "close":
        await box.close()
    if ending in ("cancel", "close"):
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        assert (await running).timed_out == (ending == "timeout")
    for pid in pids:
        await gone(pid)


async def test_a_cancelled_process_is_gone_when_the_cancellation_is_through(box, tmp_path):
    running = asyncio.ensure_future(box.run(shell("echo $$ > pid; trap '' TERM INT; while :; do sleep 0.1; done")))
    pid = int(await appeared(tmp_path / "pid"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(pid)


async def test_nothing_is_left_open_by_processes(box):
    async def once() -> None:
        await box.run(shell("echo x"))
        running = asyncio.ensure_future(box.run(shell("sleep 600")))
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.wait([running])

    await once()
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await once()
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    async with asyncio.timeout(PATIENCE_S):
        while any(thread.name == "windlass-process" for thread in threading.enumerate()):
            await asyncio.sleep(0.01)


async def test_a_closed_sandbox_runs_nothing(box):
    await box.close()
    await box.close()
    with pytest.raises(UsageError, match="closed"):
        await box.run(shell("true"))


# --- files ---


async def test_files_are_written_whole_read_back_and_listed(box, tmp_path):
    await box.write("a.bin", b"\x00\xff")
    await box.write("sub/b.txt", b"one")
    await box.write("sub/b.txt", b"two")
    assert (await box.read("a.bin"), await box.read("sub/b.txt")) == (b"\x00\xff", b"two")
    assert await box.list() == ("a.bin", "sub/")
    assert await box.list("sub") == ("b.txt",)
    (tmp_path / "run").write_text("x")
    (tmp_path / "run").chmod(0o755)
    await box.write("run", b"y")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "out/x", "nowhere/x", "sub", "sub/", ".", "", "a\0b"])
async def test_nothing_is_written_outside_of_the_root_or_over_a_folder(box, tmp_path, path):
    (tmp_path / "out").symlink_to("/tmp")
    with pytest.raises(ToolError):
        await box.write(path, b"x")
    assert sorted(os.listdir(tmp_path)) == ["out", "sub"]


async def test_a_link_is_replaced_and_not_written_through(box, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("kept")
    (tmp_path / "link").symlink_to(outside)
    await box.write("link", b"mine")
    assert (outside.read_text(), (tmp_path / "link").read_text()) == ("kept", "mine")


# --- from a tool ---


def running(box: LocalSandbox) -> ToolContext:
    return ToolContext(session="s", call_id="c", tool="t", sandbox=box)


async def test_tools_run_programs_async_and_sync(box):
    @tool
    async def on_loop(ctx: ToolContext) -> str:
        return (await ctx.run(["echo", "a"])).stdout.text

    @tool
    def in_thread(ctx: ToolContext) -> str:
        return ctx.wait(ctx.run(["echo", "b"])).stdout.text

    plane = LocalPlane()
    for made, text in ((on_loop, "a\n"), (in_thread, "b\n")):
        assert (await plane.run(made, CallBody(args={}), running(box))).text == text


@pytest.mark.parametrize("sync", [False, True])
async def test_a_tool_that_is_given_up_takes_its_processes_with_it(box, tmp_path, sync):
    words = ["/bin/sh", "-c", "echo $$ > pid; sleep 600"]

    @tool
    async def on_loop(ctx: ToolContext) -> int:
        return (await ctx.run(words)).exit_code

    @tool
    def in_thread(ctx: ToolContext) -> int:
        return ctx.wait(ctx.run(words)).exit_code

    call = asyncio.ensure_future(LocalPlane().run(in_thread if sync else on_loop, CallBody(args={}), running(box)))
    pid = int(await appeared(tmp_path / "pid"))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await gone(pid)


async def test_a_text_is_no_command_and_outside_of_a_session_there_is_no_sandbox(box):
    with pytest.raises(UsageError, match="no shell reads them"):
        await running(box).run("echo a; echo b")
    with pytest.raises(UsageError, match="outside of a session"):
        await ToolContext(session="s", call_id="c").run(["echo"])


# --- of a session ---


async def test_a_session_opens_its_sandbox_on_first_use_and_closes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened: list[LocalSandbox] = []

    class Kind(LocalSandboxes):
        async def open(self, session: str, folder: str | None) -> LocalSandbox:
            opened.append(await super().open(session, folder))
            return opened[-1]

    sandboxes = Sandboxes(Kind())
    session = sandboxes.for_session("s")
    box = session.over(None)
    assert opened == []
    await asyncio.gather(box.write("a", b"1"), box.write("b", b"2"))
    assert len(opened) == 1
    assert await session.over(None).list() == ("a", "b")
    other = tmp_path / "other"
    other.mkdir()
    assert await session.over(str(other)).list() == ()
    await session.close()
    await session.close()
    assert (len(opened), sandboxes.in_use) == (2, set())
    for each in opened:
        with pytest.raises(UsageError, match="closed"):
            await each.run(Process(argv=("true",)))
    await session.over(None).list()
    await sandboxes.close()
    with pytest.raises(UsageError, match="closed"):
        await opened[2].run(Process(argv=("true",)))


async def test_timeouts_are_kept_to(box):
    before = time.monotonic()
    assert (await box.run(Process(argv=("sleep", "600"), timeout_ms=200))).exit_code == -9
    assert time.monotonic() - before < PATIENCE_S


@pytest.mark.parametrize("sync", [False, True])
async def test_what_a_live_program_writes_is_shown_before_it_ends(box, tmp_path, sync):
    seen: list[str] = []

    class Seat:
        def holds(self) -> bool:
            return True

        def progress(self, call_id: str, progress: Any) -> None:
            seen.append(progress.content[0].text)
            (tmp_path / "go").touch()

    words = ["/bin/sh", "-c", "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second >&2"]

    @tool
    async def on_loop(ctx: ToolContext) -> str:
        return (await ctx.run(words, live=True)).stdout.text

    @tool
    def in_thread(ctx: ToolContext) -> str:
        return ctx.wait(ctx.run(words, live=True)).stdout.text

    seat: Any = Seat()
    context = ToolContext(session="s", call_id="c", tool="t", sandbox=box, seat=seat)
    outcome = await LocalPlane().run(in_thread if sync else on_loop, CallBody(args={}), context)
    assert outcome.text == "first\n"
    assert seen == ["first\n", "second\n"]
