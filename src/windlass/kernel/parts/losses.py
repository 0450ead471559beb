"""Owners that a run has lost: their process died, or what drove the session broke.

    run active ──(resumed, the owner before was lost)──▶ counted; progress in between begins the count anew
               ──(too many in a row)──▶ parked: what is open is closed, the run fails, and a wake tries again

What a run is about to do may be the very thing that ends its owners, and those beside it with them. So it is not done
again without end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.runs import RunFailed, RunStarted
from windlass.events.sessions import SessionResumed
from windlass.events.values.failures import failure
from windlass.kernel.part import Decisions, Part
from windlass.kernel.parts import runs
from windlass.kernel.parts.tools import open_calls

if TYPE_CHECKING:
    from windlass.kernel.state import State

PARKED = "parked"
"""The code of the failure that a parked run ends with."""
WHY_CHARS_MAX = 500
NAMED_MAX = 3
"""How many calls that were running are named."""


class Losses(msgspec.Struct, kw_only=True, gc=False):
    """How many owners were lost in a row, and how far the run was when the last of them was."""

    count: int = 0
    turns: int = 0
    items: int = 0
    open_calls: int = 0
    parked: str = ""
    """Why the session is parked; empty unless it is."""


def session_resumed(state: State, event: SessionResumed) -> None:
    if event.lost is None or not state.active:
        return
    before, now = state.losses, _reached(state)
    now.count = before.count + 1 if before.count and _same(before, now) else 1
    state.losses = now


def run_started(state: State, event: RunStarted) -> None:
    if state.losses.count or state.losses.parked:
        state.losses = Losses()


def run_failed(state: State, event: RunFailed) -> None:
    if event.failure is not None and event.failure.code == PARKED:
        state.losses.parked = event.failure.message


def got_further(state: State) -> bool:
    """Whether the run has made progress since its last owner was lost, or none was."""
    return not state.active or not state.losses.count or not _same(state.losses, _reached(state))


def _reached(state: State) -> Losses:
    """How far the run is."""
    return Losses(turns=state.budget.spent.turns, items=len(state.history.items), open_calls=len(state.open_calls()))


def _same(one: Losses, other: Losses) -> bool:
    return (one.turns, one.items, one.open_calls) == (other.turns, other.items, other.open_calls)


def taken_over(state: State, fact: SessionResumed) -> Decisions:
    """A run that has lost too many owners in a row is parked, before anything of it is begun again."""
    if fact.lost is None or not state.active or state.losses.count < state.setup.settings.losses_max:
        return
    told = f"{state.losses.count} owners in a row were lost while it worked{_running(state)}: {fact.lost}"
    why = failure("internal", told[:WHY_CHARS_MAX], code=PARKED)
    yield from runs.stop_all(state, "interrupted")
    if open_calls.unsettled(state):
        yield from runs.ask_first(state, why)
    else:
        yield from runs.fail(state, "error", why)


def _running(state: State) -> str:
    """The calls that were running, in words."""
    named = [f"{call.call_id} ({call.tool})" for call in state.open_calls() if call.status == "started"]
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return f" on {', '.join(named[:NAMED_MAX])}{more}" if named else ""


PART = Part(
    name="losses",
    hears={SessionResumed: session_resumed, RunStarted: run_started, RunFailed: run_failed},
    taken_over=taken_over,
)
