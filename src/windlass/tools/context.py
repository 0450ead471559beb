"""What a running tool gets, and how it speaks: its context, errors for the model, suspension.

A tool reaches its session through the `Seat` behind the context and through nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeVar

from windlass.events.errors import UsageError, WindlassError
from windlass.events.questions import AnswerBody, Option, Question, QuestionBody
from windlass.events.values.blocks import JsonObject, ResultBlock, Value
from windlass.events.values.ids import idempotency_key
from windlass.events.values.label_words import strange
from windlass.events.values.usage import Usage
from windlass.events.workspace import FileChange

from .call_waits import CallWaits

if TYPE_CHECKING:
    import asyncio

    from windlass.events.values.access import Access

    from .jobs.job_host import JobDesk
    from .sandboxes.sandbox import ProcessResult, Sandbox

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

ChangedFile = tuple[str, bytes | None, bytes | None]
"""A path, what is there and what is to be there; None is no file."""
Reported = FileChange | tuple[str, ...]
"""What counts however a call ends: a file that was changed, or labels."""


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

    def holds(self) -> bool:
        """Whether nobody else can have taken the session yet. From any thread."""
        ...

    async def hold(self, call_id: str) -> bool:
        """Makes sure of that; False if the call is not owed any more."""
        ...

    def notice(self, call_id: str, code: str, message: str) -> None: ...

    async def keep(self, call_id: str, files: Sequence[ChangedFile]) -> None:
        """Puts on record what files hold that the call is about to change."""
        ...


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
        "_cancelled", "_changes", "_event", "_labels", "_lock", "_loop", "_notes", "_on_report",
        "_processes", "_reports", "_sandbox", "_seat", "_traceparent",
        "access", "agent", "attempt", "basis", "blotted", "call_id", "depth", "epoch", "exclude", "folder",
        "jobs", "run_id", "secret", "session", "tool", "waits",
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
        sandbox: Sandbox | None = None,
        secrets: Callable[[str], str] | None = None,
        exclude: tuple[str, ...] = (),
        jobs: JobDesk | None = None,
        basis: str = "",
        folder: str | None = None,
        access: Access | None = None,
        blotted: Callable[[bytes], bytes] | None = None,
        traceparent: str | Callable[[], str] = "",
    ) -> None:
        self.session = session
        self.call_id = call_id
        self.tool = tool
        self.run_id = run_id
        self.agent = agent
        self.epoch = epoch
        self.attempt = attempt
        self.depth = depth
        self.exclude = exclude
        self.jobs = jobs
        self.basis = basis
        self.access = access
        """What whoever let the call pass opened of its sandbox."""
        self.blotted = blotted
        """Takes out of some bytes what no model may see, leaving as many: for tools that give a part of something, as
        half of it is not known any more once it is cut. None if there is nothing to take out."""
        self.folder = folder
        """The folder that the session works in, if it has one."""
        self._traceparent = traceparent
        self._seat = seat
        self._sandbox = sandbox
        self.secret: Callable[[str], str] = secrets or _no_secret
        """Gives the value of a secret by its name, as the runtime was opened with. It is left out of everything that is
        written from then on; hand it to nobody but whom it is for. Raises `ToolError` if there is none of that name."""
        self._processes: set[asyncio.Task[ProcessResult]] = set()
        self._cancelled = False
        self._event: threading.Event | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reports = 0
        self._notes = 0
        self.waits = CallWaits()
        """The waits of this call that do not count against its time. For the plane."""
        self._changes: list[FileChange] = []
        self._on_report: Callable[[Reported], None] | None = None
        self._labels: dict[str, None] = {}

    # --- ids for other services, made for the tools that ask ---

    @property
    def idempotency_key(self) -> str:
        """The key of this call, the same for each of its attempts: for services that do a thing once for each key."""
        return idempotency_key(self.session, self.call_id)

    @property
    def traceparent(self) -> str:
        """The trace context of this very call, for the headers of requests that the tool makes."""
        given = self._traceparent
        return given if isinstance(given, str) else given()

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
            processes = tuple(self._processes)
        for task in processes:
            self._call_on_loop(task.cancel)

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
        before: str | None = None,
        after: str | None = None,
    ) -> None:
        """Puts a changed file on record: `files.changed` follows the result, whether the tool returns or raises, and
        the session's sums count it. `before` and `after` are the digests of its contents. From any thread. Raises after
        too many."""
        counts = (lines_added, lines_removed)
        if operation not in OPERATIONS or not all(isinstance(count, int) and count >= 0 for count in counts):
            raise UsageError(
                f"changed({operation!r}, {lines_added}, {lines_removed}): give create, update or delete, and counts"
            )
        name = os.fsencode(path).decode("utf-8", "replace")[:CHANGED_PATH_CHARS_MAX]
        change = FileChange(
            path=name,
            operation=operation,
            lines_added=lines_added,
            lines_removed=lines_removed,
            before=before,
            after=after,
        )
        with self._lock:
            if len(self._changes) >= CHANGES_MAX:
                raise UsageError(f"tool {self.tool!r} changed more than {CHANGES_MAX} files in one call: do less")
            self._changes.append(change)
        if self._on_report is not None:
            self._on_report(change)

    def mark(self, *labels: str) -> None:
        """Marks what comes of this call, however it ends: `ctx.mark("private:payroll")`. The session carries the labels
        on from there. From any thread. What is known before the call belongs in `@tool(labels=…)`."""
        wrong = strange((*self._labels, *labels))
        if wrong is not None:
            raise UsageError(f"tool {self.tool!r}: {wrong}")
        with self._lock:
            self._labels.update(dict.fromkeys(labels))
        if self._on_report is not None:
            self._on_report(labels)

    @property
    def keeps(self) -> bool:
        """Whether there is a session that keeps what files held."""
        return self._seat is not None and self._loop is not None

    async def keep(self, files: Sequence[ChangedFile]) -> None:
        """Puts on record what files hold that this call is about to change, so that they can be restored. Raises
        `ToolError` if it cannot be kept, so that nothing is changed then."""
        await self._need_seat("keep files").keep(self.call_id, files)

    async def ask(
        self, question: str | QuestionBody, *, options: Sequence[str] = (), multi_select: bool = False
    ) -> Answered:
        """Asks a person. The wait does not count against the tool's time."""
        seat = self._need_seat("ask a person")
        if isinstance(question, str):
            picks = tuple(Option(label=option) for option in options)
            entry = Question(question=question, options=picks, multi_select=multi_select)
            question = QuestionBody(message=question, questions=(entry,))
        self.waits.begin()
        try:
            return await seat.ask(self.call_id, question)
        finally:
            self.waits.end()

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

    # --- processes and files ---

    @property
    def sandbox(self) -> Sandbox:
        """Where the session's processes run and its files are. Raises `UsageError` outside of a session."""
        if self._sandbox is None:
            raise UsageError("there is no sandbox here: the tool runs outside of a session")
        return self._sandbox

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_ms: int | None = None,
        output_bytes_max: int | None = None,
        live: bool = False,
    ) -> ProcessResult:
        """Runs a program in the session's sandbox, to its end or its timeout. It is killed, with all it started, when
        the call is given up. `secrets` are variables of its environment, each with the name of the secret that it gets.
        What it writes is shown as progress if it is `live`. Raises `ToolError` if it cannot be started."""
        import asyncio

        from .sandboxes.sandbox import OUTPUT_BYTES_MAX, TIMEOUT_MS, Access, Process

        if isinstance(argv, str | bytes):
            raise UsageError(f"run({argv!r}): give the program and its arguments as a list; no shell reads them")
        process = Process(
            argv=tuple(argv),
            cwd=cwd,
            env=dict(env or {}),
            secrets=dict(secrets or {}),
            stdin=stdin,
            timeout_ms=TIMEOUT_MS if timeout_ms is None else timeout_ms,
            output_bytes_max=OUTPUT_BYTES_MAX if output_bytes_max is None else output_bytes_max,
            access=self.access or Access(),
            unseen=self.exclude,
        )
        # A task of its own, so that a sync tool that was given up in its thread takes its processes with it.
        box: Any = self.sandbox
        started = box.run(process, live_output(self)) if live else box.run(process)
        task: asyncio.Task[ProcessResult] = asyncio.ensure_future(started)
        with self._lock:
            self._processes.add(task)
            if self._cancelled:
                task.cancel()
        try:
            result = await task
        finally:
            with self._lock:
                self._processes.discard(task)
        for notice in result.notices:
            self.note(notice)
        return result

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
    def holds(self) -> bool:
        """Whether nobody else can have taken the session. Looked at in any thread, right before the tool begins."""
        return self._seat is None or self._seat.holds()

    async def hold(self) -> bool:
        """Makes sure of that again; False if the call is not owed any more. Raises `StaleEpoch` if somebody else has
        the session."""
        return self._seat is None or await self._seat.hold(self.call_id)

    def notice(self, code: str, message: str) -> None:
        """Puts on record what whoever runs the tool noticed about its call. From any thread; never waits."""
        if self._seat is not None:
            self._call_on_loop(self._seat.notice, self.call_id, code, message)

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The files that the tool says it changed, so far."""
        if not self._changes:
            return ()
        with self._lock:
            return tuple(self._changes)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the tool has marked its result with, so far."""
        if not self._labels:
            return ()
        with self._lock:
            return tuple(self._labels)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Names the loop that the seat lives on. Called by the plane before the tool runs."""
        self._loop = loop

    def on_report(self, told: Callable[[Reported], None]) -> None:
        """Calls `told` for each file that the tool says it changed and for the labels that it marks its result with, at
        once and in the tool's own thread. Called by the plane."""
        self._on_report = told

    def _need_seat(self, what: str) -> Seat:
        if self._seat is None:
            raise UsageError(f"there is nobody here to {what}: the tool runs outside of a session")
        return self._seat

    def _on_loop(self, call: Any, value: Any) -> None:
        self._call_on_loop(call, self.call_id, value)

    def _call_on_loop(self, call: Any, *given: Any) -> None:
        loop = self._loop
        if loop is None or _running_loop() is loop:
            call(*given)
            return
        try:
            loop.call_soon_threadsafe(call, *given)
        except RuntimeError:
            return  # the loop is closed: nobody is left to see it


def live_output(context: ToolContext) -> Callable[[int, bytes], None]:
    """Shows what a process writes as progress of a call. What it gives is called from any thread."""
    from windlass.events.values.blocks import Terminal
    from windlass.tools.types.plain_values import scalar_text

    def shown(stream: int, data: bytes) -> None:
        text = scalar_text(data[:PROGRESS_CHARS_MAX].decode("utf-8", "replace"))
        context.progress(content=(Terminal(text=text),))

    return shown


def _noted(data: dict[str, Any]) -> JsonObject:
    """What goes with a note, as JSON. It must not fail a tool that did its work: what has no form stands there as the
    text that Python shows for it, and too much is cut."""
    import msgspec

    from windlass.tools.types.plain_values import NotPlain, to_plain

    plain: JsonObject = {}
    for name, value in data.items():
        try:
            plain[name] = to_plain(value)
        except NotPlain:
            plain[name] = repr(value)[:NOTE_CHARS_MAX]
    raw = msgspec.json.encode(plain)
    return plain if len(raw) <= NOTE_DATA_BYTES_MAX else {"cut": raw[:NOTE_CHARS_MAX].decode("utf-8", "ignore")}


def _no_secret(name: str) -> str:
    raise ToolError(f"there is nobody here who knows the secret {name!r}", code="no_secret")


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
