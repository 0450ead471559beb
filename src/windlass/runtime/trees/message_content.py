"""The content of messages between sessions: a task out of a call's arguments, an answer out of a reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.base import Event
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.runs import Terminal
from windlass.events.stored import codec
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.trees.children import ChildBody, ChildFinished
from windlass.events.turns import ModelReplied
from windlass.events.values.blocks import Text
from windlass.kernel.part import Send
from windlass.models.tokens import estimate_text
from windlass.store.base import InboxCommand, Message

if TYPE_CHECKING:
    from windlass.kernel.state import State

TASK_CHARS_MAX = 200_000
ANSWER_CHARS_MAX = 200_000
"""How much of a child's answer its parent's model is shown; its own log has all of it."""


def posted(state: State, send: Send, events: list[Event], lookup: Callable[[int], Event | None]) -> Message:
    """A message with its content, as it goes into an inbox."""
    command = send.command
    source = lookup(send.content_seq) if send.content_seq is not None else None
    if isinstance(command, ChildFinished):
        ends = [event for event in events if isinstance(event, Terminal)]
        command = _with_answer(command, source, ends[-1] if ends else None)
    elif isinstance(command, PromptReceived) and command.body is None:
        said = Text(text=_task(state, send, source)[:TASK_CHARS_MAX])
        command = msgspec.structs.replace(command, body=PromptBody(content=(said,)))
    data = SECRETS.hidden(codec.encode_command(command))
    kept = InboxCommand(command_id=command.command_id, at_ms=state.now_ms, data=data)
    return Message(session=send.session, command=kept, creates=send.creates)


def _task(state: State, send: Send, source: Any) -> str:
    from windlass.runtime.drive.tool_calls import arguments_in

    call = state.calls.by_id[send.session.rpartition("~")[2]]
    given = arguments_in(call, source) if source is not None else None
    task = given.args.get("task") if given is not None and given.args is not None else None
    return task if isinstance(task, str) and task.strip() else "(the task was erased)"


def _with_answer(command: ChildFinished, reply: Event | None, end: Terminal | None) -> ChildFinished:
    """The end of a child with its last answer, and why it ended if it did not end well."""
    body = reply.body if isinstance(reply, ModelReplied) else None
    text = "".join(block.text for block in body.blocks if isinstance(block, Text)) if body is not None else ""
    if len(text) > ANSWER_CHARS_MAX:
        text = f"{text[:ANSWER_CHARS_MAX]} […]"
    if not command.ok:
        why = f"the child session ended: {command.status} ({_why(command, end)})"
        text = why + (f"\n{text}" if text else "")
    checked = body.output if body is not None else None
    output = checked.value if checked is not None and checked.valid and command.ok else None
    if reply is not None and body is None:
        text, output = _of_workflow(reply, text if not command.ok else "")
    content = ChildBody(content=(Text(text=text),), output=output)
    return msgspec.structs.replace(command, tokens=estimate_text(text), bytes=len(text.encode()), body=content)


def _of_workflow(said: Event, why: str) -> tuple[str, Any]:
    """What a workflow gave: the output of its last node, as a text, and as a value if it is none."""
    from windlass.runtime.flows.outputs import outcome_of
    from windlass.runtime.flows.references import text_of

    value = outcome_of(said).value
    text = text_of(value)[:ANSWER_CHARS_MAX]
    return (f"{why}\n{text}".strip(), None if isinstance(value, str) or why else value)


def _why(command: ChildFinished, end: Terminal | None) -> str:
    """Why a child did not end well; where, if that was further below."""
    if command.failure is not None:
        own = command.failed_in.rpartition("~")[2] == command.call_id
        return command.failure.message if own else f"{command.failed_in}: {command.failure.message}"
    return end.stop.replace("_", " ") if end is not None else "unknown"
