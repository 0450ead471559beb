"""Answers of people out of a log, and an approver who gives them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.events.base import Event
from windlass.events.questions import AnswerReceived, QuestionRequested
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied, PermissionRequested
from windlass.kernel.parts.asks import answered_by
from windlass.runtime.api.approvals import Approve, Deny, PermissionAsk, QuestionAsk, Reply, Verdict

Answers = dict[tuple[str, bytes], Verdict]
"""What people said, by what they were asked."""


def answers_of(events: Mapping[int, Event]) -> Answers:
    """What people were asked and what they said to it."""
    asked: dict[str, tuple[str, bytes]] = {}
    answers: Answers = {}
    for event in events.values():
        match event:
            case PermissionRequested():
                detail = event.body.detail if event.body is not None else None
                asked[event.request_id] = (event.tool, msgspec.json.encode(detail))
            case QuestionRequested():
                asked[event.question_id] = ("", msgspec.json.encode(event.body))
            case PermissionApproved():
                answers |= {asked[name]: Approve() for name in answered_by(event) if name in asked}
            case PermissionDenied():
                feedback = event.body.feedback if event.body is not None else ""
                said = Deny(feedback=feedback, stop=event.stop)
                answers |= {asked[name]: said for name in answered_by(event) if name in asked}
            case AnswerReceived() if event.question_id in asked and event.body is not None:
                reply = Reply(body=event.body, outcome=event.outcome, action=event.action)
                answers[asked[event.question_id]] = reply
    return answers


def recorded_person(answers: Answers) -> Callable[[PermissionAsk | QuestionAsk], Any]:
    """An approver who says what was said then; to anything else nobody is there."""

    async def answer(asked: PermissionAsk | QuestionAsk) -> Verdict:
        if isinstance(asked, PermissionAsk):
            return answers.get((asked.tool, msgspec.json.encode(asked.detail)))
        return answers.get(("", msgspec.json.encode(asked.body)))

    return answer
