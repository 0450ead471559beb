"""What became of a request, a question or a call: looked up in the log for whoever answers too late. Only reads."""

from __future__ import annotations

from windlass.events import codec
from windlass.events.base import Command, Event
from windlass.events.calls import (
    ResultReceived,
    ToolCancelled,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolRequested,
    ToolResolved,
    ToolSettled,
    ToolTimedOut,
)
from windlass.events.errors import Refused
from windlass.events.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.kernel.state import State
from windlass.store.base import Key, Store
from windlass.store.chain import history

from .jobs import seq_in
from .owner import APPEND_EVENTS_MAX

WAITS = {
    PermissionApproved: "permission",
    PermissionDenied: "permission",
    AnswerReceived: "question",
    ResultReceived: "call",
    ToolSettled: "call",
}
"""What each answer is an answer to."""


async def check_open(command: Command, *, store: Store, key: Key, state: State) -> None:
    """Raises `Refused` with what became of it where a command answers something that is not open any more, or never
    was. Whatever else may be wrong with an answer is the kernel's to say."""
    what = WAITS.get(type(command))
    name = answered_id(command)
    if what is None or name is None or _is_open(command, name, state):
        return
    asked, fate = await _looked_up(name, what, store, key)
    if not asked:
        raise Refused("not_open", f"{what} {name!r} is not open: this session has none of that id, see jobs()")
    if fate is not None:
        raise Refused("not_open", f"{what} {name} is not open any more: {fate}")
    call = state.calls.get(name)
    if what == "call" and call is not None:
        wanted = "a result from outside" if isinstance(command, ResultReceived) else "a word on its outcome"
        raise Refused("not_open", f"call {name} does not wait for {wanted}: it is {call.status}")


def answered_id(command: Command) -> str | None:
    """The id of what a command answers; None for one that answers nothing."""
    match command:
        case PermissionApproved() | PermissionDenied():
            return command.request_id
        case AnswerReceived():
            return command.question_id
        case ResultReceived() | ToolSettled():
            return command.call_id
        case _:
            return None


def _is_open(command: Command, name: str, state: State) -> bool:
    call = state.calls.get(name)
    if isinstance(command, ResultReceived):
        return call is not None and call.status in ("delegated", "suspended")
    if isinstance(command, ToolSettled):
        return call is not None and call.status == "unknown"
    return name in state.asks


async def _looked_up(name: str, what: str, store: Store, key: Key) -> tuple[bool, str | None]:
    """Whether the log has such a thing at all, and its last fate."""
    seq = seq_in(name)
    asked, fate = False, None
    if seq is None:
        return asked, fate
    async for sealed in history(store, key, after=max(0, seq - APPEND_EVENTS_MAX)):
        if sealed.last_seq < seq:
            continue
        for event in codec.decode(sealed.data, bodies=False).events:
            if isinstance(event, Event):
                asked = asked or _asks(event, name, what)
                fate = (_fate_of_call(event, name) if what == "call" else _fate_of_ask(event, name)) or fate
    return asked, fate


def _asks(event: Event, name: str, what: str) -> bool:
    match event:
        case PermissionRequested():
            return what == "permission" and event.request_id == name
        case QuestionRequested():
            return what == "question" and event.question_id == name
        case ToolRequested():
            return what == "call" and event.call_id == name
        case _:
            return False


def _fate_of_ask(event: Event, name: str) -> str | None:
    """What an event made of a request or a question."""
    match event:
        case PermissionApproved(request_id=found) if found == name:
            return f"{_by(event)} approved it"
        case PermissionDenied(request_id=found) if found == name:
            return f"{_by(event)} denied it"
        case AnswerReceived(question_id=found) if found == name:
            return f"{_by(event)} {event.outcome} it"
        case PermissionWithdrawn(request_id=found) | QuestionWithdrawn(question_id=found) if found == name:
            return f"it was withdrawn ({event.reason.replace('_', ' ')})"
        case _:
            return None


def _fate_of_call(event: Event, name: str) -> str | None:
    """What an event made of a call."""
    if getattr(event, "call_id", None) != name:
        return None
    match event:
        case ResultReceived():
            return f"{_by(event)} gave its result"
        case ToolSettled():
            return f"{_by(event)} settled it ({event.outcome.replace('_', ' ')})"
        case ToolFinished() | ToolResolved() | ToolTimedOut():
            return "it timed out" if isinstance(event, ToolTimedOut) else "it has its result"
        case ToolCancelled():
            return f"it was given up ({event.reason.replace('_', ' ')})"
        case ToolDenied():
            return f"it was denied ({event.reason.replace('_', ' ')})"
        case ToolOutcomeUnknown() if not event.settle:
            return "it was cut off, and the model was told that its outcome is unknown"
        case _:
            return None


def _by(command: Command) -> str:
    return command.actor or "someone"
