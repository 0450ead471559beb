"""The process that a stdio client starts: it starts the host in a session of its own and passes bytes between the two.

Clients end their servers when they leave, some with a signal to the whole process group. Whatever happens to this
process, the host sees its end of the socket close, and goes on with what runs. Imports nothing heavy: it is there at
once, while the host is still loading.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Sequence

PIECE_BYTES = 64 * 1024
LAST_WORDS_S = 5.0
"""How long the end of a host is waited for that has left by itself, to say how it ended."""


def bridge(command: Sequence[str]) -> int:
    """Runs `command` with `--fd N` as the host of the client at our standard streams. Gives our exit code."""
    here, there = socket.socketpair()
    with here, there:
        host = subprocess.Popen(
            [*command, "--fd", str(there.fileno())],
            pass_fds=(there.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        there.close()
        assert host.stdout is not None
        left = threading.Event()
        threading.Thread(target=_up, args=(here, left), daemon=True).start()
        words = threading.Thread(target=_copied, args=(host.stdout.fileno(), 2), daemon=True)
        words.start()
        _down(here)
        if left.is_set():
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = host.wait(LAST_WORDS_S)
            words.join(LAST_WORDS_S)
            return code if code >= 0 else 1
        return 1


def _up(wire: socket.socket, left: threading.Event) -> None:
    """What the client says, to the host; its end, too."""
    with contextlib.suppress(OSError):
        while piece := os.read(0, PIECE_BYTES):
            wire.sendall(piece)
    left.set()
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_WR)


def _down(wire: socket.socket) -> None:
    """What the host says, to the client, until one of them is gone."""
    with contextlib.suppress(OSError):
        while piece := wire.recv(PIECE_BYTES):
            while piece:
                piece = piece[os.write(1, piece) :]


def _copied(source: int, target: int) -> None:
    with contextlib.suppress(OSError):
        while piece := os.read(source, PIECE_BYTES):
            while piece:
                piece = piece[os.write(target, piece) :]
