"""What models say, machines, queues, lists of things to do, and what went wrong, as events during a turn."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.budgets import BudgetWarned
from windlass.events.commands import CommandRefused, QueueChanged
from windlass.events.context import CompactionFailed, CompactionFinished
from windlass.events.runs import CancelReceived, InterruptReceived
from windlass.events.sessions import NoticeGiven
from windlass.events.tasks import TaskChanged
from windlass.events.trees.machines import MachineCreated, MachineEnded, MachineInterrupted, MachineLeft, MachineMoved
from windlass.events.turns import ModelFailed, ModelReplied
from windlass.events.values.blocks import JsonObject, Reasoning, Refusal, Text
from windlass.runtime.machines.turn_state import queued_text, todos_of
from windlass.runtime.streams.record import Record

from .fold import Fold, Form, step, system

INTERRUPTED = "interrupted"
"""The state that a machine is in there while it is stopped."""
LEVELS = {"info": "info", "warning": "warn", "error": "error"}


def replied(fold: Fold, record: Record, event: ModelReplied) -> Iterator[JsonObject]:
    """A reply of the conversation; those of other lanes are nobody's words."""
    if event.lane != "main":
        return
    blocks = event.body.blocks if event.body is not None else ()
    for block in blocks:
        if isinstance(block, Reasoning) and block.text:
            yield step(type="reasoning", text=block.text)
    fold.said = "".join(block.text for block in blocks if isinstance(block, Text | Refusal))
    if fold.said:
        yield step(type="text", text=fold.said)


def stopped(fold: Fold, record: Record, event: InterruptReceived | CancelReceived) -> Iterator[JsonObject]:
    """What the model had written when it was stopped: deltas alone are nothing to keep."""
    partial = event.body
    if partial is not None and partial.reasoning:
        yield step(type="reasoning", text=partial.reasoning)
    if partial is not None and partial.text:
        yield step(type="text", text=partial.text)


def model_failed(fold: Fold, record: Record, event: ModelFailed) -> Iterator[JsonObject]:
    yield system("warn", f"the model gave no answer: {event.failure.message}")


def notice(fold: Fold, record: Record, event: NoticeGiven) -> Iterator[JsonObject]:
    yield system(LEVELS[event.level], event.message)


def budget(fold: Fold, record: Record, event: BudgetWarned) -> Iterator[JsonObject]:
    yield system("warn", f"{event.fraction:.0%} of a budget is used: {event.limit}")


def refused(fold: Fold, record: Record, event: CommandRefused) -> Iterator[JsonObject]:
    yield system("error", event.message)


def task_changed(fold: Fold, record: Record, event: TaskChanged) -> Iterator[JsonObject]:
    if "todos" in event.fields:
        yield {"type": "todos", "todos": todos_of(event.task)}


def queue_changed(fold: Fold, record: Record, event: QueueChanged) -> Iterator[JsonObject]:
    waiting = tuple(queued_text(fold.events, fold.state, seq) for seq in fold.state.queue.waiting)
    if waiting != fold.queue:
        fold.queue = waiting
        yield {"type": "follow_up_queue", "prompts": list(waiting)}


def compacted(fold: Fold, record: Record, event: CompactionFinished) -> Iterator[JsonObject]:
    yield step(
        type="system", message=f"older messages were summarised: {event.items_before - event.items_after} of them"
    )


def not_compacted(fold: Fold, record: Record, event: CompactionFailed) -> Iterator[JsonObject]:
    yield system("warn", "older messages could not be summarised")


# --- machines -----------------------------------------------------------------------------------------------------


def created(fold: Fold, record: Record, event: MachineCreated) -> Iterator[JsonObject]:
    spec = fold.state.machine.spec
    yield step(type="system", message=f"the state machine {spec.name if spec is not None else ''} begins")


def moved(fold: Fold, record: Record, event: MachineMoved) -> Iterator[JsonObject]:
    yield {"type": "state_machine", "currentState": event.state}


def left(fold: Fold, record: Record, event: MachineLeft) -> Iterator[JsonObject]:
    if event.outcome == "failed":
        yield step(type="system", message=f"the state {event.state} did not end well: {event.reason}")


def interrupted(fold: Fold, record: Record, event: MachineInterrupted) -> Iterator[JsonObject]:
    yield {"type": "state_machine", "currentState": INTERRUPTED}


def machine_ended(fold: Fold, record: Record, event: MachineEnded) -> Iterator[JsonObject]:
    why = f": {event.reason}" if event.reason else ""
    yield step(type="system", message=f"the state machine has {WORDS[event.outcome]} in {event.state}{why}")


WORDS = {"completed": "ended well", "failed": "failed", "cancelled": "been cancelled"}

FORMS: dict[type[Event], Form] = {
    ModelReplied: replied,
    InterruptReceived: stopped,
    CancelReceived: stopped,
    ModelFailed: model_failed,
    NoticeGiven: notice,
    BudgetWarned: budget,
    CommandRefused: refused,
    TaskChanged: task_changed,
    QueueChanged: queue_changed,
    CompactionFinished: compacted,
    CompactionFailed: not_compacted,
    MachineCreated: created,
    MachineMoved: moved,
    MachineLeft: left,
    MachineInterrupted: interrupted,
    MachineEnded: machine_ended,
}
