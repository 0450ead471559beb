"""A desk with an input of its own at the bottom of the screen, and what happens above it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from prompt_toolkit.history import History

from windlass.cli.screen.live_printer import MARGIN, Narrator
from windlass.cli.terminal.bottom_input import Dock, Mode
from windlass.cli.terminal.history import HistoryFile, worth_keeping
from windlass.cli.terminal.line import LineInput
from windlass.cli.terminal.markdown import MarkdownFlow
from windlass.cli.terminal.picker import Pause, Picker
from windlass.cli.terminal.text import Paint, fold_lines, is_terminal
from windlass.cli.terminal.visible_text import tame, visible
from windlass.cli.terminal.word_wrap import WordFlow
from windlass.events.questions import Question

from .chat_screen import PROMPT, Desk

ANSWERING = "it waits for your answer · Ctrl-C stops here · your draft is kept"
THOUGHT_MARGIN = "  · "
PAGE_ROWS_SPARE = 4
"""Rows of a screen that a page of a request leaves free: the rule above it and what is asked below it."""
CALM_S = 0.4
"""An answer is taken only after so long without a key: what is typed when a request comes up is not meant for it."""
T = TypeVar("T")


class Remembered(History):
    """What was written before, for the arrow keys; new entries go to the file."""

    def __init__(self, kept: HistoryFile) -> None:
        super().__init__()
        self._kept = kept

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._kept.entries)

    def append_string(self, string: str) -> None:
        if worth_keeping(string):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        self._kept.add(string)


class DockDesk:
    """A terminal with an input that stays whole while the agent works."""

    explains = True

    def __init__(
        self,
        history: HistoryFile,
        complete: Callable[[str], Sequence[str]],
        interrupted: Callable[[], None],
        **streams: Any,
    ) -> None:
        self._paint = Paint(sys.stderr)
        self._status = ""
        self._said: asyncio.Queue[str | None] = asyncio.Queue()
        self._asked: asyncio.Future[Any] | None = None
        self._input = LineInput(
            PROMPT,
            submitted=self._said.put_nowait,
            ended=self.end,
            history=Remembered(history),
            complete=complete,
            style=self._style("bold"),
        )
        self._dock = Dock(self._input, interrupted=interrupted, ended=self.end, **streams)
        self.narrator = self._narrator(self._dock)

    def _narrator(self, dock: Dock) -> Narrator:
        """Tells what happens in words that wrap at the width that the screen has now."""

        def width() -> int:
            return dock.size.columns

        markdown = MarkdownFlow(dock, margin=MARGIN, width=width, colours=self._paint.on)
        thoughts = WordFlow(dock, margin=THOUGHT_MARGIN, width=width)
        return Narrator(sys.stdout, dock.out, flow=markdown if is_terminal(sys.stdout) else None, thoughts=thoughts)

    def _style(self, colour: str) -> str:
        """A style for prompt_toolkit, if colours are wanted."""
        return STYLES[colour] if self._paint.on else ""

    async def __aenter__(self) -> Desk:
        await self._dock.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.narrator.rest()
        await self._dock.__aexit__(*exc)

    # --- saying ---

    async def line(self) -> str | None:
        text = await self._said.get()
        if text is not None and text.strip():
            self.narrator.rest()
            self.echo(PROMPT, *text.rstrip().split("\n"))
        return text

    def echo(self, prompt: str, *lines: str) -> None:
        """What the person wrote, as it stands in the transcript."""
        before = prompt
        for line in lines:
            for row in fold_lines(visible(line), self._dock.size.columns - len(prompt) - 1):
                self.show(self._paint(before + row, "bold"))
                before = " " * len(prompt)

    def end(self) -> None:
        self._said.put_nowait(None)
        self.leave_open()

    def invite(self) -> None:
        self.narrator.rest()

    @property
    def draft(self) -> str:
        return self._input.text

    def prefill(self, text: str) -> None:
        self._input.text = text
        self._dock.redraw()

    def status(self, line: str) -> None:
        self._status = line
        if self._asked is None:
            self._dock.status = line
            self._dock.redraw()

    def show(self, line: str) -> None:
        self._dock.write(tame(line) + "\n")

    # --- being asked ---

    @property
    def page_rows(self) -> int | None:
        return max(1, self._dock.size.rows - PAGE_ROWS_SPARE)

    async def ready(self) -> None:
        """Waits for a moment without a key. What is typed until then stays in the input."""
        loop = asyncio.get_running_loop()
        shown = loop.time()
        while (left := max(shown, self._dock.pressed_at) + CALM_S - loop.time()) > 0:
            await asyncio.sleep(left)

    async def _over(self, make: Callable[[asyncio.Future[T]], Mode]) -> T:
        """Puts something in the place of the input until it is answered."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked = answer
        self._dock.over, self._dock.status = make(answer), ANSWERING
        self._dock.redraw()
        try:
            return await answer
        finally:
            self._asked = None
            self._dock.over, self._dock.status = None, self._status
            self._dock.redraw()

    def leave_open(self) -> bool:
        if self._asked is None or self._asked.done():
            return False
        self._asked.set_result(None)
        return True

    def _answer_line(self, prompt: str, answer: asyncio.Future[Any], begun: str) -> LineInput:
        give = _once(answer)
        line = LineInput(prompt, submitted=give, ended=self.end, escaped=lambda: give(""), style=self._style("yellow"))
        line.text = begun
        return line

    async def ask(self, prompt: str, begun: str = "") -> str | None:
        def make(answer: asyncio.Future[str | None]) -> Mode:
            return self._answer_line(prompt, answer, begun)

        said = await self._over(make)
        if said is not None:
            self.echo(prompt, *said.rstrip().split("\n"))
        return said

    async def pick(self, prompt: str, question: Question) -> tuple[str, ...] | str | None:
        labels = [option.label for option in question.options]

        def make(answer: asyncio.Future[tuple[int, ...] | str | None]) -> Mode:
            def write(begun: str) -> None:
                """In the picker's place at once, so that the keys which follow find it there."""
                self._dock.over = self._answer_line(prompt, answer, begun)

            return Picker(
                labels,
                several=question.multi_select,
                free=question.free_text,
                picked=_once(answer),
                written=write,
                declined=lambda: _once(answer)(()),
            )

        while (said := await self._over(make)) is not None:
            if isinstance(said, tuple):
                chosen = tuple(labels[index] for index in said)
                self.echo(prompt, ", ".join(chosen) or "(declined)")
                return chosen
            if said.strip():
                self.echo(prompt, *said.rstrip().split("\n"))
                return said
        return None

    async def pause(self, said: str) -> str:
        def make(answer: asyncio.Future[str | None]) -> Mode:
            return Pause(said, self._style("yellow"), _once(answer))

        return await self._over(make) or ""


STYLES = {"bold": "bold", "yellow": "ansiyellow"}


def _once(answer: asyncio.Future[Any]) -> Callable[[Any], None]:
    """Gives an answer, unless there is one."""

    def give(value: Any) -> None:
        if not answer.done():
            answer.set_result(value)

    return give
