"""What an event of a client needs from the records before it: nothing else is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from windlass.events.commands import PromptReceived
from windlass.events.questions import QuestionRequested
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.blocks import JsonObject
from windlass.events.values.setup import Workspace
from windlass.runtime.streams.record import Record


class Said(NamedTuple):
    """An event before it has its envelope: its type and its data."""

    kind: str
    data: JsonObject


class Opened(NamedTuple):
    """A request that nobody has answered: the event that asked, and the record that it came with."""

    said: Said
    seq: int


@dataclass
class Called:
    """A call that has no result yet."""

    tool: str
    args: JsonObject | None = None
    by_person: bool = False
    started: bool = False


@dataclass
class Fold:
    """A session as far as its records were told."""

    session_id: str
    model: str = ""
    window_tokens: int = 0
    mode: str = "interactive"
    workspace: Workspace | None = None
    run_id: str = ""
    turn_id: str = ""
    """The turn that is open."""
    message_id: str = ""
    """The prompt that the current run answers."""
    prompts: dict[int, PromptReceived] = field(default_factory=dict)
    """Those that the model has not seen, by seq."""
    calls: dict[str, Called] = field(default_factory=dict)
    permissions: dict[str, PermissionRequested] = field(default_factory=dict)
    questions: dict[str, QuestionRequested] = field(default_factory=dict)
    open: dict[str, Opened] = field(default_factory=dict)
    """What clients may answer, by the id that they answer with."""
    descriptions: dict[str, str] = field(default_factory=dict)
    """What models are told of tools."""
    servers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The MCP server of a tool, and its name there."""
    summary: str = ""
    plan: str = ""
    skills: dict[int, str] = field(default_factory=dict)
    """The instructions of skills, by the record that brought them."""
    specialists: dict[str, str] = field(default_factory=dict)
    """The agent of a child session, by the call that started it."""
    ending: tuple[str, str] = ("routine", "")
    streamed_bytes: int = 0
    kept: list[tuple[int, str]] = field(default_factory=list)
    """The events of the history: the record of each, and its id."""


Form = Callable[[Fold, Record, Any], Iterator[Said]]
"""What becomes of one kind of record."""


def without_none(**data: Any) -> JsonObject:
    """An object without the fields that are not known."""
    return {name: value for name, value in data.items() if value is not None}
