"""A rewind that puts files back, killed at each of its steps: whoever opens the session next finishes it, once."""

from __future__ import annotations

import asyncio
import pathlib
import signal
import subprocess
import sys

import pytest

import windlass
from tests.files.rewinding import COMMAND, FILES, STEPS, writer
from tests.runtime.support import events_of, only, sound
from windlass.events.runs import RunStarted
from windlass.events.sessions import RewindReceived
from windlass.events.workspace import FilesRestoring
from windlass.runtime.api.session import Session

HERE = pathlib.Path(__file__).parents[2]


def killed_at(place: pathlib.Path, step: str) -> None:
    (place / "root").mkdir()
    words = [sys.executable, "-m", "tests.files.rewinding", str(place), step]
    ended = subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


async def rewound(session: Session) -> RewindReceived:
    async with asyncio.timeout(20):
        async for told in session.events(after=0):
            if isinstance(told, RewindReceived):
                return told
    raise AssertionError("no rewind came")


@pytest.mark.parametrize("step", STEPS)
async def test_a_rewind_that_was_cut_off_is_finished_by_whoever_comes_next(tmp_path, step):
    killed_at(tmp_path, step)
    left = {"files_restoring": FILES, "file_1": FILES - 1, "file_3": FILES - 3}.get(step, 0)
    assert len(list((tmp_path / "root").iterdir())) == left
    agent = writer(tmp_path)
    async with windlass.open(tmp_path / "work.db", agents=[agent], lease_ms=1_000) as runtime:
        session = await runtime.get("s")
        told = await rewound(session)  # nobody asked for it again
        assert list((tmp_path / "root").iterdir()) == []
        assert (told.command_id, len(told.changes), told.left) == (COMMAND, FILES, ())
        events = await events_of(session)
        assert (len(only(events, FilesRestoring)), len(only(events, RewindReceived))) == (1, 1)
        assert (await session.state()).workspace.restoring is None
        await sound(session)


async def test_what_comes_in_first_after_the_crash_waits_for_the_rewind(tmp_path):
    killed_at(tmp_path, "file_1")
    agent = writer(tmp_path, "again")
    async with windlass.open(tmp_path / "work.db", agents=[agent], lease_ms=1_000) as runtime:
        session = await runtime.get("s")
        await session.prompt("and now?")
        await session.wait_idle()
        events = await events_of(session)
        (told,), (_, again) = only(events, RewindReceived), only(events, RunStarted)
        assert len(told.changes) == FILES
        assert events.index(told) < events.index(again)
        await sound(session)


async def test_the_same_rewind_again_owes_nothing(tmp_path):
    (tmp_path / "root").mkdir()
    agent = writer(tmp_path)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.wait_idle()
        for _ in range(2):
            await session.rewind(1, files=True, command_id=COMMAND)
        assert len(only(await events_of(session), RewindReceived)) == 1
        assert (await session.state()).workspace.restoring is None
        await sound(session)
