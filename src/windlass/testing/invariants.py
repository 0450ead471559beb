"""What must hold for every log, whatever happened: checked from the records alone, event by event.

Used by the property tests and by the simulator. Raises `Broken` with the rule and the place.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from windlass.events.base import Command, Event, name_of
from windlass.events.commands import CommandCompleted, CommandRefused, PromptReceived, QueueChanged
from windlass.events.context import ContextArchived, ContextPagedOut
from windlass.events.hooks import HookRuled, HookRuling
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.runs import RunAsked, RunSlept, RunStarted, Terminal
from windlass.events.schedules import OccurrenceDelivered, OccurrenceStarted, ScheduleComputed
from windlass.events.sessions import SessionForked, SessionImported, SessionResumed, SessionStarted
from windlass.events.timers import TimerCancelled, TimerFired, TimerSet
from windlass.events.tools.calls import (
    ResultReceived,
    ToolAllowed,
    ToolCancelled,
    ToolDelegated,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolReconsidered,
    ToolRequested,
    ToolResolved,
    ToolSettled,
    ToolStarted,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobDropped, JobFinished, JobStarted, JobStopping
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.trees.children import ChildFinished, ChildOpened, ChildStarted, ChildStopped
from windlass.events.trees.flows import NodeComputed, NodeFinished, NodeRetried, NodeStarted, NodeStopped
from windlass.events.turns import (
    ModelDropped,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RetryPlanned,
    TurnFinished,
    TurnStarted,
)
from windlass.events.values.ids import prompt_id, timer_id
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem, UserItem
from windlass.events.values.tools import ToolSpec
from windlass.events.values.usage import ASIDE
from windlass.kernel.parts.asks import answered_by
from windlass.kernel.phases import Asked, Asleep, Left
from windlass.kernel.state import State

from .flow_rules import FlowRules
from .machine_rules import MACHINE_EVENTS, MachineRules

CLOSING = (
    ToolFinished,
    ToolTimedOut,
    ToolResolved,
    ToolDenied,
    ToolCancelled,
    ResultReceived,
)


NO = ("denied", "failed", "timed_out")
"""What a guard may come to that lets nothing pass."""


class Broken(AssertionError):
    """A rule that must hold does not."""

    def __init__(self, rule: str, seq: int, detail: str) -> None:
        super().__init__(f"{rule}: at event {seq}: {detail}")
        self.rule = rule


class Checker:
    """Follows one log. Feed it every event in order; ask `rest(state)` at any append boundary."""

    def __init__(self) -> None:
        self.seq = 0
        self.epoch = 0
        self.active_run: str | None = None
        self.turn: str | None = None
        self.runs: Counter[str] = Counter()
        self.terminals: Counter[str] = Counter()
        self.commands: dict[str, str] = {}
        self.open_commands: dict[str, int] = {}
        self.foreign: set[str] = set()
        self.results: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.allowed: set[str] = set()
        self.tools: dict[str, str] = {}
        self.open_calls: dict[str, int] = {}
        self.contracts: dict[str, str] = {}
        self.again: Counter[str] = Counter()
        self.requests: set[str] = set()
        self.asides: dict[str, str | None] = {}
        self.paged: set[int] = set()
        self.timers: set[str] = set()
        self.machine = MachineRules(self._hold, self.timers)
        self.prompts: dict[str, int] = {}
        self.absorbed: Counter[int] = Counter()
        self.dropped: set[str] = set()
        self.occurrences: dict[str, bool] = {}
        """Each with whether it has come to its end."""
        self.nodes: dict[str, str] = {}
        """The nodes of a workflow that are at work, each with its timer if it has one."""
        self.pauses: dict[str, str] = {}
        """The nodes that are tried again later, each with the timer that they wait for."""
        self.done_nodes: set[str] = set()
        self.flow = FlowRules(self._hold)
        self.task_seq = 0
        """Where the task of a workflow is that is a child."""
        self.asks: set[str] = set()
        self.questions: dict[str, tuple[str, bool]] = {}
        self.born: set[str] = set()
        self.children: set[str] = set()
        self.jobs: set[str] = set()
        self.ended_jobs: set[str] = set()
        self.there: set[str] = set()
        """The tools that the session has."""
        self.once: set[str] = set()
        """The calls that were started as at most once, whatever their tools say later."""
        self.stopped: set[str] = set()
        """The calls that a hook said no to."""

    def feed(self, event: Event) -> None:
        """Takes the next event of the log."""
        self.seq += 1
        self.flow.feed(event, self.seq)
        if isinstance(event, Command):
            self._command(event)
        match event:
            case SessionStarted():
                self.epoch = event.epoch
                self._learn(event.setup.tools)
                self.there = {spec.name for spec in event.setup.tools}
            case SessionResumed():
                self._hold("epochs rise", event.epoch > self.epoch, f"{event.epoch} after {self.epoch}")
                self.epoch = event.epoch
                self._forget_requests()
            case SessionForked() | SessionImported():
                self.epoch = event.epoch
                # What was under way belongs to the origin, where it gets its own end.
                self.foreign.update(self.open_commands)
                self.open_commands.clear()
                self.children.clear()
                self._forget_requests()
                if isinstance(event, SessionForked):
                    self.paged.clear()
            case ModelRequested():
                self._hold("a request is an intent of its owner", event.epoch == self.epoch, event.request_id)
                if event.lane in ASIDE:
                    self._aside(event)
                    return
                self._hold("one request at a time", not self.requests, f"{event.request_id} beside {self.requests}")
                self.requests.add(event.request_id)
            case ModelReplied() | ModelFailed():
                known = event.request_id in (self.asides if event.lane in ASIDE else self.requests)
                self._hold("an outcome has an intent", known, event.request_id)
                self.requests.discard(event.request_id)
                self.asides.pop(event.request_id, None)
            case ModelDropped():
                self._hold("what is dropped was under way", event.request_id in self.requests, event.request_id)
                self.requests.discard(event.request_id)
            case OccurrenceStarted(occurrence_id=name):
                self._hold("an occurrence begins once", name not in self.occurrences, name)
                self.occurrences[name] = False
            case OccurrenceDelivered(occurrence_id=name):
                self._hold("an occurrence ends once", self.occurrences.get(name) is False, name)
                self.occurrences[name] = True
            case NodeStarted() | NodeComputed() | NodeRetried() | NodeStopped() | NodeFinished():
                self._node(event)
            case _ if isinstance(event, MACHINE_EVENTS):
                self.machine.feed(event, self.seq, active=self.active_run is not None)
            case ContextPagedOut():
                self.paged.add(self.seq)
            case ContextArchived():
                self._hold("what is archived was paged out", event.paged_seq in self.paged, str(event.paged_seq))
                self.paged.discard(event.paged_seq)
            case _ if isinstance(event, RUN_EVENTS):
                self._run(event)
            case _:
                self._call(event)

    def _aside(self, event: ModelRequested) -> None:
        """A request for a tool or a judge; one for a call is only made while the call is open."""
        open_call = event.call_id is None or event.call_id in self.open_calls
        self._hold("a request aside is for an open call", open_call, f"{event.request_id} for {event.call_id}")
        self.asides[event.request_id] = event.call_id

    def _node(self, event: NodeStarted | NodeComputed | NodeRetried | NodeStopped | NodeFinished) -> None:
        """A node is begun when it is not at work, and is done once."""
        name = event.node
        self._hold("what is done stays done", name not in self.done_nodes, name)
        match event:
            case NodeStarted():
                self._hold("a node is not begun twice", name not in self.nodes, name)
                self._hold("a node is begun in a run", self.active_run is not None, name)
                self._hold("a node waits out its pause", self.pauses.pop(name, "") not in self.timers, name)
                self.nodes[name] = timer_id(self.seq) if event.expires_ms is not None else ""
                self.timers |= {self.nodes[name]} - {""}
            case NodeComputed():
                self._hold("only a node at work is worked out", name in self.nodes, name)
            case NodeRetried() | NodeStopped():
                self._hold("only a node at work is begun anew", name in self.nodes or name in self.pauses, name)
                self.timers -= {self.nodes.pop(name, ""), self.pauses.pop(name, "")}
                if isinstance(event, NodeRetried) and event.at_ms is not None:
                    self.pauses[name] = timer_id(self.seq)
                    self.timers.add(self.pauses[name])
            case NodeFinished():
                unbegun = event.status not in ("done", "failed")
                self._hold("only a node at work is done, or fails", unbegun or name in self.nodes, name)
                self.timers -= {self.nodes.pop(name, ""), self.pauses.pop(name, "")}
                self.done_nodes |= {name} if event.status == "done" else set()

    def _forget_requests(self) -> None:
        self.requests.clear()
        self.asides.clear()

    def _hold(self, rule: str, holds: bool, detail: str) -> None:
        if not holds:
            raise Broken(rule, self.seq, detail)

    def _learn(self, tools: tuple[ToolSpec, ...]) -> None:
        self.contracts.update({spec.name: spec.contract for spec in tools})

    # --- commands, inputs, runs, turns, timers ---

    def _command(self, event: Command) -> None:
        known = self.commands.get(event.command_id)
        self._hold("a command is taken once", known is None, event.command_id)
        self.commands[event.command_id] = name_of(event)
        if not isinstance(event, SessionStarted):
            self.open_commands[event.command_id] = self.seq

    def _end_command(self, command: str) -> None:
        if command in self.foreign:
            self.foreign.discard(command)
            return
        self._hold("a command has one terminal", command in self.open_commands, command)
        del self.open_commands[command]

    def _run(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._run_started(event)
            case Terminal():
                self._run_ended(event)
            case TurnStarted():
                self._hold("one turn at a time", self.turn is None, f"{event.turn_id} inside {self.turn}")
                self._hold("a turn belongs to a run", self.active_run is not None, event.turn_id)
                self.turn = event.turn_id
                for seq in event.absorbs:
                    self._absorb(seq)
            case TurnFinished():
                self._hold("a turn ends once", self.turn is not None, "no turn is open")
                self.turn = None
            case CommandCompleted():
                self._end_command(event.command_id)
            case CommandRefused():
                self._hold("a command is taken once", event.command_id not in self.commands, event.command_id)
                self.commands[event.command_id] = name_of(event)
            case PromptReceived() if self.flow.nodes:
                self._hold("a workflow has its task once", not self.task_seq, event.command_id)
                self.task_seq = self.seq
            case PromptReceived():
                self.prompts[prompt_id(self.seq)] = self.seq
            case QueueChanged(operation="absorbed"):
                for name in event.prompt_ids:
                    self._absorb(self.prompts[name])
            case QueueChanged(operation="dropped"):
                self.dropped.update(event.prompt_ids)
            case RetryPlanned() if event.lane in ASIDE:
                pass
            case ScheduleComputed(next_ms=None):
                pass
            case TimerSet() | RetryPlanned() | ScheduleComputed():
                self.timers.add(timer_id(self.seq))
            case TimerFired() | TimerCancelled():
                self._hold("a timer ends once", event.timer_id in self.timers, event.timer_id)
                self.timers.discard(event.timer_id)
            case _:
                pass

    def _absorb(self, seq: int) -> None:
        self.absorbed[seq] += 1
        self._hold("an input enters the history once", self.absorbed[seq] == 1, f"input at {seq}")

    def _run_started(self, event: RunStarted) -> None:
        self._hold("one run at a time", self.active_run is None, f"{event.run_id} inside {self.active_run}")
        self.runs[event.run_id] += 1
        self._hold("run ids are unique", self.runs[event.run_id] == 1, event.run_id)
        self.active_run = event.run_id

    def _run_ended(self, event: Terminal) -> None:
        self._hold("a terminal ends the active run", self.active_run == event.run_id, event.run_id)
        self.active_run = None
        self.terminals[event.run_id] += 1
        self._hold("a run has one terminal", self.terminals[event.run_id] == 1, event.run_id)
        for command in event.commands:
            self._end_command(command)
        if not isinstance(event, RunAsked) and not (isinstance(event, RunSlept) and self.children):
            self._hold("a run that is over leaves no call open", not self.open_calls, str(self.open_calls))
            self._hold("a run that is over leaves no turn open", self.turn is None, str(self.turn))
        self._forget_requests()

    # --- calls and what is asked about them ---

    def _call(self, event: Event) -> None:
        match event:
            case ToolRequested():
                self._hold("call ids are unique", event.call_id not in self.tools, event.call_id)
                self.tools[event.call_id] = event.tool
                self.open_calls[event.call_id] = self.seq
            case ToolAllowed():
                self.allowed.add(event.call_id)
            case ToolReconsidered():
                self._hold(
                    "only what has no place yet is judged again", event.call_id in self.open_calls, event.call_id
                )
                self.allowed.discard(event.call_id)
            case ToolStarted():
                self._started(event)
            case ToolSettled(outcome="run_again"):
                self.again[event.call_id] += 1
            case ToolSettled():
                self._closed(event.call_id)
            case ToolOutcomeUnknown(settle=False):
                self._closed(event.call_id)
            case ToolSuspended() | ToolOutcomeUnknown() | ToolTimedOut(settle=True):
                self._asides_over(event.call_id)
            case ToolDelegated():
                self._may_run(event.call_id)
            case ChildStarted() | ChildOpened() | ChildStopped() | ChildFinished():
                self._child(event)
            case JobStarted() | JobStopping() | JobFinished() | JobDropped():
                self._job(event)
            case HookRuled(ruling=HookRuling(point="before_tool", call_id=str(stopped), outcome=said)) if said in NO:
                self.stopped.add(stopped)
            case ToolsetChanged(phase="applied" | "forced"):
                self._learn(event.tools)
                if event.operation == "remove":
                    self.there.difference_update(event.names)
                elif event.operation != "load":
                    self.there.update(event.names)
            case PermissionRequested():
                self.asks.add(event.request_id)
            case PermissionApproved() | PermissionDenied():
                for name in answered_by(event):
                    self._hold("a request is answered once", name in self.asks, name)
                    self.asks.discard(name)
            case PermissionWithdrawn():
                self._hold("a request is answered once", event.request_id in self.asks, event.request_id)
                self.asks.discard(event.request_id)
            case QuestionRequested():
                self.asks.add(event.question_id)
                self.questions[event.question_id] = (event.call_id, event.inside)
            case QuestionWithdrawn():
                self._hold("a question is answered once", event.question_id in self.asks, event.question_id)
                self.asks.discard(event.question_id)
            case AnswerReceived():
                self._hold("a question is answered once", event.question_id in self.asks, event.question_id)
                self.asks.discard(event.question_id)
                call, inside = self.questions[event.question_id]
                if not inside and call:
                    self._closed(call)
            case _ if isinstance(event, CLOSING):
                self._closed(event.call_id)
            case _:
                pass

    def _child(self, event: ChildStarted | ChildOpened | ChildStopped | ChildFinished) -> None:
        match event:
            case ChildStarted():
                self._may_run(event.call_id)
                self._hold("a child is started once", event.child_id not in self.born, event.child_id)
                self.born.add(event.child_id)
                self.children.add(event.child_id)
            case ChildOpened():
                if event.call_id in self.open_calls:  # else its call was stopped before
                    self._closed(event.call_id)
            case ChildStopped():
                self._hold("only an open child is stopped", event.child_id in self.children, event.child_id)
            case ChildFinished():
                self._hold("a child ends once", event.child_id in self.children, event.child_id)
                self.children.discard(event.child_id)
                if event.call_id in self.open_calls:
                    self._closed(event.call_id)

    def _job(self, event: JobStarted | JobStopping | JobFinished | JobDropped) -> None:
        match event:
            case JobStarted():
                self._closed(event.call_id)
                self._hold("a job is started once", event.job_id not in self.ended_jobs, event.job_id)
                self._hold("a job is started once", event.job_id not in self.jobs, event.job_id)
                self.jobs.add(event.job_id)
            case JobStopping():
                self._hold("only an open job is stopped", event.job_id in self.jobs, event.job_id)
            case JobFinished() | JobDropped():
                self._hold("a job ends once", event.job_id in self.jobs, event.job_id)
                self.jobs.discard(event.job_id)
                self.ended_jobs.add(event.job_id)

    def _may_run(self, name: str) -> None:
        self._hold("a call is of a tool that is there", self.tools[name] in self.there, f"{name}: {self.tools[name]}")
        self._hold("what a hook stopped does not run", name not in self.stopped, name)

    def _started(self, event: ToolStarted) -> None:
        name = event.call_id
        self._may_run(name)
        self._hold("intent before effect", name in self.allowed, f"{name} was never allowed")
        self._hold("a closed call does not start", self.results[name] == 0, name)
        self._hold("a start is an intent of its owner", event.epoch == self.epoch, name)
        self.starts[name] += 1
        self._asides_over(name)
        if self.contracts.get(self.tools[name], "at_most_once") == "at_most_once":
            self.once.add(name)
        if name in self.once:
            most = 1 + self.again[name]
            self._hold("at most once", self.starts[name] <= most, f"{name} started {self.starts[name]} times")

    def _closed(self, name: str) -> None:
        self.results[name] += 1
        self._hold("a call has one result", self.results[name] == 1, name)
        self._hold("a result has a call", name in self.open_calls, name)
        del self.open_calls[name]
        self._asides_over(name)

    def _asides_over(self, name: str) -> None:
        self.asides = {request: call for request, call in self.asides.items() if call != name}

    # --- between two appends ---

    def rest(self, state: State) -> None:
        """What must hold between two appends."""
        self._hold("the fold knows the run", state.active == (self.active_run is not None), str(self.active_run))
        folded = [call.call_id for call in state.open_calls()]
        self._hold("the fold knows the open calls", folded == list(self.open_calls), f"{folded}, {self.open_calls}")
        asides = {request.request_id for request in state.requests.open.values() if request.lane in ASIDE}
        self._hold("the fold knows the requests aside", asides == set(self.asides), f"{asides}, {self.asides}")
        self._hold(
            "the fold knows what was paged out", set(state.archive.paged) <= self.paged, f"{state.archive.paged}"
        )
        self._hold("the fold knows the timers", set(state.timers.open) <= self.timers, f"{list(state.timers.open)}")
        waiting = {prompt_id(seq) for seq in (*state.queue.waiting, *state.queue.steering)}
        for name, seq in self.prompts.items():
            places = (self.absorbed[seq] > 0) + (name in waiting) + (name in self.dropped)
            self._hold("no accepted input is lost", places == 1, f"prompt {name} is in {places} places")
        for command, seq in self.open_commands.items():
            owner = state.active or any(i.command_id == command for i in state.queue.inputs.values())
            self._hold("a command is not forgotten", owner, f"{command} received at {seq}")
        sleeps_below = isinstance(state.phase, Asleep) and any(
            child.status == "sleeping" for child in state.children.open.values()
        )
        if not state.active and not isinstance(state.phase, Asked | Left) and not sleeps_below:
            self._hold("rest leaves no call open", not self.open_calls, str(self.open_calls))

    def idle(self, state: State) -> None:
        """What must hold when the world owes nothing: every command but those that wait in a queue has its end."""
        for command, seq in self.open_commands.items():
            queued = any(i.command_id == command for i in state.queue.inputs.values())
            self._hold("every command gets its terminal", queued, f"{command} received at {seq}")


RUN_EVENTS = (
    RunStarted,
    Terminal,
    TurnStarted,
    TurnFinished,
    CommandCompleted,
    CommandRefused,
    PromptReceived,
    QueueChanged,
    TimerSet,
    ScheduleComputed,
    RetryPlanned,
    TimerFired,
    TimerCancelled,
)


def check_items(items: list[HistoryItem]) -> None:
    """A rendered history is a request that every provider could accept: each call has exactly one result right after
    its reply, in call order, and ids are unique."""
    seen: set[str] = set()
    expected: list[str] = []
    for position, item in enumerate(items):
        match item:
            case AssistantItem():
                _nothing_due(expected, position)
                expected = [part.call_id for part in item.content if isinstance(part, CallPart)]
                for name in expected:
                    if name in seen:
                        raise Broken("call ids are unique in a request", position, name)
                    seen.add(name)
                if not item.content:
                    raise Broken("no empty items", position, item.key)
            case ResultItem():
                if not expected or expected[0] != item.call_id:
                    raise Broken("results follow their calls in order", position, f"{item.call_id}, due: {expected}")
                expected = expected[1:]
            case UserItem():
                _nothing_due(expected, position)
                if not item.content:
                    raise Broken("no empty items", position, item.key)
            case _:
                assert_never(item)
    _nothing_due(expected, len(items))


def _nothing_due(expected: list[str], position: int) -> None:
    if expected:
        raise Broken("each call has exactly one result", position, f"missing: {expected}")
