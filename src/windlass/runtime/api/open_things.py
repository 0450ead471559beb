"""What a session is busy with, or waits for: named, typed and dated. Read off the state; changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from windlass.events.errors import WindlassError
from windlass.events.tools.calls import (
    ToolDelegated,
    ToolOutcomeUnknown,
    ToolRequested,
    ToolStarted,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.kernel.owed import opens
from windlass.kernel.part import Open
from windlass.kernel.state import State
from windlass.runtime.streams.record import Record

SHOWN_MAX = 10
SECOND_MS = 1_000
CALL_MOVED = (ToolRequested, ToolStarted, ToolDelegated, ToolSuspended, ToolOutcomeUnknown, ToolTimedOut)
"""From when on a call is what it is now, whichever came last."""
UNDER_WAY = ("requested", "prepared", "started", "child")
"""How a call stands that is judged or runs: it waits for nobody."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a session is busy with. `open_id` is the id of the request, call, question or timer."""

    kind: str
    open_id: str
    tool: str = ""
    model: str = ""
    attempt: int = 1
    since_ms: int = 0
    """When it began, by the log's clock."""
    age_ms: int = 0

    def __str__(self) -> str:
        what = self.tool or self.model
        tries = f", attempt {self.attempt}" if self.attempt > 1 else ""
        return f"{self.kind} {f'{what!r} ' if what else ''}({self.open_id}{tries}, for {_lasting(self.age_ms)})"


class StillBusy(WindlassError):
    """A session did not come to rest in time. `waiting` is what it is busy with."""

    def __init__(self, session: str, waiting: Sequence[Waiting], why: str) -> None:
        self.waiting = tuple(waiting)
        shown = [str(one) for one in self.waiting[:SHOWN_MAX]]
        if len(self.waiting) > SHOWN_MAX:
            shown.append(f"{len(self.waiting) - SHOWN_MAX} more")
        super().__init__(
            f"session {session!r} {why}: {', '.join(shown) or 'between two steps'}; wait longer, or interrupt it"
        )


def seq_in(name: str) -> int | None:
    """The seq that an id was derived from; None for what is no id of ours."""
    match = re.fullmatch(r"[a-z](\d{1,15})(?:\.\d+)?", name, re.ASCII)
    return int(match[1]) if match is not None else None


def _lasting(ms: int) -> str:
    return f"{ms} ms" if ms < SECOND_MS else f"{ms / SECOND_MS:.1f} s"


def held_up(state: State) -> bool:
    """Whether a run goes on, and nothing of it moves before somebody answers what a running tool asks."""
    asking = {ask.call_id for ask in state.asks.open.values() if ask.inside}
    return bool(asking) and all(call.call_id in asking for call in state.open_calls() if call.status in UNDER_WAY)


def begun(state: State) -> int:
    """The seq of the earliest record that says when something open began; past the end if nothing is open."""
    return min((thing.seq for thing in opens(state)), default=state.seq + 1)


def waiting_of(state: State, since: dict[str, int], now_ms: int) -> tuple[Waiting, ...]:
    """What is open in a state: requests first, then calls, what was asked of people, and times to come. `since` says
    by id when each began."""
    things = sorted(opens(state), key=lambda thing: thing.by == "time")
    return tuple(_waiting(thing, since.get(thing.open_id, state.now_ms), now_ms) for thing in things)


def _waiting(thing: Open, since_ms: int, now_ms: int) -> Waiting:
    return Waiting(
        kind=thing.kind,
        open_id=thing.open_id,
        tool=thing.tool,
        model=thing.model,
        attempt=thing.attempt,
        since_ms=since_ms,
        age_ms=max(0, now_ms - since_ms),
    )


def dates(state: State, records: Iterable[Record]) -> dict[str, int]:
    """When each open thing began, by id: with the record that its part names; a call when it was started, given away or
    parked."""
    begins: dict[int, list[str]] = {}
    for thing in opens(state):
        begins.setdefault(thing.seq, []).append(thing.open_id)
    since: dict[str, int] = {}
    for record in records:
        since |= dict.fromkeys(begins.get(record.seq, ()), record.at_ms)
        if isinstance(record.event, CALL_MOVED):
            since[record.event.call_id] = record.at_ms
    return since
