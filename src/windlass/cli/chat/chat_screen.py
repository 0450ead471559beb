"""Where a chat meets its person: what a desk is, and the one that reads and prints whole lines.

The one with an input of its own at the bottom of the screen is in `docked_screen`, which loads what it draws with.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from windlass.cli.screen.live_printer import Narrator
from windlass.cli.terminal.history import HistoryFile
from windlass.cli.terminal.interview import Person
from windlass.cli.terminal.keyboard import Keyboard
from windlass.cli.terminal.visible_text import visible
from windlass.events.questions import Question

PROMPT = "> "


class Desk(Person, Protocol):
    """What a chat needs of the place that it happens at."""

    narrator: Narrator

    @property
    def draft(self) -> str:
        """What they are writing."""

    def prefill(self, text: str) -> None:
        """Puts a text into their hands, to be changed and sent."""

    async def __aenter__(self) -> Desk: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def line(self) -> str | None:
        """What the person says next; None if they leave."""

    def end(self) -> None:
        """As if the person had left."""

    def leave_open(self) -> bool:
        """Ends what is being asked without an answer; False if nothing is."""

    def invite(self) -> None:
        """Shows that the next word is the person's."""

    def status(self, line: str) -> None:
        """A line that stands by the input for as long as it holds."""


def open_desk(history: HistoryFile, complete: Callable[[str], Sequence[str]], interrupted: Callable[[], None]) -> Desk:
    """The best desk that this terminal allows."""
    if os.environ.get("TERM") in ("dumb", "", None):
        return PlainDesk(interrupted)
    from .docked_screen import DockDesk

    return DockDesk(history, complete, interrupted)


class PlainDesk:
    """Whole lines, read and printed; nothing is ever drawn again."""

    page_rows: int | None = None
    explains = False

    def __init__(self, interrupted: Callable[[], None]) -> None:
        self._keyboard = Keyboard()
        self._interrupted = interrupted
        self.narrator = Narrator(sys.stdout, sys.stderr)

    async def __aenter__(self) -> PlainDesk:
        self._keyboard.__enter__()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupted)
        return self

    async def __aexit__(self, *exc: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        self._keyboard.__exit__(*exc)

    async def line(self) -> str | None:
        return await self._keyboard.line()

    def end(self) -> None:
        self._keyboard.end()

    def invite(self) -> None:
        self.narrator.rest()
        print(PROMPT, end="", file=sys.stderr, flush=True)

    def status(self, line: str) -> None:
        """There is no place for one."""

    def prefill(self, text: str) -> None:
        """What is typed and not sent is the terminal's; so the text is shown, to be typed again."""
        if text:
            self.show(visible(text))

    @property
    def draft(self) -> str:
        return ""

    # --- being asked ---

    def show(self, line: str) -> None:
        self._keyboard.show(line)

    async def ready(self) -> None:
        await self._keyboard.ready()

    async def ask(self, prompt: str, begun: str = "") -> str | None:
        return await self._keyboard.ask(prompt, begun)

    async def pick(self, prompt: str, question: Question) -> tuple[str, ...] | str | None:
        return await self._keyboard.pick(prompt, question)

    async def pause(self, said: str) -> str:
        return await self._keyboard.pause(said)

    def leave_open(self) -> bool:
        return self._keyboard.leave_open()
