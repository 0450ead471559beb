"""What a caller says in Python, as the bodies of commands. Raises `UsageError` for what means nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.commands import PromptBody
from windlass.events.errors import UsageError
from windlass.events.questions import Answer, AnswerBody
from windlass.events.values.blocks import AnyAttachment, InputBlock, JsonObject, Text
from windlass.events.values.models import ModelRef
from windlass.events.values.setup import RunOptions
from windlass.tools.tool import as_tool

if TYPE_CHECKING:
    from windlass.models.base import Model
    from windlass.runtime.commands.attachments import Attachable

    from .agent import Budget

SHOWN_CHARS_MAX = 80
"""How much of a wrong value an error message shows."""


def said_blocks(text: str | Sequence[InputBlock]) -> tuple[InputBlock, ...]:
    if isinstance(text, str):
        return (Text(text=text),)
    if isinstance(text, Sequence):
        blocks = tuple(block for block in text if isinstance(block, InputBlock))
        if len(blocks) == len(text):
            return blocks
    shown = repr(text)[:SHOWN_CHARS_MAX]
    raise UsageError(f"a prompt is a text or a list of blocks such as Text(text=...), not {shown}")


def attached(given: Sequence[Attachable]) -> tuple[AnyAttachment, ...]:
    if not given:
        return ()
    from windlass.runtime.commands.attachments import as_attachment

    if isinstance(given, str | os.PathLike):
        raise UsageError(f"attachments are a list: write attachments=[{os.fspath(given)!r}]")
    return tuple(map(as_attachment, given))


def needs_reading(body: PromptBody | None) -> bool:
    """Whether a prompt holds what is to be read, bounded or kept apart before it is sent."""
    return body is not None and (bool(body.attachments) or any(getattr(block, "data", None) for block in body.content))


def run_options(
    given: RunOptions | None,
    model: str | Model | None,
    budget: Budget | None,
    tools: Sequence[Any] | None,
    output: bool | None,
) -> RunOptions | None:
    """What a prompt changes for its run, as data; None if it changes nothing."""
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


def answer_body(answer: str | Sequence[str] | JsonObject | AnswerBody) -> AnswerBody:
    if isinstance(answer, AnswerBody):
        return answer
    if isinstance(answer, str):
        return AnswerBody(answers=(Answer(index=0, text=answer),)) if answer else AnswerBody()
    if isinstance(answer, dict):
        return AnswerBody(content=answer)
    return AnswerBody(answers=(Answer(index=0, selected=tuple(answer)),))
