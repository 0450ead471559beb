"""Which calls of a session are under way, and which of them only wait for a person: a tool may ask something while it
runs (`ctx.ask`, an MCP server's elicitation), and its run does not end for that."""

from __future__ import annotations

from windlass.events.base import Event
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.tools.calls import (
    ResultReceived,
    ToolAllowed,
    ToolDelegated,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    ToolSuspended,
)
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.protocol.call_ends import ENDS


class RunningCalls:
    """A fold over records."""

    def __init__(self) -> None:
        self._under_way: set[str] = set()
        """Calls that are judged or run; not those that wait for a word, for a client, or for their turn."""
        self._asking: dict[str, str] = {}
        """The calls of tools that asked while they run, by the question."""

    @property
    def held(self) -> bool:
        """Whether a tool waits for a person, and no call does anything else."""
        return bool(self._asking) and self._under_way <= set(self._asking.values())

    def feed(self, event: Event) -> None:
        """Takes in the event of the next record."""
        match event:
            case ToolRequested() | ToolStarted() | ChildStarted():
                self._under_way.add(event.call_id)
            case QuestionRequested(inside=True):
                self._asking[event.question_id] = event.call_id
            case PermissionRequested() | QuestionRequested() | ToolAllowed() | ToolDelegated() | ToolSuspended():
                self._under_way.discard(event.call_id)
            case AnswerReceived() | QuestionWithdrawn():
                self._asking.pop(event.question_id, None)
            case ToolFinished() | ResultReceived() | ChildFinished():
                self._under_way.discard(event.call_id)
            case _ if isinstance(event, ENDS):
                self._under_way.discard(event.call_id)
            case _:
                return
