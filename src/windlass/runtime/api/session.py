"""A session as its user holds it: commands as methods, events as a stream, the result of a run.

The handle owns nothing: any number of handles, in any number of processes, may point to one session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from windlass.events.base import Auth, Event
from windlass.events.changes import (
    AnyChange,
    ChangeAgent,
    ChangeGrants,
    ChangeMetadata,
    ChangeMode,
    ChangeReceived,
    ChangeTitle,
)
from windlass.events.commands import PromptBody, PromptReceived, QueueBody, QueueEdited
from windlass.events.context import CompactReceived, UndoReceived
from windlass.events.errors import UsageError
from windlass.events.live import Live
from windlass.events.questions import AnswerBody, AnswerReceived, QuestionRequested
from windlass.events.runs import CancelReceived, InterruptReceived, WakeReceived
from windlass.events.sessions import RewindReceived
from windlass.events.signals import SignalBody, SignalReceived
from windlass.events.tools.calls import CallReceived, ResultBody, ResultReceived, ToolSettled, UserCallBody
from windlass.events.tools.jobs import KillReceived
from windlass.events.tools.labels import LabelsDeclassified, Provenance
from windlass.events.tools.permissions import (
    FeedbackBody,
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    Scope,
)
from windlass.events.tools.toolset import UnmountReceived
from windlass.events.values.attention import URGENCIES
from windlass.events.values.blocks import InputBlock, JsonObject, ResultBlock, Text
from windlass.events.values.isolation import Isolation
from windlass.events.values.label_words import checked as checked_labels
from windlass.events.values.policy import Grant, WorkMode
from windlass.events.values.setup import Behavior, ChildContext, ChildMode, Origin, RunOptions
from windlass.runtime.bind.local_code import Lent
from windlass.runtime.context.archive_pager import FOUND
from windlass.runtime.streams.record import Record
from windlass.store.base import Key

from .approvals import PermissionAsk, QuestionAsk
from .command_bodies import SHOWN_CHARS_MAX, answer_body, attached, run_options, said_blocks
from .open_things import Waiting
from .result import Result
from .sent_command import Sent

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.models.base import Model
    from windlass.runtime.commands.attachments import Attachable
    from windlass.runtime.commands.client_worker import Serving
    from windlass.runtime.context.archive_page import Page
    from windlass.runtime.hooks.hook import Hook
    from windlass.runtime.operate.comparison import Comparison
    from windlass.runtime.operate.process_table import Process
    from windlass.runtime.streams.tree_streams import TreeTail
    from windlass.tools.jobs.job_host import JobOutput, JobRow

    from .agent import Agent, Budget
    from .runtime import Runtime
    from .setup_summary import SetupSummary

JOB_TAIL_BYTES = 64 * 1024


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

    def asker(self, name: str) -> tuple[Session, str]:
        """The session that asked something, by the id that this one knows it by: one of its own, or that of a child at
        any depth (`c5.0~c7.0/p9`)."""
        path, slash, own = name.rpartition("/")
        if not slash:
            return self, name
        return Session(self.runtime, Key(self.key.tenant, f"{self.session_id}~{path}")), own

    # --- children ---

    async def spawn(
        self,
        agent: str | Agent,
        task: str,
        *,
        mode: ChildMode = "foreground",
        context: ChildContext = "fresh",
        budget: Budget | None = None,
        isolation: Isolation | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> Session:
        """Has a specialist of its agent carry out a task in a child session, and gives the child. It goes through the
        policy and the budget like a call of the model; `budget` is what the child may use at the most, `isolation` how
        it is kept apart, if more than its agent says. Raises `Refused` if none was started."""
        from windlass.runtime.trees.specialists import SPAWN

        args: JsonObject = {"agent": agent if isinstance(agent, str) else agent.name, "task": task}
        args |= {"mode": mode, "context": context}
        if budget is not None:
            given = msgspec.structs.asdict(budget.limits())
            args["limits"] = {name: most for name, most in given.items() if most is not None}
        if isolation is not None and isolation != "shared":
            args["isolation"] = isolation
        command = CallReceived(command_id=self._id(command_id), actor=actor, tool=SPAWN, body=UserCallBody(args=args))
        await Sent(self, command)
        return Session(self.runtime, await self.runtime.host.trees.spawned(self.key, command.command_id))

    async def tell_child(
        self, child: str | Session, text: str, *, command_id: str | None = None, actor: str = "user"
    ) -> str:
        """Says something to a child session that is at work: it steers the child's run."""
        name = child if isinstance(child, str) else child.session_id
        return await self.call_tool("tell_child", {"child": name, "text": text}, command_id=command_id, actor=actor)

    async def tell(
        self,
        to: str | Session,
        text: str,
        *,
        urgency: Literal["high", "normal", "low"] = "normal",
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Has it say something to another session of its tree: `parent`, `root`, the name of its agent (numbered if
        there are several: `researcher-2`), its place (`c5.0~c7.0`), or its id. It is a signal there, with the labels of
        this session. Its agent must have the tool `tell`. Returns who was told; raises `Refused`, with the names that
        there are, if nobody was."""
        from windlass.runtime.trees.message_call import said

        name = to if isinstance(to, str) else to.session_id
        return await said(self, {"to": name, "text": text, "urgency": urgency}, self._id(command_id), actor)

    async def grant(
        self, child: str | Session, budget: Budget, *, command_id: str | None = None, actor: str = "user"
    ) -> None:
        """Gives a child session more of what is left here, on top of what was set aside for it; one further below gets
        it from the one above it, which is given as much. `child` is its id, its place below this session (`c6.0~c7.0`),
        or the id of what it asks (`c6.0~c7.0/q8`). Raises `Refused` if that is more than is left."""
        from windlass.runtime.trees.budget_grants import granted_down

        name = child if isinstance(child, str) else child.session_id
        await granted_down(self, name, budget, self._id(command_id), actor)

    async def children(self) -> tuple[str, ...]:
        """The ids of its child sessions whose ends have not come back yet."""
        return tuple(child.child_id for child in (await self.state()).children.open.values())

    async def processes(self) -> list[Process]:
        """The process table of the tree below it, itself first: what each session does (ready, running, blocked,
        suspended, done) and what it waits for, told from the logs alone."""
        from windlass.runtime.operate.process_table import process_table

        return await process_table(self.runtime.store, self.key)

    async def select(
        self, specialist: str | Agent | None, *, command_id: str | None = None, actor: str = "user"
    ) -> str:
        """Has it run by one of its agent's specialists from now on, or with None by its agent itself again.
        Instructions and tools are those of the specialist, so is the model if it names one; what its agent denies or
        asks about stays denied and asked. History, budget, labels and mode stay. A run that goes on ends first. Raises
        `Refused` for a specialist that is not there or cannot."""
        name = specialist if isinstance(specialist, str) else specialist.name if specialist is not None else ""
        return await self.change(ChangeAgent(agent=name), command_id=command_id, actor=actor)

    async def selected(self) -> str | None:
        """The name of the specialist that runs it; None if its agent does itself."""
        specialist = (await self.state()).setup.options.specialist
        return specialist.name if specialist is not None else None

    # --- talking ---

    def prompt(
        self,
        text: str | Sequence[InputBlock],
        *,
        behavior: Behavior | None = None,
        attachments: Sequence[Attachable] = (),
        model: str | Model | None = None,
        budget: Budget | None = None,
        tools: Sequence[Any] | None = None,
        output: bool | None = None,
        hooks: Sequence[Hook] = (),
        options: RunOptions | None = None,
        origin: Origin | None = None,
        labels: Sequence[str] = (),
        trace: str = "",
        command_id: str | None = None,
        actor: str = "user",
    ) -> Sent:
        """Says something to the agent. `attachments` are given to the model with it: paths of files and directories,
        addresses of issues and pull requests, or attachments such as `FileAttachment(path=..., lines=...)`. They are
        read here and now, once; the log keeps what was read.

        For the run that this prompt opens, and for those that continue it: another `model`, by name or as an object;
        the limits that `budget` names; only these `tools` (names, globs or tools; the kernel's own stay); whether the
        answer must fit the agent's `output` type; more `hooks`, which live in this process alone. `options` says the
        same as data. `labels` are what the words are marked with, such as `untrusted:mail`.
        `trace` is the caller's trace context, a `traceparent`: the run becomes a part of that trace."""
        return Sent(
            self,
            PromptReceived(
                command_id=self._id(command_id),
                actor=actor,
                behavior=behavior,
                origin=origin or Origin(),
                options=run_options(options, model, budget, tools, output),
                labels=checked_labels(labels),
                trace=trace,
                body=PromptBody(content=said_blocks(text), attachments=attached(attachments)),
            ),
            Lent(hooks=tuple(hooks), model=None if isinstance(model, str) else model),
        )

    def answer(
        self,
        question: str | QuestionAsk | QuestionRequested,
        answer: str | Sequence[str] | JsonObject | AnswerBody = "",
        *,
        outcome: Literal["answered", "declined", "cancelled"] = "answered",
        action: str | None = None,
        mode: WorkMode | None = None,
        command_id: str | None = None,
        actor: str = "user",
        auth: Auth = "none",
    ) -> Sent:
        """Answers a question, by its id or as it was asked: with text, with what was picked, with the content of a
        form, or for a plan an action: only `approve` approves it, with the `mode` to work in then; every other keeps
        plan mode."""
        name = question if isinstance(question, str) else getattr(question, "question_id", "")
        if not isinstance(name, str) or not name:
            told = f"{str(question)[:SHOWN_CHARS_MAX]!r} is no question"
            raise UsageError(f"{told}: give its id, or one of `await session.questions()`")
        asker, question_id = self.asker(name)
        return Sent(
            asker,
            AnswerReceived(
                command_id=self._id(command_id),
                actor=actor,
                auth=auth,
                question_id=question_id,
                outcome=outcome,
                action=action,
                mode=mode,
                tokens=16,
                body=answer_body(answer),
            ),
        )

    def wake(self, *, command_id: str | None = None, actor: str = "user") -> Sent:
        """Does the scheduled step now, or resumes what is owed."""
        return Sent(self, WakeReceived(command_id=self._id(command_id), actor=actor))

    async def approve(
        self,
        request: str | PermissionAsk | PermissionRequested,
        *,
        scope: Scope = "once",
        pattern: str | None = None,
        for_ms: int | None = None,
        digest: str | None = None,
        command_id: str | None = None,
        actor: str = "user",
        auth: Auth = "none",
    ) -> str:
        """Allows a call that was asked about, as it was shown: `request` is one of `requests()`, the event that asked,
        or an id with the `digest` that either of them has. With `scope="session"` later calls of that tool pass as
        well, with `pattern` those whose subject fits it: as long as the tool stays what it is, for `for_ms` or for
        `Settings.grant_ms`. `auth` says how it is known who `actor` is: a server that checked one says `"token"`."""
        if isinstance(request, PermissionAsk | PermissionRequested):
            digest = digest if digest is not None else request.digest
            request = request.request_id
        elif digest is None or not isinstance(request, str):
            raise UsageError(
                f"an approval says what it approves: approve one of `await session.requests()`, or give the digest "
                f"of {str(request)[:SHOWN_CHARS_MAX]!r} as digest=..."
            )
        asker, request = self.asker(request)
        return await Sent(
            asker,
            PermissionApproved(
                command_id=self._id(command_id),
                actor=actor,
                auth=auth,
                request_id=request,
                scope="pattern" if pattern is not None and scope == "once" else scope,
                pattern=pattern,
                digest=digest,
                for_ms=for_ms,
            ),
        )

    async def deny(
        self,
        request: str | PermissionAsk | PermissionRequested,
        feedback: str = "",
        *,
        stop: bool = False,
        command_id: str | None = None,
        actor: str = "user",
        auth: Auth = "none",
    ) -> str:
        """Refuses a call; the model reads the feedback."""
        asker, name = self.asker(request if isinstance(request, str) else request.request_id)
        return await Sent(
            asker,
            PermissionDenied(
                command_id=self._id(command_id),
                actor=actor,
                auth=auth,
                request_id=name,
                stop=stop,
                body=FeedbackBody(feedback=feedback) if feedback else None,
            ),
        )

    async def requests(self) -> tuple[PermissionAsk, ...]:
        """The calls that it asks people about now, the oldest first, as an approver would be asked."""
        return tuple(ask for ask in await self.runtime.host.views.asked(self.key) if isinstance(ask, PermissionAsk))

    async def questions(self) -> tuple[QuestionAsk, ...]:
        """The questions that are open now, the oldest first."""
        return tuple(ask for ask in await self.runtime.host.views.asked(self.key) if isinstance(ask, QuestionAsk))

    async def grants(self) -> tuple[Grant, ...]:
        """The standing approvals that hold now."""
        return await self.runtime.host.views.grants(self.key)

    async def hear(
        self,
        other: str | Session,
        *,
        expires_ms: int | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Lets one session of another tree, by its id, tell this one something with its tool `tell`, until it is taken
        back or a time has come (milliseconds since 1970). Returns the id of the grant, which `grants()` lists and
        `revoke()` takes back."""
        from windlass.runtime.operate.open_requests import to_hear
        from windlass.store.rules.ids import check_id

        name = check_id("session id", other) if isinstance(other, str) else other.session_id
        grant = to_hear(name, actor, expires_ms)
        await self.change(ChangeGrants(add=(grant,)), command_id=command_id, actor=actor)
        return grant.grant_id

    async def revoke(self, *grant_ids: str, command_id: str | None = None, actor: str = "user") -> str:
        """Takes standing approvals back; calls that wait under one of them are judged again."""
        return await self.change(ChangeGrants(revoke=grant_ids), command_id=command_id, actor=actor)

    async def labels(self) -> tuple[Provenance, ...]:
        """What the session's model has seen that is untrusted, private or marked otherwise, and what brought it."""
        return await self.runtime.host.views.labels(self.key)

    async def declassify(
        self, *labels: str, reason: str, command_id: str | None = None, actor: str = "user", auth: Auth = "none"
    ) -> str:
        """Takes labels away from the session, with a reason that stays on record. Nothing else does."""
        command = LabelsDeclassified(
            command_id=self._id(command_id), actor=actor, auth=auth, labels=labels, reason=reason
        )
        return await Sent(self, command)

    async def activate_skill(
        self,
        skill: str,
        arguments: str = "",
        *,
        via: Literal["code", "user"] = "code",
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Brings the instructions of a skill into the context, by its name, an alias or its key. Why one could not be
        had is on record (`skill.failed`)."""
        from windlass.events.skills import SkillReceived

        command = SkillReceived(command_id=self._id(command_id), actor=actor, skill=skill, arguments=arguments, via=via)
        return await Sent(self, command)

    async def deactivate_skill(
        self, skill: str, *, via: Literal["code", "user"] = "code", command_id: str | None = None, actor: str = "user"
    ) -> str:
        """Takes the instructions of an active skill out of the context."""
        from windlass.events.skills import SkillReceived

        command = SkillReceived(command_id=self._id(command_id), actor=actor, skill=skill, via=via, active=False)
        return await Sent(self, command)

    async def interrupt(
        self, reason: str = "", *, jobs: bool = False, command_id: str | None = None, actor: str = "user"
    ) -> str:
        """Stops what is running; it may go on later. Background jobs are ended too if `jobs` says so."""
        command = InterruptReceived(command_id=self._id(command_id), actor=actor, reason=reason, jobs=jobs)
        return await Sent(self, command)

    async def cancel(
        self, reason: str = "", *, jobs: bool = False, command_id: str | None = None, actor: str = "user"
    ) -> str:
        """Stops what is running and closes it for good. Background jobs are ended too if `jobs` says so."""
        command = CancelReceived(command_id=self._id(command_id), actor=actor, reason=reason, jobs=jobs)
        return await Sent(self, command)

    async def signal(
        self,
        kind: str,
        text: str = "",
        *,
        payload: JsonObject | None = None,
        source: str = "",
        urgency: Literal["critical", "high", "normal", "low"] = "normal",
        dedupe_key: str | None = None,
        labels: Sequence[str] = (),
        trace: str = "",
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Tells the agent that something happened outside: what, in words and as data, and where it comes from. `trace`
        is the sender's trace context, a `traceparent`: a run that the signal begins becomes a part of that trace."""
        if urgency not in URGENCIES:
            raise UsageError(f"urgency {urgency!r} is none of {', '.join(URGENCIES)}")
        return await Sent(
            self,
            SignalReceived(
                command_id=self._id(command_id),
                actor=actor,
                kind=kind,
                source=source,
                urgency=urgency,
                dedupe_key=dedupe_key,
                labels=checked_labels(labels),
                trace=trace,
                body=SignalBody(text=text, payload=payload or {}),
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
        labels: Sequence[str] = (),
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
                labels=checked_labels(labels),
                body=ResultBody(content=content),
            ),
        )

    def serve(self, *tools: Any, actor: str = "client") -> Serving:
        """Runs external tools as their client, as long as the block is open: `async with session.serve(open_tab):`.
        Each is an ordinary tool or function of the same name; its arguments were checked against what was declared.
        Works in any process; if the session is driven in this one, its runs wait for the results. A call that was
        cut off is run again by the next client, under the same `idempotency_key`."""
        from windlass.runtime.commands.client_worker import Serving

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
        asker, call_id = self.asker(call_id)
        body = ResultBody(content=(Text(text=text),)) if text else None
        return await Sent(
            asker,
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
        """Runs a tool oneself: same gate, same log, marked. Its arguments are named, or given as one mapping if it
        takes one that is called `actor` or `command_id`."""
        body = UserCallBody(args={**(args or {}), **more}, prepared=None)
        return await Sent(self, CallReceived(command_id=self._id(command_id), actor=actor, tool=tool, body=body))

    async def mount(self, *tools: Any, command_id: str | None = None, actor: str = "user") -> str:
        """Offers more tools, or newer ones, from the next turn on: tools, functions, names of built-in ones. They run
        in this process, which must be the one that drives the session; after a restart they are there again if the
        same code is given to `windlass.open(tools=[...])` or mounted again, and else their absence is on record. An
        `external_tool` may be mounted from anywhere: clients run it (see `serve`)."""
        name = self._id(command_id)
        await self.runtime.host.mounts.mount(self.key, tools, command_id=name, actor=actor)
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

    async def edit_queue(
        self,
        *prompt_ids: str,
        texts: Mapping[str, str | Sequence[InputBlock]] | None = None,
        command_id: str | None = None,
        actor: str = "user",
    ) -> str:
        """Puts the waiting prompts in this order; those that are not named are dropped. `texts` are new words for some
        of them, by prompt id."""
        edits = {name: PromptBody(content=said_blocks(text)) for name, text in (texts or {}).items()}
        body = QueueBody(edits=edits) if edits else None
        return await Sent(self, QueueEdited(command_id=self._id(command_id), actor=actor, order=prompt_ids, body=body))

    async def compact(self, instructions: str = "", *, command_id: str | None = None, actor: str = "user") -> str:
        """Summarises older exchanges now."""
        return await Sent(
            self, CompactReceived(command_id=self._id(command_id), actor=actor, instructions=instructions)
        )

    async def rewind(
        self, to_seq: int, *, files: bool = False, command_id: str | None = None, actor: str = "user"
    ) -> str:
        """Makes the history what it was at `to_seq`; what was done stays done. With `files`, the files that tools
        changed since then hold again what they held, unless somebody else has changed them; `rewind.received` in the
        log says which were put back and which were not."""
        return await Sent(
            self, RewindReceived(command_id=self._id(command_id), actor=actor, to_seq=to_seq, files=files)
        )

    async def undo_compact(self, *, command_id: str | None = None, actor: str = "user") -> str:
        """Makes visible again what the last compaction put away."""
        return await Sent(self, UndoReceived(command_id=self._id(command_id), actor=actor))

    async def page_in(self, query: str = "", *, page_ids: Sequence[str] = (), limit: int = FOUND) -> tuple[Page, ...]:
        """Brings back what left the history, by words or by id: recorded, and shown to the model from its next turn on.
        Gives the pages that it is made of; none if nothing was found, and nothing is recorded then. The process
        that drives the session must do it; `UsageError` says so elsewhere."""
        return await self.runtime.host.page_in.page_in(self.key, query, page_ids, limit)

    async def erase(self, seq: int, why: str, *, actor: str = "user") -> None:
        """Erases the content of one event for good, from the log, from memory and from what models are sent; who did it
        and why stays on record, and the log still verifies. The session must rest, and this process own it. What the
        agent's own code says (instructions, tools) is said again at the next request: change the code."""
        await self.runtime.host.erasure.erase(self.key, seq, by=actor, why=why)

    async def clear(self) -> str:
        """A fresh context; the log is kept."""
        return await self.rewind(0)

    async def fork(
        self, session_id: str | None = None, *, at_seq: int | None = None, reopen: str | None = None
    ) -> Session:
        """A new session that continues this one after the record `at_seq` (its end, unless given). `reopen` names a
        request to people instead, such as `p12`: the fork begins where that was asked, and may be answered otherwise,
        as may whatever else was asked there. All else that was open is closed in the fork."""
        return await self.runtime.fork(self.key, session_id, at_seq=at_seq, reopen=reopen)

    async def diff(self, other: Session | str) -> Comparison:
        """What was said here and in another session, compared. `comparison.difference("before", "after")` are the lines
        of a unified diff; none if the same was said in both."""
        from windlass.runtime.operate.comparison import compare_sessions

        key = Key(self.key.tenant, other) if isinstance(other, str) else other.key
        return await compare_sessions(self.runtime.store, self.key, key)

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

    def tail_tree(self, *, depth: int | None = None, after: str | None = None, live: bool = True) -> TreeTail:
        """The same for the whole tree below it: what is recorded of each session in one order, causes before effects,
        then what happens, live. Each `Scoped` says in its frames which session it is of. `depth` is how deep to read: 0
        for this session alone, None for all. The `cursor` of the stream is the place behind all that it has handed out,
        and `after` goes on there; without `live` it ends with what is recorded now."""
        return self.runtime.host.tree_streams.tail(self.key, depth=depth, after=after, live=live)

    def records(self, *, after: str | int | None = None) -> AsyncIterator[Record]:
        """The committed records behind a cursor or a seq, as they are now."""
        return self._records(after)

    async def _records(self, after: str | int | None) -> AsyncIterator[Record]:
        host = self.runtime.host
        async for record in host.log.records(self.key, after=await host.cursors.seq_of(self.key, after)):
            yield record

    async def cursor(self) -> str:
        """The place behind the last record of the log: what comes later is what comes after it."""
        return await self.runtime.host.cursors.end(self.key)

    async def setup(self) -> SetupSummary:
        """What it is set up with: agent, model, tools and what the policy says of each, instruction files, workspace,
        budget, and which names collide. For people, before the first prompt."""
        return await self.runtime.host.views.setup(self.key)

    async def explain(self, tool: str, args: Mapping[str, Any] | None = None) -> str:
        """What would become of a call now, which line says so, and what each rule about its tool says. Nothing is
        asked, run or recorded; the agent's code must be at hand."""
        return await self.runtime.host.views.explain(self.key, tool, args or {})

    async def state(self) -> State:
        """What the log adds up to. A copy: changing it changes nothing."""
        return await self.runtime.host.views.state(self.key)

    async def result(self, command_id: str | None = None) -> Result:
        """How the current run ends; waits for it. Of a session at rest: how its last run ended. If others talk to
        the session too, the id that `await prompt(...)` gave names the run that is meant: the one which that command
        ends with, or as long as it is held up, the one that must be answered or resumed first. Raises `Refused`
        if it led to none (a hook denied it, it was taken out of the queue)."""
        return await self.runtime.host.results.result(self.key, command_id)

    async def wait_idle(self, timeout_ms: int | None = None) -> None:
        """Waits until no run is active, and for a moment for the ends of children that were stopped. Raises
        `StillBusy`, whose `waiting` is what runs, after that time."""
        host = self.runtime.host
        await host.rest.wait(self.key, timeout_ms=timeout_ms)
        await host.trees.quiet(self.key, timeout_ms)

    async def waiting(self) -> tuple[Waiting, ...]:
        """What it is busy with or waits for now: requests to models, calls, questions, timers, each with its age."""
        return await self.runtime.host.views.waiting(self.key)

    async def jobs(self) -> tuple[JobRow, ...]:
        """Its background jobs: those that run, and the last that have ended."""
        return await self.runtime.host.views.jobs(self.key)

    async def job_output(self, job_id: str, offset: int = -JOB_TAIL_BYTES, most: int = JOB_TAIL_BYTES) -> JobOutput:
        """What a background job has printed from an offset on, which counts from the end if it is negative. Only on the
        machine that the job is on."""
        return await self.runtime.job_host(self.key).output(job_id, offset, most)

    async def kill_job(self, job_id: str, *, command_id: str | None = None, actor: str = "user") -> str:
        """Has a background job end, with all that it started. Raises `Refused` if it is not open."""
        return await Sent(self, KillReceived(command_id=self._id(command_id), actor=actor, job_id=job_id))

    async def close(self, reason: str = "", *, error: bool = False) -> None:
        """Puts the session's sums on record, once it rests, and why: `error` says that something went wrong. Safe
        twice; the next command resumes it."""
        await self.runtime.shut_down(self.session_id, reason=reason, error=error)
