"""The state of a session in the shape in which Duet's protocol lists it: all that the next turn goes on from.

It is a reading of the log: of the whole, or as it was at any terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.commands import PromptReceived, QueueEdited
from windlass.events.runs import RunCancelled, RunCompleted, RunFailed, RunInterrupted, Terminal
from windlass.events.values.blocks import Text
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem
from windlass.kernel.owed import word_for
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key

from .machine_view import MachineView, Step, view_at

if TYPE_CHECKING:
    from windlass.runtime.api.session import Session

STATUS = {"running": "running", "asked": "waiting_for_human", "sleeping": "sleeping"}
ENDED: dict[type[Terminal], str] = {
    RunCompleted: "completed",
    RunFailed: "failed",
    RunCancelled: "cancelled",
    RunInterrupted: "interrupted",
}
STEPS = {
    "created": "state_machine_started",
    "moved": "state_started",
    "interrupted": "state_interrupted",
    "ended": "state_machine_completed",
}
"""What Duet calls the steps of a machine; a state that was left is completed, failed or interrupted."""
LEFT = {"done": "state_completed", "failed": "state_failed", "replaced": "state_interrupted"}


async def turn_state(session: Session, at: int | None = None) -> dict[str, Any]:
    """The turn state of a session now, or as it was at the append that holds the record `at`."""
    store, key = session.runtime.store, session.key
    log = LogReader(store)
    state = (await log.fold(key)).state if at is None else await log.state_at(key, at)
    events = {record.seq: record.event async for record in log.records(key, until=state.seq)}
    last = next((event for event in reversed(list(events.values())) if isinstance(event, Terminal)), None)
    found: dict[str, Any] = {
        "status": _status(state, last),
        "mode": _mode(state),
        "options": _options(state),
        "agent": {
            "status": _status(state, last),
            "messages": [_message(item) for item in render(state, events.__getitem__)],
        },
    }
    machine = await view_at(log, key, state)
    if machine is not None and machine.status != "none":
        found["stateMachine"] = _machine(machine)
    if state.task.current.todos:
        found["todos"] = [
            {"id": todo.todo_id, "content": todo.content, "status": todo.status} for todo in state.task.current.todos
        ]
    found["followUpQueue"] = [_queued(events, state, seq) for seq in state.queue.waiting]
    found["queuedCommands"] = await _unfolded(session, key)
    return found


def _status(state: State, last: Terminal | None) -> str:
    word = word_for(state)
    return STATUS.get(word) or ENDED.get(type(last), "completed") if last is not None else STATUS.get(word, "completed")


def _mode(state: State) -> Any:
    """The routing mode that the session was begun with; an explicit one is its definition."""
    if state.setup.routing == "explicit" and state.machine.given is not None:
        return msgspec.to_builtins(state.machine.given)
    return state.setup.routing


def _options(state: State) -> dict[str, Any]:
    model = state.setup.model
    found: dict[str, Any] = {"model": model.name}
    if model.settings is not None and model.settings.thinking is not None:
        found["thinkingLevel"] = msgspec.to_builtins(model.settings.thinking)
    return found


def _message(item: HistoryItem) -> dict[str, Any]:
    """One message of the conversation."""
    if isinstance(item, ResultItem):
        text = "".join(block.text for block in item.content if isinstance(block, Text))
        return {"role": "tool", "toolName": item.tool, "toolCallId": item.call_id, "text": text, "error": item.is_error}
    if isinstance(item, AssistantItem):
        calls = [
            {"toolName": part.tool, "toolCallId": part.call_id, "input": part.args}
            for part in item.content
            if isinstance(part, CallPart)
        ]
        text = "".join(part.text for part in item.content if isinstance(part, Text))
        return {"role": "assistant", "text": text, **({"toolCalls": calls} if calls else {})}
    text = "".join(block.text for block in item.content if isinstance(block, Text))
    return {"role": "user", "text": text}


def _machine(view: MachineView) -> dict[str, Any]:
    ended = view.status == "ended"
    found: dict[str, Any] = {
        "definition": msgspec.to_builtins(view.definition),
        "prompt": view.definition.when,
        "currentState": "interrupted" if view.status == "interrupted" else view.state,
        "currentInput": view.input,
        "progress": {
            name: {
                "kind": one.kind,
                "runs": one.attempts,
                "sleeps": one.sleeps,
                "startedAt": one.since_ms,
                **({"nextWakeAt": view.wake_at_ms} if name == view.state and view.wake_at_ms is not None else {}),
            }
            for name, one in view.progress.items()
        },
        "history": [_step(step) for step in view.history],
        "createdAt": view.created_ms,
        "updatedAt": view.updated_ms,
    }
    if ended:
        found["terminal"] = {"state": view.state, "status": view.outcome, "reason": view.reason}
    return found


def _step(step: Step) -> dict[str, Any]:
    name = LEFT[step.outcome] if step.kind == "left" else STEPS[step.kind]
    if step.kind == "moved" and step.reactivates:
        name = "state_machine_reactivated"
    told = {"type": name, "at": step.at_ms, "state": step.state, "by": step.by, "reason": step.reason}
    found = {key: value for key, value in told.items() if value != ""}
    for key, value in (("input", step.input), ("output", step.output)):
        if value is not None:
            found[key] = value
    return found


def _queued(events: dict[int, Any], state: State, seq: int) -> str:
    """The words of a prompt that waits."""
    waiting = state.queue.inputs[seq]
    event = events[waiting.edited_seq if waiting.edited_seq is not None else seq]
    body = event.body if isinstance(event, PromptReceived) else None
    if isinstance(event, QueueEdited) and event.body is not None:
        body = event.body.edits.get(f"i{seq}")
    return "".join(block.text for block in body.content if isinstance(block, Text)) if body is not None else ""


async def _unfolded(session: Session, key: Key) -> list[str]:
    """The commands that were accepted and are not on record yet, by their ids."""
    waiting = await session.runtime.store.inbox.waiting(key, limit=100)
    return [command.command_id for command in waiting]
