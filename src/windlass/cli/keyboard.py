"""The person at the terminal: lines that they type, and requests put before them.

A request is drawn outside of the transcript, with a mark that the model has never seen; what was typed before it was
shown does not answer it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable
from typing import Protocol

from windlass.events.base import Event
from windlass.events.errors import UsageError
from windlass.events.permissions import PermissionRequested
from windlass.events.questions import Answer, AnswerBody, QuestionRequested
from windlass.runtime.approvals import Approve, Deny, PermissionAsk, QuestionAsk, Reply, Verdict

from . import asking
from .text import Paint, fold_lines, is_terminal, width_of

READ_BYTES = 65_536
LINES_MAX = 1_000
MARK_LETTERS = "bcdfghjkmnpqrstvwxz"
SETTLE_S = 0.05
"""What led to a request is still on its way to the screen."""
CHOICES = "[y]es, once · [s]ession: this tool from now on · [n]o, or n and why · [stop]: no, and end the run"


def is_interactive() -> bool:
    """Whether somebody is there to be asked."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def fresh_mark() -> str:
    """Three letters that no model can have seen."""
    return "".join(secrets.choice(MARK_LETTERS) for _ in range(3))


class Keyboard:
    """Lines from standard input, without ever blocking the loop."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(maxsize=LINES_MAX)
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
        if not self._lines.full():
            self._lines.put_nowait(line)

    async def line(self) -> str | None:
        """The next line; None where there will be none."""
        if self.ended and self._lines.empty():
            return None
        return await self._lines.get()

    def end(self) -> None:
        """As if the person had ended their input."""
        self._stop()
        self.ended = True
        self._put(None)

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


class Lines(Protocol):
    """Where a person's answers come from."""

    async def line(self) -> str | None: ...

    def forget(self) -> None: ...


class Interviewer:
    """Puts requests before the person at the keyboard, one at a time."""

    def __init__(self, keyboard: Lines, *, before: Callable[[], None] = lambda: None) -> None:
        self.mark = fresh_mark()
        self._keyboard = keyboard
        self._before = before
        self._turn = asyncio.Lock()
        self.asking = False
        self.session: str | None = None
        """The one session that is asked about here. What others want stays open for `windlass approve`."""

    async def __call__(self, asked: PermissionAsk | QuestionAsk) -> Verdict:
        if asked.session != self.session:
            return None
        async with self._turn:
            await asyncio.sleep(SETTLE_S)
            self._before()
            self.asking = True
            try:
                if isinstance(asked, PermissionAsk):
                    return await self._permission(asked)
                return await self._question(asked)
            finally:
                self.asking = False

    def _frame(self, lines: list[str], last: str) -> None:
        paint = Paint(sys.stderr)
        rule = f"── windlass asks · {self.mark} "
        print(paint(rule + "─" * max(0, width_of(sys.stderr) - len(rule) - 1), "yellow"), file=sys.stderr)
        for line in lines:
            print(line, file=sys.stderr)
        for line in fold_lines(last, width_of(sys.stderr) - 1):
            print(line, file=sys.stderr)

    async def _typed(self) -> str | None:
        self._keyboard.forget()
        print(Paint(sys.stderr)(f"{self.mark}> ", "yellow"), end="", file=sys.stderr, flush=True)
        line = await self._keyboard.line()
        return None if line is None else line.strip()

    async def _permission(self, asked: PermissionAsk) -> Verdict:
        paint = Paint(sys.stderr)
        shown = asking.asked_lines(asked.request_id, asked.tool, asked.detail, asked.why, asked.digest, paint)
        self._frame(shown, CHOICES)
        while True:
            said = await self._typed()
            if said is None:
                return None
            verdict = read_verdict(said)
            if verdict is not None:
                return verdict
            print("write y, s, n, n and why, or stop", file=sys.stderr)

    async def _question(self, asked: QuestionAsk) -> Verdict:
        self._frame(asking.body_lines(asked.body), "a number, several with commas, or your own words; empty declines")
        answers: list[Answer] = []
        if asked.kind != "choice" or not asked.body.questions:
            said = await self._typed()
            return Deny() if not said else _whole(asked, said)
        for index, question in enumerate(asked.body.questions):
            if len(asked.body.questions) > 1:
                print(f"question {index + 1}:", file=sys.stderr)
            said = await self._typed()
            if said is None:
                return None
            if not said:
                return Deny()
            answers.append(_answer(index, said, [option.label for option in question.options]))
        return Reply(body=AnswerBody(answers=tuple(answers)))


def _answer(index: int, said: str, labels: list[str]) -> Answer:
    from .answering import picks

    try:
        picked = picks(said, labels)
    except UsageError:
        picked = ()
    return Answer(index=index, selected=picked) if picked else Answer(index=index, text=said)


def _whole(asked: QuestionAsk, said: str) -> Reply:
    """The answer to a form or a plan."""
    from .answering import read_answer

    event = QuestionRequested(question_id=asked.question_id, call_id=asked.call_id, kind=asked.kind, body=asked.body)
    body, action = read_answer(event, said)
    return Reply(body=body, action=action)


def request_of(session: str, event: Event) -> PermissionAsk | QuestionAsk | None:
    """A recorded request as an approver gets it; None for another event."""
    if isinstance(event, PermissionRequested):
        return PermissionAsk(
            session=session,
            request_id=event.request_id,
            call_id=event.call_id,
            tool=event.tool,
            digest=event.digest,
            detail=event.body.detail if event.body is not None else None,
            why=event.body.why if event.body is not None else "",
        )
    if isinstance(event, QuestionRequested) and event.body is not None:
        return QuestionAsk(
            session=session, question_id=event.question_id, call_id=event.call_id, kind=event.kind, body=event.body
        )
    return None


def read_verdict(said: str) -> Approve | Deny | None:
    """What a person typed at a request for permission; None where it is neither a yes nor a no."""
    word, _, rest = said.partition(" ")
    match word.lower():
        case "y" | "yes":
            return Approve()
        case "s" | "session":
            return Approve(scope="session")
        case "n" | "no":
            return Deny(feedback=rest.strip())
        case "stop":
            return Deny(feedback=rest.strip(), stop=True)
    return None
