"""What happens in sessions is told through Python's `logging`: by part, with who it is about, silent unless asked for."""

from __future__ import annotations

import logging
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import windlass
from windlass.events.errors import StoreError
from windlass.events.tools.calls import ToolFinished
from windlass.runtime.owner.store_retries import StorePatience
from windlass.runtime.streams.event_loggers import log_events
from windlass.store import MemoryStore
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call, fail

from .support import QUICK, JumpPorts


@windlass.tool
def divide(by: int) -> float:
    "Divide."
    return 1 / by


def told(caplog: pytest.LogCaptureFixture, logger: str, level: int = logging.DEBUG) -> list[str]:
    return [found.getMessage() for found in caplog.records if found.name == logger and found.levelno >= level]


async def ran(caplog: pytest.LogCaptureFixture, *turns: Any, level: int = logging.DEBUG) -> None:
    """One prompt to an agent that does as its script says."""
    caplog.set_level(level, logger="windlass")
    agent = windlass.Agent("clerk", model=ScriptedModel(by_history(list(turns))), tools=[divide], settings=QUICK)
    async with windlass.open(None, agents=[agent]) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Divide.")
        await session.result()


async def test_a_run_is_told_by_part_with_who_it_is_about(caplog):
    await ran(caplog, [call("divide", by=2)], "Half.")
    assert told(caplog, "windlass.sessions", logging.INFO)[0].startswith("march#1 session.started")
    assert [line.split()[1] for line in told(caplog, "windlass.runs")] == ["run.started", "run.completed"]
    assert [line.split()[1] for line in told(caplog, "windlass.turns")].count("model.requested") == 2
    (finished,) = [found for found in caplog.records if isinstance(getattr(found, "event", None), ToolFinished)]
    about = vars(finished)
    assert (about["tenant"], about["session"], finished.name) == ("default", "march", "windlass.calls")
    assert finished.getMessage().startswith(f"march#{about['seq']} tool.finished call_id={about['event'].call_id} ")
    assert "Divide." not in caplog.text  # what was said is content: it is in the event, not in the line


async def test_a_tools_exception_is_told_with_its_traceback_at_debug_only(caplog):
    await ran(caplog, [call("divide", by=0)], "Oh.")
    (raised,) = [line for line in told(caplog, "windlass.calls") if line.splitlines()[0].endswith(" raised")]
    assert raised.splitlines()[1] == "Traceback (most recent call last):"
    assert raised.rstrip().endswith("ZeroDivisionError: division by zero")
    caplog.clear()
    await ran(caplog, [call("divide", by=0)], "Oh.", level=logging.INFO)
    (failed,) = told(caplog, "windlass.calls")
    assert "tool.finished" in failed
    assert "ok=False" in failed
    assert "Traceback" not in caplog.text


async def test_a_retry_and_a_failed_request_are_told(caplog):
    await ran(caplog, fail("overloaded", "busy", retryable=True), level=logging.INFO)
    turns = [line.split()[1] for line in told(caplog, "windlass.turns")]
    assert turns[:3] == ["model.failed", "retry.planned", "model.failed"]
    assert told(caplog, "windlass.runs", logging.WARNING)[0].split()[1] == "run.failed"


async def test_another_owner_is_told(caplog, tmp_path):
    caplog.set_level(logging.DEBUG, logger="windlass")
    agent = windlass.Agent("clerk", model=ScriptedModel(["one", "two"]))
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent], take_up=False) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Go.")
        await session.result()
        now = runtime.ports.now_ms() + 10**9
        await runtime.store.leases.claim(session.key, runner="another", ttl_ms=60_000, now_ms=now, renew=False)
        await runtime.host.leases._prolong()
    assert told(caplog, "windlass.owner", logging.WARNING) == ["session march is not driven here any more, epoch 1"]
    assert any("is owned by" in line for line in told(caplog, "windlass.owner"))


async def test_trouble_with_the_store_is_told(caplog):
    patience = StorePatience(JumpPorts(), "march", lambda why: None)
    await patience.wait_after(1, StoreError("no answer"))
    assert told(caplog, "windlass.store") == ["the store did not answer, tried again in 200 ms (1 of 4): no answer"]


async def test_an_observer_that_fails_is_told(caplog):
    def broken(moment: object) -> None:
        raise ValueError("my own trouble")

    agent = windlass.Agent(
        "clerk", model=ScriptedModel(["Done."]), hooks=[windlass.Hook(point="run_start", run=broken)]
    )
    assert (await agent.run("Go.")).text == "Done."
    (trouble,) = [found for found in caplog.records if found.name == "windlass.hooks"]
    assert trouble.getMessage() == "an observer failed: my own trouble"
    assert trouble.exc_info is not None


def test_nothing_is_made_of_an_event_if_nobody_listens(monkeypatch):
    logging.getLogger("windlass.calls").setLevel(logging.NOTSET)
    monkeypatch.setattr("windlass.runtime.streams.event_loggers._fields", lambda event: pytest.fail("it was told"))
    log_events(Key("default", "march"), 1, [ToolFinished(call_id="c1.0")])


def test_a_program_that_asks_for_nothing_hears_nothing(tmp_path: pathlib.Path):
    program = """
import windlass
from windlass.testing import ScriptedModel, call

@windlass.tool
def divide(by: int) -> float:
    "Divide."
    return 1 / by

model = ScriptedModel([call("divide", by=0), "Oh."])
print(windlass.Agent("clerk", model=model, tools=[divide]).run_sync("Divide.").text)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("Oh.\n", "")


async def test_memory_stores_are_told_of_as_well(caplog):
    caplog.set_level(logging.INFO, logger="windlass.sessions")
    agent = windlass.Agent("clerk", model=ScriptedModel(["Done."]))
    async with windlass.Runtime(MemoryStore(), agents=[agent]) as runtime:
        await (await runtime.session(agent, "march")).prompt("Go.")
    assert {found.name for found in caplog.records} == {"windlass.sessions"}
