"""Attention: what becomes of a signal, by its urgency and by what the session is busy with. Plain data."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .blocks import Value

Urgency = Literal["critical", "high", "normal", "low"]
URGENCIES: tuple[Urgency, ...] = ("critical", "high", "normal", "low")
"""The most urgent first."""

Busy = Literal["resting", "sleeping", "model", "tools", "people"]
"""What a session is busy with: nothing, waiting for a time, for a model's answer, for calls that run, for people."""

Attend = Literal["interrupt", "next_turn", "queue", "observe", "drop"]
"""What becomes of a signal. `interrupt`: what is under way is cut off and the model is asked again with the signal.
`next_turn`: it brings a turn of its own, a run if none is active. `queue`: it enters with a turn that something else
brings. `observe`: it is shown beside the task. `drop`: it is put on record and nothing else."""


class WhileBusy(Value, frozen=True, kw_only=True):
    """One row of the table: what becomes of signals of one urgency, by what the session is busy with."""

    resting: Attend
    """Nothing runs and nobody is waited for."""
    sleeping: Attend
    """It waits for a time."""
    model: Attend
    """A model's answer is under way, or waits to be asked for again. `interrupt` drops it."""
    tools: Attend
    """Calls run. `interrupt` stops them, and what must not run twice has an unknown outcome then."""
    people: Attend
    """It waits for people or clients. `interrupt` withdraws what they were asked."""


def always(attend: Attend) -> WhileBusy:
    """The same whatever the session is busy with."""
    return WhileBusy(resting=attend, sleeping=attend, model=attend, tools=attend, people=attend)


class Attention(Value, frozen=True, kw_only=True):
    """The whole table, a row for each urgency."""

    critical: WhileBusy = WhileBusy(
        resting="next_turn", sleeping="next_turn", model="interrupt", tools="next_turn", people="next_turn"
    )
    """Cuts off an answer that is under way; leaves tools and people alone."""
    high: WhileBusy = always("next_turn")
    """Brings a turn as soon as nothing is under way."""
    normal: WhileBusy = always("queue")
    """Waits for a turn that something else brings."""
    low: WhileBusy = always("observe")
    """Is shown beside the task."""
    queue_max: Annotated[int, msgspec.Meta(gt=0, le=1_000)] = 64
    """How many signals may wait. One more drops the least urgent of them, or itself."""
    interrupts_max: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 3
    """How often the answer of one turn may be cut off. What was cut off is paid for."""
