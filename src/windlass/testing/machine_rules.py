"""What must hold for the machine of a session, read off its log: one state at a time, each left once."""

from __future__ import annotations

from collections.abc import Callable

from windlass.events.base import Event
from windlass.events.trees.machines import (
    MachineComputed,
    MachineCreated,
    MachineEnded,
    MachineInterrupted,
    MachineLeft,
    MachineMoved,
    MachineSlept,
)
from windlass.events.values.ids import timer_id

MACHINE_EVENTS = (
    MachineCreated,
    MachineMoved,
    MachineComputed,
    MachineSlept,
    MachineLeft,
    MachineInterrupted,
    MachineEnded,
)

Hold = Callable[[str, bool, str], None]


class MachineRules:
    """Follows one machine at a time."""

    def __init__(self, hold: Hold, timers: set[str]) -> None:
        self._hold = hold
        self._timers = timers
        self._timer = ""
        self._visit = 0
        self._inside = False
        """Whether a state has been entered and not been left."""
        self._stands = "none"
        """How the machine stands: `none`, `open`, `interrupted`, `ended`."""
        self._worked_out: set[tuple[int, int]] = set()

    def feed(self, event: Event, seq: int, *, active: bool) -> None:
        """Raises `Broken`, by `hold`, if an event breaks a rule."""
        match event:
            case MachineCreated():
                self._hold("a machine begins when none is at work", self._stands != "open", str(seq))
                self._visit, self._inside, self._stands, self._worked_out = 0, False, "none", set()
            case MachineMoved():
                self._moved(event, active=active)
            case MachineComputed():
                attempt = (event.visit, event.attempt)
                self._hold("an attempt is worked out once", attempt not in self._worked_out, str(attempt))
                self._hold("only the current state is worked out", event.visit == self._visit, str(event.visit))
                self._worked_out.add(attempt)
            case MachineSlept():
                self._hold("only the current state sleeps", self._inside and event.visit == self._visit, event.state)
                self._timer = timer_id(seq)
                self._timers.add(self._timer)
            case MachineLeft():
                self._hold("a state is left once", self._inside and event.visit == self._visit, event.state)
                self._over()
            case MachineInterrupted():
                self._hold("only what is at work is interrupted", self._stands == "open", event.state)
                self._over()
                self._stands = "interrupted"
            case MachineEnded():
                self._hold("a machine ends once", self._stands == "open", event.state)
                self._over()
                self._stands = "ended"
            case _:
                pass

    def _moved(self, event: MachineMoved, *, active: bool) -> None:
        self._hold("a state is entered in a run", active, event.state)
        self._hold("visits are counted", event.visit == self._visit + 1, str(event.visit))
        self._hold("one that begins again says so", event.reactivates == (self._stands == "ended"), event.state)
        self._over()
        self._visit, self._inside, self._stands = event.visit, True, "open"

    def _over(self) -> None:
        self._inside = False
        self._timers.discard(self._timer)
        self._timer = ""
