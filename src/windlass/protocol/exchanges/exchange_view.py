"""The view of one exchange: a fold from records and live events to steps, from its first command to its end. It ends
with the run of its last command, or when that run is held up by a tool that asks a person: the answer is an exchange of
its own.

Live events only bring text earlier. Whoever misses some is told the rest of a text by the record that holds it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from windlass.events.base import Command, Event
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.live import AttemptSuperseded, CallDelta, Live, ReasoningDelta, StreamTruncated, TextDelta
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.runs import Terminal
from windlass.events.tasks import TaskChanged
from windlass.events.tools.calls import (
    ResultReceived,
    ToolDelegated,
    ToolFinished,
    ToolPrepared,
    ToolRequested,
    ToolStarted,
)
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.turns import ModelReplied, TurnFinished, TurnStarted
from windlass.events.values.blocks import JsonObject, Reasoning, Refusal, Text, plain_text
from windlass.kernel.render import answered as answer_words
from windlass.protocol.call_ends import ENDS, call_end
from windlass.protocol.view import Told
from windlass.runtime.api.approvals import PermissionAsk, asked_of
from windlass.runtime.streams.event_streams import ends
from windlass.runtime.streams.record import Record

from .running_calls import RunningCalls
from .steps import (
    Began,
    CallAnswered,
    CallBegan,
    CallEnded,
    CallHandedOut,
    CallMade,
    Closed,
    Ended,
    PermissionAsked,
    QuestionAsked,
    ReasoningDone,
    ReasoningWritten,
    Step,
    TaskTold,
    TextDone,
    TextWritten,
    TurnBegan,
    TurnEnded,
)

RESULTS = (ToolFinished, ResultReceived, ChildFinished)


class ExchangeView:
    """Folds what is told of a session into the steps of one exchange."""

    def __init__(self, session_id: str, commands: Sequence[str], withdrawn: Container[str] = ()) -> None:
        """`commands` are the ids of the commands that it begins with, in their order; it ends with the last. Without
        any it is all that is told, and never ends. Questions that are known to be `withdrawn` are not told of."""
        self._session_id = session_id
        self._withdrawn = withdrawn
        self._missing = set(commands)
        self._last = commands[-1] if commands else ""
        self._first = 0
        self._early: list[Step] = []
        self._calls: dict[str, tuple[str, JsonObject]] = {}
        self._handed_out: set[str] = set()
        self._questions: dict[str, str] = {}
        """The calls that wait for an answer, by the question."""
        self._written: dict[str, str] = {}
        self._thought: dict[str, str] = {}
        self._replied = ""
        """The request whose reply came last."""
        self._turn = 0
        self._torn: set[str] = set()
        """Requests of which a delta was missed: their text comes with its record."""
        self._next_index: dict[str, int] = {}
        self._running = RunningCalls()
        self.ended = False

    @property
    def held(self) -> bool:
        """Whether nothing moves before somebody answers what a running tool asks."""
        return self._running.held

    def learn(self, record: Record) -> None:
        """Remembers what stands before the exchange and is still open in it."""
        self._running.feed(record.event)
        if isinstance(record.event, ToolRequested | ToolPrepared):
            self._note_call(record.event)
        elif isinstance(record.event, ToolDelegated):
            self._handed_out.add(record.event.call_id)
        else:
            self._note_question(record.event)

    def feed(self, told: Told) -> list[Step]:
        """The steps of one record or live event; none before all commands of the exchange are in the log."""
        made: list[Step] = []
        if isinstance(told, Live):
            made = list(self._live(told))
        elif isinstance(told, Record):
            made = list(self._of(told, told.event))
        if self._missing:
            self._early += made
            return []
        return made

    # --- text ---

    def _live(self, told: Live) -> Iterator[Step]:
        match told:
            case TextDelta() if self._in_order(told.request_id, told.index):
                self._written[told.request_id] = self._written.get(told.request_id, "") + told.text
                yield TextWritten(message_id=told.request_id, text=told.text)
            case ReasoningDelta() if self._in_order(told.request_id, told.index):
                self._thought[told.request_id] = self._thought.get(told.request_id, "") + told.text
                yield ReasoningWritten(message_id=told.request_id, text=told.text)
            case CallDelta():
                self._in_order(told.request_id, told.index)
            case AttemptSuperseded():
                self._torn.add(told.request_id)
            case StreamTruncated(reason="deltas_dropped"):
                self._torn |= self._next_index.keys()
            case _:
                return

    def _in_order(self, name: str, index: int) -> bool:
        """Whether nothing of an answer was missed up to here. Its text, reasoning and calls are counted together."""
        expected = self._next_index.get(name, 0)
        if name in self._torn or index < expected or (index and name not in self._next_index):
            self._torn.add(name)
            return False
        self._next_index[name] = index + 1
        return True

    def _on_replied(self, event: ModelReplied) -> Iterator[Step]:
        blocks = event.body.blocks if event.body is not None else ()
        self._replied = event.request_id
        self._next_index.pop(event.request_id, None)
        yield from self._reasoned(event.request_id, "".join(b.text for b in blocks if isinstance(b, Reasoning)))
        text = "".join(block.text for block in blocks if isinstance(block, Text | Refusal))
        written = self._written.pop(event.request_id, "")
        if not text and not written:
            return
        if text.startswith(written) and text != written:
            yield TextWritten(message_id=event.request_id, text=text[len(written) :])
        yield TextDone(message_id=event.request_id, text=text)

    def _reasoned(self, name: str, text: str) -> Iterator[Step]:
        thought = self._thought.pop(name, "")
        if text.startswith(thought) and text != thought:
            yield ReasoningWritten(message_id=name, text=text[len(thought) :])
        if text or thought:
            yield ReasoningDone(message_id=name, text=text)

    # --- records ---

    def _of(self, record: Record, event: Event) -> Iterator[Step]:
        if isinstance(event, QuestionRequested) and event.question_id in self._withdrawn:
            return
        self._running.feed(event)
        if isinstance(event, Command):
            yield from self._taken(record, event)
        match event:
            case ModelReplied(lane="main"):
                yield from self._on_replied(event)
            case TurnStarted():
                self._turn = event.number
                yield TurnBegan(number=event.number)
            case TurnFinished():
                yield TurnEnded(number=self._turn)
            case TaskChanged():
                yield TaskTold(task=event.task)
            case PermissionRequested() | QuestionRequested():
                yield from self._asked(event)
            case PermissionApproved() | PermissionDenied() | PermissionWithdrawn():
                yield Closed(open_id=event.request_id)
            case AnswerReceived() | QuestionWithdrawn():
                yield Closed(open_id=event.question_id)
                yield from self._question_closed(event)
            case _:
                yield from self._of_call(event)
        if self._last and ends(event, self._last):
            self.ended = True
            yield self._end(record.seq, event)
        elif self._last and self.held and not self._missing:
            self.ended = True
            yield Ended(seq=record.seq, held=True)

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
        self._note_question(event)
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

    def _note_question(self, event: Event) -> None:
        """Remembers a question whose answer is the result of its call."""
        if isinstance(event, QuestionRequested) and not event.inside:
            self._questions[event.question_id] = event.call_id

    def _question_closed(self, event: AnswerReceived | QuestionWithdrawn) -> Iterator[Step]:
        call_id = self._questions.pop(event.question_id, None)
        if call_id is not None and isinstance(event, AnswerReceived):
            self._calls.pop(call_id, None)
            yield CallAnswered(call_id=call_id, text=answer_words(event))

    def _note_call(self, event: ToolRequested | ToolPrepared) -> None:
        args = event.body.args if event.body is not None else None
        if isinstance(event, ToolRequested):
            self._calls[event.call_id] = (event.tool, args or {})
        elif args is not None and event.call_id in self._calls:
            self._calls[event.call_id] = (self._calls[event.call_id][0], args)

    def _of_call(self, event: Event) -> Iterator[Step]:
        match event:
            case ToolRequested():
                self._note_call(event)
                tool, args = self._calls[event.call_id]
                by = "" if event.by_person or event.node or event.state else self._replied
                yield CallMade(call_id=event.call_id, tool=tool, args=args, message_id=by)
            case ToolPrepared():
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
            case _ if isinstance(event, ENDS) and (end := call_end(event)) is not None:
                yield from self._result(end.call_id, end.ok, end.text)
            case _:
                return

    def _result(self, call_id: str, ok: bool, text: str) -> Iterator[Step]:
        tool, args = self._calls.pop(call_id, ("", {}))
        if call_id in self._handed_out:
            self._handed_out.discard(call_id)
            yield Closed(open_id=call_id, text=text)
        elif tool:
            yield CallEnded(call_id=call_id, tool=tool, args=args, ok=ok, text=text)


def _text_of(event: ToolFinished | ResultReceived | ChildFinished) -> str:
    return plain_text(event.body.content) if event.body is not None else ""
