"""A running tool's side of the session: progress, notes, questions to people and to models.

What it asks is a fact in the log before anybody is asked, and is paid from the session's budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.events.base import Event
from windlass.events.errors import CodecError, Refused, StoreError
from windlass.events.live import ToolProgressed
from windlass.events.questions import AnswerBody, AnswerReceived, QuestionBody, QuestionRequested, QuestionWithdrawn
from windlass.events.sessions import NoticeGiven
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.tools.calls import ToolAsked
from windlass.events.turns import AsideLane, AskBody, ModelAsked, ModelReplied, ModelRequested, RetryPlanned
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.workspace import FilesKept, KeptFiles
from windlass.models.tokens import estimate_json, estimate_text
from windlass.runtime.owner.owner import Owner
from windlass.runtime.streams.record import Record
from windlass.runtime.workspace.kept_files import kept_files
from windlass.tools.context import Answered, ChangedFile, ModelAnswer, ModelAsk, Note, Progress, ToolError

from .inherited_answers import InheritedAnswers

if TYPE_CHECKING:
    from .driver import Driver


class SessionSeat:
    """Where a running tool, or a judge, speaks from."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._notes = 0
        self._inherited = InheritedAnswers(owner)
        self.driver: Driver | None = None

    def progress(self, call_id: str, progress: Progress) -> None:
        if self._owner.hub.hearing:
            self._owner.hub.live(
                [
                    SECRETS.hidden_value(
                        ToolProgressed(
                            call_id=call_id,
                            message=progress.message,
                            fraction=progress.fraction,
                            content=progress.content,
                            after_seq=self._owner.hub.seq,
                        )
                    )
                ]
            )

    def note(self, call_id: str, note: Note) -> None:
        if self.driver is not None:
            self._notes += 1
            self.driver.flights.do(f"note:{self._notes}", lambda: self._note(call_id, note))

    async def _note(self, call_id: str, note: Note) -> None:
        await self._give(NoticeGiven(code="audit", message=note.message, call_id=call_id, data=note.data))

    async def _give(self, fact: NoticeGiven) -> None:
        try:
            await self._owner.take(fact)
        except (Refused, StoreError, CodecError):
            return

    def notice(self, call_id: str, code: str, message: str) -> None:
        """Puts on record what was noticed about a call."""
        if self.driver is not None:
            fact = NoticeGiven(level="warning", code=code, message=message, call_id=call_id)
            self._notes += 1
            self.driver.flights.do(f"note:{self._notes}", lambda: self._give(fact))

    async def keep(self, call_id: str, files: Sequence[ChangedFile]) -> None:
        """Puts what files hold, and are about to hold, beside the log."""
        kept, blobs = await asyncio.to_thread(kept_files, files)
        await self._take(FilesKept(call_id=call_id, body=KeptFiles(files=kept)), blobs)

    # --- whether the session is still ours ---

    def holds(self) -> bool:
        """Whether nobody else can have taken the session yet. From any thread."""
        return self._owner.lease.lasts

    async def hold(self, call_id: str) -> bool:
        """Makes sure of that; False if the call is not running any more."""

        def is_running() -> bool:
            call = self._owner.state.calls.by_id.get(call_id)
            return call is not None and call.status == "started" and call.epoch == self._owner.epoch

        return await self._owner.may_begin(is_running)

    # --- people ---

    async def ask(self, call_id: str, question: QuestionBody) -> Answered:
        """Puts a question on record and waits for its answer; one that was answered before is not put again."""
        before = await self._inherited.answer(call_id, question)
        if before is not None:
            return Answered(outcome=before.outcome, body=before.body or AnswerBody())
        listener = self._owner.hub.subscribe(live=False)
        try:
            events = await self._take(ToolAsked(call_id=call_id, body=question))
            asked = next(event for event in events if isinstance(event, QuestionRequested))
            async for told in listener:
                event = told.event if isinstance(told, Record) else None
                if isinstance(event, AnswerReceived) and event.question_id == asked.question_id:
                    return Answered(outcome=event.outcome, body=event.body or AnswerBody())
                if isinstance(event, QuestionWithdrawn) and event.question_id == asked.question_id:
                    break
        finally:
            listener.close()
        raise ToolError("the question was withdrawn", code="withdrawn")

    async def _take(
        self, fact: ToolAsked | ModelAsked | FilesKept, blobs: dict[str, bytes] | None = None
    ) -> list[Event]:
        try:
            return await self._owner.take(fact, blobs=blobs)
        except Refused as refusal:
            raise ToolError(str(refusal), code=refusal.code) from refusal
        except CodecError as error:
            raise ToolError(f"this cannot be kept: {error}", code="too_large") from error

    # --- models ---

    async def model(self, call_id: str, ask: ModelAsk) -> ModelAnswer:
        """Asks a model for a running tool."""
        return await self.consult("tool", call_id, ask)

    async def consult(self, lane: AsideLane, call_id: str | None, ask: ModelAsk) -> ModelAnswer:
        """Puts what is asked on record, has the driver send it, and waits for the answer; tries again as the log says.
        Raises `ToolError` if there is none to be had."""
        driver = self.driver
        if driver is None:
            raise ToolError("the session is not driven here any more", code="interrupted")
        asked = self._asked(driver, lane, call_id, ask)
        inherited = await self._inherited.reply(asked)
        if inherited is not None:
            return _answer(inherited, ask.output_schema)
        while True:
            events = await self._take(asked)
            request = next(event for event in events if isinstance(event, ModelRequested))
            outcome = await driver.outcomes.wait_for(request.request_id)
            if outcome is None:
                raise ToolError("the request to the model was given up", code="interrupted")
            if isinstance(outcome.fact, ModelReplied):
                return _answer(outcome.fact, ask.output_schema)
            planned = next((event for event in outcome.events if isinstance(event, RetryPlanned)), None)
            if planned is None:
                why = outcome.fact.failure
                raise ToolError(f"the model did not answer: {why.message}", code=why.kind)
            await self._owner.ports.sleep_ms(max(0, planned.at_ms - self._owner.now_ms()))
            asked = _again(asked)

    def _asked(self, driver: Driver, lane: AsideLane, call_id: str | None, ask: ModelAsk) -> ModelAsked:
        bound = driver.performer.bound
        try:
            model = bound.known_model(ask.model) if ask.model is not None else self._owner.state.current_model
        except Refused as refusal:
            raise ToolError(str(refusal), code=refusal.code) from refusal
        schema_tokens = estimate_json(ask.output_schema) if ask.output_schema is not None else 0
        return ModelAsked(
            lane=lane,
            call_id=call_id,
            model=model,
            tokens=estimate_text(ask.prompt) + estimate_text(ask.instructions) + schema_tokens,
            max_output_tokens=ask.max_output_tokens,
            body=AskBody(prompt=ask.prompt, instructions=ask.instructions, output_schema=ask.output_schema),
        )


def _again(asked: ModelAsked) -> ModelAsked:
    import msgspec

    return msgspec.structs.replace(asked, attempt=asked.attempt + 1)


def _answer(reply: ModelReplied, schema: JsonObject | None) -> ModelAnswer:
    blocks = reply.body.blocks if reply.body is not None else ()
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    if reply.finish in ("refusal", "content_filter", "error") or not text:
        raise ToolError(f"the model gave no answer (it ended with {reply.finish!r})", code="no_answer")
    if schema is None:
        return ModelAnswer(text=text, usage=reply.usage)
    from windlass.runtime.bind.structured_output import Output

    check = Output(schema, schema).check(text)
    if not check.valid:
        raise ToolError(f"the model's answer does not fit: {'; '.join(check.errors)}", code="output_invalid")
    return ModelAnswer(text=text, output=check.value, usage=reply.usage)
