"""What must hold for a workflow in a simulated world, held against every append.

Written from the promises: it keeps the graph and the ends of its nodes for itself, and asks the kernel nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from windlass.events.base import Event
from windlass.events.runs import RunCancelled, RunCompleted, RunFailed, RunInterrupted, RunStarted
from windlass.events.sessions import SessionStarted
from windlass.events.stored.codec import Appended
from windlass.events.timers import TimerCancelled
from windlass.events.tools.calls import ToolRequested
from windlass.events.trees.flows import NodeComputed, NodeFinished, NodeRetried, NodeStarted, NodeStopped
from windlass.events.trees.growth import NodesReceived
from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.testing.invariants import Broken

if TYPE_CHECKING:
    from windlass.testing.simulator.disk_watch import Log
    from windlass.testing.simulator.world import World

REOPENS = ("failed", "skipped", "cancelled")
"""Ends that are open again if somebody has the workflow go on."""


class Course:
    """What is known of one workflow."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.nodes: dict[str, FlowNode] = {node.name: node for node in graph.nodes}
        self.needs: dict[str, list[str]] = {node.name: list(node.needs) for node in graph.nodes}
        self.attempts: Counter[str] = Counter()
        """How often each node was begun."""
        self.at_work: set[str] = set()
        self.ends: dict[str, NodeFinished] = {}
        self.shut: set[str] = set()
        """The gates that let nothing pass."""
        self.due: dict[str, int] = {}
        """When each node that pauses may begin again."""
        self.worked_out: set[tuple[str, int, int]] = set()
        self.planned: Counter[tuple[str, int]] = Counter()
        """How many calls each attempt was to make."""
        self.made: Counter[tuple[str, int]] = Counter()
        """How many it made."""
        self.failed: list[str] = []

    def end(self, name: str) -> str:
        """How a node ended; empty if it has not."""
        return self.ends[name].status if name in self.ends else ""


class FlowLaws:
    """Follows all workflows of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._courses: dict[str, Course] = {}

    def _hold(self, rule: str, holds: bool, log: Log, detail: str) -> None:
        if not holds:
            raise Broken(rule, log.state.seq, f"{log.key.session}: {detail}")

    # --- every append ---

    def appended(self, log: Log, append: Appended) -> None:
        """Holds one append against the promises."""
        for event in append.events:
            if isinstance(event, SessionStarted) and event.setup.flow is not None:
                self._courses[log.key.session] = Course(event.setup.flow)
        course = self._courses.get(log.key.session)
        if course is None:
            return
        for event in append.events:
            assert isinstance(event, Event)
            self._note(log, course, event, append.at_ms)
        self._check_open(log, course)

    def _note(self, log: Log, course: Course, event: Event, at_ms: int) -> None:
        match event:
            case NodesReceived():
                self._grown(course, event)
            case NodeStarted():
                self._started(log, course, event, at_ms)
            case NodeComputed():
                self._computed(log, course, event)
            case ToolRequested() if event.node:
                self._called(log, course, event.node)
            case NodeRetried() | NodeStopped():
                self._begins_anew(log, course, event)
            case NodeFinished():
                self._finished(log, course, event)
            case TimerCancelled(reason="woken"):
                course.due.clear()  # somebody said to go on now
            case RunStarted(trigger="wake" | "flow") if event.continues is not None:
                left = [name for name, end in course.ends.items() if end.status in REOPENS]
                self._world.reached("reopened_after_a_failure" if left else "flow_went_on")
                for name in left:
                    del course.ends[name]
                course.failed = []
            case RunCompleted() | RunFailed() | RunCancelled() | RunInterrupted():
                self._over(log, course, event)
            case _:
                pass

    def _grown(self, course: Course, event: NodesReceived) -> None:
        for node in event.nodes:
            course.nodes[node.name], course.needs[node.name] = node, list(node.needs)
        waited_for = {name for node in event.nodes for name in (*node.needs, *node.optional)}
        last = [node.name for node in event.nodes if node.name not in waited_for]
        for name in event.before:
            course.needs[name] += last
        self._world.reached("grew_before_others" if event.before else "grew")

    def _started(self, log: Log, course: Course, event: NodeStarted, at_ms: int) -> None:
        name = event.node
        course.attempts[name] += 1
        once = event.attempt == course.attempts[name]
        self._hold("each attempt of a node is begun once", once, log, f"{name}: {event.attempt}")
        self._hold("what has ended is not begun", not course.end(name), log, f"{name} is {course.end(name)}")
        why = self._why_not(course, name)
        self._hold("a node begins when what it needs is there", not why, log, f"{name}: {why}")
        course.at_work.add(name)
        most = course.graph.parallel_max
        self._hold("nodes have their places", len(course.at_work) <= most, log, f"{sorted(course.at_work)} in {most}")
        due = course.due.pop(name, 0)
        self._hold("a node waits out its pause", due <= at_ms, log, f"{name}: {due} at {at_ms}")
        if len(course.at_work) == most:
            self._world.reached("all_places_taken")

    def _why_not(self, course: Course, name: str) -> str:
        """Why a node may not begin yet; empty if it may."""
        node, needs = course.nodes[name], course.needs[name]
        ends = [course.end(need) for need in needs]
        if any(need in course.shut for need in needs):
            return "a gate that it needs is closed"
        if self._not_chosen(course, name):
            return "another branch was taken"
        if node.quorum is not None:
            self._world.reached("begun_by_a_quorum" if "" in ends else "begun_with_all")
            return "" if ends.count("done") >= node.quorum else f"{ends} for a quorum of {node.quorum}"
        if needs and set(ends) <= {"pruned"}:
            return "all that it needs was left out"
        wrong = [f"{need} is {end or 'open'}" for need, end in zip(needs, ends, strict=True)]
        if not set(ends) <= {"done", "pruned"}:
            return ", ".join(wrong)
        if not all(course.end(name) for name in node.optional):
            return "one that it waits for has not ended"
        if any(course.end(name) in REOPENS for name in node.optional):
            self._world.reached("done_without_an_optional")
        return ""

    def _computed(self, log: Log, course: Course, event: NodeComputed) -> None:
        step = (event.node, event.attempt, event.round)
        self._hold("a node is worked out once", step not in course.worked_out, log, str(step))
        current = event.attempt == course.attempts[event.node]
        self._hold("only the attempt at work is worked out", current, log, str(step))
        course.worked_out.add(step)
        course.planned[event.node, event.attempt] += event.calls
        if event.outcome == "closed":
            course.shut.add(event.node)

    def _called(self, log: Log, course: Course, name: str) -> None:
        attempt = (name, course.attempts[name])
        course.made[attempt] += 1
        within = course.made[attempt] <= course.planned[attempt]
        self._hold("each call of a node is made once", within, log, f"{attempt}: {course.made[attempt]}")

    def _begins_anew(self, log: Log, course: Course, event: NodeRetried | NodeStopped) -> None:
        course.at_work.discard(event.node)
        if isinstance(event, NodeRetried):
            most = course.nodes[event.node].retries
            self._hold("a node is tried again as often as it says", event.attempt <= most, log, event.node)
            self._world.reached("node_retried" if event.at_ms is None else "node_paused")
            course.due[event.node] = event.at_ms or 0
        else:
            course.due.pop(event.node, None)
            self._world.reached(f"node_stopped_{event.reason}")

    def _finished(self, log: Log, course: Course, event: NodeFinished) -> None:
        name = event.node
        self._hold("a node ends once", not course.end(name), log, f"{name} was {course.end(name)}")
        begun = name in course.at_work
        course.at_work.discard(name)
        course.due.pop(
            name, None
        )  # one that had a pause when all was stopped begins anew if somebody says so, and at once
        if event.status == "pruned":
            self._hold("only what no way leads to is left out", self._left_out(course, name), log, name)
        elif event.status == "skipped":
            lost = [need for need in course.needs[name] if course.end(need) in REOPENS]
            self._hold("only what needs a failure is skipped", bool(lost or course.failed), log, name)
        elif event.status in ("done", "failed"):
            self._hold("only what was begun is done, or fails", begun, log, f"{name} is {event.status}")
        course.ends[name] = event
        if event.status == "failed":
            course.failed.append(name)
        self._world.reached(f"node_{event.status}")

    def _left_out(self, course: Course, name: str) -> bool:
        """Whether a gate is closed, a classifier chose otherwise, or nothing that it needs was carried out."""
        needs, node = course.needs[name], course.nodes[name]
        if self._not_chosen(course, name):
            return True
        if name in course.shut or any(need in course.shut for need in needs):
            return True
        out = sum(course.end(need) == "pruned" for need in needs)
        if node.quorum is not None and len(needs) - out < node.quorum:
            return True
        return bool(needs) and all(course.end(need) == "pruned" for need in needs)

    def _not_chosen(self, course: Course, name: str) -> bool:
        """Whether a classifier took another branch than those that lead to a node."""
        for need in course.needs[name]:
            branches, end = course.nodes[need].branches, course.ends.get(need)
            named = [label for label, names in branches.items() if name in names]
            if named and end is not None and end.status == "done" and end.branch not in named:
                return True
        return False

    def _over(self, log: Log, course: Course, event: Event) -> None:
        """A run of the workflow has ended."""
        self._hold("what was stopped is not at work", not course.at_work, log, str(sorted(course.at_work)))
        kept = [name for name, end in course.ends.items() if end.status == "done"]
        if isinstance(event, RunCancelled | RunInterrupted):
            self._world.reached("stopped_with_nodes_done" if kept else "stopped_at_first")
        ended = isinstance(event, RunCompleted) or (
            isinstance(event, RunFailed) and event.failure is not None and event.failure.kind == "node_failed"
        )
        left = [name for name in course.nodes if not course.end(name)]
        self._hold("no node is lost", not ended or not left, log, str(left))

    def _check_open(self, log: Log, course: Course) -> None:
        """What is open belongs to a node at work; what is done is still there."""
        calls = [call for call in log.state.open_calls() if call.node and call.node not in course.at_work]
        self._hold("what is open is somebody's", not calls, log, str([(call.call_id, call.node) for call in calls]))
        nodes = log.state.flow.nodes
        gone = [name for name, end in course.ends.items() if end.status == "done" and nodes[name].status != "done"]
        self._hold("what is done stays done", not gone, log, str(gone))

    # --- at the end ---

    def at_peace(self) -> None:
        """All has come to its end: nothing is at work in any workflow, and what was asked for was done or told."""
        for session, course in self._courses.items():
            if course.at_work:
                raise Broken("no node is lost", 0, f"{session}: {sorted(course.at_work)} are at work for ever")
            open_nodes = [name for name in course.nodes if not course.end(name)]
            self._world.reached("flow_stopped_for_good" if open_nodes else "flow_carried_out")
