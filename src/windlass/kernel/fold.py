"""The fold: how each event changes the state. Decides nothing, reads no content, and needs no policy code.

The arms are those of the parts, in one table by event type; an event that is not in it cannot be folded. The state is
changed in place and is private to its owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass.events.base import Event, tag_of
from windlass.events.errors import NeedsNewer, NotLegal
from windlass.events.sessions import SessionResumed
from windlass.events.stored.codec import Unknown
from windlass.kernel import parts
from windlass.kernel.part import Arm
from windlass.kernel.parts import budgets
from windlass.kernel.state import State

MISFITS = (KeyError, AttributeError, ValueError, IndexError, StopIteration)
"""What an arm raises for an event that cannot stand where it is."""


def evolve(state: State, event: Event | Unknown) -> None:
    """Folds one event into the state. Raises `NotLegal` for an event that cannot stand here; an unknown one is passed
    over if it may be, else `NeedsNewer` is raised."""
    state.seq += 1
    arm = parts.TABLES.fold.get(type(event))  # type: ignore[arg-type]
    try:
        if arm is not None:
            arm(state, event)
        else:
            pass_over(state, event)
    except MISFITS as error:
        raise misfit(state, event, error) from error


def evolve_all(state: State, events: Iterable[Event | Unknown]) -> None:
    """Folds events one after the other; the same as `evolve` for each, with the table looked up once."""
    arms: dict[Any, Arm] = parts.TABLES.fold
    for event in events:
        state.seq += 1
        arm = arms.get(type(event))
        try:
            if arm is not None:
                arm(state, event)
            else:
                pass_over(state, event)
        except MISFITS as error:
            raise misfit(state, event, error) from error


def tick(state: State, at_ms: int, fact: type) -> None:
    """Moves the session's clock, which never goes back, and counts the stretch that ends now if it was work.
    Waiting for people or timers is no work; nor is the time in which nobody owned the session."""
    elapsed = at_ms - state.now_ms
    if elapsed <= 0:
        return
    state.now_ms = at_ms
    if fact is SessionResumed:
        return
    for works in parts.TABLES.works:
        if works(state):
            budgets.spend_time(state, elapsed)
            return


def misfit(state: State, event: Any, error: Exception) -> NotLegal:
    """What is said of an event that the state has no place for."""
    return NotLegal(f"event {state.seq}: {tag_of(event)} is not legal in {type(state.phase).__name__}: {error!r}")


def pass_over(state: State, event: Event | Unknown) -> None:
    """An event without an arm: one of a later version, or none of a log."""
    if not isinstance(event, Unknown):
        raise NotLegal(f"event {state.seq}: {type(event).__name__} is not an event of a log")
    if not event.skippable:
        state.seq -= 1
        raise NeedsNewer(event.tag, state.seq + 1)
