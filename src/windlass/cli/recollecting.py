"""What a replay has from the log: replies of the model up to a point, results of calls, answers of people.

Nothing here has effects, and nothing of it is said where the log does not say it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from windlass.events import codec
from windlass.events.base import Event
from windlass.events.blocks import plain_text
from windlass.events.calls import ToolFinished, ToolRequested
from windlass.events.failures import Failure
from windlass.events.items import HistoryItem
from windlass.events.permissions import PermissionApproved, PermissionDenied, PermissionRequested
from windlass.events.questions import AnswerReceived, QuestionRequested
from windlass.events.turns import ModelReplied
from windlass.events.usage import Usage
from windlass.kernel.evolve import evolve, tick
from windlass.kernel.owed import overview
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.models.base import Delta, Model, ModelInfo, Reply, Request
from windlass.runtime.approvals import Approve, Deny, PermissionAsk, QuestionAsk, Verdict
from windlass.runtime.approvals import Reply as Answered
from windlass.store.base import Key, Store
from windlass.store.chain import history
from windlass.tools.canonical import digest
from windlass.tools.context import ToolError
from windlass.tools.tool import tool

from .inspecting import head_of, item_text

Results = dict[tuple[str, str], list[tuple[bool, str]]]
"""The results of calls by tool and arguments, in their order."""
Words = dict[tuple[str, bytes], Verdict]
"""What people said, by what they were asked."""


class Point(msgspec.Struct, kw_only=True):
    """A place in a log to begin again from: the last one before it at which nothing was under way, and what the model
    was asked and said between the two."""

    rest_seq: int = 0
    begun: list[HistoryItem] = []
    said: list[tuple[list[str], Reply]] = []


async def point_at(store: Store, key: Key, at_seq: int) -> Point:
    """The point behind a record."""
    from windlass.testing.recorded import reply_of

    state, events, point = State(), dict[int, Event](), Point()
    async for sealed in history(store, key):
        append = codec.decode(sealed.data)
        if append.first_seq > at_seq:
            break
        tick(state, append.at_ms, type(append.events[0]))
        for event in append.events:
            known = codec.require_known(event, state.seq + 1)
            if known is None:
                state.seq += 1
                continue
            if isinstance(known, ModelReplied) and known.lane == "main" and known.body is not None:
                free = msgspec.structs.replace(reply_of(known), usage=Usage(), duration_ms=0)
                point.said.append((lines_of(render(state, events.__getitem__)), free))
            evolve(state, known)
            events[state.seq] = known
        if sealed.last_seq <= at_seq and overview(state).state in ("new", "idle"):
            point = Point(rest_seq=sealed.last_seq, begun=render(state, events.__getitem__))
    return point


def lines_of(items: list[HistoryItem]) -> list[str]:
    """A history as lines that can be compared: who says what, without places in a log."""
    found: list[str] = []
    for item in items:
        found.append(head_of(item).partition("] ")[2])
        found += [f"  {line}" for line in item_text(item).splitlines()]
    return found


class Recollecting:
    """A model that says what was said then for as long as it is asked the same, and after that is another one."""

    def __init__(self, inner: Model, said: list[tuple[list[str], Reply]]) -> None:
        self._inner = inner
        self.left = list(said)
        self.strayed = False
        """Whether it was asked something else before all was said again."""

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        """The reply of the log, or whatever the other model gives."""
        if request.lane == "main" and self.left:
            asked, reply = self.left.pop(0)
            if asked == lines_of(request.items):
                yield reply
                return
            self.left, self.strayed = [], True
        async for part in self._inner.stream(request):
            yield part

    async def close(self) -> None:
        await self._inner.close()


def recorded(events: dict[int, Event]) -> Results:
    """What each call got, by tool and arguments."""
    asked = {event.call_id: event for event in events.values() if isinstance(event, ToolRequested)}
    found: Results = {}
    for event in events.values():
        call = asked.get(event.call_id) if isinstance(event, ToolFinished) else None
        if isinstance(event, ToolFinished) and call is not None and call.body is not None and event.body is not None:
            name = (call.tool, digest(call.body.args or {}))
            found.setdefault(name, []).append((event.ok, plain_text(event.body.content)))
    return found


def played(made: Any, results: Results) -> Any:
    """A tool that answers from the recording and has no effects. Kernel tools and the like stay what they are."""
    if made.function is None:
        return made
    left = {name: list(found) for name, found in results.items()}

    def answer(**args: Any) -> str:
        waiting = left.get((made.name, digest(args)))
        if not waiting:
            raise ToolError("this call was not made in the recorded session, and tools do not run in a replay")
        ok, text = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if not ok:
            raise ToolError(text)
        return text

    answer.__name__ = made.name
    return tool(
        name=made.name,
        description=made.description,
        parameters=made.parameters.schema,
        contract="pure",
        kind=made.options.kind,
        traits=made.options.traits,
        alias=made.options.alias,
    )(answer)


def words_of(events: dict[int, Event]) -> Words:
    """What people were asked and what they said to it."""
    asked: dict[str, tuple[str, bytes]] = {}
    found: Words = {}
    for event in events.values():
        match event:
            case PermissionRequested():
                detail = event.body.detail if event.body is not None else None
                asked[event.request_id] = (event.tool, msgspec.json.encode(detail))
            case QuestionRequested():
                asked[event.question_id] = ("", msgspec.json.encode(event.body))
            case PermissionApproved() if event.request_id in asked:
                found[asked[event.request_id]] = Approve()
            case PermissionDenied() if event.request_id in asked:
                feedback = event.body.feedback if event.body is not None else ""
                found[asked[event.request_id]] = Deny(feedback=feedback, stop=event.stop)
            case AnswerReceived() if event.question_id in asked and event.body is not None:
                outcome = event.outcome
                found[asked[event.question_id]] = Answered(body=event.body, outcome=outcome, action=event.action)
    return found


def answering_from(words: Words) -> Callable[[PermissionAsk | QuestionAsk], Any]:
    """An approver who says what was said then; to anything else nobody is there."""

    async def answer(asked: PermissionAsk | QuestionAsk) -> Verdict:
        if isinstance(asked, PermissionAsk):
            return words.get((asked.tool, msgspec.json.encode(asked.detail)))
        return words.get(("", msgspec.json.encode(asked.body)))

    return answer
