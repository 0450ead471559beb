"""The parts of the kernel: a closed list, and what they say taken together.

The order is that in which effects are owed; what is open is closed in the opposite order, so that a question is
withdrawn before its call is given up, and the turn is over before its timers are cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from windlass.kernel.part import Open, Part, assemble
from windlass.kernel.parts import (
    asks,
    budgets,
    children,
    losses,
    mcp,
    output,
    queue,
    requests,
    retries,
    runs,
    schedules,
    session,
    setup,
    signals,
    skills,
    tasks,
    timers,
    turns,
    workspace,
)
from windlass.kernel.parts.context import archive, compaction, history, prefix
from windlass.kernel.parts.flows import growth, milestones, nodes
from windlass.kernel.parts.machines import states
from windlass.kernel.parts.tools import calls, gate, jobs, labels, repeats, toolset
from windlass.kernel.parts.trees import grants, worktrees

if TYPE_CHECKING:
    from windlass.kernel.state import State

PARTS: tuple[Part, ...] = (
    session.PART,
    losses.PART,
    setup.PART,
    workspace.PART,
    gate.PART,
    labels.PART,
    toolset.PART,
    budgets.PART,
    tasks.PART,
    history.PART,
    prefix.PART,
    skills.PART,
    mcp.PART,
    queue.PART,
    signals.PART,
    timers.PART,
    schedules.PART,
    archive.PART,
    runs.PART,
    turns.PART,
    output.PART,
    repeats.PART,
    compaction.PART,
    requests.PART,
    retries.PART,
    calls.PART,
    children.PART,
    jobs.PART,
    worktrees.PART,
    grants.PART,
    asks.PART,
    nodes.PART,
    states.PART,
    growth.PART,
    milestones.PART,
)

TABLES = assemble(PARTS)


def opens(state: State) -> Iterator[Open]:
    """All that is open: requests, calls, what was asked of people, children, times that must come."""
    for keeps, of_part in TABLES.opens:
        if keeps(state):
            yield from of_part(state)


def owed_by_people(things: Iterable[Open]) -> list[Open]:
    """What people or clients must give for a session to go on: what was asked of them before the rest."""
    wanted = [thing for thing in things if thing.by == "people"]
    if len(wanted) > 1:
        wanted.sort(key=lambda thing: thing.kind not in ASKED)
    return wanted


ASKED = ("permission", "question")
"""What is named before the rest."""


def is_asked_anywhere(thing: Open) -> bool:
    """Whether an open thing is a question that goes along with a session: it is asked wherever the session goes on, and
    nothing is done about it in between. A client may be at work on a call of its own, and an outcome that nobody knows
    is to be told where the call ran."""
    return thing.by == "people" and thing.kind in ASKED


def awaits_somebody(state: State) -> bool:
    """Whether a session at rest waits for somebody's answer, and not only for a time."""
    return any(thing.by not in ("time", "below") for thing in opens(state))
