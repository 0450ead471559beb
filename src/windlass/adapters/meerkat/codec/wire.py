"""The one way of events in and out of JSON. What older writers wrote is put into today's form first; then everything is
checked, and what does not fit is refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from windlass.events.errors import CodecError

from . import skills, tool_config
from .agent_events import AgentEvent
from .closed_words import Uuid
from .envelope import EventEnvelope
from .scopes import ScopedEvent
from .tool_arguments import arguments

Read = TypeVar("Read")


def encode(value: msgspec.Struct) -> bytes:
    """A value as JSON."""
    return msgspec.json.encode(value, enc_hook=str)


def builtins(value: msgspec.Struct) -> Any:
    """The same as objects and lists."""
    return msgspec.json.decode(encode(value))


def read_event(value: Any) -> AgentEvent:
    """An event of a JSON value. Raises `CodecError` with the place of what does not fit."""
    event: AgentEvent = _converted(_tolerated(value), AgentEvent)
    return event


def read_envelope(value: Any) -> EventEnvelope[AgentEvent]:
    """An envelope with its event."""
    read: EventEnvelope[AgentEvent] = _converted(_within(value, "payload", _tolerated), EventEnvelope[AgentEvent])
    return read


def read_scoped_envelope(value: Any) -> EventEnvelope[ScopedEvent]:
    """An envelope with an event and its place in a tree."""
    changed = _within(value, "payload", lambda payload: _within(payload, "event", _tolerated))
    read: EventEnvelope[ScopedEvent] = _converted(changed, EventEnvelope[ScopedEvent])
    return read


def read_scoped(value: Any) -> ScopedEvent:
    """An event with its place in a tree."""
    read: ScopedEvent = _converted(_within(value, "event", _tolerated), ScopedEvent)
    return read


def read_as(value: Any, kind: type[Read]) -> Read:
    """Any other value of the model."""
    read: Read = _converted(value, kind)
    return read


def _converted(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, dec_hook=_identified)
    except msgspec.ValidationError as error:
        raise CodecError(f"no event of Meerkat: {error}") from error


def _identified(kind: type, value: Any) -> Any:
    if kind is not Uuid or not isinstance(value, str):
        raise ValueError(f"expected the text of a UUID, got {value!r}")
    return Uuid(value)


def _within(value: Any, name: str, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict) and name in value:
        return {**value, name: change(value[name])}
    return value


def _tolerated(value: Any) -> Any:
    """An event in today's form."""
    match value:
        case {"type": "tool_call_requested", "args": args}:
            return {**value, "args": arguments(args)}
        case {"type": "skill_resolution_failed", "reason": _}:
            return _within(value, "reason", skills.tolerated)
        case {"type": "tool_config_changed"}:
            return _within(value, "payload", tool_config.tolerated)
        case {"type": "background_job_completed"}:
            return _within(value, "status", lambda status: status if isinstance(status, str) else None)
        case _:
            return value
