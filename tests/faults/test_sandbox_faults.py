"""The rows of the tool fault matrix (promises 3.6) about processes, on every sandbox that this machine can run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
import uuid
from typing import Any

import pytest

from tests.sandboxes import real_container
from tests.sandboxes.programs import flooded
from windlass.tools.context import ToolError
from windlass.tools.sandboxes.sandbox import Limits, Process

from .places import CONFINED, MARK, SANDBOXES, marked, sandbox

PATIENCE_S = 180.0

everywhere = pytest.mark.parametrize("name", SANDBOXES)
by_itself = pytest.mark.parametrize("name", [name for name in SANDBOXES if name != "container"])
"""The limits of a container, and programs that are not there, are the affair of its engine; the double of one is none."""


class Marked:
    """Makes processes that are found again wherever they go."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex

    def shell(self, text: str, **more: Any) -> Process:
        return Process(argv=("/bin/sh", "-c", text), env={MARK: self.mark}, **more)

    def script(self, text: str, **more: Any) -> Process:
        return Process(argv=(os.path.realpath(sys.executable), "-c", text), env={MARK: self.mark}, **more)

    @property
    def left(self) -> list[int]:
        return marked(self.mark)


async def appeared(path: pathlib.Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not _is_there(path):
            await asyncio.sleep(0.005)


def _is_there(path: pathlib.Path) -> bool:
    return path.exists()


DEAF = "trap '' TERM INT HUP; touch here; while :; do sleep 0.05; done"
DAEMON = """
import os, sys, time
if os.fork(): sys.exit(0)
os.setsid()
if os.fork(): os._exit(0)
open("here", "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize("ending", ["timeout", "cancel", "close"])
@everywhere
async def test_a_process_that_never_ends_and_heeds_no_signal_is_ended(name, tmp_path, ending):
    made = Marked()
    async with sandbox(name, tmp_path) as box:
        timeout_ms = 700 if ending == "timeout" else 60_000
        running = asyncio.ensure_future(box.run(made.shell(DEAF, timeout_ms=timeout_ms)))
        if ending == "timeout":
            assert (await running).timed_out
        else:
            await appeared(tmp_path / "here")
            if ending == "cancel":
                running.cancel()
            else:
                await box.close()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert made.left == []


@everywhere
async def test_a_daemon_ends_with_the_call_that_started_it(name, tmp_path):
    made = Marked()
    async with sandbox(name, tmp_path) as box:
        waits = "while [ ! -e here ]; do sleep 0.01; done"
        words = made.shell(f'"$0" -c "$1"; {waits}; echo done')
        words = Process(argv=(*words.argv, *made.script(DAEMON).argv[::2]), env=words.env)
        assert (await box.run(words)).stdout.text == "done\n"
        assert made.left == []


@everywhere
async def test_the_end_of_a_process_does_not_wait_for_whoever_holds_its_output(name, tmp_path):
    made = Marked()
    async with sandbox(name, tmp_path) as box:
        async with asyncio.timeout(PATIENCE_S):
            ended = await box.run(made.shell("sleep 600 & echo begun"))
        assert (ended.exit_code, ended.stdout.text, made.left) == (0, "begun\n", [])


@everywhere
async def test_output_without_end_and_a_line_without_end_are_bounded(name, tmp_path):
    made = Marked()
    async with sandbox(name, tmp_path) as box:
        flood = await flooded(box, made.shell("yes", output_bytes_max=1_000))
        assert len(flood.stdout.head) + len(flood.stdout.tail) == 1_000 < flood.stdout.size
        line = await box.run(made.shell("head -c 20000000 /dev/zero", output_bytes_max=1_000))
        assert (line.exit_code, line.stdout.size) == (0, 20_000_000)
        assert made.left == []


@everywhere
async def test_bytes_that_are_no_text_come_as_they_are(name, tmp_path):
    raw = bytes(range(256)) + "\x1b]0;x\x07\u202e\u2028".encode() + b"\xed\xa0\x80"
    async with sandbox(name, tmp_path) as box:
        ended = await box.run(Process(argv=("cat",), stdin=raw))
        assert (ended.stdout.head, ended.stdout.whole) == (raw, True)
        assert ended.stdout.text.encode()  # shown with marks, never an error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
@everywhere
async def test_a_process_that_is_ended_by_a_signal_says_which(name, tmp_path, number):
    async with sandbox(name, tmp_path) as box:
        ended = await box.run(Marked().script(f"import os; os.kill(os.getpid(), {int(number)})"))
        code = ended.exit_code
        assert code == -number or (name in ("bubblewrap", "podman") and code in (-number, 128 + number))


@everywhere
async def test_a_process_that_is_killed_from_outside_ends_its_call(name, tmp_path):
    made = Marked()
    async with sandbox(name, tmp_path) as box:
        running = asyncio.ensure_future(box.run(made.shell("touch here; exec sleep 600")))
        await appeared(tmp_path / "here")
        for pid in made.left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ToolError):  # if what held it was killed as well, that is said
            assert (await running).exit_code != 0
        assert made.left == []


@by_itself
async def test_a_disk_that_is_full_and_a_file_that_is_too_large_are_errors_of_the_process(name, tmp_path):
    async with sandbox(name, tmp_path, Limits(file_bytes=1024 * 1024)) as box:
        assert (await box.run(Marked().shell("head -c 5000000 /dev/zero > big"))).exit_code != 0
        assert (tmp_path / "big").stat().st_size <= 1024 * 1024
        if name != "landlock":  # which has no such device
            full = await box.run(Marked().shell("head -c 1 /dev/zero > /dev/full"))
            assert (full.exit_code != 0, b"No space" in full.stderr.head) == (True, True)


@everywhere
async def test_a_fork_bomb_ends_at_its_time_with_all_its_processes(name, tmp_path):
    made = Marked()
    bomb = "import os, time\nfor _ in range(300):\n    if os.fork() == 0: time.sleep(600)\nopen('here','w')\ntime.sleep(600)"
    async with sandbox(name, tmp_path) as box:
        running = asyncio.ensure_future(box.run(made.script(bomb)))
        await appeared(tmp_path / "here")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert made.left == []


@by_itself
async def test_a_limit_of_memory_and_of_open_files_is_an_error_of_the_process(name, tmp_path):
    async with sandbox(name, tmp_path, Limits(address_bytes=512 * 1024**2, open_files=64)) as box:
        hog = await box.run(Marked().script("bytearray(1024**3)"))
        if name == "podman":  # an engine counts what is used and ends whoever uses more
            assert hog.exit_code == 128 + signal.SIGKILL
        else:
            assert (hog.exit_code, b"MemoryError" in hog.stderr.head) == (1, True)
        leak = await box.run(Marked().script("held = [open('/dev/null') for _ in range(1000)]"))
        assert (leak.exit_code, b"Too many open files" in leak.stderr.head) == (1, True)


@by_itself
async def test_a_program_that_is_not_there_is_said_so_and_the_next_one_runs(name, tmp_path):
    async with sandbox(name, tmp_path) as box:
        if name == "podman":  # the engine says so itself
            ended = await box.run(Process(argv=("no-such-program",)))
            assert (ended.ok, b"No such file" in ended.stderr.head) == (False, True)
        else:
            with pytest.raises(ToolError, match="'no-such-program' cannot be run"):
                await box.run(Process(argv=("no-such-program",)))
        assert (await box.run(Marked().shell("true"))).ok


@everywhere
async def test_a_process_that_is_cancelled_at_any_moment_leaves_nothing(name, tmp_path):
    made = Marked()
    async with sandbox(name, tmp_path) as box:
        for step in range(6):
            running = asyncio.ensure_future(box.run(made.shell("setsid sleep 600 & sleep 600")))
            for _ in range(step):
                await asyncio.sleep(0.03)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert made.left == [], step
        assert (await box.run(made.shell("true"))).ok


@everywhere
async def test_the_variables_of_the_runtime_stay_with_it(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "s3cret-value")
    async with sandbox(name, tmp_path) as box:
        assert b"s3cret-value" not in (await box.run(Process(argv=("env",)))).stdout.head


def test_the_list_of_sandboxes_has_what_this_machine_can_run():
    import shutil

    assert {"local", "remote"} <= set(SANDBOXES)
    if shutil.which("bwrap"):
        assert "bubblewrap" in CONFINED
    if shutil.which("podman") and shutil.which("runc") and os.getuid() == 0:
        assert "podman" in SANDBOXES, real_container.engine()[1]
