"""Taking one fact: whether it may come, and all that follows from it.

The part that a fact belongs to says in which phases it may come, what else must hold, and what follows directly; then
the program goes on from the state alone. A fact that may not come is refused, and the state is unchanged then.
"""

from __future__ import annotations

from windlass.events.base import Event, Fact, tag_of
from windlass.events.errors import Refused
from windlass.kernel import parts
from windlass.kernel.fold import evolve, tick
from windlass.kernel.part import Decisions
from windlass.kernel.parts import schedules
from windlass.kernel.parts.flows import nodes
from windlass.kernel.parts.tools import labels
from windlass.kernel.phases import Left
from windlass.kernel.program import advance
from windlass.kernel.state import State


def step(state: State, fact: Fact, at_ms: int) -> list[Event]:
    """Takes one fact: the fact and the decisions that follow from it, folded into the state as they are made.

    Raises `Refused` if the fact does not fit, and the state is unchanged then. Anything else that is raised is a
    bug: the state must then be thrown away and folded again from the log."""
    check(state, fact)
    tick(state, at_ms, type(fact))
    events: list[Event] = [fact]
    evolve(state, fact)
    for decision in consequences(state, fact):
        evolve(state, decision)
        events.append(decision)
    return events


def consequences(state: State, fact: Fact) -> Decisions:
    """The decisions that follow, one by one; each is folded before the next is asked for."""
    then = parts.TABLES.facts[type(fact)].then
    if then is not None:
        yield from then(state, fact)
    if state.labels.met:
        yield from labels.joined(state)
    yield from advance(state)
    if state.labels.met:
        yield from labels.joined(state)


def check(state: State, fact: Fact) -> None:
    """Raises `Refused` unless the fact may come now."""
    row = parts.TABLES.facts.get(type(fact))
    if row is None:
        raise Refused("not_a_fact", f"{tag_of(fact)} is decided here, it cannot come from outside")
    if state.schedule.plan is not None:
        schedules.check_fact(state, fact)
    if state.flow.graph is not None:
        nodes.check_fact(state, fact)
    fits = type(state.phase) in row.when
    if not fits and isinstance(state.phase, Left):
        raise handed_over(state.phase)
    if row.check is not None and (fits or row.answers is not None):
        row.check(state, fact)
    if not fits:
        doing = type(state.phase).__name__.lower()
        raise Refused("wrong_phase", f"{tag_of(fact)} does not fit a session that is {doing}")


def handed_over(left: Left) -> Refused:
    """What is said to whoever wants something of a session that goes on elsewhere."""
    return Refused("handed_over", f"the session was handed over: it goes on as {left.session!r} at {left.to}")
