"""What an event needs from the records before it. The session's own state is folded along: each terminal tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from windlass.events.base import Event
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.runs import Terminal
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.values.blocks import JsonObject
from windlass.kernel.fold import evolve, tick
from windlass.kernel.parts.budgets import Spent
from windlass.kernel.state import State
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk, asked_of
from windlass.runtime.streams.record import Record

Ask = PermissionAsk | QuestionAsk


@dataclass
class Called:
    """A call that has no result yet."""

    tool: str
    args: JsonObject | None = None
    runs: bool = False


@dataclass
class Fold:
    """A session as far as its records were told."""

    session_id: str
    state: State = field(default_factory=State)
    records: list[Record] = field(default_factory=list)
    events: dict[int, Event] = field(default_factory=dict)
    calls: dict[str, Called] = field(default_factory=dict)
    asks: dict[str, Ask] = field(default_factory=dict)
    """What people are asked, by the id that an answer names."""
    answered_by: dict[str, str] = field(default_factory=dict)
    """The call whose result the answer to a question is."""
    queue: tuple[str, ...] = ()
    """The prompts that wait, as they were told last."""
    said: str = ""
    """What the last reply of the conversation said."""
    open: bool = False
    """Whether a turn is going on: runs that follow one another by themselves are one turn."""
    spent: Spent = field(default_factory=Spent)
    """What the session had used when the turn began."""
    ended: Terminal | None = None
    """How the last run ended."""

    def take(self, record: Record) -> None:
        """Folds one record."""
        state, event = self.state, record.event
        state.seq = record.seq - 1  # records that only a newer version knows are left out
        if record.seq == record.first and record.at_ms > state.now_ms:
            tick(state, record.at_ms, type(event))
        evolve(state, event)
        self.records.append(record)
        self.events[record.seq] = event
        match event:
            case PermissionRequested() | QuestionRequested():
                name = event.request_id if isinstance(event, PermissionRequested) else event.question_id
                asked = asked_of(self.session_id, event)
                if asked is not None:
                    self.asks[name] = asked
            case PermissionApproved() | PermissionDenied() | PermissionWithdrawn():
                self.asks.pop(event.request_id, None)
            case AnswerReceived() | QuestionWithdrawn():
                self.asks.pop(event.question_id, None)
            case Terminal():
                self.ended = event
            case _:
                pass


Form = Callable[[Fold, Record, Any], Iterator[JsonObject]]
"""What becomes of one kind of record."""


def without_none(**fields: Any) -> JsonObject:
    """An object without the fields that are not known."""
    return {name: value for name, value in fields.items() if value is not None}


def step(**fields: Any) -> JsonObject:
    """An event that tells one step."""
    return {"type": "step", "step": without_none(**fields)}


def system(level: str, message: str) -> JsonObject:
    """An event for whoever looks after the process."""
    return {"type": "system", "level": level, "message": message}
