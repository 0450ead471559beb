"""The shell tool of a real session under each confining sandbox: the command, what it leaves, and jobs."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import tempfile
from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolFinished
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.sandboxes.choice import candidates, sandbox_named
from windlass.tools.sandboxes.sandbox import Process

USABLE = [each.name for each in candidates() if each.problem is None and each.name != "container"]


def agent_that(*commands: str) -> windlass.Agent:
    script: list[Any] = [*(call("shell", command=text) for text in commands), "done"]
    return windlass.Agent("a", model=ScriptedModel(script), tools=["shell"], policy=windlass.Policy(default="allow"))


@pytest.mark.parametrize("name", USABLE)
async def test_a_command_of_a_session_is_confined(tmp_path, name):
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work, outside):
        folder.mkdir()
    agent = agent_that(
        f"echo in > made; echo out > {outside}/made; cat {tmp_path}/store.db | wc -c; echo evil > .envrc",
        "(setsid sh -c 'echo $$ > daemon; exec sleep 600' >/dev/null 2>&1 &) ; while [ ! -s daemon ]; do sleep 0.01; done; echo y",
        "cat $TMPDIR/../../../store.db ~/.ssh/id_rsa; id -u; echo x > $TMPDIR/kept; cat $TMPDIR/kept",
    )
    async with windlass.open(
        str(tmp_path / "store.db"), agents=[agent], sandbox=name, jobs=tmp_path / "jobs"
    ) as runtime:
        session = await runtime.session(agent, "s", workspace=work)
        told = [event async for event in session.prompt("go")]
    assert (work / "made").read_text() == "in\n"
    assert list(outside.iterdir()) == []
    assert not (work / ".envrc").exists()
    assert (work / ".envrc.refused").read_text() == "evil\n"
    finished = [event for event in told if isinstance(event, ToolFinished)]
    assert len(finished) == 3, told
    assert running("sleep", "600", work) == []


@pytest.mark.parametrize("name", USABLE)
async def test_the_scratch_place_of_a_job_that_is_just_being_started_stays(tmp_path, name):
    sandbox: Any = await sandbox_named(name).open("s", str(tmp_path))
    launch = await sandbox.launch(Process(argv=("sh", "-c", "echo here > $TMPDIR/x && cat $TMPDIR/x")))
    await sandbox.close()  # before anybody started it
    ran = await asyncio.to_thread(
        subprocess.run, launch.argv, cwd=launch.cwd, env=launch.env, capture_output=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, b"here\n"), ran.stderr


@pytest.mark.parametrize("name", USABLE)
async def test_the_scratch_place_goes_with_the_sandbox_once_its_jobs_are_over(tmp_path, monkeypatch, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    sandbox: Any = await sandbox_named(name).open("s", str(work))
    launch = await sandbox.launch(Process(argv=("true",)))
    await asyncio.to_thread(subprocess.run, launch.argv, cwd=launch.cwd, env=launch.env, timeout=30, check=True)
    await sandbox.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["work"]


@pytest.mark.parametrize("name", USABLE)
async def test_a_guarded_name_does_not_stay_while_a_job_runs(tmp_path, name):
    sandbox: Any = await sandbox_named(name).open("s", str(tmp_path))
    script = "echo evil > .envrc; while [ ! -e .envrc.refused ]; do sleep 0.05; done; echo gone"
    launch = await sandbox.launch(Process(argv=("sh", "-c", script)))
    try:
        ran = await asyncio.to_thread(
            subprocess.run, launch.argv, cwd=launch.cwd, env=launch.env, capture_output=True, timeout=20, check=False
        )
    finally:
        await sandbox.close()
    assert ran.stdout == b"gone\n"
    assert ran.stderr.count(b".envrc.refused") == 1
    assert not (tmp_path / ".envrc").exists()


def running(*words: str | pathlib.Path) -> list[str]:
    """The processes of this machine with these words whose folder is the last one."""
    *wanted, folder = words
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            said = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
            if said == [str(word).encode() for word in wanted] and os.readlink(entry / "cwd") == str(folder):
                found.append(entry.name)
        except OSError:
            continue
    return found
