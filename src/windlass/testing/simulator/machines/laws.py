"""What must hold for a state machine in a simulated world, held against every append.

Written from the promises: it knows the definition and the state that the log says is the current one, and counts for
itself what was run, waited for and decided.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from windlass.events.base import Event
from windlass.events.commands import PromptReceived
from windlass.events.questions import AnswerReceived
from windlass.events.sessions import SessionStarted
from windlass.events.stored.codec import Appended
from windlass.events.timers import TimerCancelled, TimerFired
from windlass.events.tools.calls import ToolRequested, ToolStarted
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
from windlass.events.values.machines import ANY_STATE, MachineSpec, MachineState
from windlass.kernel.parts.machines.states import AT_WORK
from windlass.testing.invariants import Broken

if TYPE_CHECKING:
    from windlass.testing.simulator.disk_watch import Log
    from windlass.testing.simulator.world import World


class Stand:
    """Where one machine stands."""

    def __init__(self, given: MachineSpec | None) -> None:
        self.given = given
        self.spec = given
        self.current: MachineState | None = None
        self.number = 0
        """How many machines the session has had."""
        self.visit = 0
        self.attempt = 0
        self.open = False
        """Whether the machine is in its current state, and has neither ended nor been stopped there."""
        self.ended = False
        self.calls: dict[str, tuple[int, int]] = {}
        """The visit that each call of a state belongs to, with the number of the machine."""
        self.made: Counter[tuple[int, int, int]] = Counter()
        """How many calls each attempt made."""
        self.ran: Counter[tuple[int, int]] = Counter()
        """How often the script of each visit was started."""
        self.sleeps: dict[str, int] = {}
        """The timers that are waited for, each with its time."""
        self.waited = False
        """Whether the time of the current state has come, or somebody had it woken."""
        self.by_rule: Counter[str] = Counter()
        """How often each state was entered since somebody last had the machine begin."""

    def state(self, name: str) -> MachineState:
        assert self.spec is not None, "there is a machine"
        return next(one for one in self.spec.states if one.name == name)

    def follows(self) -> set[str]:
        """The states that may follow the current one."""
        assert self.spec is not None
        assert self.current is not None, "it is in a state"
        named = self.current.next
        return {one.name for one in self.spec.states} if not named or ANY_STATE in named else set(named)


class MachineLaws:
    """Follows all machines of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stands: dict[str, Stand] = {}

    def _hold(self, rule: str, holds: bool, log: Log, detail: str) -> None:
        if not holds:
            raise Broken(rule, log.state.seq, f"{log.key.session}: {detail}")

    # --- every append ---

    def appended(self, log: Log, append: Appended) -> None:
        """Holds one append against the promises."""
        if self._world.kind != "machines":
            return
        stand = self._stands.setdefault(log.key.session, Stand(None))
        answered = any(isinstance(event, AnswerReceived) for event in append.events)
        for seq, event in enumerate(append.events, append.first_seq):
            assert isinstance(event, Event)
            self._note(log, stand, seq, event, append.at_ms, answered=answered)
        here = stand.current.name if stand.current is not None else ""
        same = log.state.machine.current == here
        self._hold("a machine is in one state", same, log, f"{log.state.machine.current}, the log says {here}")

    def _note(self, log: Log, stand: Stand, seq: int, event: Event, at_ms: int, *, answered: bool) -> None:
        match event:
            case SessionStarted():
                stand.given = stand.spec = event.setup.machine
            case MachineCreated():
                stand.spec, stand.current, stand.open = event.spec or stand.given, None, False
                stand.number, stand.visit, stand.ended = stand.number + 1, 0, False
                stand.by_rule.clear()
                self._world.reached(f"machine_created_by_{event.by}")
            case MachineMoved():
                self._moved(log, stand, event, answered=answered)
            case MachineComputed():
                stand.attempt = event.attempt
                again = event.attempt == 1 or stand.waited
                self._hold("a poll looks again when its time has come", again, log, f"{event.visit}.{event.attempt}")
                stand.waited = False
            case ToolRequested() if event.state:
                self._called(log, stand, event)
            case ToolStarted():
                self._started(log, stand, event.call_id)
            case MachineSlept():
                self._hold("a state sleeps for one time", not stand.sleeps, log, event.state)
                stand.sleeps[timer_id(seq)] = event.until_ms
                self._world.reached(f"slept_in_{self._kind(stand)}")
            case TimerFired():
                self._fired(log, stand, event, at_ms)
            case TimerCancelled():
                if stand.sleeps.pop(event.timer_id, None) is not None and event.reason == "woken":
                    stand.waited = True
                    self._world.reached("machine_woken")
            case MachineLeft():
                self._left(log, stand, event)
            case MachineInterrupted():
                stand.open = False
                stand.sleeps.clear()
                self._world.reached(f"machine_interrupted_in_{self._kind(stand)}")
            case MachineEnded():
                self._ended(log, stand, event)
            case PromptReceived() if stand.sleeps:
                self._world.reached("prompt_while_asleep")
            case _:
                pass

    def _kind(self, stand: Stand) -> str:
        return stand.current.kind if stand.current is not None else "none"

    def _moved(self, log: Log, stand: Stand, event: MachineMoved, *, answered: bool) -> None:
        here, name = stand.current, event.state
        if here is not None and not stand.ended:
            self._check_way(log, stand, here, event, answered=answered)
        if event.by == "person" or event.reactivates:
            stand.by_rule.clear()
        stand.by_rule[name] += 1
        most = stand.spec.visits_max if stand.spec is not None else 0
        circles = event.by == "rule" and stand.by_rule[name] > most
        self._hold("a machine does not go in circles", not circles, log, f"{name} for the {stand.by_rule[name]}th time")
        stand.current, stand.visit, stand.attempt = stand.state(name), event.visit, 1
        stand.open, stand.waited, stand.ended = True, False, False
        stand.sleeps.clear()
        self._world.reached(f"entered_{event.kind}_by_{event.by}")
        if event.reactivates:
            self._world.reached("machine_reactivated")

    def _check_way(self, log: Log, stand: Stand, here: MachineState, event: MachineMoved, *, answered: bool) -> None:
        """One state follows another by a way that its definition has."""
        name, detail = event.state, f"{event.state} after {here.name}, by {event.by}"
        stays = name == here.name
        if event.by == "agent":
            parked = here.kind == "park" and bool(here.next)
            self._hold("only a person passes a park", not parked or stays, log, detail)
            if stand.open:
                self._hold("a state follows that may", name in stand.follows(), log, detail)
        elif event.by == "rule":
            ways = {*here.next, here.on_failure} if here.next else {here.on_failure}
            self._hold("a state follows that may", stays or name in ways, log, detail)
        elif answered:
            self._hold("a person chooses what may follow", stays or name in stand.follows(), log, detail)

    def _called(self, log: Log, stand: Stand, event: ToolRequested) -> None:
        here = stand.current.name if stand.current is not None and stand.open else ""
        self._hold("only the current state makes calls", event.state == here, log, f"{event.state}, not {here}")
        attempt = (stand.number, stand.visit, stand.attempt)
        stand.made[attempt] += 1
        self._hold("an attempt makes one call", stand.made[attempt] == 1, log, f"{event.state} {attempt}")
        stand.calls[event.call_id] = (stand.number, stand.visit)

    def _started(self, log: Log, stand: Stand, call_id: str) -> None:
        visit = stand.calls.get(call_id)
        if visit is None:
            return
        current = visit == (stand.number, stand.visit)
        self._hold("what a state left behind does not start", current and stand.open, log, f"{call_id} of {visit}")
        if self._kind(stand) == "script":
            stand.ran[visit] += 1
            self._hold("a script runs once", stand.ran[visit] == 1, log, f"visit {visit}, {stand.ran[visit]} times")

    def _fired(self, log: Log, stand: Stand, event: TimerFired, at_ms: int) -> None:
        until_ms = stand.sleeps.pop(event.timer_id, None)
        if until_ms is None:
            return
        self._hold("a timer does not fire early", at_ms >= until_ms, log, f"at {at_ms} instead of {until_ms}")
        stand.waited = True
        self._world.reached("machine_woke")

    def _left(self, log: Log, stand: Stand, event: MachineLeft) -> None:
        kind = self._kind(stand)
        early = kind == "timer" and event.outcome != "replaced" and not stand.waited
        self._hold("a timer is waited for", not early, log, event.state)
        stand.sleeps.clear()
        self._world.reached(f"left_{kind}_{event.outcome}")

    def _ended(self, log: Log, stand: Stand, event: MachineEnded) -> None:
        here = stand.current
        if here is not None and here.kind == "terminal":
            self._hold("an end ends as it says", event.outcome == here.outcome, log, f"{here.name}: {event.outcome}")
        stand.open, stand.ended = False, True
        stand.sleeps.clear()
        self._world.reached(f"machine_{event.outcome}")

    # --- at the end ---

    def unfinished(self, log: Log) -> list[str]:
        """What a machine is still to do."""
        machine, name = log.state.machine, log.key.session
        waits = machine.status in AT_WORK or machine.status == "sleeping"
        return [f"{name}: the machine is {machine.status} in {machine.current}"] if waits else []

    def at_peace(self) -> None:
        """Nothing is waited for in any machine."""
        for session, stand in self._stands.items():
            if stand.sleeps:
                raise Broken("a timer is not lost", 0, f"{session}: {stand.sleeps} never fired")
            self._world.reached("machine_at_its_end" if stand.ended else "machine_at_rest")
