"""A session under random facts, with every rule checked after each: the rig that the property tests and the planted
faults share. One source of choices decides everything, so a failure is repeated by its seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tests.kernel.makers import MAKERS, OFTEN, imported
from tests.kernel.session import ASK_PAY, HELPER, MODEL, TOOLS, Session
from windlass.events.base import Event, Fact
from windlass.events.context import ContextArchived
from windlass.events.errors import Refused
from windlass.events.questions import AnswerReceived
from windlass.events.runs import WakeReceived
from windlass.events.schedules import OccurrenceDelivered, ScheduleComputed, ScheduleReceived
from windlass.events.sessions import RewindReceived, SessionForked, SessionImported, SessionResumed
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import (
    CallReceived,
    PreparedBody,
    ResultBody,
    ResultReceived,
    ToolAsked,
    ToolFinished,
    ToolPrepared,
    ToolSettled,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobFinished, JobStarted, KillReceived
from windlass.events.tools.permissions import ApproverMissed, PermissionApproved, PermissionDenied
from windlass.events.trees.accounts import ChildSettled, GrantReceived
from windlass.events.trees.children import ChildFinished, ChildMoved, ChildOpened
from windlass.events.trees.flows import FlowReceived, NodeComputed
from windlass.events.trees.growth import NodesReceived
from windlass.events.trees.machines import MachineComputed, MachineReceived
from windlass.events.trees.worktrees import WorktreeMerged, WorktreeRemoved
from windlass.events.turns import (
    ModelFailed,
    ModelReplied,
    ModelRequested,
    OutputCheck,
    PrefixChanged,
    Prepared,
    ReplyBody,
)
from windlass.events.values.blocks import Text
from windlass.events.values.ids import child_end_id, child_settled_id
from windlass.events.values.items import HistoryItem
from windlass.events.values.settings import Settings
from windlass.events.values.setup import ItemRef, Limits
from windlass.events.values.usage import Usage
from windlass.events.workspace import FilesKept
from windlass.kernel import effects, log, parts
from windlass.kernel.fold import evolve, tick
from windlass.kernel.owed import owed
from windlass.kernel.phases import Asked, Asleep, BackingOff, Between, Compacting, Idle, Left
from windlass.kernel.render import item, render
from windlass.kernel.state import State
from windlass.testing.invariants import Checker, check_items

T = TypeVar("T")
Pick = Callable[[int], int]
"""`pick(n)` gives a number below n: from hypothesis, or from a seeded generator."""

DRAIN_STEPS_MAX = 400
RAREST = 6
SELDOM = (Asleep, BackingOff)
"""Phases that a session is seldom in: there, what has hardly come is tried more often."""
Pair = tuple[str, str]

OBJECTS: dict[type[Fact], tuple[str, ...]] = {
    ToolPrepared: ("requested",),
    ToolFinished: ("started",),
    ToolTimedOut: ("started",),
    ToolSuspended: ("started",),
    ToolAsked: ("started",),
    FilesKept: ("started",),
    ToolSettled: ("unknown",),
    ResultReceived: ("delegated", "suspended"),
    PermissionApproved: ("asked",),
    PermissionDenied: ("asked",),
    AnswerReceived: ("answering", "started"),
    ApproverMissed: ("asked", "answering", "delegated"),
    JobStarted: ("started",),
}
"""The statuses of the calls that a fact is about."""

OF_SCHEDULES = (ScheduleReceived, ScheduleComputed, OccurrenceDelivered)
"""What only a schedule is told, which is a session that never runs: `test_schedules` tells it."""

OF_FLOWS = (FlowReceived, NodeComputed, NodesReceived)
"""What only a workflow is told: `test_flows` tells it."""

OF_WORKTREES = (WorktreeMerged, WorktreeRemoved)
"""What only a child with a worktree is told: `test_worktrees` tells it."""
OF_GRANTS = (GrantReceived,)
"""What only a child is told by its parent: `runtime/test_granted_budgets` has it told."""
OF_MACHINES = (MachineReceived, MachineComputed)
"""What only a session with a machine is told: `test_machines` tells it."""

LEGAL_PAIRS: frozenset[Pair] = frozenset(
    (phase.__name__, fact.__name__)
    for fact, row in parts.TABLES.facts.items()
    if fact not in (*OF_SCHEDULES, *OF_FLOWS, *OF_WORKTREES, *OF_GRANTS, *OF_MACHINES)
    for phase in row.when
)


def seeded(seed: int) -> Pick:
    return random.Random(seed).randrange


def some_setup(pick: Pick) -> dict[str, Any]:
    """A setup that makes the rarer machinery common: small windows, few exchanges kept, limits."""
    window = (8_000, 20_000, 100_000)[pick(3)]
    settings = Settings(
        keep_exchanges=1 + pick(4),
        summarise=pick(4) > 0,
        archive=pick(2) == 0,
        output_required=pick(5) == 0,
        continue_on_length=pick(3) == 0,
        turns_max=4 + pick(60),
        on_busy=("enqueue", "enqueue", "steer", "interrupt")[pick(4)],
        tool_order=("parallel", "sequential")[pick(2)],
    )
    limits = (Limits(), Limits(), Limits(tokens=60_000), Limits(cost_nanos=40_000_000), Limits(time_ms=60_000))[pick(5)]
    return {
        "policy": ASK_PAY,
        "tools": (*TOOLS, HELPER),
        "model": msgspec.structs.replace(MODEL, window_tokens=window),
        "settings": settings,
        "run_limits": limits,
        "mode": ("interactive", "interactive", "interactive", "plan", "autopilot")[pick(5)],
    }


class Chaos:
    """A session, a source of choices, and a checker that follows the log."""

    def __init__(self, pick: Pick, seen: Counter[Pair] | None = None, **changes: Any) -> None:
        self.pick: Pick = pick
        self.session = Session(**(changes or some_setup(pick)))
        self.checker = Checker()
        self.fed = 0
        self.seen: Counter[Pair] = seen if seen is not None else Counter()
        self.seen[("New", "SessionStarted")] += 1
        self.refused: Counter[str] = Counter()
        self.fresh = 0
        self._feed()

    # --- choices ---

    def one(self, options: Sequence[T]) -> T:
        return options[self.pick(len(options))]

    def chance(self, one_in: int) -> bool:
        return self.pick(one_in) == 0

    def command(self) -> str:
        self.fresh += 1
        return f"x{self.fresh}"

    def call_id(self, *statuses: str) -> str:
        calls = self.session.state.calls.by_id.values()
        fitting = [call.call_id for call in calls if call.status in statuses]
        if fitting and not self.chance(10):
            return self.one(fitting)
        known = list(self.session.state.calls.by_id)
        return self.one(known) if known and not self.chance(4) else f"c{self.pick(60)}.0"

    def job_id(self) -> str:
        known = list(self.session.state.jobs.open)
        return self.one(known) if known and not self.chance(8) else f"j{self.pick(60)}.0"

    def ask_id(self, kind: str) -> str:
        known = [ask.ask_id for ask in self.session.state.asks.open.values() if ask.kind == kind]
        return self.one(known) if known and not self.chance(8) else f"{kind[0]}{self.pick(60)}"

    def action(self) -> str | None:
        asks = self.session.state.asks.open.values()
        return self.one(["approve", "reject"]) if any(ask.question_kind == "plan" for ask in asks) else None

    def request_id(self) -> str:
        known = list(self.session.state.requests.open)
        return self.one(known) if known and not self.chance(12) else f"m{self.pick(60)}"

    def kind_of_fact(self) -> type[Fact]:
        """Mostly what is common; else what something waits for, or one of those that this phase has seen least."""
        waiting = self._waited_for()
        if waiting and self.chance(4):
            return self.one(waiting)
        if self.chance(8):
            return self.one(OFTEN)
        phase = type(self.session.state.phase)
        if phase is Left:
            leaving: tuple[type[Fact], ...] = (SessionForked, SessionImported, SessionImported, *OFTEN)
            return self.one(leaving)
        if phase in (BackingOff, Compacting) and not self.session.state.calls.by_id and self.chance(2):
            return CallReceived
        if not self.chance(3) and not (phase in SELDOM and self.chance(2)):
            return self.one(
                [fact for fact in OFTEN if phase in parts.TABLES.facts[fact].when and self._has_object(fact)]
            )
        legal = [fact for fact, row in parts.TABLES.facts.items() if phase in row.when and self._has_object(fact)]
        legal.sort(key=lambda fact: self.seen[(phase.__name__, fact.__name__)])
        return self.one(legal[:RAREST])

    def _has_object(self, fact: type[Fact]) -> bool:
        """Whether there is something that this fact could be about."""
        state = self.session.state
        if fact in (ModelReplied, ModelFailed):
            return bool(state.requests.open)
        if fact in (*OF_SCHEDULES, *OF_FLOWS, *OF_WORKTREES, *OF_GRANTS, *OF_MACHINES):
            return False
        if fact in (JobFinished, KillReceived):
            return bool(state.jobs.open)
        if fact is ContextArchived:
            return bool(state.archive.paged)
        if fact in (ChildFinished, ChildMoved):
            return bool(self.session.state.children.open)
        if fact is ChildSettled:
            return bool(self.session.state.children.unsettled)
        if fact is ChildOpened:
            return self._child_to_begin()
        wanted = OBJECTS.get(fact)
        if wanted is None:
            return True
        return any(call.status in wanted for call in self.session.state.calls.by_id.values())

    def _child_to_begin(self) -> bool:
        """Whether a child that nobody waits for has not begun yet."""
        return any(c.mode != "foreground" and not c.opened for c in self.session.state.children.open.values())

    def _waited_for(self) -> list[type[Fact]]:
        """What would move something rare that is open now."""
        state = self.session.state
        found: list[type[Fact]] = [TimerFired] if state.timers.open else []
        found += (ChildFinished, ChildMoved) if state.children.open and not state.active else ()
        found += (ChildSettled,) * 8 if state.children.unsettled and isinstance(state.phase, Asked | Asleep) else ()
        found += (ChildOpened,) * 4 if self._child_to_begin() and isinstance(state.phase, Asked | Asleep) else ()
        found += (JobFinished, KillReceived) if state.jobs.open and not state.active else ()
        for ask in state.asks.open.values():
            permission = (PermissionApproved, PermissionDenied)
            found += permission if ask.kind == "permission" else (AnswerReceived,)
        for call in state.calls.by_id.values():
            if call.status == "child":
                found += (ChildFinished, ChildMoved, ChildOpened)
            elif call.status == "unknown":
                found.append(ToolSettled)
            elif call.status == "started" and call.tool == "risky":
                found.append(SessionResumed)
        return found

    # --- steps ---

    def tick(self) -> None:
        """One fact, applied or refused, and nothing else."""
        session = self.session
        session.at_ms += self.pick(3) * 400
        fact = MAKERS[self.kind_of_fact()](self)
        pair = (type(session.state.phase).__name__, type(fact).__name__)
        before, records = log.dump(session.state), len(session.lines)
        try:
            session.take(fact)
        except Refused as refusal:
            assert log.dump(session.state) == before, f"a refused {pair[1]} changed the state"
            assert len(session.lines) == records
            self.refused[refusal.code] += 1
            return
        self.seen[pair] += 1
        self._after()

    def _after(self) -> None:
        self._feed()
        self.checker.rest(self.session.state)
        self._check_kept()
        assert not isinstance(self.session.state.phase, Between), "an append ended between two turns"

    def _feed(self) -> None:
        while self.fed < len(self.session.appends):
            for event in self.session.appends[self.fed]:
                self.checker.feed(event)
            self.fed += 1

    # --- the end: faults stop, and everything that is owed completes ---

    def drain(self) -> None:
        """The world does what is owed, people answer, nothing fails; the session must come to rest."""
        for _ in range(DRAIN_STEPS_MAX):
            fact = self._due()
            if fact is None:
                break
            self.session.take(fact)
            self._after()
        state = self.session.state
        assert not state.active, f"still {type(state.phase).__name__} after {DRAIN_STEPS_MAX} answers"
        assert isinstance(state.phase, Idle), f"rests as {type(state.phase).__name__}, though everything was answered"
        assert not state.queue.waiting, f"prompts still wait: {state.queue.waiting}"
        self.checker.idle(state)
        assert not self.checker.open_commands

    def _check_kept(self) -> None:
        """A part that keeps nothing is not asked what it owes and has open, so it must have nothing to say."""
        state = self.session.state
        for part in parts.PARTS:
            if part.keeps is not None and not part.keeps(state):
                said = [*(part.owes(state) if part.owes else ()), *(part.opens(state) if part.opens else ())]
                assert not said, (part.name, said)

    def _due(self) -> Fact | None:
        if isinstance(self.session.state.phase, Left):
            return imported(self)
        state = self.session.state
        for effect in owed(state):
            match effect:
                case effects.CallModel():
                    return self._reply(effect)
                case effects.PageOut():
                    return ContextArchived(paged_seq=effect.paged_seq, pages=1)
                case effects.PrepareCall():
                    found = Prepared(digest="drained")
                    return ToolPrepared(
                        call_id=effect.call_id, digest="drained", body=PreparedBody(prepared=found, args={})
                    )
                case effects.RunTool():
                    return ToolFinished(call_id=effect.call_id, body=ResultBody(content=(Text(text="r"),)))
                case effects.StartChild(settles=True):
                    name = child_settled_id(effect.child_id)
                    return ChildSettled(command_id=name, child_id=effect.child_id, call_id=effect.call_id)
                case effects.StartChild() if effect.mode != "foreground" and not effect.opened:
                    return ChildOpened(child_id=effect.child_id, call_id=effect.call_id)
                case effects.StartChild():
                    name = child_end_id(effect.child_id)
                    return ChildFinished(command_id=name, child_id=effect.child_id, call_id=effect.call_id)
                case effects.WatchJob():
                    return JobFinished(job_id=effect.job_id, status="cancelled" if effect.stop else "completed")
                case effects.PutFilesBack():
                    return RewindReceived(command_id=effect.command_id, to_seq=effect.to_seq, files=True)
                case effects.SetTimer():
                    self.session.at_ms = max(self.session.at_ms, effect.at_ms)
                    return TimerFired(timer_id=effect.timer_id)
                case _:
                    continue
        for child in state.children.open.values():
            return ChildFinished(
                command_id=child_end_id(child.child_id), child_id=child.child_id, call_id=child.call_id
            )
        return self._answer() or self._wake()

    def _reply(self, effect: effects.CallModel) -> Fact:
        body = ReplyBody(blocks=(Text(text="done"),), output=OutputCheck(valid=True))
        usage = Usage(input_tokens=10, output_tokens=1)
        return ModelReplied(
            request_id=effect.request_id, lane=effect.lane, finish="stop", usage=usage, tokens=1, bytes=4, body=body
        )

    def _answer(self) -> Fact | None:
        state, command = self.session.state, self.command()
        for ask in state.asks.open.values():
            if ask.kind == "permission":
                return PermissionDenied(command_id=command, request_id=ask.ask_id)
            return AnswerReceived(command_id=command, question_id=ask.ask_id, outcome="declined")
        for call in state.calls.by_id.values():
            if call.status == "unknown":
                return ToolSettled(command_id=command, call_id=call.call_id, outcome="did_not_happen")
            if call.status in ("delegated", "suspended"):
                return ResultReceived(command_id=command, call_id=call.call_id, body=ResultBody())
        return None

    def _wake(self) -> Fact | None:
        state = self.session.state
        waits = isinstance(state.phase, Asked | Asleep) or bool(state.queue.waiting)
        return WakeReceived(command_id=self.command()) if waits and not state.active else None

    # --- what must hold of the whole log ---

    def check_log(self) -> None:
        """Fold equals live state; every decision would be made again; every prefix renders to a valid request."""
        session = self.session
        assert log.dump(session.folded()) == log.dump(session.state), "the fold differs from the live state"
        assert session.verify().problems == []

    def check_prefixes(self) -> int:
        """How many records were looked at, each as the end of a log."""
        return Prefixes(self.session).check()


class Prefixes:
    """Folds a log record by record and renders what a model would be sent after each."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.events: list[Event] = []
        self.names: dict[str, tuple[str, str | None]] = {}
        self.cache: dict[int, tuple[ItemRef, HistoryItem]] = {}
        self.state = State()
        self.sent: list[HistoryItem] = []

    def check(self) -> int:
        for line, append in zip(self.session.lines, self.session.appends, strict=True):
            tick(self.state, msgspec.json.decode(line)["at"], type(append[0]))
            for event in append:
                self.events.append(event)
                evolve(self.state, event)
                items = self.items()
                check_items(items)
                self._grows(event, items)
        assert log.dump(self.state) == log.dump(self.session.state)
        assert self.items() == render(self.state, self._lookup), "an item is not rendered twice in the same way"
        return len(self.events)

    def _grows(self, event: Event, items: list[HistoryItem]) -> None:
        """A request begins with the items of the one before, unless the log says why it does not."""
        if isinstance(event, PrefixChanged):
            self.sent = []
        elif isinstance(event, ModelRequested) and event.lane == "main":
            same = items[: len(self.sent)] == self.sent
            assert same, f"event {self.state.seq}: the request does not begin with the last one's items"
            self.sent = items

    def _lookup(self, seq: int) -> Event:
        return self.events[seq - 1]

    def items(self) -> list[HistoryItem]:
        """As `render` gives them, each item made once."""
        whole, self.state.history.items = self.state.history.items, []
        try:
            known = [self._item(ref) for ref in whole]
            return known + render(self.state, self._lookup, dict(self.names))
        finally:
            self.state.history.items = whole

    def _item(self, ref: ItemRef) -> HistoryItem:
        found = self.cache.get(id(ref))
        if found is None:
            found = self.cache[id(ref)] = (ref, item(ref, self._lookup, self.names))
        return found[1]


def run(seed: int, ticks: int, seen: Counter[Pair] | None = None) -> Chaos:
    """One seed of the sweep: chaos, then calm, then the whole log is checked."""
    chaos = Chaos(seeded(seed), seen)
    for _ in range(ticks):
        chaos.tick()
    chaos.drain()
    chaos.check_log()
    return chaos
