"""A command in a pseudo-terminal, byte by byte: what would steer a terminal is seen here before one obeys it.

It understands line feeds and colours. Anything else that a terminal would obey is a failure of the program under test.
What a person sees is in `terminal`.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Sequence

from .terminal import PATIENCE_S, PROGRAM

COLUMNS, ROWS = 80, 24
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def shown(words: Sequence[str], folder: pathlib.Path) -> str:
    """What a command shows that asks nothing and ends well, without colours. Fails on anything that steers."""
    text = COLOUR.sub("", written(words, folder)).replace("\r\n", "\n")
    bad = [char for char in text if char not in "\n\t" and (ord(char) < 32 or 127 <= ord(char) < 160)]
    bad += INVISIBLE.findall(text)
    assert not bad, f"the terminal was reached by {bad[:5]!r}"
    return text


def written(words: Sequence[str], folder: pathlib.Path, *, ends: tuple[int, ...] = (0,)) -> str:
    """Everything that a command writes to its terminal, as it writes it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(
            PROGRAM[0],
            [*PROGRAM, *words],
            {**os.environ, "TERM": "xterm", "WINDLASS_STORE": "windlass.db", "HOME": str(folder), "TZ": "UTC"},
        )
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    data = _read(terminal, time.monotonic() + PATIENCE_S)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in ends, data
    return data.decode(errors="replace")


def _read(terminal: int, until: float) -> bytes:
    pieces = []
    while select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
        try:
            pieces.append(os.read(terminal, 65_536))
        except OSError:  # Linux says so when the other side is closed
            break
    return b"".join(pieces)
