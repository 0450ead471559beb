"""Requests put before the person at a terminal, whatever they type at.

A request is drawn outside of the transcript, with a mark that the model has never seen; what was typed before it was
shown does not answer it.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from windlass.cli import identity
from windlass.cli.screen import person_requests
from windlass.cli.terminal.visible_text import spelt
from windlass.events.errors import UsageError
from windlass.events.questions import APPROVE, Answer, AnswerBody, Question, QuestionRequested
from windlass.runtime.api.approvals import Approve, Deny, PermissionAsk, QuestionAsk, Reply, Verdict

from .text import Paint, fold_lines, width_of

MARK_LETTERS = "bcdfghjkmnpqrstvwxz"
SETTLE_S = 0.05
"""What led to a request is still on its way to the screen."""
MORE = "Enter shows more, a shows all, n says no"
APART = "each by itself"
"""What a person says who wants to answer requests one by one that were put before them together."""
YES = "[y]es, once"
SESSION = "[s]ession: this tool from now on"
NO = "[n]o, or n and why · [stop]: no, and end the run"


def fresh_mark() -> str:
    """Three letters that no model can have seen."""
    return "".join(secrets.choice(MARK_LETTERS) for _ in range(3))


class Person(Protocol):
    """Whoever is asked, and the screen in front of them."""

    @property
    def page_rows(self) -> int | None:
        """How many rows can be read at once; None if everything is simply printed."""

    @property
    def explains(self) -> bool:
        """Whether a list to pick from says by itself how to pick."""

    def show(self, line: str) -> None:
        """A line of ours; the text must be visible text."""

    async def ready(self) -> None:
        """Waits until they can have seen what was asked, so that nothing typed before it is taken for an answer."""

    async def ask(self, prompt: str, begun: str = "") -> str | None:
        """What they write; None if nobody is there any more."""

    async def pick(self, prompt: str, question: Question) -> tuple[str, ...] | str | None:
        """The labels they picked, or what they wrote instead; empty if they decline."""

    async def pause(self, said: str) -> str:
        """`more`, `all` or `no`, in the middle of something long; empty if they leave it open."""


class Interviewer:
    """Puts requests before the person, one at a time."""

    def __init__(self, person: Person, *, before: Callable[[], None] = lambda: None) -> None:
        self.mark = fresh_mark()
        self._person = person
        self._before = before
        self._turn = asyncio.Lock()
        self.asking = False
        self.session: str | None = None
        """The one session that is asked about here, with those below it. What others want stays open for `windlass
        approve`."""
        self._asker = ""
        """The session below it that asks now; empty if it asks itself."""

    @property
    def explained(self) -> str:
        """How a person knows a request of ours from what a model writes."""
        return f"requests to you are marked {self.mark}: no model has seen these letters"

    async def __call__(self, asked: PermissionAsk | QuestionAsk) -> Verdict:
        if asked.session != self.session and not asked.session.startswith(f"{self.session}~"):
            return None
        async with self._turn:
            await asyncio.sleep(SETTLE_S)
            self._before()
            self._asker = asked.session if asked.session != self.session else ""
            self.asking = True
            try:
                if isinstance(asked, PermissionAsk):
                    return _signed(await self._permission(asked))
                return _signed(await self._question(asked))
            finally:
                self.asking = False

    async def _frame(self, lines: Sequence[str], last: str) -> Verdict:
        """Shows a request, page by page if it is long. True if all of it was shown, a no where the person says
        so before its end, None if they leave it open."""
        rule = f"── windlass asks · {self.mark} "
        width = width_of(sys.stderr)
        self._person.show(Paint(sys.stderr)(rule + "─" * max(0, width - len(rule) - 1), "yellow"))
        if self._asker:
            self._person.show(f"asked by the child session {spelt(self._asker)}")
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
        if asked.also:
            said = await self._several(asked)
            if said is not APART:
                return said
            asked = msgspec.structs.replace(asked, also=())
        lines = person_requests.ask_lines(asked, Paint(sys.stderr))
        return await self._answer(lines, choices(asked), session=asked.session_offered)

    async def _several(self, asked: PermissionAsk) -> Verdict:
        """Puts requests that are alike before the person, all of them in full, for one answer."""
        asks = (asked, *asked.also)
        lines = [line for one in asks for line in person_requests.ask_lines(one, Paint(sys.stderr))]
        head = Paint(sys.stderr)(f"{len(asks)} calls of {spelt(asked.tool)} are asked about together", "yellow")
        last = f"all {len(asks)}: {choices(asked)} · [e]ach by itself"
        said = await self._answer([head, *lines], last, apart=True, session=asked.session_offered)
        return msgspec.structs.replace(said, together=True) if isinstance(said, Approve | Deny) else said

    async def _answer(self, lines: Sequence[str], last: str, *, apart: bool = False, session: bool = True) -> Verdict:
        if (seen := await self._frame(lines, last)) is not True:
            return seen
        while True:
            said = await self._typed()
            if said is None:
                return None
            if apart and said.lower() in ("e", "each"):
                return APART
            verdict = read_verdict(said)
            if isinstance(verdict, Approve) and verdict.scope == "session" and not session:
                self._person.show("this can only be approved once: write y, n (with a reason, if you like) or stop")
            elif verdict is not None:
                return verdict
            else:
                self._person.show(f"write y, {'s, ' if session else ''}n (with a reason, if you like) or stop")

    async def _question(self, asked: QuestionAsk) -> Verdict:
        if asked.kind == "choice" and asked.body.questions:
            return await self._choices(asked)
        if (seen := await self._frame(person_requests.body_lines(asked.body, sys.stderr), _how(asked))) is not True:
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
        if (seen := await self._frame(person_requests.body_lines(asked.body, sys.stderr), last)) is not True:
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


def _signed(verdict: Verdict) -> Verdict:
    """What was said, with who said it."""
    if isinstance(verdict, Approve | Deny | Reply):
        return msgspec.structs.replace(verdict, by=identity.actor(), auth=identity.AUTH)
    return verdict


def _how(asked: QuestionAsk) -> str:
    if asked.kind == "plan":
        return f"'{APPROVE}', or what should be different; empty declines"
    if asked.kind == "form":
        return "a JSON object that fits the form; empty declines"
    return "your answer; empty declines"


def _whole(asked: QuestionAsk, said: str) -> Reply:
    """The answer to a form or a plan."""
    from windlass.cli.answer_text import read_answer

    event = QuestionRequested(question_id=asked.question_id, call_id=asked.call_id, kind=asked.kind, body=asked.body)
    body, action = read_answer(event, said)
    return Reply(body=body, action=action)


def choices(asked: PermissionAsk) -> str:
    """What a person may answer to a request for permission."""
    return " · ".join((YES, SESSION, NO) if asked.session_offered else (YES, NO))


def read_verdict(said: str) -> Approve | Deny | None:
    """What a person typed at a request for permission; None if it is neither a yes nor a no."""
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
