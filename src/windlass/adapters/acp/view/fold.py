"""What an editor is told, and what of a session's earlier records that needs: nothing else is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from windlass.events.commands import PromptReceived
from windlass.events.questions import QuestionRequested
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.blocks import JsonObject
from windlass.events.values.tools import ToolSpec
from windlass.events.values.usage import Usage
from windlass.events.workspace import KeptFile
from windlass.runtime.streams.record import Record

StopWord = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
"""Why a turn ended, in the protocol's words."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what follows from a record or a live event."""


class Update(Said, frozen=True, kw_only=True):
    """A `session/update`. `command_id` is the prompt whose words it repeats; `files` are those whose contents belong to
    it as differences: they are kept beside the log."""

    body: JsonObject
    command_id: str = ""
    files: tuple[KeptFile, ...] = ()
    live: bool = False
    """Whether it only comes early: a reader who missed it is told all of it later."""


class Asked(Said, frozen=True, kw_only=True):
    """A person is asked something."""

    event: PermissionRequested | QuestionRequested

    @property
    def ask_id(self) -> str:
        """What it is answered by."""
        return self.event.request_id if isinstance(self.event, PermissionRequested) else self.event.question_id


class AskedBelow(Said, frozen=True, kw_only=True):
    """Child sessions ask people something, under the ids that the session knows it by. What it is, stands in theirs."""

    ask_ids: tuple[str, ...]


class Closed(Said, frozen=True, kw_only=True):
    """What was asked is not open any more."""

    ask_id: str


class TurnEnded(Said, frozen=True, kw_only=True):
    """Nothing more follows from these commands. Without a `stop` they failed, and `error` says why."""

    commands: frozenset[str]
    stop: StopWord | None = None
    error: str = ""
    usage: Usage | None = None


@dataclass
class Called:
    """A call that has no result yet."""

    tool: str
    args: JsonObject
    output: str = ""
    """What it has shown so far."""


@dataclass
class Fold:
    """A session as far as its records were told."""

    session_id: str
    models: tuple[str, ...] = ()
    """The models to choose from."""
    cwd: str = "/"
    title: str = ""
    mode: str = "interactive"
    model: str = ""
    window_tokens: int = 0
    skills: tuple[str, ...] = ()
    tools: dict[str, ToolSpec] = field(default_factory=dict)
    prompts: dict[int, PromptReceived] = field(default_factory=dict)
    """Those that the model has not seen, by seq."""
    calls: dict[str, Called] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """What was told early of the answer to a request."""
    thought: dict[str, str] = field(default_factory=dict)
    """The same of its reasoning."""
    torn: set[str] = field(default_factory=set)
    """Requests of which nothing more is told early: something was missed, or they are made again."""
    under_way: set[str] = field(default_factory=set)
    """The commands that the current run is for, with those that it continues."""
    asked: dict[str, Asked] = field(default_factory=dict)
    """What is open."""
    below: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What is open in child sessions, by the call that each was started by."""
    refused: set[str] = field(default_factory=set)
    """The tools whose calls a person at an editor has refused for good."""


Form = Callable[[Fold, Record, Any], Iterator[Said]]
"""What becomes of one kind of record."""


def without_none(**data: Any) -> JsonObject:
    """An object without the fields that are not known."""
    return {name: value for name, value in data.items() if value is not None}


def update(kind: str, /, **data: Any) -> JsonObject:
    """The body of an update, without what is not known."""
    return {"sessionUpdate": kind, **without_none(**data)}
