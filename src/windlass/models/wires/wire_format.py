"""The seam of a wire format: how one format writes requests and reads answers, whatever carries them."""

from __future__ import annotations

from typing import Any, Protocol

from windlass.events.values.failures import Failure
from windlass.events.values.items import AssistantItem, HistoryItem, ModelSettings
from windlass.models.base import Delta, Reply, Request

from .encoded_history import History
from .partial_reply import Draft
from .plain_blocks import CONTINUE


class Reader(Protocol):
    """Reads one answer of one format into a draft."""

    draft: Draft
    ended: bool
    """Whether the format's own end marker was seen."""
    error: Any
    """What an error event said, if one came."""
    moved: bool
    """Set when something real happened that gives no delta, such as a search on the provider's side."""

    def feed(self, events: list[bytes]) -> list[Delta]:
        """Takes the data of some events in. Raises msgspec's errors for what is not the format."""
        ...

    def eof(self) -> None:
        """The body has ended, with or without an end marker."""
        ...

    def whole(self, body: bytes) -> None:
        """Takes a whole answer in that did not stream."""
        ...


class Format(Protocol):
    """One wire format for one endpoint and model."""

    def path(self, *, stream: bool) -> str:
        """Where requests go, below the base URL."""
        ...

    def head(self, request: Request) -> bytes:
        """Everything of the body that comes before the history, the opening of its list included."""
        ...

    def history(self) -> History: ...

    def tail(self, history: History, request: Request) -> tuple[int, bytes]:
        """How many bytes of the history to leave out at its end, and what follows them to the end of the body."""
        ...

    def reader(self, request: Request) -> Reader: ...

    def variant(self, request: Request) -> object:
        """What of the head depends on more than the fields that it is made from."""
        ...

    def prepared(self, request: Request) -> Request:
        """The request as it is encoded: the same one, unless the provider holds a part of it."""
        ...

    def replied(self, request: Request, reply: Reply) -> None:
        """Told of each complete reply."""
        ...

    def failed(self, request: Request, failure: Failure) -> None: ...


def last_speaker_is_model(items: list[HistoryItem]) -> bool:
    return bool(items) and isinstance(items[-1], AssistantItem)


def closing_text(request: Request) -> str:
    """What is said after the history: the task state, or a nudge where the model spoke last."""
    if request.task_state:
        return request.task_state
    return CONTINUE if last_speaker_is_model(request.items) or not request.items else ""


def tool_choice_name(settings: ModelSettings) -> str | None:
    """The tool that must be called, where one is named."""
    return settings.tool_choice if settings.tool_choice not in ("auto", "none", "required") else None
