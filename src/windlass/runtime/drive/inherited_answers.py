"""What a call of an earlier owner was told: answers of models and people that are on record for it.

A call that runs again asks its questions again. It gets these answers, each once; nobody is asked or paid twice.
"""

from __future__ import annotations

from windlass.events.questions import AnswerReceived, QuestionBody, QuestionRequested
from windlass.events.turns import ModelAsked, ModelReplied, ModelRequested
from windlass.runtime.owner.owner import Owner


class InheritedAnswers:
    """The answers on record for the calls that were open when this owner began."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._since_seq = owner.state.seq
        self._calls: dict[str, Answers] = {}

    async def reply(self, asked: ModelAsked) -> ModelReplied | None:
        """A model's answer to this very question."""
        call_answers = await self._of(asked.call_id)
        if call_answers is None:
            return None
        for place, (before, reply) in enumerate(call_answers.replies):
            if (before.lane, before.model.name, before.body) == (asked.lane, asked.model.name, asked.body):
                del call_answers.replies[place]
                return reply
        return None

    async def answer(self, call_id: str, question: QuestionBody) -> AnswerReceived | None:
        """A person's answer to this very question."""
        call_answers = await self._of(call_id)
        if call_answers is None:
            return None
        for place, (before, answer) in enumerate(call_answers.answers):
            if before == question:
                del call_answers.answers[place]
                return answer
        return None

    async def _of(self, call_id: str | None) -> Answers | None:
        call = self._owner.state.calls.by_id.get(call_id) if call_id is not None else None
        if call is None or call.source_seq > self._since_seq:
            return None
        call_answers = self._calls.get(call.call_id)
        if call_answers is None:
            call_answers = self._calls[call.call_id] = Answers(call.call_id)
            log, key = self._owner.log, self._owner.key
            async for record in log.records(key, after=call.source_seq - 1, until=self._since_seq):
                call_answers.take(record.event)
        return call_answers


class Answers:
    """What one call asked and was told, read off the log in its order."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._asked: ModelAsked | None = None
        self._requests: dict[str, ModelAsked] = {}
        self._questions: dict[str, QuestionBody] = {}
        self.replies: list[tuple[ModelAsked, ModelReplied]] = []
        self.answers: list[tuple[QuestionBody, AnswerReceived]] = []

    def take(self, event: object) -> None:
        """The next event of the log."""
        match event:
            case ModelAsked() if event.call_id == self._call_id:
                self._asked = event
            case ModelRequested() if event.call_id == self._call_id and self._asked is not None:
                self._requests[event.request_id] = self._asked
            case ModelReplied() if event.request_id in self._requests:
                self.replies.append((self._requests.pop(event.request_id), event))
            case QuestionRequested() if event.call_id == self._call_id and event.inside and event.body is not None:
                self._questions[event.question_id] = event.body
            case AnswerReceived() if event.question_id in self._questions:
                self.answers.append((self._questions.pop(event.question_id), event))
            case _:
                return
