"""What a supervisor keeps of a job's output: without known secrets, and with a word about what there was no room for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

import windlass
from tests.jobs.jobbing import alive, coder, gone, opened, pid_in, played, until
from windlass.events.stored import known_secrets
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.jobs import JobFinished
from windlass.runtime.jobs import job_supervisor
from windlass.testing.scripted import call
from windlass.tools.processes import process_tree
from windlass.tools.processes.secret_blots import Blots

SECRET = "hunter2-and-more-of-it"


@pytest.fixture
def _known(monkeypatch):
    """A secret that this process knows, and no later test."""
    found = known_secrets.KnownSecrets()
    found.add(SECRET)
    for place in ("windlass.runtime.jobs.local_jobs", "windlass.tools.jobs.job_host"):
        monkeypatch.setattr(f"{place}.SECRETS", found)


@pytest.mark.usefixtures("_known")
async def test_what_lies_on_disk_holds_no_secret_that_was_known_at_the_start(tmp_path):
    half = SECRET[:9]
    line = f"echo a {SECRET}; printf 'b {half}'; sleep 0.1; echo '{SECRET[9:]}'; printf '{half}'"
    agent = coder([[call("shell", command=line, background=True)], "waits", "told"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        ended = await until(session, JobFinished)
        kept = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("jobs/*/j*/*")) if path.is_file())
        assert SECRET.encode() not in kept
        stars = "*" * len(SECRET)
        (printed,) = tmp_path.glob("jobs/*/j*/output.000000")
        assert printed.read_text() == f"a {stars}\nb {stars}\n{half}"
        assert ended.output_bytes == len(printed.read_bytes())


def test_what_comes_in_pieces_is_blotted_wherever_it_was_cut():
    text = b"x abcdef abcd abcdefgh y ab"
    for at in range(len(text)):
        blots = Blots([b"abcdef", b"defgh"])
        found = blots.feed(text[:at]) + blots.feed(text[at:]) + blots.end()
        assert found == b"x ****** abcd ******gh y ab"


def test_a_full_disk_leaves_a_word_and_nothing_is_glued_together(tmp_path, monkeypatch):
    folder = os.open(tmp_path, os.O_RDONLY)
    output = job_supervisor.Output(folder)
    real, full = os.write, False

    def write(fd: int, data: bytes) -> int:
        if full:
            raise OSError(28, "No space left on device")
        return real(fd, data[:5])  # short writes come to their end too

    monkeypatch.setattr(os, "write", write)
    output.add(b"before\n")
    full = True
    output.add(b"lost one\n")
    output.add(b"lost two\n")
    full = False
    output.add(b"after\n")
    monkeypatch.undo()
    printed = (tmp_path / "output.000000").read_bytes()
    os.close(folder)
    assert printed.decode() == "before\n\n[… 18 bytes are missing: the disk was full …]\nafter\n"
    assert output.size == len(printed)


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
async def test_what_cleared_its_environment_and_left_its_session_ends_with_a_killed_supervisor(tmp_path):
    hidden = f"env -i setsid sh -c 'exec >/dev/null 2>&1 </dev/null; echo $$ > {tmp_path}/pid; exec sleep 1000' &"
    agent = coder([[call("shell", command=f"{hidden} sleep 1000", background=True)], "waits", "told"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        (found,) = tmp_path.glob("jobs/*/j*/supervisor.json")
        above = json.loads(found.read_text())["pid"]
        os.kill(above, signal.SIGSTOP)
        (found.parent / "processes.json").unlink(missing_ok=True)  # as if it had not been seen yet
        os.kill(above, signal.SIGKILL)
        ended = await until(session, JobFinished)
        assert ended.status == "lost"
        await gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_mark_is_worn_by_all_that_is_started_and_by_nobody_else():
    mark = process_tree.mark_of("aa" * 16)
    assert mark != process_tree.mark_of("ab" * 16)
    child = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: process_tree.wear(mark))
    try:
        assert process_tree.marked(mark) == [child.pid]
        assert process_tree.marked(mark + 1) == []
        assert process_tree.end_marked(mark, 5.0)
    finally:
        child.kill()
        child.wait()
    assert not alive(child.pid)


async def test_a_folder_that_is_gone_is_named(tmp_path):
    place = tmp_path / "work"
    place.mkdir()
    agent = coder([[call("shell", command="true")], "done"])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, workspace=place)
        place.rmdir()
        told = [event for event in await played(session) if isinstance(event, ToolFinished)]
    assert not told[0].ok
    assert told[0].body is not None
    assert "there is no folder" in str(told[0].body.content)
