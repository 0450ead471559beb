"""The content of messages between sessions: a task out of a call's arguments, an answer out of a reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.base import Event
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.runs import RunFailed, Terminal
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
        why = end.failure.message if isinstance(end, RunFailed) else end.stop.replace("_", " ") if end else "unknown"
        text = f"the child session ended: {command.status} ({why})" + (f"\n{text}" if text else "")
    checked = body.output if body is not None else None
    output = checked.value if checked is not None and checked.valid and command.ok else None
    content = ChildBody(content=(Text(text=text),), output=output)
    return msgspec.structs.replace(command, tokens=estimate_text(text), bytes=len(text.encode()), body=content)
