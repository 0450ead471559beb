"""The phases of a session: what its run is doing. A phase holds only what is true in it and nowhere else.

                ┌──────────────────────── Between ◀───────────────┐  (passing: an append never ends here)
New ──▶ Idle ───┤                            │                    │
         ▲      │       ┌───────────┬────────┴──────┐             │
         │      │       ▼           ▼               ▼             │
         │      └─ AwaitingModel  AwaitingTools  Compacting ──────┤
         │              │  ▲           ▲            │             │
         │              ▼  │           │            ▼             │
         │           BackingOff ◀──────┴────────────┘ ────────────┘
         │
         └── Idle, Asked or Asleep: however the run ended ──▶ Left: it goes on in another store
"""

from __future__ import annotations

from windlass.events.values.blocks import Value


class Phase(Value, frozen=True, kw_only=True, tag_field="phase"):
    """Base of the phases."""


class New(Phase, frozen=True, kw_only=True, tag="new"):
    """There is no session yet."""


class Idle(Phase, frozen=True, kw_only=True, tag="idle"):
    """Nothing runs and nobody is waited for."""


class Asked(Phase, frozen=True, kw_only=True, tag="asked"):
    """No run is active; people or clients owe an answer."""


class Asleep(Phase, frozen=True, kw_only=True, tag="asleep"):
    """No run is active; a timer is set."""


class Left(Phase, frozen=True, kw_only=True, tag="left"):
    """The session was handed over: nothing may come behind it here."""

    to: str
    session: str
    command_id: str
    asked: bool = False
    """Whether it left while people or clients owed an answer."""


class Between(Phase, frozen=True, kw_only=True, tag="between"):
    """A run is active and no turn is open. Passing: an append never ends here."""


class AwaitingModel(Phase, frozen=True, kw_only=True, tag="awaiting_model"):
    """The turn's model request is out."""

    request_id: str


class BackingOff(Phase, frozen=True, kw_only=True, tag="backing_off"):
    """A request failed and will be made again when the timer fires."""

    timer_id: str


class AwaitingTools(Phase, frozen=True, kw_only=True, tag="awaiting_tools"):
    """The reply is in; some of its calls have no result yet."""


class Compacting(Phase, frozen=True, kw_only=True, tag="compacting"):
    """A summary of older exchanges is being written."""

    request_id: str


AnyPhase = New | Idle | Asked | Asleep | Left | Between | AwaitingModel | BackingOff | AwaitingTools | Compacting
Phases = tuple[type[Phase], ...]

ACTIVE = frozenset({Between, AwaitingModel, BackingOff, AwaitingTools, Compacting})
"""The phases in which a run is going on."""

NEW: Phases = (New,)
WORKING: Phases = (AwaitingModel, BackingOff, AwaitingTools, Compacting)
LEAVING: Phases = (Idle, Asked)
RESTING: Phases = (Idle, Asleep)
REQUESTING: Phases = (AwaitingModel, Compacting)
ASKABLE: Phases = (Asked, *WORKING)
STARTED: Phases = (Idle, Asked, Asleep, *WORKING)
COPIED: Phases = (*STARTED, Left)
