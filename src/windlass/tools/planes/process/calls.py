"""One call on a worker, as the runtime sees it: what the tool reports is passed on, what it asks for is done within the
session's own bounds, and what came of it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from windlass.events.errors import StoreError, UsageError
from windlass.tools.context import ToolContext, ToolError, live_output
from windlass.tools.planes.large_output import LOOP_BYTES_MAX
from windlass.tools.planes.outcome import Outcome
from windlass.tools.sandboxes.sandbox import Sandbox

from .messages import (
    Answer,
    AnyWish,
    AskCapabilities,
    AskModel,
    AskPerson,
    Broken,
    Changed,
    Drop,
    Ended,
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
    ToRuntime,
    Trouble,
    WriteFile,
)
from .outcomes import Received
from .worker_process import WorkerDied, WorkerProcess

MESSAGES_MAX = 200_000
"""Messages of one call; a tool that says more is ended."""
WISHES_MAX = 64
"""What a tool may have asked for at the same time."""
TROUBLE_CHARS_MAX = 8 * 1024


class RunningCall:
    """A call that a worker has, from its start to its end."""

    def __init__(self, worker: WorkerProcess, context: ToolContext, sandbox: Sandbox | None) -> None:
        self._worker = worker
        self._context = context
        self._sandbox = sandbox
        self._messages = 0
        self._wishes: dict[int, asyncio.Task[None]] = {}
        self._received: Received | None = None
        self.stained = True
        """Whether the worker must not take another call."""
        self.ended: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        worker.take, worker.lost = self._take, self._lost

    async def outcome(self) -> Outcome:
        """What came of it. Raises `WorkerDied` if the worker ended before that was known."""
        received = await asyncio.shield(self.ended)
        if received.size > LOOP_BYTES_MAX:
            return await asyncio.to_thread(received.outcome)
        return received.outcome()

    async def close(self) -> None:
        """Nobody listens any more: what was asked for and has not come is given up."""
        self._worker.take = self._worker.lost = None
        for task in tuple(self._wishes.values()):
            if not task.cancelling():  # asked twice, a process would not be waited for until it is gone
                task.cancel()
        if self._wishes:
            await asyncio.wait(self._wishes.values())
        if self.ended.done() and not self.ended.cancelled():
            self.ended.exception()  # looked at
        if self._received is not None:
            self._received.close()

    def _lost(self, died: WorkerDied) -> None:
        if not self.ended.done():
            self.ended.set_exception(died)

    def _take(self, message: ToRuntime | bytes) -> None:
        self._messages += 1
        if self._messages > MESSAGES_MAX:
            raise Broken(f"more than {MESSAGES_MAX} messages in one call")
        if isinstance(message, bytes) or self._received is not None:
            self._more(message)
            return
        context = self._context
        match message:
            case Progressed(progress=report):
                context.progress(report.message, fraction=report.fraction, content=report.content)
            case Noted(note=note):
                self._bounded(lambda: context.note(note.message, **note.data))
            case Changed(change=change):
                self._bounded(
                    lambda: context.changed(
                        change.path,
                        change.operation,
                        lines_added=change.lines_added,
                        lines_removed=change.lines_removed,
                        before=change.before,
                        after=change.after,
                    )
                )
            case Marked(labels=labels):
                self._bounded(lambda: context.mark(*labels))
            case Noticed(code=code, message=told):
                context.notice(code, told)
            case Drop(number=number):
                if (task := self._wishes.get(number)) is not None:
                    task.cancel()
            case Ended():
                self._received = Received(message)
                self.stained = message.stained
                self._settle()
            case Ready():
                raise Broken("it is ready twice")
            case _:
                self._wish(message)

    def _bounded(self, do: Any) -> None:
        """The tool learned in its own process that it said too much; it is not told twice."""
        try:
            do()
        except (UsageError, TypeError):
            return

    def _more(self, message: ToRuntime | bytes) -> None:
        if self._received is None or not isinstance(message, bytes):
            if isinstance(message, Progressed | Noted | Noticed | Changed | Marked | Drop):
                return  # of a thread that the tool left behind
            raise Broken("something came after the end of the call" if self._received else "bytes without a call")
        self._received.add(message)
        self._settle()

    def _settle(self) -> None:
        if self._received is not None and self._received.complete and not self.ended.done():
            self.ended.set_result(self._received)

    # --- what the tool asks for ---

    def _wish(self, wish: AnyWish) -> None:
        if wish.number in self._wishes or len(self._wishes) >= WISHES_MAX:
            raise Broken(f"more than {WISHES_MAX} things are asked for at once")
        task = asyncio.get_running_loop().create_task(self._fulfil(wish), name=f"windlass:wish-{wish.number}")
        self._wishes[wish.number] = task

    async def _fulfil(self, wish: AnyWish) -> None:
        try:
            answer: Message = Answer(number=wish.number, value=msgspec.to_builtins(await self._granted(wish)))
        except StoreError as error:
            if not self.ended.done():
                self.ended.set_exception(error)  # it is not known whose session this is now
            return
        except Exception as error:
            answer = Answer(number=wish.number, trouble=_trouble(error))
        finally:
            self._wishes.pop(wish.number, None)
        await self._worker.send(answer)

    def _granted(self, wish: AnyWish) -> Coroutine[Any, Any, Any]:
        context = self._context
        match wish:
            case AskPerson(question=question):
                return context.ask(question)
            case AskModel(ask=ask):
                return context.model(
                    ask.prompt,
                    instructions=ask.instructions,
                    model=ask.model,
                    output_schema=ask.output_schema,
                    max_output_tokens=ask.max_output_tokens,
                )
            case KeepFiles(files=files):
                return context.keep(files)
        sandbox: Any = self._sandbox if self._sandbox is not None else context.sandbox
        match wish:
            case RunProcess(process=process, live=True):
                return sandbox.run(process, live_output(context))  # type: ignore[no-any-return]
            case RunProcess(process=process):
                return sandbox.run(process)  # type: ignore[no-any-return]
            case ReadFile(path=path):
                return sandbox.read(path)  # type: ignore[no-any-return]
            case WriteFile(path=path, data=data):
                return sandbox.write(path, data)  # type: ignore[no-any-return]
            case ListFiles(path=path):
                return sandbox.list(path)  # type: ignore[no-any-return]
            case AskCapabilities():
                return sandbox.capabilities()  # type: ignore[no-any-return]


def _trouble(error: Exception) -> Trouble:
    told = str(error)[:TROUBLE_CHARS_MAX]
    if isinstance(error, ToolError):
        return Trouble(
            kind="ToolError", message=error.message, code=error.code, hint=error.hint, for_model=error.for_model
        )
    return Trouble(kind="UsageError" if isinstance(error, UsageError) else type(error).__name__, message=told)
