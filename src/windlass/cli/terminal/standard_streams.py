"""Standard input, output and error as a program can rely on them: each of them open, and what is only a courtesy unable
to end the work that it tells of."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class Courtesy(io.FileIO):
    """A file whose words may be lost: what nobody reads, or what a full disk does not take, is dropped."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]  # None says that it would block
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError:
            return memoryview(data).nbytes


def open_closed_streams() -> None:
    """Opens /dev/null in the place of each standard stream that is closed, as daemons do: files and sockets that are
    opened later would get its number, and be read and written as if they were that stream."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
        if getattr(sys, name) is None:
            mode = "r" if descriptor == 0 else "w"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def be_courteous_on_stderr() -> None:
    """Lets no word on standard error end what it is about: whoever closed it, or has no room left, is told nothing."""
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        sys.stderr = _courteous(sys.stderr, 2)


def be_courteous_on_stdout() -> None:
    """The same of standard output, for programs that serve: whoever started one may read where it listens, and then
    nothing more. Each line is written when it is said, for that one waits for it."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        sys.stdout = _courteous(sys.stdout, 1)


def _courteous(stream: io.TextIOWrapper, descriptor: int) -> io.TextIOWrapper:
    """A stream like this one that cannot fail."""
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(Courtesy(descriptor, "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        newline="\n",
        line_buffering=True,
        write_through=stream.write_through,
    )
