"""The state of a session in the shape in which Duet's protocol lists it: all that the next turn goes on from.

It is a reading of the log: of the whole, or as it was at any terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.commands import PromptReceived, QueueEdited
from windlass.events.runs import RunCancelled, RunCompleted, RunFailed, RunInterrupted, Terminal
from windlass.events.values.blocks import Text
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem
from windlass.events.values.setup import Task
from windlass.kernel.owed import word_for
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record
from windlass.store.base import Key

from .machine_view import MachineView, Step, view_of

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
    records = [record async for record in log.records(key, until=state.seq)]
    return {**turn_state_of(state, records), "queuedCommands": await _unfolded(session, key)}


def turn_state_of(state: State, records: Sequence[Record]) -> dict[str, Any]:
    """The same of a state, given the records up to there; what is accepted and on no record yet is not among it."""
    events = {record.seq: record.event for record in records}
    last = next((record.event for record in reversed(records) if isinstance(record.event, Terminal)), None)
    status = _status(state, last)
    messages = [_message(item) for item in render(state, events.__getitem__)]
    plain_state: dict[str, Any] = {
        "status": status,
        "mode": _mode(state),
        "options": _options(state),
        "agent": {"status": status, "messages": messages},
    }
    machine = view_of(state, records)
    if machine is not None and machine.status != "none":
        plain_state["stateMachine"] = _machine(machine)
    if state.task.current.todos:
        plain_state["todos"] = todos_of(state.task.current)
    plain_state["followUpQueue"] = [queued_text(events, state, seq) for seq in state.queue.waiting]
    plain_state["queuedCommands"] = []
    return plain_state


def todos_of(task: Task) -> list[dict[str, Any]]:
    """What is to be done, piece by piece."""
    return [{"id": todo.todo_id, "content": todo.content, "status": todo.status} for todo in task.todos]


def _status(state: State, last: Terminal | None) -> str:
    word = word_for(state)
    if word in STATUS:
        return STATUS[word]
    if state.machine.status == "interrupted":
        return "interrupted"  # also if it slept then, and no run was there to be interrupted
    return ENDED.get(type(last), "completed") if last is not None else "completed"


def _mode(state: State) -> Any:
    """The routing mode that the session was begun with; an explicit one is its definition."""
    if state.setup.routing == "explicit" and state.machine.given is not None:
        return msgspec.to_builtins(state.machine.given)
    return state.setup.routing


def _options(state: State) -> dict[str, Any]:
    model = state.setup.model
    options: dict[str, Any] = {"model": model.name}
    if model.settings is not None and model.settings.thinking is not None:
        options["thinkingLevel"] = msgspec.to_builtins(model.settings.thinking)
    return options


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
    machine: dict[str, Any] = {
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
        machine["terminal"] = {"state": view.state, "status": view.outcome, "reason": view.reason}
    return machine


def _step(step: Step) -> dict[str, Any]:
    name = LEFT[step.outcome] if step.kind == "left" else STEPS[step.kind]
    if step.kind == "moved" and step.reactivates:
        name = "state_machine_reactivated"
    told = {"type": name, "at": step.at_ms, "state": step.state, "by": step.by, "reason": step.reason}
    entry = {key: value for key, value in told.items() if value != ""}
    for key, value in (("input", step.input), ("output", step.output)):
        if value is not None:
            entry[key] = value
    return entry


def queued_text(events: Mapping[int, Any], state: State, seq: int) -> str:
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
