"""The sandbox of a session is kept in its log: whoever resumes it has the same one, or none of its commands run."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest

import windlass
from windlass import SessionOptions
from windlass.cli.main import main
from windlass.events.errors import UsageError
from windlass.events.tools.calls import ToolFinished
from windlass.runtime.api.policy import PRESETS
from windlass.tools.sandboxes import bubblewrap, choice
from windlass.tools.sandboxes.local import LocalSandboxes

from .test_in_a_session import USABLE, agent_that

AGENT = """
import windlass
from windlass.testing.scripted import ScriptedModel, call

agent = windlass.Agent("c", model=ScriptedModel([call("shell", command="echo out > {outside}"), "done"] * 3))
"""


@pytest.fixture(autouse=True)
def state_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def work(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def ran(tmp_path: pathlib.Path, session_id: str = "s", options: Any = None, **more: Any) -> tuple[Any, list[Any]]:
    """One command that writes beside its folder, in a session of a runtime of its own: the state, and what came."""
    agent = agent_that(f"echo out > {tmp_path}/outside")
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent], **more) as runtime:
        session = await runtime.session(
            agent, session_id, workspace=tmp_path / "work", options=options or SessionOptions()
        )
        told = [event async for event in session.prompt("go")]
        return await session.state(), told


@pytest.mark.parametrize("name", USABLE)
async def test_a_runtime_that_was_given_no_sandbox_takes_the_one_on_record(tmp_path, work, name):
    for more in ({"sandbox": name}, {}, {}):
        state, told = await ran(tmp_path, **more)
        assert state.setup.options.sandbox == name
        assert [event for event in told if isinstance(event, ToolFinished)]
        assert not (tmp_path / "outside").exists()


async def test_the_kind_that_auto_is_here_is_recorded_and_another_one_given_later_takes_its_place(tmp_path, work):
    state, _ = await ran(tmp_path, options=SessionOptions(sandbox="auto"))
    assert state.setup.options.sandbox == choice.best()
    state, _ = await ran(tmp_path, options=SessionOptions(sandbox="local"))
    assert state.setup.options.sandbox == "local"
    assert (tmp_path / "outside").exists()
    state, _ = await ran(tmp_path)
    assert state.setup.options.sandbox == "local"
    with pytest.raises(UsageError, match="no sandbox 'jail'"):
        await ran(tmp_path, options=SessionOptions(sandbox="jail"))


async def test_one_that_does_not_work_here_lets_nothing_run(tmp_path, work, monkeypatch):
    if "bubblewrap" not in USABLE:
        pytest.skip("bubblewrap does not work here")
    await ran(tmp_path, sandbox="bubblewrap")
    monkeypatch.setattr(bubblewrap, "bubblewrap_problem", lambda: "it was taken away")
    state, told = await ran(tmp_path)
    assert state.setup.options.sandbox == "bubblewrap"
    assert [event.error_code for event in told if isinstance(event, ToolFinished)] == ["no_sandbox"]
    assert not (tmp_path / "outside").exists()


class Elsewhere(LocalSandboxes):
    """A kind of somebody else's."""

    name = ""


async def test_one_of_somebody_elses_must_be_given_again(tmp_path, work):
    state, _ = await ran(tmp_path, sandbox=Elsewhere())
    assert state.setup.options.sandbox == "Elsewhere"
    (tmp_path / "outside").unlink()
    _, told = await ran(tmp_path)
    assert [event.error_code for event in told if isinstance(event, ToolFinished)] == ["no_sandbox"]
    assert not (tmp_path / "outside").exists()
    await ran(tmp_path, sandbox=Elsewhere())
    assert (tmp_path / "outside").exists()


def test_run_resumes_a_session_in_its_sandbox(tmp_path, work, monkeypatch, capsys):
    if not USABLE:
        pytest.skip("no sandbox that confines works here")
    file, outside = tmp_path / "c.py", tmp_path / "outside"
    file.write_text(AGENT.format(outside=outside))
    monkeypatch.chdir(work)
    at = ["--agent", str(file), "--session", "sd", "--store", str(tmp_path / "store.db")]
    assert main(["run", "go", *at, "--tools", "coding", "--policy", "allow-all"]) == 0
    assert f"sandbox {choice.best()}" in capsys.readouterr().err
    assert main(["run", "again", *at]) == 0
    assert f"sandbox {choice.best()}" in capsys.readouterr().err
    assert not outside.exists()
    assert main(["show", "sd", "--store", str(tmp_path / "store.db")]) == 0
    assert choice.best() in capsys.readouterr().out
    assert main(["run", "again", *at, "--sandbox", "local"]) == 0
    assert "unconfined" in capsys.readouterr().err
    assert outside.exists()


@pytest.mark.parametrize("name", [*USABLE, "local"])
async def test_what_is_explained_is_what_the_sandbox_lets_pass(tmp_path, work, name):
    agent = agent_that("make")
    options = SessionOptions(policy=PRESETS["sandboxed"], sandbox=name)
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=work, options=options)
        verdict = "asked" if name == "local" else "allowed"
        assert f": {verdict} (" in (await session.explain("shell", {"command": "make"})).splitlines()[0]
        assert (await session.setup()).confined is (name != "local")


@pytest.mark.parametrize("name", USABLE)
async def test_a_session_that_is_brought_to_another_store_keeps_its_sandbox(tmp_path, work, name, capsys):
    await ran(tmp_path, sandbox=name)
    lines, other = tmp_path / "session.jsonl", tmp_path / "other.db"
    assert await asyncio.to_thread(main, ["export", "s", "--store", str(tmp_path / "store.db"), str(lines)]) == 0
    assert await asyncio.to_thread(main, ["import", str(lines), "--store", str(other)]) == 0
    agent = agent_that(f"echo out > {tmp_path}/outside")
    async with windlass.open(str(other), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=work)
        told = [event async for event in session.prompt("go")]
        assert (await session.state()).setup.options.sandbox == name
    assert [event for event in told if isinstance(event, ToolFinished)]
    assert not (tmp_path / "outside").exists()
