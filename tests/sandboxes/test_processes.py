"""Processes of the local sandbox: daemons included, nothing of them stays; terminals, limits, secrets."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError
from windlass.tools.sandboxes.local import LocalSandbox
from windlass.tools.sandboxes.sandbox import Limits, Process

from .programs import DAEMON, alive, appeared, flooded, gone, odd_signals, script, shell


@pytest.fixture
def box(tmp_path: pathlib.Path) -> LocalSandbox:
    return LocalSandbox(tmp_path)


# --- the end of it ---


@pytest.mark.parametrize("ending", ["exit", "timeout", "cancel", "close"])
async def test_a_daemon_is_gone_when_the_process_is(box, tmp_path, ending):
    end = "" if ending == "exit" else "time.sleep(600)"
    timeout_ms = 2_000 if ending == "timeout" else 60_000
    running = asyncio.ensure_future(box.run(script(DAEMON.replace("END", end), timeout_ms=timeout_ms)))
    pids = [int(pid) for pid in (await appeared(tmp_path / "pids")).split()]
    if ending == "cancel":
        running.cancel()
    if ending == "close":
        await box.close()
    await asyncio.wait([running])
    assert [pid for pid in pids if alive(pid)] == []


def test_nothing_outlives_a_runtime_that_is_killed(tmp_path):
    program = f"""
    import asyncio, sys
    from windlass.tools.sandboxes.local import LocalSandbox
    from windlass.tools.sandboxes.sandbox import Process
    words = (sys.executable, "-c", {DAEMON.replace("END", "time.sleep(600)")!r})
    asyncio.run(LocalSandbox({str(tmp_path)!r}).run(Process(argv=words)))
    """
    runtime = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    try:
        pids = [int(pid) for pid in asyncio.run(appeared(tmp_path / "pids")).split()]
    finally:
        runtime.kill()
        runtime.wait()
    for pid in pids:
        asyncio.run(gone(pid))


async def test_a_program_that_forks_without_end_is_ended(box, tmp_path):
    bomb = "import os\nopen('up', 'w').write('1\\n')\nwhile True:\n  if os.fork() and os.fork(): os._exit(0)\n  time.sleep(.02)"
    for timeout_ms in (400, 2_000, 10_000, 60_000):  # enough for it to begin
        ended = await box.run(script("import time\n" + bomb, timeout_ms=timeout_ms))
        assert ended.notices == ()
        if (tmp_path / "up").exists():
            return
    pytest.fail("it never began")


async def test_a_process_that_kills_its_group_does_not_kill_its_supervisor(box):
    result = await box.run(shell("echo a; kill -9 0; echo b"))
    assert (result.exit_code, result.stdout.text) == (-9, "a\n")


async def test_a_process_that_kills_its_supervisor_leaves_nothing(box, tmp_path):
    text = DAEMON.replace("END", "import signal; os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)")
    assert (await box.run(script(text))).exit_code == -signal.SIGKILL
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert [alive(pid) for pid in pids] == [False, False]


def odd(told: str) -> dict[str, set[int]]:
    """The signals that a program finds held back or ignored, of those that a program can name: one that the C library
    keeps for itself stays ignored in all that `posix_spawn` starts, such as these tests when they run side by side."""
    masks = dict(line.split(":\t") for line in told.splitlines())
    return {name: {n for n in signal.valid_signals() if int(mask, 16) >> (n - 1) & 1} for name, mask in masks.items()}


async def test_signals_are_as_a_program_expects_them(box):
    told = await box.run(shell("yes | head -1; grep -E 'Sig(Ign|Blk)' /proc/self/status"))
    assert told.stdout.text.startswith("y\n")
    assert odd(told.stdout.text[2:]) == {"SigBlk": set(), "SigIgn": set()}


async def test_signals_are_so_whatever_the_runtime_was_started_with(box):
    with odd_signals():
        told = await box.run(shell("grep -E 'Sig(Ign|Blk)' /proc/self/status"))
    assert odd(told.stdout.text) == {"SigBlk": set(), "SigIgn": set()}


async def test_no_descriptor_but_the_three_is_handed_on(box):
    listed = await box.run(script("import os; print(sorted(os.listdir('/proc/self/fd')))"))
    assert listed.stdout.text == "['0', '1', '2', '3']\n"  # the fourth is the one that lists


# --- a terminal ---


async def test_a_process_gets_a_terminal_of_its_own_if_it_is_asked_for(box):
    about = "import os, sys; print(all(os.isatty(n) for n in range(3)), os.get_terminal_size(), open('/dev/tty', 'w') and 1)"
    with_one = await box.run(script(about, pty=True))
    assert with_one.stdout.text == "True os.terminal_size(columns=80, lines=24) 1\r\n"
    assert (with_one.stderr.size, with_one.exit_code) == (0, 0)
    assert (await box.run(shell("tty; echo >/dev/tty"))).stdout.text == "not a tty\n"


@pytest.mark.parametrize("given", [b"", b"one\ntwo\n", b"no end of line"])
async def test_what_is_typed_is_read_and_then_comes_the_end_of_input(box, given):
    read = await box.run(Process(argv=("cat",), stdin=given, pty=True))
    assert (read.exit_code, read.stdout.head) == (0, given.replace(b"\n", b"\r\n"))


async def test_a_terminal_is_ended_by_its_time_and_bounded_like_a_pipe(box):
    flood = await flooded(box, Process(argv=("yes",), pty=True, output_bytes_max=1_000))
    assert len(flood.stdout.head) + len(flood.stdout.tail) == 1_000 < flood.stdout.size


async def test_terminals_leave_nothing_open(box):
    await box.run(Process(argv=("true",), pty=True))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await box.run(Process(argv=("true",), pty=True))
    assert len(os.listdir("/proc/self/fd")) == before


# --- limits ---


@pytest.mark.parametrize(
    ("limits", "text", "told"),
    [
        (Limits(file_bytes=10_000), "open('big', 'wb').write(b'x' * 20_000)", "File too large"),
        (Limits(address_bytes=300_000_000), "bytearray(1_000_000_000)", "MemoryError"),
        (Limits(open_files=20), "held = [open('/dev/null') for _ in range(30)]", "Too many open files"),
    ],
)
async def test_a_limit_holds(tmp_path, limits, text, told):
    result = await LocalSandbox(tmp_path, limits=limits).run(
        script(f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); {text}")
    )
    assert told in result.stderr.text
    assert result.exit_code == 1


async def test_the_number_of_processes_is_handed_on_and_nobody_dumps_memory(tmp_path):
    asked = "import resource as r; print(r.getrlimit(r.RLIMIT_NPROC), r.getrlimit(r.RLIMIT_CORE))"
    result = await LocalSandbox(tmp_path, limits=Limits(processes=7_000)).run(script(asked))
    assert result.stdout.text == "(7000, 7000) (0, 0)\n"


@pytest.mark.parametrize("wrong", [{"processes": -1}, {"open_files": "many"}])
def test_what_is_no_limit_is_refused(wrong):
    with pytest.raises(UsageError, match="a limit of a process"):
        Limits(**wrong)


# --- secrets ---


async def test_a_secret_is_looked_up_when_the_process_starts_and_stands_in_its_environment_only(tmp_path):
    box = LocalSandbox(tmp_path, secrets={"deploy": "s3cret-value"}.__getitem__)
    process = shell(
        'echo "$TOKEN"; tr "\\0" " " </proc/$PPID/cmdline; tr "\\0" " " </proc/$$/cmdline', secrets={"TOKEN": "deploy"}
    )
    told = (await box.run(process)).stdout.text.splitlines()
    assert told[0] == "s3cret-value"
    assert "supervisor" in told[1]
    assert "s3cret" not in told[1]
    with pytest.raises(ToolError, match="nobody here who knows the secret 'deploy'"):
        await LocalSandbox(tmp_path).run(process)


def test_the_script_is_a_script_of_its_own():
    """It must start quickly, and under any interpreter that runs us: it imports nothing of ours."""
    from windlass.tools.sandboxes import process_group

    source = pathlib.Path(process_group.SUPERVISOR).read_text(encoding="utf-8")
    assert [line for line in source.splitlines() if line.startswith(("from ", "import "))] == [
        "from __future__ import annotations",
        *(f"import {name}" for name in ("os", "select", "signal", "stat", "sys", "time")),
    ]
