"""A terminal of our own for a process: what it writes there is read here, and what is typed for it is written here. No
other terminal is involved, so nothing can be typed into the one of a person."""

from __future__ import annotations

import os

from windlass.tools.context import ToolError

ROWS, COLUMNS = 24, 80
END_OF_INPUT = b"\x04"


class Terminal:
    """Its two ends: the outer one is ours, the inner one is the process's."""

    def __init__(self) -> None:
        import fcntl
        import struct
        import termios

        try:
            self.outer, self.inner = os.openpty()
        except OSError as error:
            raise ToolError(f"there is no terminal to be had: {error.strerror}", code="no_terminal") from None
        modes = termios.tcgetattr(self.inner)
        modes[3] &= ~termios.ECHO  # what is typed is known; it must not stand in the output as well
        termios.tcsetattr(self.inner, termios.TCSANOW, modes)
        fcntl.ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def typed(self, text: bytes) -> bytes:
        """The input as it is typed: an end of input follows it, which within a line must be given twice."""
        return text + (END_OF_INPUT if not text or text.endswith(b"\n") else 2 * END_OF_INPUT)

    def close_inner(self) -> None:
        """Gives the end of the process back, once that has it. Safe twice."""
        fd, self.inner = self.inner, -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Gives both ends back. Safe twice."""
        self.close_inner()
        fd, self.outer = self.outer, -1
        if fd >= 0:
            os.close(fd)
