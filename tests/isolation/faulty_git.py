"""A `git` in front of the real one that fails, dies, hangs or answers late at a chosen call."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest

from tests.runtime.support import STEP_S, WAIT_S

FAULTS = {
    "fails": "echo 'fatal: it was to fail' >&2; exit 128",
    "killed": "kill -9 $$",
    "killed_behind": '"$real" "$@"; kill -9 $$',
    "full": 'trap "" XFSZ; ulimit -f 0; exec "$real" "$@"',
    "cut_off": 'ulimit -f 0; exec "$real" "$@"',
    "late": 'sleep 0.1; exec "$real" "$@"',
    "held": 'while [ -f "$place/plan" ]; do sleep 0.05; done; exec "$real" "$@"',
    "hangs": "exec sleep 600",
    "deaf": "trap '' TERM; sleep 600 & sleep 600; exit 1",
}
"""What a call does instead: fails at once, is killed before or behind its work, finds no room on the disk, is killed at
the first thing that it writes, is slow, waits until all is mended, never ends, or never ends and starts others that do not hear that it is to."""
ALWAYS = 0

PROGRAM = """#!/bin/sh
real={real}
place={place}
echo $$ >> {place}/pids
echo "$*" >> {place}/calls
number=$(wc -l < {place}/calls)
if [ -f {place}/plan ]; then
    read -r at fault verb < {place}/plan
    case "$at $* " in "$number "*|"0 $verb"*)
        case "$fault" in
{faults}
        esac ;;
    esac
fi
exec "$real" "$@"
"""


class FaultyGit:
    """The program in PATH, and what it was called with."""

    def __init__(self, place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._place = place
        place.mkdir()
        program, real = place / "git", shutil.which("git")
        assert real is not None
        faults = "\n".join(f"        {name}) {does} ;;" for name, does in FAULTS.items())
        program.write_text(PROGRAM.format(real=real, place=place, faults=faults))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)

    def plan(self, fault: str, *, at: int = ALWAYS, verb: str = "") -> None:
        """The call with this number, counted from now, or each with this verb, does not do what it was to do."""
        (self._place / "calls").unlink(missing_ok=True)
        (self._place / "plan").write_text(f"{at} {fault} {verb}\n")

    def mend(self) -> None:
        """All is well from now on."""
        (self._place / "plan").unlink(missing_ok=True)
        (self._place / "calls").unlink(missing_ok=True)

    @property
    def calls(self) -> Sequence[str]:
        """What it was called with since the last plan."""
        with suppress(FileNotFoundError):
            return (self._place / "calls").read_text().splitlines()
        return ()

    def waits_for(self, verb: str) -> bool:
        """Waits, in a thread, until it was called with a verb; False if that takes too long."""
        until = time.monotonic() + WAIT_S
        while not any(call.startswith(verb) for call in self.calls):
            if time.monotonic() > until:
                return False
            time.sleep(STEP_S)
        return True

    def at_work(self) -> list[int]:
        """The processes of it that still run."""
        with suppress(FileNotFoundError):
            return [pid for pid in map(int, (self._place / "pids").read_text().split()) if _lives(pid)]
        return []

    def end(self) -> None:
        """Ends what is left of it."""
        for pid in self.at_work():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
