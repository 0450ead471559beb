"""What it takes to add to the kernel, shown on a copy of it: how many files an event touches, and how many lists a part."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import windlass

PACKAGE = pathlib.Path(windlass.__file__).parent
REPOSITORY = PACKAGE.parent.parent
ROOMS = ("events", "kernel")


class Copy:
    """A copy of the events and the kernel that may be changed; it keeps which files were, and how many lines of each."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.root = folder / "windlass"
        for room in ROOMS:
            shutil.copytree(PACKAGE / room, self.root / room, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PACKAGE / "__init__.py", self.root)
        self.added: dict[str, int] = {}

    def write(self, path: str, text: str) -> None:
        """Adds a file."""
        (self.root / path).write_text(text, encoding="utf-8")

    def add_line(self, path: str, before: str, line: str) -> None:
        """Adds a line before one that is there once, and counts it; imports are not counted."""
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{path} has {before!r} {text.count(before)} times"
        file.write_text(text.replace(before, line + before), encoding="utf-8")
        if "import " not in line:
            self.added[path] = self.added.get(path, 0) + line.count("\n")

    def run(self, code: str) -> None:
        """Runs code with this copy in place of the package."""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.root.parent), str(REPOSITORY)))}
        code = f"import windlass; assert windlass.__file__.startswith({str(self.root)!r})\n{code}"
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> Copy:
    return Copy(tmp_path)


READ_AGAIN = """
from tests.kernel.session import Session, call
from windlass.events.base import name_of
from windlass.kernel import log

def names(session):
    return [name_of(type(event)) for events in session.appends for event in events]

def read_again(session):
    return log.state_hash(log.fold_lines(session.lines)) == log.state_hash(session.state)
"""

EVENT = '''

class TimerNoted(Decision, frozen=True, kw_only=True, tag="timer.noted"):
    """Somebody wanted to know that a timer fired."""

    timer_id: str
'''


def test_an_event_of_a_part_that_is_there_touches_two_files(copy: Copy):
    """Its class in the module of its family, and in its part the row and whoever yields it: it is then decided, kept,
    read again and verified like the others."""
    events = copy.root / "events" / "timers.py"
    events.write_text(events.read_text(encoding="utf-8") + EVENT, encoding="utf-8")
    part = "kernel/parts/timers.py"
    copy.add_line(part, "from windlass.kernel import parts\n", "from windlass.events.timers import TimerNoted\n")
    copy.add_line(part, "    if child_side.has_ended(state):\n", "    yield TimerNoted(timer_id=fact.timer_id)\n")
    text = (copy.root / part).read_text(encoding="utf-8")
    row = "decisions={TimerSet: timer_set,"
    assert row in text
    (copy.root / part).write_text(
        text.replace(row, "decisions={TimerNoted: None, TimerSet: timer_set,"), encoding="utf-8"
    )
    copy.run(
        READ_AGAIN
        + """
from windlass.events.timers import TimerFired
session = Session()
session.prompt()
session.reply("", call("wait", {"for_ms": 1_000}))
session.at_ms += 2_000
session.take(TimerFired(timer_id=next(iter(session.state.timers.open))))
assert "timer.noted" in names(session), names(session)
assert read_again(session)
assert log.verify(session.lines).sound
"""
    )


BELL_EVENTS = '''"""Bells: rung when a run begins."""

from __future__ import annotations

from .base import Decision


class BellRang(Decision, frozen=True, kw_only=True, tag="bell.rang"):
    """A bell rang, since somebody else took the session."""

    times: int
'''

BELL_PART = '''"""The bell: rung by whoever takes a session over.

    silent ──▶ rung
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.bells import BellRang
from windlass.events.sessions import SessionResumed
from windlass.kernel.part import Decisions, Part

if TYPE_CHECKING:
    from windlass.kernel.state import State


class Bell(msgspec.Struct, kw_only=True):
    """How often it rang."""

    times: int = 0


def rang(state: State, event: BellRang) -> None:
    state.bell.times = event.times


def taken_over(state: State, fact: SessionResumed) -> Decisions:
    yield BellRang(times=state.bell.times + 1)


PART = Part(name="bells", decisions={BellRang: rang}, taken_over=taken_over)
'''


def test_a_part_is_its_own_files_and_one_line_in_each_of_three_lists(copy: Copy):
    copy.write("events/bells.py", BELL_EVENTS)
    copy.write("kernel/parts/bells.py", BELL_PART)
    registry, state, listed = "events/stored/registry.py", "kernel/state.py", "kernel/parts/__init__.py"
    copy.add_line(registry, "from windlass.events.base import Command", "from windlass.events import bells\n")
    copy.add_line(registry, "    timers,\n    signals,\n", "    bells,\n")
    copy.add_line(state, "from windlass.kernel.parts.budgets import", "from windlass.kernel.parts.bells import Bell\n")
    copy.add_line(state, "    asks: Asks =", "    bell: Bell = msgspec.field(default_factory=Bell)\n")
    copy.add_line(listed, "from windlass.kernel.parts.context import", "from windlass.kernel.parts import bells\n")
    copy.add_line(listed, "    timers.PART,\n", "    bells.PART,\n")
    assert copy.added == {registry: 1, state: 1, listed: 1}
    copy.run(
        READ_AGAIN
        + """
from windlass.events.sessions import SessionResumed
session = Session()
session.epoch = 2
session.take(SessionResumed(epoch=2))
assert names(session)[-1] == "bell.rang", names(session)
assert session.state.bell.times == 1
assert read_again(session)
assert log.verify(session.lines).sound
"""
    )
