"""A session as its user holds it: commands as methods, events as a stream, the result of a run.

The handle owns nothing: any number of handles, in any number of processes, may point to one session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from windlass.events.base import Command, Event
from windlass.events.blocks import AnyAttachment, InputBlock, JsonObject, ResultBlock, Text
from windlass.events.calls import (
    CallReceived,
    ResultBody,
    ResultReceived,
    ToolSettled,
    UnmountReceived,
    UserCallBody,
)
from windlass.events.context import CompactReceived, UndoReceived
from windlass.events.errors import UsageError
from windlass.events.live import Live
from windlass.events.permissions import FeedbackBody, PermissionApproved, PermissionDenied, Scope
from windlass.events.questions import Answer, AnswerBody, AnswerReceived
from windlass.events.runs import (
    CancelReceived,
    CommandCompleted,
    CommandRefused,
    InterruptReceived,
    PromptBody,
    PromptReceived,
    QueueEdited,
    SignalBody,
    SignalReceived,
    Terminal,
    WakeReceived,
)
from windlass.events.sessions import (
    AnyChange,
    ChangeMetadata,
    ChangeMode,
    ChangeReceived,
    ChangeTitle,
    RewindReceived,
)
from windlass.events.specs import Behavior, ModelRef, Origin, RunOptions, WorkMode
from windlass.store.base import Key
from windlass.tools.tool import as_tool

from .attached import Lent
from .hub import Record
from .jobs import Job
from .paging import FOUND
from .result import Result

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.models.base import Model

    from .agent import Budget
    from .hooks import Hook
    from .pages import Page
    from .runtime import Runtime
    from .serving import Serving
    from .setup import SetupSummary

Outcome = Terminal | CommandCompleted | CommandRefused

SHOWN_CHARS_MAX = 80
"""How much of a wrong value an error message shows."""


class Sent:
    """A command on its way. Await it: it is acknowledged, kept and will be carried out. Iterate it instead: the events
    that follow, live, until its terminal. Leaving the loop detaches; it never cancels."""

    def __init__(self, session: Session, command: Command, lent: Lent | None = None) -> None:
        self._session = session
        self._command = command
        self._lent = lent
        self.command_id = command.command_id

    def __await__(self) -> Generator[Any, None, str]:
        return self._send().__await__()

    async def _send(self) -> str:
        await self._session.runtime.send(self._session.key, self._command, self._lent)
        return self.command_id

    def __aiter__(self) -> AsyncIterator[Event | Live]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event | Live]:
        runtime, key = self._session.runtime, self._session.key
        async for told in runtime.follow(key, self._command, self._lent):
            yield told.event if isinstance(told, Record) else told


class Session:
    """One durable piece of agent work."""

    def __init__(self, runtime: Runtime, key: Key) -> None:
        self.runtime = runtime
        self.key = key

    @property
    def session_id(self) -> str:
        return self.key.session

    def _id(self, given: str | None) -> str:
        return given or self.runtime.ports.fresh_id()

    # --- talking ---

    def prompt(
        self,
        text: str | Sequence[InputBlock],
        *,
        behavior: Behavior | None = None,
        attachments: Sequence[AnyAttachment] = (),
        model: str | Model | None = None,
        budget: Budget | None = None,
        tools: Sequence[Any] | None = None,
        output: bool | None = None,
        hooks: Sequence[Hook] = (),
        options: RunOptions | None = None,
        origin: Origin | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> Sent:
        """Says something to the agent.

        For the run that this prompt opens, and for those that continue it: another `model`, by name or as an object;
        the limits that `budget` names; only these `tools` (names, globs or tools; the kernel's own stay); whether the
        answer must fit the agent's `output` type; more `hooks`, which live in this process alone. `options` says the
        same as data."""
        content = _said(text)
        return Sent(
            self,
            PromptReceived(
                command_id=self._id(command_id),
                actor=actor,
                behavior=behavior,
                origin=origin or Origin(),
                options=_options(options, model, budget, tools, output),
                body=PromptBody(content=content, attachments=tuple(attachments)),
            ),
            Lent(hooks=tuple(hooks), model=None if isinstance(model, str) else model),
        )

    def answer(
        self,
        question_id: str,
        answer: str | Sequence[str] | JsonObject | AnswerBody = "",
        *,
        outcome: Literal["answered", "declined", "cancelled"] = "answered",
        action: str | None = None,
        mode: WorkMode | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> Sent:
        """Answers a question: with text, with what was picked, with the content of a form, or for a plan an action."""
        return Sent(
            self,
            AnswerReceived(
                command_id=self._id(command_id),
                actor=actor,
                question_id=question_id,
                outcome=outcome,
                action=action,
                mode=mode,
                tokens=16,
                body=_answer_body(answer),
            ),
        )

    def wake(self, *, command_id: str | None = None, actor: str = "user") -> Sent:
        """Does the scheduled step now, or goes on with what is owed."""
        return Sent(self, WakeReceived(command_id=self._id(command_id), actor=actor))

    async def approve(
        self,
        request_id: str,
        *,
        scope: Scope = "once",
        pattern: str | None = None,
        digest: str | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Allows a call that was asked about."""
        return await Sent(
            self,
            PermissionApproved(
                command_id=self._id(command_id),
                actor=actor,
                request_id=request_id,
                scope=scope,
                pattern=pattern,
                digest=digest,
            ),
        )

    async def deny(
        self,
        request_id: str,
        feedback: str = "",
        *,
        stop: bool = False,
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Refuses a call; the model reads the feedback."""
        body = FeedbackBody(feedback=feedback) if feedback else None
        return await Sent(
            self,
            PermissionDenied(command_id=self._id(command_id), actor=actor, request_id=request_id, stop=stop, body=body),
        )

    async def interrupt(self, reason: str = "", *, command_id: str | None = None, actor: str = "user") -> str:
        """Stops what is running; it may go on later."""
        return await Sent(self, InterruptReceived(command_id=self._id(command_id), actor=actor, reason=reason))

    async def cancel(self, reason: str = "", *, command_id: str | None = None, actor: str = "user") -> str:
        """Stops what is running and closes it for good."""
        return await Sent(self, CancelReceived(command_id=self._id(command_id), actor=actor, reason=reason))

    async def signal(
        self,
        kind: str,
        text: str = "",
        *,
        urgency: Literal["critical", "high", "normal", "low"] = "normal",
        dedupe_key: str | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Tells the agent that something happened outside."""
        return await Sent(
            self,
            SignalReceived(
                command_id=self._id(command_id),
                actor=actor,
                kind=kind,
                urgency=urgency,
                dedupe_key=dedupe_key,
                body=SignalBody(text=text),
            ),
        )

    # --- tools from outside ---

    async def tool_result(
        self,
        call_id: str,
        result: str | Sequence[ResultBlock],
        *,
        ok: bool = True,
        error_code: str | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Completes a call that a client was to run, or that had suspended itself: with a text, or with blocks."""
        content: tuple[ResultBlock, ...] = (Text(text=result),) if isinstance(result, str) else tuple(result)
        return await Sent(
            self,
            ResultReceived(
                command_id=self._id(command_id),
                actor=actor,
                call_id=call_id,
                ok=ok,
                error_code=error_code,
                body=ResultBody(content=content),
            ),
        )

    def serve(self, *tools: Any, actor: str = "client") -> Serving:
        """Runs external tools as their client, as long as the block is open: `async with session.serve(open_tab):`.
        Each is an ordinary tool or function of the same name; its arguments were checked against what was declared.
        Works in any process; where the session is driven in this one, its runs wait for the results. A call that was
        cut off is run again by the next client, under the same `idempotency_key`."""
        from .serving import Serving

        return Serving(self, tools, actor)

    async def settle(
        self,
        call_id: str,
        outcome: Literal["happened", "did_not_happen", "run_again"],
        text: str = "",
        *,
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Says what became of a call whose outcome was unknown."""
        body = ResultBody(content=(Text(text=text),)) if text else None
        return await Sent(
            self,
            ToolSettled(
                command_id=self._id(command_id),
                actor=actor,
                call_id=call_id,
                outcome=outcome,
                body=body,
            ),
        )

    async def call_tool(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        /,
        *,
        command_id: str | None = None,
        actor: str = "user",
        **more: Any,
    ) -> str:
        """Runs a tool oneself: same gate, same log, marked. Its arguments are named, or given as one mapping where it
        takes one that is called `actor` or `command_id`."""
        body = UserCallBody(args={**(args or {}), **more}, prepared=None)
        return await Sent(self, CallReceived(command_id=self._id(command_id), actor=actor, tool=tool, body=body))

    async def mount(self, *tools: Any, command_id: str | None = None, actor: str = "user") -> str:
        """Offers more tools, or newer ones, from the next turn on: tools, functions, names of built-in ones. They run
        in this process, which must be the one that drives the session; after a restart they are there again where the
        same code is given to `windlass.open(tools=[...])` or mounted again, and else their absence is on record. An
        `external_tool` may be mounted from anywhere: clients run it (see `serve`)."""
        name = self._id(command_id)
        await self.runtime.mount(self.key, tools, command_id=name, actor=actor)
        return name

    async def unmount(
        self, *names: str, force: bool = False, command_id: str | None = None, actor: str = "user"
    ) -> str:
        """Takes tools away at the next turn boundary, once their calls have ended; `force` does it now and gives the
        calls up."""
        return await Sent(self, UnmountReceived(command_id=self._id(command_id), actor=actor, tools=names, force=force))

    # --- the session itself ---

    async def change(self, change: AnyChange, *, command_id: str | None = None, actor: str = "user") -> str:
        """Changes the session: model, mode, title, metadata, task state, pins, grants, settings."""
        return await Sent(self, ChangeReceived(command_id=self._id(command_id), actor=actor, change=change))

    async def set_mode(self, mode: WorkMode) -> str:
        return await self.change(ChangeMode(mode=mode))

    async def set_title(self, title: str) -> str:
        return await self.change(ChangeTitle(title=title))

    async def set_metadata(self, **metadata: str | None) -> str:
        return await self.change(ChangeMetadata(metadata=metadata))

    async def edit_queue(self, *prompt_ids: str, command_id: str | None = None, actor: str = "user") -> str:
        """Puts the waiting prompts in this order; those that are not named are dropped."""
        return await Sent(self, QueueEdited(command_id=self._id(command_id), actor=actor, order=prompt_ids))

    async def compact(self, instructions: str = "", *, command_id: str | None = None, actor: str = "user") -> str:
        """Summarises older exchanges now."""
        return await Sent(
            self, CompactReceived(command_id=self._id(command_id), actor=actor, instructions=instructions)
        )

    async def rewind(self, to_seq: int, *, command_id: str | None = None, actor: str = "user") -> str:
        """Makes the history what it was at `to_seq`; what was done stays done."""
        return await Sent(self, RewindReceived(command_id=self._id(command_id), actor=actor, to_seq=to_seq))

    async def undo_compact(self, *, command_id: str | None = None, actor: str = "user") -> str:
        """Makes visible again what the last compaction put away."""
        return await Sent(self, UndoReceived(command_id=self._id(command_id), actor=actor))

    async def page_in(self, query: str = "", *, page_ids: Sequence[str] = (), limit: int = FOUND) -> tuple[Page, ...]:
        """Brings back what left the history, by words or by id: recorded, and shown to the model from its next turn on.
        Gives the pages that it is made of; none where nothing was found, and nothing is recorded then. The process
        that drives the session must do it; `UsageError` says so elsewhere."""
        return await self.runtime.page_in(self.key, query, page_ids, limit)

    async def erase(self, seq: int, why: str, *, actor: str = "user") -> None:
        """Erases the content of one event for good, from the log, from memory and from what models are sent; who did it
        and why stays on record, and the log still verifies. The session must rest, and this process own it. What the
        agent's own code says (instructions, tools) is said again at the next request: change the code."""
        await self.runtime.erase(self.key, seq, by=actor, why=why)

    async def clear(self) -> str:
        """A fresh context; the log is kept."""
        return await self.rewind(0)

    async def fork(self, session_id: str | None = None, *, at_seq: int | None = None) -> Session:
        """A new session that continues this one after the record `at_seq` (its end, unless given)."""
        return await self.runtime.fork(self.key, session_id, at_seq=at_seq)

    # --- looking ---

    def events(self, *, after: str | int | None = None) -> AsyncIterator[Event | Live]:
        """Everything in the log from the beginning or behind a cursor, then what happens, live. A reader that is too
        slow is told by `StreamTruncated`: it lost deltas, or it is let go and goes on at the notice's cursor. Raises
        `CursorMismatch` for a cursor of another log. A plain seq is taken too, and not checked."""
        return self._events(after)

    async def _events(self, after: str | int | None) -> AsyncIterator[Event | Live]:
        async for told in self.runtime.tail(self.key, after=after):
            yield told.event if isinstance(told, Record) else told

    def tail(self, *, after: str | int | None = None) -> AsyncIterator[Record | Live]:
        """The same, each event with its place in the log: for whoever keeps a cursor (`record.cursor`) as they read."""
        return self.runtime.tail(self.key, after=after)

    def records(self, *, after: str | int | None = None) -> AsyncIterator[Record]:
        """The committed records behind a cursor or a seq, as they are now."""
        return self._records(after)

    async def _records(self, after: str | int | None) -> AsyncIterator[Record]:
        async for record in self.runtime.records(self.key, after=await self.runtime.seq_of(self.key, after)):
            yield record

    async def cursor(self) -> str:
        """The place behind the last record of the log: what comes later is what comes after it."""
        return await self.runtime.end(self.key)

    async def setup(self) -> SetupSummary:
        """What it is set up with: agent, model, tools and what the policy says of each, instruction files, workspace,
        budget, and which names collide. For people, before the first prompt."""
        return await self.runtime.setup(self.key)

    async def state(self) -> State:
        """What the log adds up to. A copy: changing it changes nothing."""
        return await self.runtime.state(self.key)

    async def result(self, command_id: str | None = None) -> Result:
        """How the current run ends; waits for it. Of a session at rest: how its last run ended. Where others talk to
        the session too, the id that `await prompt(...)` gave names the run that is meant: the one which that command
        ends with, or as long as it is held up, the one that must be answered or gone on with first. Raises `Refused`
        where it led to none (a hook denied it, it was taken out of the queue)."""
        return await self.runtime.result(self.key, command_id)

    async def wait_idle(self, timeout_ms: int | None = None) -> None:
        """Waits until no run is active. Raises `StillBusy`, whose `jobs` are what still runs, when the time is over."""
        await self.runtime.wait_idle(self.key, timeout_ms=timeout_ms)

    async def jobs(self) -> tuple[Job, ...]:
        """What it is busy with or waits for now: requests to models, calls, questions, timers, each with its age."""
        return await self.runtime.jobs(self.key)

    async def close(self, reason: str = "") -> None:
        """Puts the session's sums on record, once it rests. Safe twice; the next command goes on with it."""
        await self.runtime.shut_down(self.session_id, reason=reason)


def _said(text: str | Sequence[InputBlock]) -> tuple[InputBlock, ...]:
    if isinstance(text, str):
        return (Text(text=text),)
    if isinstance(text, Sequence):
        blocks = tuple(block for block in text if isinstance(block, InputBlock))
        if len(blocks) == len(text):
            return blocks
    shown = repr(text)[:SHOWN_CHARS_MAX]
    raise UsageError(f"a prompt is a text or a list of blocks such as Text(text=...), not {shown}")


def _options(
    given: RunOptions | None,
    model: str | Model | None,
    budget: Budget | None,
    tools: Sequence[Any] | None,
    output: bool | None,
) -> RunOptions | None:
    """What a prompt changes for its run, as data; None where it changes nothing."""
    changes: dict[str, Any] = {}
    if model is not None:
        changes["model"] = ModelRef(name=model if isinstance(model, str) else model.info.name)
    if budget is not None:
        changes["limits"] = budget.limits()
    if tools is not None:
        changes["tools"] = tuple(tool if isinstance(tool, str) else str(as_tool(tool).name) for tool in tools)
    if output is not None:
        changes["output_required"] = output
    return msgspec.structs.replace(given or RunOptions(), **changes) if changes else given


def _answer_body(answer: str | Sequence[str] | JsonObject | AnswerBody) -> AnswerBody:
    if isinstance(answer, AnswerBody):
        return answer
    if isinstance(answer, str):
        return AnswerBody(answers=(Answer(index=0, text=answer),)) if answer else AnswerBody()
    if isinstance(answer, dict):
        return AnswerBody(content=answer)
    return AnswerBody(answers=(Answer(index=0, selected=tuple(answer)),))


def ends(event: Event, command_id: str) -> bool:
    """Whether an event is the terminal of a command."""
    if isinstance(event, Terminal):
        return command_id in event.commands
    return isinstance(event, CommandCompleted | CommandRefused) and event.command_id == command_id
