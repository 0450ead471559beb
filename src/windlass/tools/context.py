"""What a running tool gets, and how it speaks: its context, errors for the model, suspension.

A tool reaches its session through the `Seat` behind the context and through nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeVar

from windlass.events.blocks import JsonObject, ResultBlock, Value
from windlass.events.errors import UsageError, WindlassError
from windlass.events.ids import idempotency_key
from windlass.events.questions import AnswerBody, Option, Question, QuestionBody
from windlass.events.sessions import FileChange
from windlass.events.usage import Usage

if TYPE_CHECKING:
    import asyncio

PROGRESS_CHARS_MAX = 4_096
PROGRESS_REPORTS_MAX = 10_000
"""Reports of one call that are passed on; a tool that reports more often is not slowed, the rest is dropped."""
NOTES_MAX = 100
NOTE_CHARS_MAX = 4_096
NOTE_DATA_BYTES_MAX = 16 * 1024
CHANGES_MAX = 500
CHANGED_PATH_CHARS_MAX = 1_024
OPERATIONS = ("create", "update", "delete")

T = TypeVar("T")


class Progress(Value, frozen=True, kw_only=True):
    """How far a tool is. Shown live, never stored."""

    message: str = ""
    fraction: float | None = None
    content: tuple[ResultBlock, ...] = ()


class Note(Value, frozen=True, kw_only=True):
    """A line for the audit: what a tool did or decided, beside its result."""

    message: str
    data: JsonObject = {}


class Answered(Value, frozen=True, kw_only=True):
    """What came of a question to a person."""

    outcome: Literal["answered", "declined", "cancelled"]
    body: AnswerBody = AnswerBody()

    @property
    def text(self) -> str:
        """The first answer as text: what was typed, else what was picked."""
        for answer in self.body.answers:
            return answer.text if answer.text is not None else ", ".join(answer.selected)
        return self.body.feedback


class ModelAsk(Value, frozen=True, kw_only=True):
    """What a tool wants from a model."""

    prompt: str
    instructions: str = ""
    model: str | None = None
    output_schema: JsonObject | None = None
    max_output_tokens: int | None = None


class ModelAnswer(Value, frozen=True, kw_only=True):
    """What the model said; `output` where a schema was asked for."""

    text: str
    output: Any = None
    usage: Usage | None = None


class Seat(Protocol):
    """The runtime's side of the context. Always called on the event loop. `ask` and `model` are recorded and budgeted
    effects; they may wait long, and raise `ToolError` where they are refused."""

    def progress(self, call_id: str, progress: Progress) -> None: ...

    def note(self, call_id: str, note: Note) -> None: ...

    async def ask(self, call_id: str, question: QuestionBody) -> Answered: ...

    async def model(self, call_id: str, ask: ModelAsk) -> ModelAnswer: ...


class ToolError(WindlassError):
    """Raised by a tool to tell the model something on purpose. With `for_model=False` the model learns only that the
    tool failed, and the message stays in the log."""

    def __init__(
        self, message: str, *, code: str | int | None = None, hint: str | None = None, for_model: bool = True
    ) -> None:
        super().__init__(message)
        # Authors pass exceptions and numbers too; what is kept is text.
        self.message = str(message)
        self.code = None if code is None else str(code)
        self.hint = None if hint is None else str(hint)
        self.for_model = for_model

    @property
    def told(self) -> str:
        """What the model reads."""
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class Suspend(BaseException):
    """The call parks until a `tool_result` command completes it, perhaps in another process. Raised or returned.

    No `Exception`, so that a tool's own broad handlers do not swallow it.
    """

    def __init__(self, payload: JsonObject | None = None, note: str = "") -> None:
        super().__init__(note or "suspended")
        self.payload = payload or {}
        self.note = str(note)


class ToolContext:
    """Who a tool runs for, and its ways to speak. `epoch` with `session` is a fence: a store that remembers the highest
    epoch it saw can refuse a writer that was replaced meanwhile."""

    __slots__ = (
        "_asked", "_cancelled", "_changes", "_event", "_lock", "_loop", "_notes", "_reports", "_seat", "_waiting",
        "agent", "attempt", "call_id", "depth", "epoch", "idempotency_key", "run_id", "session", "tool",
    )  # fmt: skip

    def __init__(
        self,
        *,
        session: str,
        call_id: str,
        tool: str = "",
        run_id: str = "",
        agent: str = "",
        epoch: int = 0,
        attempt: int = 1,
        depth: int = 0,
        seat: Seat | None = None,
    ) -> None:
        self.session = session
        self.call_id = call_id
        self.tool = tool
        self.run_id = run_id
        self.agent = agent
        self.epoch = epoch
        self.attempt = attempt
        self.depth = depth
        self.idempotency_key = idempotency_key(session, call_id)
        self._seat = seat
        self._cancelled = False
        self._event: threading.Event | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reports = 0
        self._notes = 0
        self._waiting = 0
        self._asked: list[Any] = []
        self._changes: list[FileChange] = []

    # --- cancellation ---

    @property
    def cancelled(self) -> bool:
        """Whether the call was given up. A sync tool looks at it now and then, and stops."""
        return self._cancelled

    def cancel(self) -> None:
        """Sets the flag. Called by whoever runs the tool, from any thread, as often as they like."""
        with self._lock:
            self._cancelled = True
            if self._event is not None:
                self._event.set()

    def wait_cancelled(self, timeout_s: float) -> bool:
        """Blocks a sync tool for a while, or until the call is given up; says whether it was."""
        with self._lock:
            if self._event is None:
                self._event = threading.Event()
                if self._cancelled:
                    self._event.set()
        return self._event.wait(timeout_s)

    # --- speaking ---

    def progress(
        self, message: str = "", *, fraction: float | None = None, content: Sequence[ResultBlock] = ()
    ) -> None:
        """Shows how far the tool is. From any thread; never waits; never fails."""
        self._reports += 1
        if self._seat is None or self._reports > PROGRESS_REPORTS_MAX:
            return
        share = None if fraction is None else min(1.0, max(0.0, float(fraction)))
        report = Progress(message=message[:PROGRESS_CHARS_MAX], fraction=share, content=tuple(content))
        self._on_loop(self._seat.progress, report)

    def note(self, message: str, **data: Any) -> None:
        """Leaves a line for the audit beside the result, with what belongs to it. Raises after too many."""
        self._notes += 1
        if self._notes > NOTES_MAX:
            raise UsageError(
                f"tool {self.tool!r} left more than {NOTES_MAX} audit notes in one call: put them in its result"
            )
        if self._seat is not None:
            self._on_loop(self._seat.note, Note(message=message[:NOTE_CHARS_MAX], data=_noted(data)))

    def changed(
        self,
        path: str | os.PathLike[str],
        operation: Literal["create", "update", "delete"] = "update",
        *,
        lines_added: int = 0,
        lines_removed: int = 0,
    ) -> None:
        """Puts a changed file on record: `files.changed` follows the result, whether the tool returns or raises, and
        the session's sums count it. From any thread. Raises after too many."""
        counts = (lines_added, lines_removed)
        if operation not in OPERATIONS or not all(isinstance(count, int) and count >= 0 for count in counts):
            raise UsageError(
                f"changed({operation!r}, {lines_added}, {lines_removed}): give create, update or delete, and counts"
            )
        name = os.fsencode(path).decode("utf-8", "replace")[:CHANGED_PATH_CHARS_MAX]
        change = FileChange(path=name, operation=operation, lines_added=lines_added, lines_removed=lines_removed)
        with self._lock:
            if len(self._changes) >= CHANGES_MAX:
                raise UsageError(f"tool {self.tool!r} changed more than {CHANGES_MAX} files in one call: do less")
            self._changes.append(change)

    async def ask(
        self, question: str | QuestionBody, *, options: Sequence[str] = (), multi_select: bool = False
    ) -> Answered:
        """Asks a person. The wait does not count against the tool's time."""
        seat = self._need_seat("ask a person")
        if isinstance(question, str):
            picks = tuple(Option(label=option) for option in options)
            entry = Question(question=question, options=picks, multi_select=multi_select)
            question = QuestionBody(message=question, questions=(entry,))
        self._pause(+1)
        try:
            return await seat.ask(self.call_id, question)
        finally:
            self._pause(-1)

    async def model(
        self,
        prompt: str,
        *,
        instructions: str = "",
        model: str | None = None,
        output_schema: JsonObject | None = None,
        max_output_tokens: int | None = None,
    ) -> ModelAnswer:
        """Asks a model, within the session's budget."""
        ask = ModelAsk(
            prompt=prompt,
            instructions=instructions,
            model=model,
            output_schema=output_schema,
            max_output_tokens=max_output_tokens,
        )
        return await self._need_seat("call a model").model(self.call_id, ask)

    def suspend(self, payload: JsonObject | None = None, *, note: str = "") -> NoReturn:
        """Parks the call until its result is delivered from outside. Never returns."""
        raise Suspend(payload, note)

    def wait(self, awaitable: Awaitable[T]) -> T:
        """For sync tools: waits in this thread for something that runs on the event loop, such as `ask`."""
        import asyncio

        loop = self._loop
        if loop is None or _running_loop() is loop:
            _discard(awaitable)
            raise UsageError("wait() is for sync tools, which run in a thread: use `await` here")

        async def awaited() -> T:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(awaited(), loop).result()

    # --- the plane's side ---

    @property
    def waiting_for_people(self) -> bool:
        """Whether the tool waits for a person just now, so that its time stands still."""
        return self._waiting > 0

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The files that the tool says it changed, so far."""
        with self._lock:
            return tuple(self._changes)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Names the loop that the seat lives on. Called by the plane before the tool runs."""
        self._loop = loop

    def on_wait(self, changed: Any) -> None:
        """Calls `changed()` on the loop whenever a wait for a person begins or ends. Called by the plane."""
        self._asked.append(changed)

    def off_wait(self, changed: Any) -> None:
        """Takes that back. Called by the plane."""
        self._asked.remove(changed)

    def _pause(self, by: int) -> None:
        self._waiting += by
        for changed in self._asked:
            changed()

    def _need_seat(self, what: str) -> Seat:
        if self._seat is None:
            raise UsageError(f"there is nobody here to {what}: the tool runs outside of a session")
        return self._seat

    def _on_loop(self, call: Any, value: Any) -> None:
        loop = self._loop
        if loop is None or _running_loop() is loop:
            call(self.call_id, value)
            return
        try:
            loop.call_soon_threadsafe(call, self.call_id, value)
        except RuntimeError:
            return  # the loop is closed: nobody is left to see it


def _noted(data: dict[str, Any]) -> JsonObject:
    """What goes with a note, as JSON. It must not fail a tool that did its work: what has no form stands there as the
    text that Python shows for it, and too much is cut."""
    import msgspec

    from .plain import NotPlain, to_plain

    plain: JsonObject = {}
    for name, value in data.items():
        try:
            plain[name] = to_plain(value)
        except NotPlain:
            plain[name] = repr(value)[:NOTE_CHARS_MAX]
    raw = msgspec.json.encode(plain)
    return plain if len(raw) <= NOTE_DATA_BYTES_MAX else {"cut": raw[:NOTE_CHARS_MAX].decode("utf-8", "ignore")}


def _running_loop() -> Any:
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _discard(awaitable: Any) -> None:
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
