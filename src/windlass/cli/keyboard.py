"""The person at the terminal who types whole lines, and requests put before whoever is there.

A request is drawn outside of the transcript, with a mark that the model has never seen; what was typed before it was
shown does not answer it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from windlass.events.base import Event
from windlass.events.errors import UsageError
from windlass.events.permissions import PermissionRequested
from windlass.events.questions import Answer, AnswerBody, Question, QuestionRequested
from windlass.runtime.approvals import Approve, Deny, PermissionAsk, QuestionAsk, Reply, Verdict

from . import asking
from .text import Paint, fold_lines, is_terminal, width_of

READ_BYTES = 65_536
LINES_MAX = 1_000
MARK_LETTERS = "bcdfghjkmnpqrstvwxz"
SETTLE_S = 0.05
"""What led to a request is still on its way to the screen."""
MORE = "Enter shows more, a shows all, n says no"
CHOICES = "[y]es, once · [s]ession: this tool from now on · [n]o, or n and why · [stop]: no, and end the run"


def is_interactive() -> bool:
    """Whether somebody is there to be asked."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def fresh_mark() -> str:
    """Three letters that no model can have seen."""
    return "".join(secrets.choice(MARK_LETTERS) for _ in range(3))


class Person(Protocol):
    """Whoever is asked, and the screen in front of them."""

    @property
    def page_rows(self) -> int | None:
        """How many rows can be read at once; None where everything is simply printed."""

    @property
    def explains(self) -> bool:
        """Whether a list to pick from says by itself how to pick."""

    def show(self, line: str) -> None:
        """A line of ours; the text must be visible text."""

    async def ready(self) -> None:
        """Waits until they can have seen what was asked, so that nothing typed before it is taken for an answer."""

    async def ask(self, prompt: str, begun: str = "") -> str | None:
        """What they write; None where nobody is there any more."""

    async def pick(self, prompt: str, question: Question) -> tuple[str, ...] | str | None:
        """The labels they picked, or what they wrote instead; empty where they decline."""

    async def pause(self, said: str) -> str:
        """`more`, `all` or `no`, in the middle of something long; empty where they leave it open."""


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
        """The next line; None where there will be none."""
        if self.ended and self._lines.empty():
            return None
        return await self._lines.get()

    def end(self) -> None:
        """As if the person had ended their input."""
        self._stop()
        self.ended = True
        if self._answer is not None:
            print(file=sys.stderr, flush=True)  # a terminal shows nothing of Ctrl-D
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
        print(line, file=sys.stderr, flush=True)

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
        """Ends what is being asked without an answer; False where nothing is."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(None)
        return True

    async def pick(self, prompt: str, question: Question) -> tuple[str, ...] | str | None:
        from .answering import picks

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


class Interviewer:
    """Puts requests before the person, one at a time."""

    def __init__(self, person: Person, *, before: Callable[[], None] = lambda: None) -> None:
        self.mark = fresh_mark()
        self._person = person
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

    async def _frame(self, lines: Sequence[str], last: str) -> Verdict:
        """Shows a request, page by page where it is long. True where all of it was shown, a no where the person says
        so before its end, None where they leave it open."""
        rule = f"── windlass asks · {self.mark} "
        width = width_of(sys.stderr)
        self._person.show(Paint(sys.stderr)(rule + "─" * max(0, width - len(rule) - 1), "yellow"))
        shown, page = 0, self._person.page_rows or len(lines)
        while shown < len(lines):
            for line in lines[shown : shown + page]:
                self._person.show(line)
            shown += page
            if shown >= len(lines):
                break
            answer = await self._person.pause(f"{self.mark} · {shown:,} of {len(lines):,} lines: {MORE}")
            if answer in ("no", ""):
                return Deny() if answer else None
            page = page if answer == "more" else len(lines)
        for line in fold_lines(last, width - 1) if last else ():
            self._person.show(line)
        await self._person.ready()
        return True

    async def _typed(self) -> str | None:
        line = await self._person.ask(f"{self.mark}> ")
        return None if line is None else line.strip()

    async def _permission(self, asked: PermissionAsk) -> Verdict:
        paint = Paint(sys.stderr)
        shown = asking.asked_lines(asked.request_id, asked.tool, asked.detail, asked.why, asked.digest, paint)
        if (seen := await self._frame(shown, CHOICES)) is not True:
            return seen
        while True:
            said = await self._typed()
            if said is None:
                return None
            verdict = read_verdict(said)
            if verdict is not None:
                return verdict
            self._person.show("write y, s, n, n and why, or stop")

    async def _question(self, asked: QuestionAsk) -> Verdict:
        if asked.kind == "choice" and asked.body.questions:
            return await self._choices(asked)
        if (seen := await self._frame(asking.body_lines(asked.body), _how(asked))) is not True:
            return seen
        while True:
            said = await self._typed()
            if not said:
                return None if said is None else Deny()
            try:
                return _whole(asked, said)
            except UsageError as error:
                self._person.show(str(error))

    async def _choices(self, asked: QuestionAsk) -> Verdict:
        several = any(question.multi_select for question in asked.body.questions)
        free = any(question.free_text for question in asked.body.questions)
        how = "a number" + (", several with commas" if several else "") + (", or your own words" if free else "")
        last = "" if self._person.explains else f"{how}; empty declines"
        if (seen := await self._frame(asking.body_lines(asked.body), last)) is not True:
            return seen
        answers: list[Answer] = []
        for index, question in enumerate(asked.body.questions):
            if len(asked.body.questions) > 1:
                self._person.show(f"question {index + 1}:")
            said = await self._one(question)
            if not said:
                return None if said is None else Deny()
            answers.append(
                Answer(index=index, text=said) if isinstance(said, str) else Answer(index=index, selected=said)
            )
        return Reply(body=AnswerBody(answers=tuple(answers)))

    async def _one(self, question: Question) -> tuple[str, ...] | str | None:
        if question.options:
            said = await self._person.pick(f"{self.mark}> ", question)
        else:
            said = await self._person.ask(f"{self.mark}> ")
        return said.strip() if isinstance(said, str) else said


def _how(asked: QuestionAsk) -> str:
    if asked.kind == "plan":
        return "an action, or what should be different; empty declines"
    if asked.kind == "form":
        return "a JSON object that fits the form; empty declines"
    return "your answer; empty declines"


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
    match word.lower().rstrip(",:"):
        case "y" | "yes" if not rest:
            return Approve()
        case "s" | "session" if not rest:
            return Approve(scope="session")
        case "n" | "no":
            return Deny(feedback=rest.strip())
        case "stop":
            return Deny(feedback=rest.strip(), stop=True)
    return None
