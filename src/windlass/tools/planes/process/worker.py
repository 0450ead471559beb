"""The worker: takes calls from the runtime, runs each tool as the local plane does, and gives its context the same
abilities by asking the runtime for them. It is never imported by the runtime."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from windlass.events.errors import UsageError
from windlass.events.questions import QuestionBody
from windlass.events.tools.calls import CallBody
from windlass.tools.context import (
    Answered,
    ChangedFile,
    ModelAnswer,
    ModelAsk,
    Note,
    Progress,
    Reported,
    ToolContext,
    ToolError,
)
from windlass.tools.planes.local import LocalPlane
from windlass.tools.planes.outcome import Outcome, failed, full_text
from windlass.tools.sandboxes.sandbox import Capabilities, Heard, Launch, Process, ProcessResult
from windlass.tools.tool import AnyTool

from .addresses import found_tool
from .messages import (
    HEAD,
    JSON,
    Address,
    Answer,
    AskCapabilities,
    AskModel,
    AskPerson,
    Call,
    Cancel,
    Changed,
    Drop,
    KeepFiles,
    ListFiles,
    Marked,
    Message,
    Noted,
    Noticed,
    Progressed,
    ReadFile,
    Ready,
    RunProcess,
    Trouble,
    Wish,
    WriteFile,
    frame,
    size_of,
    to_worker,
)
from .outcomes import sent

THREADS_MAX = 8
T = TypeVar("T")


def serve(receives: int, sends: int, guard: int) -> None:
    """Takes calls until nobody is there to send any."""
    faulthandler.enable()
    asyncio.run(Worker(receives, sends, guard).serve())


class Worker:
    """One call at a time: what a tool does to its process it does to itself."""

    def __init__(self, receives: int, sends: int, guard: int) -> None:
        self._receives = receives
        self._sends = sends
        self._guard = guard
        self._tools: dict[Address, AnyTool] = {}
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._numbers = 0
        self._writes = threading.Lock()
        self._plane = LocalPlane(threads_max=THREADS_MAX)
        self._task: asyncio.Task[None] | None = None
        self._context: ToolContext | None = None
        self._running: Address | None = None

    async def serve(self) -> None:
        """Reads messages until the end of them, and ends the process then, whatever still runs in it."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1024 * 1024)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._receives, "rb", 0))
        self.send(Ready())
        while True:
            try:
                kind, size = size_of(await reader.readexactly(HEAD.size))
                data = await reader.readexactly(size)
            except asyncio.IncompleteReadError:
                os._exit(0)
            assert kind == JSON, "the runtime sends no bare bytes"
            self._take(to_worker(data))

    def _take(self, message: Call | Cancel | Answer) -> None:
        if isinstance(message, Call):
            self._running = message.address
            self._task = asyncio.get_running_loop().create_task(self._perform(message))
        elif isinstance(message, Answer):
            waiting = self._open.pop(message.number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif self._task is not None:
            self._give_up(self._task)

    def _give_up(self, task: asyncio.Task[None]) -> None:
        """An async tool is cancelled; another one sees its flag. Whoever does not end soon is ended from outside."""
        if self._context is not None:
            self._context.cancel()
        tool = self._tools.get(self._running) if self._running is not None else None
        if tool is None or tool.mode in ("async", "async_generator"):
            task.cancel()

    def send(self, message: Message) -> None:
        """Sends a message. Waits if the runtime does not read."""
        self.send_bytes(frame(message))

    def send_bytes(self, data: bytes) -> None:
        """Sends a frame."""
        with self._writes:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._sends, view) :]
            except OSError:
                os._exit(0)  # nobody is there any more

    async def wish(self, make: Any, kind: type[T], **given: Any) -> T:
        """Asks the runtime for something, and waits for it."""
        self._numbers += 1
        number = self._numbers
        message: Wish = make(number=number, **given)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        self.send(message)
        try:
            came = await answer
        except asyncio.CancelledError:
            self._open.pop(number, None)
            self.send(Drop(number=number))
            raise
        if came.trouble is not None:
            raise _raised(came.trouble)
        return msgspec.convert(came.value, kind)

    async def _perform(self, call: Call) -> None:
        before = _state()
        context = self._context = self._made(call)
        try:
            outcome = await self._outcome(call, context)
        except asyncio.CancelledError:
            outcome = failed("tool_cancelled", "the call was given up", "the call was given up")
        stained = self._plane.orphans > 0 or _state() != before or self._has_children()
        for piece in sent(outcome, stained=stained):
            self.send_bytes(piece)
        self._context = self._task = None

    def _made(self, call: Call) -> ToolContext:
        """The context of a call: what it cannot do here it asks the runtime for."""
        context = ToolContext(
            seat=WorkerSeat(self),
            sandbox=WorkerSandbox(self),
            secrets=_told_no_secret,
            jobs=NoJobs(),
            **_about(call),
        )
        context.on_report(self._report)
        return context

    def _report(self, what: Reported) -> None:
        """Says at once what counts however the call ends, whatever becomes of this process."""
        self.send(Marked(labels=what) if isinstance(what, tuple) else Changed(change=what))

    async def _outcome(self, call: Call, context: ToolContext) -> Outcome:
        try:
            if call.address not in self._tools:
                self._tools[call.address] = await asyncio.to_thread(found_tool, call)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            told = f"the tool {call.tool!r} cannot be loaded in its process ({type(error).__name__})"
            if isinstance(error, UsageError):
                told = f"the tool {call.tool!r} cannot run: {error}"
            return failed("tool_unavailable", told, told, private=full_text(error))
        return await self._plane.run_inline(self._tools[call.address], CallBody(args=call.args), context)

    def _has_children(self) -> bool:
        """Whether processes were left behind: by this process, or to the guard by those who are gone."""
        me = str(os.getpid())
        try:
            threads = os.listdir("/proc/self/task")
            own = b"".join(_content(f"/proc/self/task/{thread}/children") for thread in threads)
            left = _content(f"/proc/{self._guard}/task/{self._guard}/children").decode().split()
        except OSError:
            return True  # it cannot be told, so another worker takes the next call
        return bool(own) or any(pid != me for pid in left)


class WorkerSeat:
    """What a context rests on, here."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def progress(self, call_id: str, progress: Progress) -> None:
        self._worker.send(Progressed(progress=progress))

    def note(self, call_id: str, note: Note) -> None:
        self._worker.send(Noted(note=note))

    async def ask(self, call_id: str, question: QuestionBody) -> Answered:
        return await self._worker.wish(AskPerson, Answered, question=question)

    async def model(self, call_id: str, ask: ModelAsk) -> ModelAnswer:
        return await self._worker.wish(AskModel, ModelAnswer, ask=ask)

    def holds(self) -> bool:
        """The runtime looks before it sends a call."""
        return True

    async def hold(self, call_id: str) -> bool:
        return True

    def notice(self, call_id: str, code: str, message: str) -> None:
        self._worker.send(Noticed(code=code, message=message))

    async def keep(self, call_id: str, files: Sequence[ChangedFile]) -> None:
        await self._worker.wish(KeepFiles, type(None), files=tuple(files))


class NoJobs:
    """What stands for background jobs in a worker, which starts none: nobody would own them."""

    @property
    def host(self) -> NoReturn:
        raise ToolError("a tool in a process of its own starts no background jobs: use plane='local'", code="no_jobs")

    async def listed(self) -> NoReturn:
        raise ToolError("a tool in a process of its own sees no background jobs: use plane='local'", code="no_jobs")


def _told_no_secret(name: str) -> NoReturn:
    raise ToolError(
        f"a tool in a process of its own is told no secrets: have a program get {name!r} with ctx.run(..., "
        "secrets={variable: name}), or use plane='local'",
        code="no_secret",
    )


class WorkerSandbox:
    """The session's sandbox as a tool in a worker has it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def capabilities(self) -> Capabilities:
        return await self._worker.wish(AskCapabilities, Capabilities)

    async def run(self, process: Process, heard: Heard | None = None) -> ProcessResult:
        """The runtime shows what it writes, if somebody wants to hear it."""
        return await self._worker.wish(RunProcess, ProcessResult, process=process, live=heard is not None)

    async def launch(self, process: Process) -> Launch:
        raise ToolError("a tool in a process of its own starts no processes that outlive it", code="no_jobs")

    async def read(self, path: str) -> bytes:
        return await self._worker.wish(ReadFile, bytes, path=path)

    async def write(self, path: str, data: bytes) -> None:
        await self._worker.wish(WriteFile, type(None), path=path, data=data)

    async def list(self, path: str = ".") -> tuple[str, ...]:
        return await self._worker.wish(ListFiles, tuple[str, ...], path=path)

    async def close(self) -> None:
        """It is the session's."""


def _about(call: Call) -> dict[str, Any]:
    """What a context is made with."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in call.about.items()}


def _raised(trouble: Trouble) -> Exception:
    if trouble.kind == "ToolError":
        return ToolError(trouble.message, code=trouble.code, hint=trouble.hint, for_model=trouble.for_model)
    return UsageError(trouble.message) if trouble.kind == "UsageError" else RuntimeError(trouble.message)


def _state() -> tuple[Any, ...]:
    """What a tool may change of its process that the next one would meet."""
    mask = os.umask(0)
    os.umask(mask)
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""
    return folder, mask, dict(os.environ)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
