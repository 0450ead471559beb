"""A session's log for Python's `logging`: each committed event is told to the logger of its part, `windlass.calls` and
the like, with who it is about. Costs a look at the logger's level if nobody listens."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import msgspec

from windlass.events.base import Event, name_of
from windlass.events.budgets import BudgetStopped
from windlass.events.questions import QuestionRequested
from windlass.events.runs import RunFailed, RunStarted, Terminal
from windlass.events.sessions import NoticeGiven, SessionForked, SessionResumed, SessionShutDown, SessionStarted
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import ResultBody, ToolFinished, ToolOutcomeUnknown, ToolTimedOut
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import ModelFailed, RetryPlanned
from windlass.store.base import Key

VALUE_CHARS_MAX = 200
WORD = re.compile(r"[A-Za-z0-9_.:/+-]+\Z")
"""A text that needs no quotes to be told from what stands beside it."""
UNTOLD = frozenset({"type", "body", "setup", "hooks", "terms"})
"""Fields that a line does not tell: what was said, and what a session is set up with."""
WARNINGS = (RunFailed, ModelFailed, ToolOutcomeUnknown, ToolTimedOut, BudgetStopped)
NEWS = (
    SessionStarted,
    SessionResumed,
    SessionForked,
    SessionShutDown,
    RunStarted,
    Terminal,
    RetryPlanned,
    PermissionRequested,
    QuestionRequested,
    TimerFired,
)
VARIED: dict[type[Event], int] = {NoticeGiven: logging.ERROR, ToolFinished: logging.INFO}
"""Kinds of which each event says its level itself, with the highest that it may say."""
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _Places(dict[type[Event], tuple[Callable[[int], bool], int]]):
    """For each kind of event whether its logger takes a level, and the highest level it may be told at, found out as
    they come."""

    def __missing__(self, kind: type[Event]) -> tuple[Callable[[int], bool], int]:
        self[kind] = place = _logger(kind).isEnabledFor, _level(kind) or VARIED[kind]
        return place


_places = _Places()


def _logger(kind: type[Event]) -> logging.Logger:
    return logging.getLogger(f"windlass.{kind.__module__.rpartition('.')[2]}")


def _level(kind: type[Event]) -> int:
    """The level that a kind of event is told at; 0 if it is for each to say."""
    if kind in VARIED:
        return 0
    return logging.WARNING if issubclass(kind, WARNINGS) else logging.INFO if issubclass(kind, NEWS) else logging.DEBUG


def _level_of(event: Event) -> int:
    """The level of an event whose kind does not say it."""
    if isinstance(event, NoticeGiven):
        return LEVELS[event.level]
    return logging.DEBUG if isinstance(event, ToolFinished) and event.ok else logging.INFO


def log_events(key: Key, seq: int, events: list[Event]) -> None:
    """Tells loggers what was committed. `seq` is the place of the first event."""
    for event in events:
        takes, level = _places[type(event)]
        if takes(level):
            _tell(key, seq, event)
        seq += 1


def _tell(key: Key, seq: int, event: Event) -> None:
    logger, level = _logger(type(event)), _level(type(event)) or _level_of(event)
    if not logger.isEnabledFor(level):
        return
    about = {"tenant": key.tenant, "session": key.session, "seq": seq, "event": event}
    logger.log(level, "%s#%d %s", key.session, seq, f"{name_of(event)}{_fields(event)}", extra=about)
    if isinstance(body := getattr(event, "body", None), ResultBody) and body.private_error:
        logger.debug("%s#%d raised\n%s", key.session, seq, body.private_error, extra=about)


def _fields(event: Event) -> str:
    """The fields of an event that say something, without its content."""
    plain: dict[str, Any] = msgspec.to_builtins(event)
    fields = ((name, value) for name, value in plain.items() if name not in UNTOLD and value not in (None, "", [], {}))
    return "".join(f" {name}={_brief(value)}" for name, value in fields)


def _brief(value: Any) -> str:
    text = str(value) if not isinstance(value, str) or WORD.match(value) else repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"
