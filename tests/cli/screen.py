"""A person at a terminal: starts `windlass` in a pseudo-terminal, types when something is shown, reads the screen.

The screen understands line feeds, carriage returns and colours. Anything else that would steer a terminal is a failure
of the program under test, and is reported as such.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence

PROGRAM = [sys.executable, "-m", "windlass.cli.main"]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PATIENCE_S = 30.0


class Screen:
    """One program in a terminal of its own."""

    def __init__(
        self, words: Sequence[str], folder: pathlib.Path, *, columns: int = 80, rows: int = 24, colour: bool = False
    ) -> None:
        environ = {**os.environ, "TERM": "xterm", "HOME": str(folder), "USER": "ada", "TZ": "UTC"}
        environ.pop("NO_COLOR", None)
        environ.pop("WINDLASS_STORE", None)
        if not colour:
            environ["NO_COLOR"] = "1"
        self.raw = ""
        self._seen = 0
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(PROGRAM[0], [*PROGRAM, *words], environ)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._columns = columns
        self.code: int | None = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def wait_for(self, text: str) -> str:
        """Waits until a text is shown behind what was waited for last, and gives everything up to it."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.raw[self._seen :]:
            if not self._read(until):
                raise AssertionError(f"{text!r} was never shown; the screen is:\n{self.raw}")
        end = self.raw.index(text, self._seen) + len(text)
        found, self._seen = self.raw[self._seen : end], end
        return found

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def ctrl_c(self) -> None:
        self.type("\x03")

    def end(self) -> int:
        """Waits until the program is over; its exit code."""
        until = time.monotonic() + PATIENCE_S
        while self._read(until):
            pass
        if time.monotonic() >= until:
            raise AssertionError(f"the program did not end; the screen is:\n{self.raw}")
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    @property
    def text(self) -> str:
        """What is shown, without colours. Fails on anything else that a terminal would obey."""
        shown = COLOUR.sub("", self.raw).replace("\r\n", "\n")
        bad = [char for char in shown if char not in "\n\t" and (ord(char) < 32 or 127 <= ord(char) < 160)]
        bad += re.findall("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]", shown)
        assert not bad, f"the terminal was reached by {bad[:5]!r}"
        return shown

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def widest(self) -> int:
        return max((len(line) for line in self.lines), default=0)


def shown(words: Sequence[str], folder: pathlib.Path, *, code: int = 0, columns: int = 80) -> str:
    """The whole screen of a command that asks nothing."""
    with Screen(words, folder, columns=columns) as screen:
        found = screen.end()
        assert found == code, screen.raw
        return screen.text
