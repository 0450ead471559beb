"""What stands in a record as the outcome of a node or of one of its calls, as a value and as a text."""

from __future__ import annotations

from typing import Any, NamedTuple

from windlass.events.commands import PromptReceived
from windlass.events.questions import AnswerReceived
from windlass.events.tools.calls import (
    ResultReceived,
    ToolCancelled,
    ToolDenied,
    ToolFinished,
    ToolResolved,
    ToolSettled,
    ToolTimedOut,
)
from windlass.events.trees.children import ChildFinished
from windlass.events.trees.flows import FlowReceived, NodeComputed
from windlass.events.values.blocks import Data, Terminal, Text

from .references import text_of

ERASED = "(erased)"


class Outcome(NamedTuple):
    """What came of a call."""

    ok: bool
    value: Any
    """The answer as a value, if it has a type; else its text."""


def outcome_of(event: Any) -> Outcome:
    """What a record says came of a node's call, or of a node."""
    match event:
        case ChildFinished():
            body = event.body
            typed = body.output if body is not None else None
            return Outcome(event.ok, typed if typed is not None else _content(body))
        case ToolFinished() | ResultReceived():
            return Outcome(event.ok, _content(event.body))
        case ToolSettled():
            return Outcome(event.outcome == "happened", _content(event.body))
        case ToolResolved():
            return Outcome(event.ok, event.text)
        case AnswerReceived():
            return Outcome(event.outcome == "answered", _answer(event))
        case NodeComputed():
            return Outcome(event.outcome == "done", event.body.output if event.body is not None else ERASED)
        case FlowReceived():
            return Outcome(True, event.body.input if event.body is not None else ERASED)
        case PromptReceived():
            return Outcome(True, _content(event.body))
        case ToolDenied():
            return Outcome(False, f"denied: {event.detail}")
        case ToolTimedOut():
            return Outcome(False, "it did not end within its time")
        case ToolCancelled():
            return Outcome(False, "it was given up")
        case _:
            return Outcome(False, "its outcome is not known")


def _content(body: Any) -> Any:
    """What a result holds: a value if it is nothing but one, else its text."""
    if body is None:
        return ERASED
    if len(body.content) == 1 and isinstance(body.content[0], Data):
        return body.content[0].value
    return "".join(_text(block) for block in body.content)


def _text(block: Any) -> str:
    if isinstance(block, Data):
        return text_of(block.value)
    return block.text if isinstance(block, Text | Terminal) else ""


def _answer(event: AnswerReceived) -> Any:
    """What a person said: the first answer, or the content of a form."""
    body = event.body
    if body is None:
        return ERASED
    if body.content is not None:
        return body.content
    for answer in body.answers:
        return answer.text if answer.text is not None else ", ".join(answer.selected)
    return body.feedback
