"""Asking a person something: choices, free text, forms by schema, approval of a plan."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.policy import WorkMode

from .base import Category, Command, Decision, Nat

QuestionKind = Literal["choice", "form", "plan"]

APPROVE, REJECT = "approve", "reject"
"""The actions by which a plan is approved and sent back. Whatever else is said keeps the session in plan mode."""


class Option(Value, frozen=True, kw_only=True):
    """One answer to pick."""

    label: str
    description: str = ""


class Question(Value, frozen=True, kw_only=True):
    """One question of a request. Without options it is free text."""

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False
    free_text: bool = True


class Plan(Value, frozen=True, kw_only=True):
    """A plan put before a person."""

    summary: str
    content: str
    actions: tuple[str, ...] = ()
    recommended: str | None = None


class QuestionBody(Value, frozen=True, kw_only=True):
    """What is asked. A form is described by a JSON Schema."""

    message: str = ""
    questions: tuple[Question, ...] = ()
    form: JsonObject | None = None
    plan: Plan | None = None
    url: str | None = None


class Answer(Value, frozen=True, kw_only=True):
    """The answer to question number `index`: what was picked, what was typed."""

    index: Nat
    selected: tuple[str, ...] = ()
    text: str | None = None


class AnswerBody(Value, frozen=True, kw_only=True):
    """What was answered: to questions, to a form (`content`), to a plan (`feedback`, `edited`)."""

    answers: tuple[Answer, ...] = ()
    content: JsonObject | None = None
    feedback: str = ""
    edited: str | None = None


class QuestionRequested(Decision, frozen=True, kw_only=True, tag="question.requested"):
    """A person is asked. `call_id` is the call that waits for the answer."""

    CATEGORY: ClassVar[Category] = "ipc"
    question_id: str
    call_id: str
    kind: QuestionKind
    inside: bool = False
    """Asked by a running tool, which gets the answer itself; otherwise the answer is the call's result."""
    body: QuestionBody | None = None


class AnswerReceived(Command, frozen=True, kw_only=True, tag="answer.received"):
    """A person answered, declined or closed a question. For a plan, `action` says how to go on and in which mode."""

    question_id: str
    outcome: Literal["answered", "declined", "cancelled"] = "answered"
    action: str | None = None
    mode: WorkMode | None = None
    tokens: Nat = 0
    body: AnswerBody | None = None


class QuestionWithdrawn(Decision, frozen=True, kw_only=True, tag="question.withdrawn"):
    """A question is no longer open."""

    CATEGORY: ClassVar[Category] = "ipc"
    question_id: str
    reason: Literal["cancelled", "interrupted", "superseded", "not_carried_over", "unknown_outcome", "granted"]
