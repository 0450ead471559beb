"""What must hold for a tree of sessions, held against every append.

Written from the promises: it counts turns, starts and ends for itself, and reads messages off the disk.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from windlass.events.base import Event
from windlass.events.budgets import BudgetStopped
from windlass.events.commands import PromptReceived
from windlass.events.errors import NotFound
from windlass.events.runs import RunAsked, RunCancelled, RunInterrupted, RunSlept, Terminal
from windlass.events.sessions import SessionStarted
from windlass.events.stored.codec import Appended
from windlass.events.tools.calls import ToolAllowed, ToolStarted
from windlass.events.tools.permissions import PermissionApproved, PermissionRequested
from windlass.events.trees.accounts import ChildGranted, ChildSettled
from windlass.events.trees.children import ChildFinished, ChildStarted, ChildStopped
from windlass.events.turns import TurnStarted
from windlass.events.values.ids import child_end_id, child_grant_id, child_stop_id, child_task_id
from windlass.kernel.parts import budgets
from windlass.store.base import Key
from windlass.testing.invariants import Broken

if TYPE_CHECKING:
    from windlass.testing.simulator.disk_watch import Log
    from windlass.testing.simulator.world import World

BUDGETED = ("turns", "calls", "children", "tokens", "cost_nanos")


class Family:
    """What is counted of one session."""

    def __init__(self) -> None:
        self.started: dict[str, ChildStarted] = {}
        """Its children, by id."""
        self.ended: Counter[str] = Counter()
        self.granted: Counter[tuple[str, str]] = Counter()
        """What was granted to its children, by id and limit."""
        self.tasks = 0
        self.turns = 0
        self.asked: dict[str, str] = {}
        """The requests for permission that it has made, and the call of each."""
        self.approved: set[str] = set()
        """The calls that somebody approved in it, and the tools that somebody approved for longer."""
        self.left_open: set[str] = set()
        """The children that had ended before those below them, and whose accounts are open."""


class TreeLaws:
    """Follows all trees of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._families: dict[str, Family] = {}

    def _hold(self, rule: str, holds: bool, log: Log, detail: str) -> None:
        if not holds:
            raise Broken(rule, log.state.seq, f"{log.key.session}: {detail}")

    def family(self, session: str) -> Family:
        return self._families.setdefault(session, Family())

    # --- every append ---

    def appended(self, log: Log, append: Appended) -> None:
        """Holds one append against the promises."""
        own = self.family(log.key.session)
        for seq, event in enumerate(append.events, append.first_seq):
            assert isinstance(event, Event)
            self._note(log, own, seq, event)
            self._check_messages(log, seq, event)
        if log.state.parent_id is not None:
            self._check_child(log)
        self._check_sum(log)
        self._check_covered(log)
        self._check_stop(log, append)
        self._check_shown(log)

    def _note(self, log: Log, own: Family, seq: int, event: Event) -> None:
        match event:
            case SessionStarted(parent_id=str(parent)):
                known = log.key.session in self.family(parent).started
                self._hold("a child is started by its parent", known, log, f"below {parent}")
                self._world.reached(f"child_{event.depth}_deep")
            case ChildStarted():
                again = event.child_id in own.started
                self._hold("each child is started once", not again, log, event.child_id)
                own.started[event.child_id] = event
            case ChildFinished():
                own.ended[event.child_id] += 1
                known = event.child_id in own.started and own.ended[event.child_id] == 1
                self._hold("an end is told once", known, log, event.child_id)
                self._world.reached(f"child_{event.status}")
                if event.held is not None and own.started[event.child_id].mode != "detached":
                    own.left_open.add(event.child_id)
            case ChildGranted():
                more = {name: getattr(event.more, name) or 0 for name in BUDGETED}
                own.granted.update({(event.child_id, name): most for name, most in more.items()})
                self._check_kept(log, event.child_id, child_grant_id(event.child_id, seq), "a grant is kept")
                self._check_set_aside(log, own, event)
                self._world.reached(f"granted_{log.state.depth + 1}_deep")
            case BudgetStopped(asks=True):
                self._world.reached("asked_for_budget")
            case ChildSettled():
                self._hold("an account is settled once", event.child_id in own.left_open, log, event.child_id)
                own.left_open.discard(event.child_id)
                self._world.reached(f"account_settled_{log.state.depth + 1}_deep")
            case PromptReceived(command_id=name) if name == child_task_id(log.key.session):
                own.tasks += 1
                self._hold("each child has its task once", own.tasks == 1, log, name)
            case TurnStarted():
                own.turns += 1
            case PermissionRequested():
                own.asked[event.request_id] = event.call_id
                if log.state.depth == 3:
                    self._world.reached("asked_3_deep")
            case PermissionApproved():
                names = [event.request_id, *(one.request_id for one in event.also)]
                own.approved.update(own.asked.get(name, "") for name in names)
                if event.scope != "once":
                    own.approved.add("for longer")
            case ToolAllowed(by="person" | "grant"):
                approved = event.call_id in own.approved or "for longer" in own.approved
                self._hold("no approval is inherited", approved, log, f"{event.call_id} by {event.by}")
            case ToolStarted():
                self._check_asked(log, own, event)
            case _:
                pass

    def _check_set_aside(self, log: Log, own: Family, event: ChildGranted) -> None:
        """What is granted is set aside, and nobody gives what is not left."""
        budget, child = log.state.budget, log.state.children.open.get(event.call_id)
        start = own.started[event.child_id].slice
        if child is not None and start.turns is not None:
            due = start.turns + own.granted[event.child_id, "turns"]
            self._hold("a grant is set aside", child.slice.turns == due, log, f"{child.slice.turns} of {due} turns")
        if budget.limits.turns is not None:
            taken = budget.spent.turns + budgets.held(log.state).turns
            detail = f"{taken} turns used and set aside of {budget.limits.turns}"
            self._hold("nobody grants what is not left", taken <= budget.limits.turns + 1, log, detail)

    def _check_asked(self, log: Log, own: Family, event: ToolStarted) -> None:
        """What anybody above asks about was asked about here."""
        call, above = log.state.calls.by_id.get(event.call_id), log.key.session.rpartition("~")[0]
        while call is not None and above:
            rules = self._world.watch.logs[Key(log.key.tenant, above)].state.gate.policy.rules
            asks = any(rule.action == "ask" and rule.tool == call.tool for rule in rules)
            approved = event.call_id in own.approved or "for longer" in own.approved
            self._hold("no approval is inherited", approved or not asks, log, f"{call.tool}, asked about by {above}")
            above = above.rpartition("~")[0]

    def _check_messages(self, log: Log, seq: int, event: Event) -> None:
        """What one session has to say to another is kept with what it follows from."""
        name = log.key.session
        if isinstance(event, ChildStarted):
            self._check_kept(log, event.child_id, child_task_id(event.child_id), "a task is kept")
        elif isinstance(event, ChildStopped):
            self._check_kept(log, event.child_id, child_stop_id(event.child_id, seq), "a stop reaches the child")
        elif isinstance(event, Terminal) and not isinstance(event, RunAsked | RunSlept) and log.state.parent_id:
            if log.state.active:
                return  # another run began with the same append
            self._check_kept(log, log.state.parent_id, child_end_id(name), "no end is lost")

    def _check_kept(self, log: Log, session: str, command_id: str, rule: str) -> None:
        try:
            ledger = self._world.disk.ledger(Key(log.key.tenant, session))
        except NotFound:
            self._hold(rule, False, log, f"there is no {session}")
            return
        self._hold(rule, command_id in ledger.taken or command_id in ledger.waiting, log, command_id)

    def _check_child(self, log: Log) -> None:
        """A child goes by the slice that was set aside for it."""
        state = log.state
        above, name = self.family(state.parent_id or ""), log.key.session
        start = above.started.get(name)
        if start is None:
            return
        for limit in BUDGETED:
            most, given = getattr(start.slice, limit), getattr(state.budget.limits, limit)
            holds = most is None or (given is not None and given <= most + above.granted[name, limit])
            self._hold("a child goes by its slice", holds, log, f"{limit}: {given} of {most}")

    def _check_sum(self, log: Log) -> None:
        """The turns of a tree, counted in its logs, are never above the budget of its root."""
        root = log.key.session.partition("~")[0]
        above = self._world.watch.logs.get(Key(log.key.tenant, root))
        limits = above.state.budget.limits if above is not None else None
        if limits is None or limits.turns is None:
            return
        turns, wraps = self._counted(root)
        self._hold("the tree stays in its budget", turns <= limits.turns + wraps, log, f"{turns} of {limits.turns}")

    def _check_covered(self, log: Log) -> None:
        """What is booked and set aside at each level above is never less than what was used below it."""
        name = log.key.session
        while name:
            above = self._world.watch.logs.get(Key(log.key.tenant, name))
            if above is not None and above.state.budget.limits.turns is not None:
                used, wraps = self._counted(name)
                covered = above.state.budget.spent.turns + budgets.held(above.state).turns
                detail = f"{used} turns below {name}, {covered} covered"
                self._hold("what is used is covered at every level", used <= covered + wraps, log, detail)
            name = name.rpartition("~")[0]

    def _counted(self, session: str) -> tuple[int, int]:
        """The turns of a session and of all below it, and how many sessions these are: each may say once more how far
        it came."""
        tree = [name for name in self._families if name == session or name.startswith(f"{session}~")]
        return sum(self._families[name].turns for name in tree), len(tree)

    def _check_stop(self, log: Log, append: Appended) -> None:
        """Who is stopped stops those who work for it."""
        if not any(isinstance(event, RunInterrupted | RunCancelled) for event in append.events) or log.state.active:
            return
        left = [
            child.child_id
            for child in log.state.children.open.values()
            if child.mode == "foreground" and not child.stopping
        ]
        self._hold("a stop reaches the child", not left, log, str(left))
        self._world.reached("stopped_with_children" if log.state.children.open else "stopped_alone")

    def _check_shown(self, log: Log) -> None:
        """A model is told of an end once."""
        seqs = Counter(ref.seq for ref in log.state.history.items)
        seqs.update(log.state.queue.steering)
        twice = [seq for seq, count in seqs.items() if count > 1 and isinstance(log.events[seq - 1], ChildFinished)]
        self._hold("an end is told once", not twice, log, str(twice))

    # --- at the end ---

    def unfinished(self, log: Log) -> list[str]:
        """The children whose ends are not in the log of their parent."""
        here, name = log.state.children, log.key.session
        ends = [f"{name}: child {child.child_id} has no end" for child in here.open.values()]
        return ends + [f"{name}: child {one.child.child_id} is not settled" for one in here.unsettled.values()]

    def at_peace(self) -> None:
        """All has come to its end: every level has booked what was used below it, and what was set aside has gone
        back."""
        for key, log in self._world.watch.logs.items():
            if not log.lines or not self.family(key.session).started:
                continue
            turns, sessions = self._used_below(key.session)
            spent = log.state.budget.spent
            booked, used = (spent.turns, spent.children), (turns, sessions)
            detail = f"{booked} turns and children booked for {used}"
            self._hold("what a child did not use goes back", booked == used, log, detail)
            left = budgets.held(log.state)
            self._hold("what a child did not use goes back", left.turns == 0, log, f"{left.turns} turns set aside")
            self._world.reached("escrow_came_back")

    def _used_below(self, session: str) -> tuple[int, int]:
        """The turns of a session with all below it, and how many those are. Who is detached counts as what it was
        given."""
        own = self.family(session)
        turns, sessions = own.turns, len(own.started)
        for child, start in own.started.items():
            given = (start.slice.turns or 0, start.slice.children or 0)
            more, below = given if start.mode == "detached" else self._used_below(child)
            turns, sessions = turns + more, sessions + below
        return turns, sessions
