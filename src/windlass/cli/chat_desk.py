"""Where a chat meets its person: an input of its own at the bottom of the screen, what happens above it.

`PlainDesk` reads and prints whole lines instead, for terminals that cannot move a cursor.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from windlass.events.questions import Question

from .keyboard import Keyboard, Person
from .line_dock import Dock, Mode
from .line_editor import Completer, Editor
from .line_flow import WordFlow
from .line_history import History
from .line_input import LineInput, Pause
from .line_keys import Key
from .line_picker import Picker
from .narrate import MARGIN, Narrator
from .text import Paint, fold_lines, is_terminal, visible

PROMPT = "> "
ANSWERING = "it waits for your answer · Ctrl-C stops here · your draft is kept"
THOUGHT_MARGIN = "  · "
PAGE_ROWS_SPARE = 4
"""Rows of a screen that a page of a request leaves free: the rule above it and what is asked below it."""
CALM_S = 0.4
"""An answer is taken only after so long without a key: what is typed when a request comes up is not meant for it."""
T = TypeVar("T")


class Desk(Person, Protocol):
    """What a chat needs of the place that it happens at."""

    narrator: Narrator

    @property
    def draft(self) -> str:
        """What they are writing."""

    def prefill(self, text: str) -> None:
        """Puts a text into their hands, to be changed and sent."""

    def __enter__(self) -> Desk: ...

    def __exit__(self, *_: object) -> None: ...

    async def line(self) -> str | None:
        """What the person says next; None where they leave."""

    def end(self) -> None:
        """As if the person had left."""

    def leave_open(self) -> bool:
        """Ends what is being asked without an answer; False where nothing is."""

    def invite(self) -> None:
        """Shows that the next word is the person's."""

    def status(self, line: str) -> None:
        """A line that stands by the input for as long as it holds."""


def open_desk(history: History, complete: Completer, interrupted: Callable[[], None]) -> Desk:
    """The best desk that this terminal allows."""
    if os.environ.get("TERM") in ("dumb", "", None):
        return PlainDesk(interrupted)
    return DockDesk(history, complete, interrupted)


class Teller(Narrator):
    """Tells what happens in words that wrap at the width that the screen has now."""

    def __init__(self, dock: Dock) -> None:
        super().__init__(sys.stdout, dock.out)
        if is_terminal(sys.stdout):
            self._flow = WordFlow(dock, margin=MARGIN, width=lambda: dock.size.columns)  # type: ignore[assignment]  # the same four methods
        self._thoughts = WordFlow(dock, margin=THOUGHT_MARGIN, width=lambda: dock.size.columns)  # type: ignore[assignment]


class DockDesk:
    """A terminal with an input that stays whole while the agent works."""

    explains = True

    def __init__(self, history: History, complete: Completer, interrupted: Callable[[], None]) -> None:
        self._paint = Paint(sys.stderr)
        self._history = history
        self._status = ""
        self._said: asyncio.Queue[str | None] = asyncio.Queue()
        self._asked: asyncio.Future[Any] | None = None
        self._editor = Editor(past=history.entries, complete=complete, submitted=self._submitted, ended=self.end)
        self._dock = Dock(LineInput(self._editor, PROMPT, self._paint), interrupted=interrupted, ended=self.end)

    def __enter__(self) -> Desk:
        self._dock.__enter__()
        self.narrator: Narrator = Teller(self._dock)
        return self

    def __exit__(self, *exc: object) -> None:
        self.narrator.rest()
        self._dock.__exit__(*exc)

    # --- saying ---

    def _submitted(self, text: str) -> None:
        self._history.add(text)
        self._said.put_nowait(text)

    async def line(self) -> str | None:
        text = await self._said.get()
        if text is not None and text.strip():
            self.narrator.rest()
            head, *more = text.rstrip().split("\n")
            self.echo(PROMPT, head, *more)
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
        return self._editor.text

    def prefill(self, text: str) -> None:
        self._editor.set(text)
        self._dock.redraw()

    def status(self, line: str) -> None:
        self._status = line
        if self._asked is None:
            self._dock.status = line
            self._dock.redraw()

    def show(self, line: str) -> None:
        self._dock.write(line + "\n")

    # --- being asked ---

    @property
    def page_rows(self) -> int | None:
        return max(1, self._dock.size.lines - PAGE_ROWS_SPARE)

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

    async def ask(self, prompt: str, begun: str = "", *, typed: Sequence[Key] = ()) -> str | None:
        """Asks for a line, of which this much is written, and these keys came since."""

        def make(answer: asyncio.Future[str | None]) -> Mode:
            editor = Editor(submitted=_once(answer), ended=lambda: self.end(), escaped=lambda: _once(answer)(""))
            editor.set(begun)
            for key in typed:
                editor.key(key)
            return LineInput(editor, prompt, self._paint, "yellow")

        said = await self._over(make)
        if said is not None:
            self.echo(prompt, *said.rstrip().split("\n"))
        return said

    async def pick(self, prompt: str, question: Question) -> tuple[str, ...] | str | None:
        labels = [option.label for option in question.options]

        since: list[Key] = []

        def make(answer: asyncio.Future[tuple[int, ...] | str | None]) -> Mode:
            since.clear()
            return Picker(
                labels,
                since=since,
                several=question.multi_select,
                free=question.free_text,
                picked=_once(answer),
                written=_once(answer),
                declined=lambda: _once(answer)(()),
            )

        while True:
            found = await self._over(make)
            if isinstance(found, str):
                said = await self.ask(prompt, found, typed=since)
                if said is not None and not said.strip():
                    continue
                return said
            if found is None:
                return None
            chosen = tuple(labels[index] for index in found)
            self.echo(prompt, ", ".join(chosen) or "(declined)")
            return chosen

    async def pause(self, said: str) -> str:
        def make(answer: asyncio.Future[str | None]) -> Mode:
            return Pause(said, self._paint, lambda key: _paused(key, _once(answer)))

        return await self._over(make) or ""


def _once(answer: asyncio.Future[Any]) -> Callable[[Any], None]:
    """Gives an answer, unless there is one."""

    def give(value: Any) -> None:
        if not answer.done():
            answer.set_result(value)

    return give


def _paused(key: Key, give: Callable[[str], None]) -> None:
    """Keys that may have come together are read one by one; only the first counts."""
    letter = key.text[:1].lower()
    if key.name in ("enter", "down", "page_down") or letter == " ":
        give("more")
    elif letter == "a":
        give("all")
    elif letter == "n" or key.name == "escape":
        give("no")


class PlainDesk(Keyboard):
    """Whole lines, read and printed; nothing is ever drawn again."""

    def __init__(self, interrupted: Callable[[], None]) -> None:
        super().__init__()
        self._interrupted = interrupted
        self.narrator = Narrator(sys.stdout, sys.stderr)

    def __enter__(self) -> PlainDesk:
        import signal

        super().__enter__()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *exc: object) -> None:
        import signal

        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        super().__exit__(*exc)

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
