"""What a running tool can say and learn, from the loop and from a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from windlass.events.errors import UsageError
from windlass.events.questions import Answer, AnswerBody, Option, Question, QuestionBody
from windlass.tools.context import (
    NOTES_MAX,
    PROGRESS_CHARS_MAX,
    PROGRESS_REPORTS_MAX,
    Answered,
    ChangedFile,
    ModelAnswer,
    ModelAsk,
    Note,
    Progress,
    ToolContext,
)


class Recorder:
    """A seat that answers at once and notes in which thread it was called."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.threads: set[int] = set()

    def progress(self, call_id: str, progress: Progress) -> None:
        self._hear(progress)

    def note(self, call_id: str, note: Note) -> None:
        self._hear(note)

    async def ask(self, call_id: str, question: QuestionBody) -> Answered:
        self._hear(question)
        return Answered(outcome="answered", body=AnswerBody(answers=(Answer(index=0, selected=("b",)),)))

    async def model(self, call_id: str, ask: ModelAsk) -> ModelAnswer:
        self._hear(ask)
        return ModelAnswer(text="short")

    def holds(self) -> bool:
        return True

    async def hold(self, call_id: str) -> bool:
        return True

    def notice(self, call_id: str, code: str, message: str) -> None:
        self._hear(code)

    async def keep(self, call_id: str, files: Sequence[ChangedFile]) -> None:
        self._hear(tuple(files))

    def _hear(self, what: Any) -> None:
        self.heard.append(what)
        self.threads.add(threading.get_ident())


def made(seat: Any = None, **more: Any) -> ToolContext:
    context = ToolContext(session="s1", call_id="c7.0", tool="t", seat=seat, **more)
    try:
        context.attach(asyncio.get_running_loop())
    except RuntimeError:
        pass
    return context


def test_context_says_who_the_tool_runs_for():
    context = made(run_id="r3", agent="clerk", epoch=4, attempt=2, depth=1)
    assert (context.session, context.call_id, context.run_id, context.agent) == ("s1", "c7.0", "r3", "clerk")
    assert (context.epoch, context.attempt, context.depth, context.tool) == (4, 2, 1, "t")
    assert context.idempotency_key == "s1:c7.0"
    assert made(attempt=1).idempotency_key == made(attempt=2).idempotency_key


async def test_tool_speaks_through_its_seat():
    seat = Recorder()
    context = made(seat)
    context.progress("half", fraction=0.5)
    context.progress("x" * 10_000, fraction=7)
    context.note("paid", cents=5)
    answered = await context.ask("Which?", options=["a", "b"])
    answer = await context.model("Summarise.", model="m", max_output_tokens=5)
    assert (answered.text, answer.text) == ("b", "short")
    question = Question(question="Which?", options=(Option(label="a"), Option(label="b")))
    assert seat.heard == [
        Progress(message="half", fraction=0.5),
        Progress(message="x" * PROGRESS_CHARS_MAX, fraction=1.0),
        Note(message="paid", data={"cents": 5}),
        QuestionBody(message="Which?", questions=(question,)),
        ModelAsk(prompt="Summarise.", model="m", max_output_tokens=5),
    ]


async def test_from_a_thread_the_seat_is_still_called_on_the_loop():
    seat = Recorder()
    context = made(seat)

    def work() -> str:
        context.progress("from afar")
        context.note("seen")
        return context.wait(context.ask("Which?")).text

    assert await asyncio.to_thread(work) == "b"
    assert [type(heard).__name__ for heard in seat.heard] == ["Progress", "Note", "QuestionBody"]
    assert seat.threads == {threading.get_ident()}


async def test_waiting_on_the_loop_itself_is_refused():
    context = made(Recorder())
    with pytest.raises(UsageError, match="use `await` here"):
        context.wait(context.ask("Which?"))


async def test_without_a_seat_progress_is_silent_and_questions_are_refused():
    context = made()
    context.progress("nobody listens")
    context.note("nobody reads")
    with pytest.raises(UsageError, match="there is nobody here to ask a person"):
        await context.ask("Which?")
    with pytest.raises(UsageError, match="there is nobody here to call a model"):
        await context.model("Hello?")


async def test_speech_is_bounded():
    seat = Recorder()
    context = made(seat)
    for _ in range(PROGRESS_REPORTS_MAX + 5):
        context.progress("again")
    assert len(seat.heard) == PROGRESS_REPORTS_MAX
    for _ in range(NOTES_MAX):
        context.note("again")
    with pytest.raises(UsageError, match="more than 100 audit notes"):
        context.note("once more")


def test_cancellation_is_a_flag_and_wakes_a_waiting_thread():
    context = made()
    assert not context.cancelled
    assert not context.wait_cancelled(0)
    waiting = threading.Thread(target=context.wait_cancelled, args=(60,))
    waiting.start()
    context.cancel()
    context.cancel()
    waiting.join(10)
    assert not waiting.is_alive()
    assert made_cancelled().wait_cancelled(60)


def made_cancelled() -> ToolContext:
    context = made()
    context.cancel()
    assert context.cancelled
    return context


async def test_report_after_the_loop_is_closed_is_dropped():
    seat = Recorder()
    context = ToolContext(session="s", call_id="c", seat=seat)
    loop = asyncio.new_event_loop()
    context.attach(loop)
    loop.close()
    await asyncio.to_thread(context.progress, "late")
    assert seat.heard == []


def test_answers_read_as_text():
    typed = AnswerBody(answers=(Answer(index=0, selected=("a",), text="my own"),))
    assert Answered(outcome="answered", body=typed).text == "my own"
    assert Answered(outcome="declined", body=AnswerBody(feedback="no")).text == "no"
