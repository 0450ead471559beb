"""`windlass jobs`: what runs in the background, what it prints, and how it is ended, also if nobody drives the session."""

from __future__ import annotations

import asyncio
import json
import pathlib
import time
from typing import Any

import pytest

import windlass
from tests.jobs.jobbing import PATIENCE_S
from windlass.cli.main import main
from windlass.testing.scripted import ScriptedModel, call

from .screens import proves

COMMAND = "echo ready; touch printed; exec sleep 100"


async def lived(store: str, place: pathlib.Path, *script: Any) -> None:
    agent = windlass.Agent("coder", model=ScriptedModel([*script]), tools=["shell", "jobs"], policy=windlass.ALLOW_ALL)
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "march", workspace=place)
        await session.prompt("go")
        await session.wait_idle()
        async with asyncio.timeout(PATIENCE_S):
            while not (place / "printed").exists():
                await asyncio.sleep(0.01)


@pytest.fixture
def at(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A store with a session whose job goes on without a runtime."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = str(tmp_path / "work.db")
    asyncio.run(lived(store, tmp_path, call("shell", command=COMMAND, background=True), "ok"))
    return ["--store", store]


@proves("jobs", "normal")
def test_jobs_are_listed_read_and_ended(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["jobs", "march", "--json", *at]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["status"], row["title"]) == ("running", COMMAND)
    assert main(["jobs", "march", *at]) == 0
    said = capsys.readouterr().out
    assert (row["job_id"] in said, COMMAND in said) == (True, True)
    assert main(["jobs", "march", "--tail", row["job_id"], *at]) == 0
    assert capsys.readouterr().out.strip() == "ready"
    assert main(["ps", *at]) == 0
    assert "1 background job" in capsys.readouterr().out
    assert main(["show", "march", *at]) == 0
    assert row["job_id"] in capsys.readouterr().out
    assert main(["jobs", "march", "--kill", row["job_id"], "--wait", "0", *at]) == 0
    assert "ends, with all that it started" in capsys.readouterr().out


@proves("jobs", "error")
def test_a_job_that_is_not_there_is_named(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["jobs", "march", "--tail", "j99.0", *at]) == 2
    assert "has no job 'j99.0': there is j" in " ".join(capsys.readouterr().err.split())
    assert main(["jobs", "march", "--json", *at]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert main(["jobs", "march", "--kill", row["job_id"], "--wait", "0", *at]) == 0


@proves("jobs", "empty")
def test_a_session_without_jobs_says_so(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    store = str(tmp_path / "work.db")
    asyncio.run(quiet(store, tmp_path))
    assert main(["jobs", "march", "--store", store]) == 0
    assert "has no background jobs" in capsys.readouterr().out


async def quiet(store: str, place: pathlib.Path) -> None:
    agent = windlass.Agent("coder", model=ScriptedModel(["hello"]))
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "march", workspace=place)
        await session.prompt("go")
        await session.wait_idle()


def test_a_job_that_is_over_and_not_told_yet_is_not_said_to_run(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["jobs", "march", "--json", *at]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert main(["jobs", "march", "--kill", row["job_id"], "--wait", "0", *at]) == 0
    capsys.readouterr()
    for _ in range(500):
        assert main(["jobs", "march", "--json", *at]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        if row["status"] != "running":
            break
        time.sleep(0.01)
    assert row["status"] == "ended, not told yet"


def test_a_run_that_leaves_jobs_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "leaves_jobs.py"
    file.write_text(
        "import windlass\nfrom windlass.testing.scripted import ScriptedModel, call\n"
        "turns = [call('shell', command='exec sleep 100', background=True), 'ok']\n"
        "agent = windlass.Agent('c', model=ScriptedModel(turns), tools=['shell'], policy=windlass.ALLOW_ALL)\n"
    )
    store = str(tmp_path / "work.db")
    at = ["--store", store]
    assert main(["run", "go", "--agent", str(file), "--session", "left", *at]) == 0
    assert f"1 background job goes on: windlass jobs left --store {store}" in capsys.readouterr().err
    assert main(["jobs", "left", "--json", *at]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert main(["jobs", "left", "--kill", row["job_id"], "--wait", "0", *at]) == 0
