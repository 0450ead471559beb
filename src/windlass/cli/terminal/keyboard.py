"""The person at a terminal who types whole lines: read without ever blocking the loop, asked one thing at a time."""

from __future__ import annotations

import asyncio
import os
import sys

from windlass.events.errors import UsageError
from windlass.events.questions import Question

from .text import Paint, is_terminal, put

READ_BYTES = 65_536
LINES_MAX = 1_000


def is_interactive() -> bool:
    """Whether somebody is there to be asked."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


class Keyboard:
    """Lines from standard input, without ever blocking the loop. A line that was asked for goes to who asked."""

    page_rows: int | None = None
    explains = False

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(maxsize=LINES_MAX)
        self._answer: asyncio.Future[str | None] | None = None
        self._rest = b""
        self._fd = sys.stdin.fileno()
        self._open = False
        self.ended = False

    def __enter__(self) -> Keyboard:
        asyncio.get_running_loop().add_reader(self._fd, self._readable)
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._open:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._open = False

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self.end()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._put(line.decode(errors="replace").rstrip("\r"))

    def _put(self, line: str | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(line)
        elif not self._lines.full():
            self._lines.put_nowait(line)

    async def line(self) -> str | None:
        """The next line; None if there will be none."""
        if self.ended and self._lines.empty():
            return None
        return await self._lines.get()

    def end(self) -> None:
        """As if the person had ended their input."""
        self._stop()
        self.ended = True
        if self._answer is not None:
            put("", sys.stderr, flush=True)  # a terminal shows nothing of Ctrl-D
        self._put(None)
        if self._answer is not None:
            self._lines.put_nowait(None)

    def forget(self) -> None:
        """Throws away what was typed and not read: it was meant for something else."""
        while not self._lines.empty():
            self._lines.get_nowait()
        self._rest = b""
        try:
            import termios

            termios.tcflush(self._fd, termios.TCIFLUSH)
        except (ImportError, OSError):
            return

    # --- being asked ---

    def show(self, line: str) -> None:
        put(line, sys.stderr, flush=True)

    async def ready(self) -> None:
        self.forget()

    async def ask(self, prompt: str, begun: str = "") -> str | None:
        if self.ended:
            return None
        print(Paint(sys.stderr)(prompt, "yellow"), end="", file=sys.stderr, flush=True)
        self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        finally:
            self._answer = None

    def leave_open(self) -> bool:
        """Ends what is being asked without an answer; False if nothing is."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(None)
        return True

    async def pick(self, prompt: str, question: Question) -> tuple[str, ...] | str | None:
        from windlass.cli.answer_text import picks

        labels = [option.label for option in question.options]
        while True:
            said = await self.ask(prompt)
            if not said or not said.strip():
                return said
            try:
                return picks(said.strip(), labels, several=question.multi_select) or said
            except UsageError as error:
                if question.free_text:
                    return said
                self.show(str(error))

    async def pause(self, said: str) -> str:
        return "all"
