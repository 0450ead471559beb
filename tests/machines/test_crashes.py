"""A machine under SIGKILL, in a state of each kind: each is entered once, nothing is run twice, and it comes to its
end."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import windlass
from tests.runtime.support import events_of, only, sound
from windlass.events.trees.machines import MachineEnded, MachineMoved

from . import crash_target

KILLS_MIN = 2
LIVES_MAX = 60
PATIENCE_S = 120
WAY = ["draft", "send", "look", "nap", "ask", "done"]


async def test_a_machine_survives_kills_of_its_process(tmp_path):
    kills = killed_until_done(tmp_path)
    assert kills >= KILLS_MIN, "the machine was hardly killed"
    async with windlass.open(tmp_path / "work.db", agents=[crash_target.agent()], take_up=False) as runtime:
        session = await runtime.get("s")
        await sound(session)
        events = await events_of(session)
        assert [event.state for event in only(events, MachineMoved)] == WAY
        assert [event.outcome for event in only(events, MachineEnded)] == ["completed"]
        sent = tmp_path / "sent.txt"
        assert not sent.exists() or sent.read_text() == "sent\n"


def killed_until_done(folder: pathlib.Path) -> int:
    """Starts the process again and again; it dies with one of its next appends, until it comes to the end."""
    for life in range(LIVES_MAX):
        number, kept = 7 + life % 2, ("kept", "lost")[life % 2]
        words = [sys.executable, "-m", "tests.machines.crash_target", str(folder), str(number), kept]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != -signal.SIGKILL:
            assert (done.returncode, done.stdout) == (0, f"completed {' '.join(WAY)}\n"), done.stderr
            return life
    raise AssertionError("the machine never came to its end")
