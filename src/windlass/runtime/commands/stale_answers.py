"""What became of a request, a question or a call: looked up in the log for whoever answers too late. Only reads."""

from __future__ import annotations

from windlass.events.base import Command, Event
from windlass.events.errors import Refused
from windlass.events.questions import AnswerReceived, QuestionWithdrawn
from windlass.events.tools.calls import (
    ResultReceived,
    ToolCancelled,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolResolved,
    ToolSettled,
    ToolTimedOut,
)
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.kernel import parts
from windlass.kernel.owed import opens
from windlass.kernel.part import Answers
from windlass.kernel.parts.asks import answered_by
from windlass.kernel.state import State
from windlass.runtime.api.open_things import seq_in
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key

WANTED = {"client": "a result from outside", "settle": "a word on its outcome"}
"""What a call would have to wait for to be answered so."""


async def check_open(command: Command, log: LogReader, key: Key, state: State) -> None:
    """Raises `Refused` with what became of it if a command answers something that is not open any more, or never
    was. Whatever else may be wrong with an answer is the kernel's to say."""
    answers = answered(command)
    if answers is None or is_open(command, answers, state):
        return
    name = getattr(command, answers.field)
    known, fate = await _looked_up(name, answers, log, key)
    if not known:
        raise Refused("not_open", f"{answers.word} {name!r} is not open: this session has none of that id")
    if fate is not None:
        raise Refused("not_open", f"{answers.word} {name} is not open any more: {fate}")
    call = state.calls.by_id.get(name)
    if answers.kind in WANTED and call is not None:
        raise Refused("not_open", f"call {name} does not wait for {WANTED[answers.kind]}: it is {call.status}")


def answered(command: Command) -> Answers | None:
    """What a command answers; None for one that answers nothing."""
    row = parts.TABLES.facts.get(type(command))
    return row.answers if row is not None else None


def is_open(command: Command, answers: Answers, state: State) -> bool:
    """Whether what a command answers is open."""
    name = getattr(command, answers.field)
    return any(thing.open_id == name and thing.kind == answers.kind for thing in opens(state))


async def _looked_up(name: str, answers: Answers, log: LogReader, key: Key) -> tuple[bool, str | None]:
    """Whether the log has such a thing at all, and its last fate."""
    seq = seq_in(name)
    known, fate = False, None
    if seq is None:
        return known, fate
    async for record in log.records(key, after=seq - 1, bodies=False):
        event = record.event
        if getattr(event, answers.field, None) == name or _covers(event, name):
            known = True
            fate = fate_in(event) or fate
        elif isinstance(event, PermissionRequested) and event.replaces == name:
            fate = f"{fate}: asked again as {event.request_id}"
    return known, fate


def _covers(event: Event, name: str) -> bool:
    """Whether an event answers a request together with another one."""
    return isinstance(event, PermissionApproved | PermissionDenied) and name in answered_by(event)


def fate_in(event: Event) -> str | None:
    """What an event makes of the request, question or call that it names; None if that stays open."""
    match event:
        case PermissionApproved():
            return f"{_by(event)} approved it"
        case PermissionDenied():
            return f"{_by(event)} denied it"
        case AnswerReceived():
            return f"{_by(event)} {event.outcome} it"
        case ResultReceived():
            return f"{_by(event)} gave its result"
        case ToolSettled():
            return f"{_by(event)} settled it ({_words(event.outcome)})"
        case PermissionWithdrawn() | QuestionWithdrawn():
            return f"it was withdrawn ({_words(event.reason)})"
        case ToolTimedOut() if not event.settle:
            return "it timed out"
        case ToolFinished() | ToolResolved():
            return "it has its result"
        case ToolCancelled():
            return f"it was given up ({_words(event.reason)})"
        case ToolDenied():
            return f"it was denied ({_words(event.reason)})"
        case ToolOutcomeUnknown() if not event.settle:
            return "it was cut off, and the model was told that its outcome is unknown"
        case _:
            return None


def _by(command: Command) -> str:
    return command.actor or "someone"


def _words(reason: str) -> str:
    return reason.replace("_", " ")
