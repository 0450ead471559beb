"""The editor at one session: it is told what the log says, asked what is open, and waits for the ends of its turns.

All of it ends with the connection. What must outlive that is in the log: whoever loads the session is told it again,
and asked what is still open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.live import Live
from windlass.events.values.blocks import BlobRef, JsonObject
from windlass.events.values.ids import prompt_id
from windlass.events.workspace import KeptFile
from windlass.protocol.json_rpc.rpc_peer import PeerGone, RpcError, RpcPeer
from windlass.protocol.question_forms import answer_form, form_of
from windlass.protocol.session_feed import fed
from windlass.protocol.view import Told
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk, asked_of
from windlass.runtime.api.session import Session

from .permission_requests import (
    ACTOR,
    REFUSED,
    answer_permission,
    answer_question,
    below,
    permission_params,
    question_params,
    question_text,
)
from .view.call_kinds import absolute
from .view.diff_forms import diff_form
from .view.fold import Asked, AskedBelow, Closed, Said, TurnEnded, Update, update
from .view.session_forms import commands_update
from .view.update_view import AcpView

DIFF_BYTES_MAX = 1024 * 1024
"""The largest file whose contents are shown as a difference."""
ANSWER_CHARS_MAX = 120


class NoAnswer(Exception):
    """The editor answered something that is no answer."""


class Seat:
    """Where the editor sits at a session."""

    def __init__(self, peer: RpcPeer, session: Session, models: tuple[str, ...], *, forms: bool) -> None:
        """`forms` says whether the editor can put forms before its person."""
        self.session = session
        self.view = AcpView(session.session_id, models)
        self._peer = peer
        self._forms = forms
        self._turns: dict[str, asyncio.Future[TurnEnded]] = {}
        self._sending: set[asyncio.Task[Any]] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._stopped: set[str] = set()
        """What was open when the editor cancelled: it takes its questions back by itself."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._told_from = 0
        self._caught_up = asyncio.Event()
        self._asks = False
        self.put_in_words: str | None = None
        """The open question that the next prompt answers."""

    async def begin(self, *, replayed: bool) -> None:
        """Reads the log up to now, and tells it if it is to be replayed. From here on what happens is told."""
        head = (await self.session.state()).seq
        self._told_from = 0 if replayed else head + 1
        self._spawn(self._read(head), "read")
        await self._caught_up.wait()

    def ask_open(self) -> None:
        """From here on the editor is asked what is open, and told which commands there are."""
        self._asks = True
        self._notify(commands_update(self.view.fold))
        for asked in list(self.view.fold.asked.values()):
            self._ask(asked)
        for names in list(self.view.fold.below.values()):
            self._spawn(self._ask_below(names), "below")

    async def stop(self) -> None:
        """Tells and asks nothing any more. What was asked stays open."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        name = f"windlass:acp:{what}:{self.session.session_id}"
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- telling ---

    async def _read(self, head: int) -> None:
        try:
            async for told in fed(self.session):
                for said in self.view.feed(told):
                    await self._say(said, self._seq(told))
                if not isinstance(told, Live) and told.seq >= head:
                    self._caught_up.set()
        finally:  # nothing is told any more: nobody waits for it
            self._caught_up.set()
            self._end(TurnEnded(commands=frozenset(self._turns), error="this session is not told of any more: load it"))

    def _seq(self, told: Told) -> int:
        return told.after_seq + 1 if isinstance(told, Live) else told.seq

    async def _say(self, said: Said, seq: int) -> None:
        match said:
            case Update() if seq >= self._told_from and said.command_id not in self._turns:
                await self._peer.room()
                self._notify(await self._filled(said), live=said.live)
            case Asked() if self._asks:
                self._ask(said)
            case AskedBelow() if self._asks:
                self._spawn(self._ask_below(said.ask_ids), "below")
            case Closed():
                asking = self._asking.pop(said.ask_id, None)
                if asking is not None and said.ask_id not in self._stopped:
                    asking.cancel()
                if said.ask_id == self.put_in_words:
                    self.put_in_words = None
            case TurnEnded():
                self._end(said)

    def _notify(self, body: JsonObject, *, live: bool = False) -> None:
        params = {"sessionId": self.session.session_id, "update": body}
        self._peer.notify("session/update", params, droppable=live)

    async def _filled(self, said: Update) -> JsonObject:
        """An update with the differences that belong to it."""
        made = [await self._diff(file) for file in said.files]
        content = [form for form in made if form is not None]
        return {**said.body, "content": content} if content else said.body

    async def _diff(self, file: KeptFile) -> JsonObject | None:
        try:
            before, after = await self._text(file.before), await self._text(file.after)
        except (NotFound, UnicodeDecodeError):
            return None
        return diff_form(absolute(file.path, self.view.fold.cwd), before, after or "")

    async def _text(self, kept: BlobRef | None) -> str | None:
        """What a file held. Raises `UnicodeDecodeError` for what is no text, `NotFound` for what is too much of it or
        was erased."""
        if kept is None:
            return None
        if kept.size > DIFF_BYTES_MAX:
            raise NotFound(f"{kept.size} bytes are more than are shown")
        store = self.session.runtime.store
        return (await store.blobs.get(self.session.key.tenant, kept.digest)).decode("utf-8")

    # --- asking ---

    def _ask(self, asked: Asked) -> None:
        ask = asked_of(self.session.session_id, asked.event)
        if ask is not None:
            self._put_once(asked.ask_id, ask)

    async def _ask_below(self, names: tuple[str, ...]) -> None:
        """Asks what child sessions ask."""
        for request in await self.session.requests():
            if request.request_id in names:
                self._put_once(request.request_id, request)
        for question in await self.session.questions():
            if question.question_id in names:
                self._put_once(question.question_id, question)

    def _put_once(self, name: str, ask: PermissionAsk | QuestionAsk) -> None:
        if name not in self._asking:
            self._asking[name] = self._spawn(self._put(ask), "ask")

    async def _put(self, ask: PermissionAsk | QuestionAsk) -> None:
        """Asks the editor. One that is gone leaves it open; one that cannot answer is told who can."""
        with contextlib.suppress(PeerGone, Refused, UsageError):
            try:
                if isinstance(ask, PermissionAsk):
                    await self._put_permission(ask)
                else:
                    await self._put_question(ask)
            except (RpcError, NoAnswer) as error:
                self._put_elsewhere(ask, error)

    def _put_elsewhere(self, ask: PermissionAsk | QuestionAsk, error: Exception) -> None:
        """What the editor gave no answer to that can be used ends the turn, so that nobody waits for nothing."""
        name = ask.request_id if isinstance(ask, PermissionAsk) else ask.question_id
        if name in self._stopped:
            return
        if isinstance(ask, QuestionAsk):
            self._put_in_words(ask)
            return
        place = f"{self.session.session_id} {name}"
        words = (
            f"{ask.tool} waits for a word, and your editor gave none that can be used ({error}). Say it in a shell: "
            f"windlass approve {place}, or windlass deny {place}"
        )
        self._notify(update("agent_message_chunk", content={"type": "text", "text": words}, messageId=name))
        self._end(TurnEnded(commands=frozenset(self._turns), stop="end_turn"))

    async def _put_permission(self, ask: PermissionAsk) -> None:
        if ask.tool in self.view.fold.refused:
            await answer_permission(self.session, ask, REFUSED)
            return
        chosen = await self._choose(ask.request_id, permission_params(self.view.fold, ask))
        if chosen is not None:
            await answer_permission(self.session, ask, chosen)
            if below(ask.request_id):  # nothing more is told of a call that stands in another log
                status = "completed" if chosen.startswith("allow") else "failed"
                self._notify(update("tool_call_update", toolCallId=ask.request_id, status=status))

    async def _put_question(self, ask: QuestionAsk) -> None:
        params = question_params(self.view.fold, ask)
        if params is not None:
            chosen = await self._choose(ask.question_id, params)
            if chosen is not None:
                await answer_question(self.session, ask, chosen)
        elif self._forms and ask.body.url is None:
            await self._put_form(ask)
        else:
            self._put_in_words(ask)

    async def _choose(self, ask_id: str, params: JsonObject) -> str | None:
        """What was chosen; None if it was dismissed instead, which stops the turn if nobody has done so. Raises
        `NoAnswer` for what is no answer."""
        given = await self._peer.ask("session/request_permission", {"sessionId": self.session.session_id, **params})
        outcome = given.get("outcome") if isinstance(given, dict) else None
        kind = outcome.get("outcome") if isinstance(outcome, dict) else None
        if kind == "cancelled":
            if ask_id not in self._stopped:
                self.cancel()
            return None
        chosen = outcome.get("optionId") if isinstance(outcome, dict) and kind == "selected" else None
        offered = [one["optionId"] for one in params["options"]]
        if chosen not in offered:
            said = str(given)[:ANSWER_CHARS_MAX]
            raise NoAnswer(f"it said {said!r}, which selects none of {', '.join(offered)}")
        return str(chosen)

    async def _put_form(self, ask: QuestionAsk) -> None:
        params = {
            "sessionId": self.session.session_id,
            "toolCallId": ask.call_id,
            "mode": "form",
            "message": question_text(ask),
            "requestedSchema": form_of(ask.body),
        }
        given = await self._peer.ask("elicitation/create", params)
        if isinstance(given, dict):
            body = ask.body
            fields = len(body.questions) if body.form is None else 0
            await answer_form(self.session, ask.question_id, given, fields, ACTOR)

    def _put_in_words(self, ask: QuestionAsk) -> None:
        """What the editor has no form for ends the turn: the next prompt answers it, or `windlass answer`."""
        body = ask.body
        one = body.form is None and body.url is None and len(body.questions) == 1
        self.put_in_words = ask.question_id if one else None
        how = "" if one else f"\n\n(answer it with: windlass answer {self.session.session_id} {ask.question_id})"
        content = {"type": "text", "text": f"{question_text(ask)}{how}"}
        self._notify(update("agent_message_chunk", content=content, messageId=ask.question_id))
        self._end(TurnEnded(commands=frozenset(self._turns), stop="end_turn"))

    # --- turns ---

    async def turn(self, command_id: str, send: Coroutine[Any, Any, None]) -> TurnEnded:
        """Sends a command and waits for all that follows from it to be told."""
        ended: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()
        self._turns[command_id] = ended
        sending = asyncio.ensure_future(send)
        self._sending.add(sending)
        try:
            await sending
            return await ended
        finally:
            self._sending.discard(sending)
            self._turns.pop(command_id, None)

    def _end(self, said: TurnEnded) -> None:
        for command_id in said.commands & self._turns.keys():
            turn = self._turns[command_id]
            if not turn.done():
                turn.set_result(said)

    def cancel(self) -> None:
        """Stops what is running; prompts that wait are dropped."""
        self._stopped |= self._asking.keys()
        self._spawn(self._cancel(), "cancel")

    async def _cancel(self) -> None:
        if self._sending:
            await asyncio.wait(list(self._sending))  # what was asked before is stopped too
        with contextlib.suppress(Refused):
            await self.session.interrupt("cancelled in the editor", actor=ACTOR)
        await self._drop_waiting()

    async def _drop_waiting(self) -> None:
        """Prompts of this editor that no run has taken; those of others stay."""
        waiting = (await self.session.state()).queue.waiting
        prompts = self.view.fold.prompts
        kept = [seq for seq in waiting if seq not in prompts or prompts[seq].command_id not in self._turns]
        if len(kept) < len(waiting):
            with contextlib.suppress(Refused):
                await self.session.edit_queue(*map(prompt_id, kept), actor=ACTOR)
