"""The view of one exchange: a fold from records and live events to steps, from its first command to its end.

Live events only bring text earlier. Whoever misses some is told the rest of a text by the record that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.events.base import Command, Event
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.live import AttemptSuperseded, TextDelta
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.runs import Terminal
from windlass.events.tools.calls import (
    ResultReceived,
    ToolCancelled,
    ToolDelegated,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolPrepared,
    ToolRequested,
    ToolResolved,
    ToolSettled,
    ToolStarted,
    ToolTimedOut,
)
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.turns import ModelReplied
from windlass.events.values.blocks import JsonObject, Refusal, Text, plain_text
from windlass.protocol.view import Told
from windlass.runtime.api.approvals import PermissionAsk, asked_of
from windlass.runtime.streams.event_streams import ends
from windlass.runtime.streams.record import Record

from .steps import (
    Began,
    CallBegan,
    CallEnded,
    CallHandedOut,
    Closed,
    Ended,
    PermissionAsked,
    QuestionAsked,
    Step,
    TextDone,
    TextWritten,
)

RESULTS = (ToolFinished, ResultReceived, ChildFinished)


class ExchangeView:
    """Folds what is told of a session into the steps of one exchange."""

    def __init__(self, session_id: str, commands: Sequence[str]) -> None:
        """`commands` are the ids of the commands that it begins with, in their order; it ends with the last."""
        self._session_id = session_id
        self._missing = set(commands)
        self._last = commands[-1]
        self._first = 0
        self._early: list[Step] = []
        self._calls: dict[str, tuple[str, JsonObject]] = {}
        self._handed_out: set[str] = set()
        self._written: dict[str, str] = {}
        self._torn: set[str] = set()
        """Requests of which a delta was missed: their text comes with its record."""
        self._next_index: dict[str, int] = {}
        self.ended = False

    def learn(self, record: Record) -> None:
        """Remembers what stands before the exchange and is still open in it."""
        if isinstance(record.event, ToolRequested | ToolPrepared):
            self._note_call(record.event)
        elif isinstance(record.event, ToolDelegated):
            self._handed_out.add(record.event.call_id)

    def feed(self, told: Told) -> list[Step]:
        """The steps of one record or live event; none before all commands of the exchange are in the log."""
        if isinstance(told, TextDelta):
            made = list(self._delta(told))
        elif isinstance(told, AttemptSuperseded):
            self._torn.add(told.request_id)
            made = []
        elif isinstance(told, Record):
            made = list(self._of(told, told.event))
        else:
            return []
        if self._missing:
            self._early += made
            return []
        return made

    # --- text ---

    def _delta(self, told: TextDelta) -> Iterator[Step]:
        name = told.request_id
        expected = self._next_index.get(name)
        if name in self._torn or (expected is None and told.index) or (expected is not None and told.index < expected):
            self._torn.add(name)
            return
        self._next_index[name] = told.index + 1
        self._written[name] = self._written.get(name, "") + told.text
        yield TextWritten(message_id=name, text=told.text)

    def _replied(self, event: ModelReplied) -> Iterator[Step]:
        blocks = event.body.blocks if event.body is not None else ()
        text = "".join(block.text for block in blocks if isinstance(block, Text | Refusal))
        written = self._written.pop(event.request_id, "")
        if not text and not written:
            return
        if text.startswith(written) and text != written:
            yield TextWritten(message_id=event.request_id, text=text[len(written) :])
        yield TextDone(message_id=event.request_id, text=text)

    # --- records ---

    def _of(self, record: Record, event: Event) -> Iterator[Step]:
        if isinstance(event, Command):
            yield from self._taken(record, event)
        match event:
            case ModelReplied(lane="main"):
                yield from self._replied(event)
            case PermissionRequested() | QuestionRequested():
                yield from self._asked(event)
            case PermissionApproved() | PermissionDenied() | PermissionWithdrawn():
                yield Closed(open_id=event.request_id)
            case AnswerReceived() | QuestionWithdrawn():
                yield Closed(open_id=event.question_id)
            case _:
                yield from self._of_call(event)
        if ends(event, self._last):
            self.ended = True
            yield self._end(record.seq, event)

    def _taken(self, record: Record, event: Command) -> Iterator[Step]:
        if event.command_id not in self._missing:
            return
        self._first = self._first or record.seq
        self._missing.discard(event.command_id)
        if not self._missing:
            yield Began(first=self._first, last=record.seq, at_ms=record.at_ms)
            yield from self._early
            self._early = []

    def _asked(self, event: PermissionRequested | QuestionRequested) -> Iterator[Step]:
        ask = asked_of(self._session_id, event)
        if isinstance(ask, PermissionAsk):
            yield PermissionAsked(ask=ask)
        elif ask is not None:
            yield QuestionAsked(ask=ask)

    def _end(self, seq: int, event: Event) -> Ended:
        match event:
            case Terminal():
                return Ended(seq=seq, terminal=event)
            case CommandRefused():
                return Ended(seq=seq, why=event.message)
            case CommandCompleted():
                return Ended(seq=seq, why=event.note or "it led to no run")
            case _:
                raise AssertionError(f"{type(event).__name__} ends no command")

    # --- calls ---

    def _note_call(self, event: ToolRequested | ToolPrepared) -> None:
        args = event.body.args if event.body is not None else None
        if isinstance(event, ToolRequested):
            self._calls[event.call_id] = (event.tool, args or {})
        elif args is not None and event.call_id in self._calls:
            self._calls[event.call_id] = (self._calls[event.call_id][0], args)

    def _of_call(self, event: Event) -> Iterator[Step]:
        match event:
            case ToolRequested() | ToolPrepared():
                self._note_call(event)
            case ToolStarted() | ChildStarted():
                tool, args = self._calls.get(event.call_id, ("", {}))
                yield CallBegan(call_id=event.call_id, tool=tool, args=args)
            case ToolDelegated():
                tool, args = self._calls.get(event.call_id, ("", {}))
                self._handed_out.add(event.call_id)
                yield CallHandedOut(call_id=event.call_id, tool=tool, args=args)
            case ToolFinished() | ResultReceived() | ChildFinished():
                yield from self._result(event.call_id, event.ok, _text_of(event))
            case ToolResolved():
                yield from self._result(event.call_id, event.ok, event.text)
            case ToolDenied():
                yield from self._result(event.call_id, False, event.detail or f"denied: {event.reason}")
            case ToolTimedOut(settle=False):
                yield from self._result(event.call_id, False, f"no result within {event.timeout_ms} ms")
            case ToolCancelled():
                yield from self._result(event.call_id, False, f"given up: {event.reason}")
            case ToolOutcomeUnknown(settle=False):
                text = "it was cut off while it ran; nobody knows whether it happened"
                yield from self._result(event.call_id, False, text)
            case ToolSettled(outcome="happened" | "did_not_happen"):
                yield from self._result(event.call_id, event.outcome == "happened", event.outcome.replace("_", " "))
            case _:
                return

    def _result(self, call_id: str, ok: bool, text: str) -> Iterator[Step]:
        tool, args = self._calls.pop(call_id, ("", {}))
        if call_id in self._handed_out:
            self._handed_out.discard(call_id)
            yield Closed(open_id=call_id)
        elif tool:
            yield CallEnded(call_id=call_id, tool=tool, args=args, ok=ok, text=text)


def _text_of(event: ToolFinished | ResultReceived | ChildFinished) -> str:
    return plain_text(event.body.content) if event.body is not None else ""
