"""The nodes of a workflow: each waits for what it needs, is at work, and comes to one end.

    waiting ──▶ ready ──▶ computing ──(calls)──▶ working ──(all have their results)──▶ computing
       │          ▲           │                     │
       │          │           └──────(its output, or a failure)──▶ returned ──▶ done | failed
       │          ├── node.retried, node.stopped ──────────────────────┤
       │          └── pausing (until its timer fires) ◀── node.retried ┘
       └──▶ skipped (what it needs failed) | pruned (a classifier or a gate left it out)

A step costs what is connected to the node that moved, never the whole graph. What a node does is the host's to say, by
pure functions; here it is only counted, started, tried again and closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Fact
from windlass.events.commands import PromptReceived, QueueEdited
from windlass.events.context import CompactReceived, UndoReceived
from windlass.events.errors import Refused
from windlass.events.runs import RunStarted
from windlass.events.sessions import RewindReceived, SessionStarted
from windlass.events.signals import SignalReceived
from windlass.events.timers import TimerCancelled, TimerFired
from windlass.events.tools.calls import CallBody, CallReceived, ToolRequested
from windlass.events.trees.flows import (
    FlowReceived,
    NodeComputed,
    NodeEnd,
    NodeFinished,
    NodeRetried,
    NodeStarted,
    NodeStopped,
)
from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.events.values.ids import call_id, child_task_id, timer_id
from windlass.kernel.effects import ComputeNode
from windlass.kernel.part import Decisions, Misfit, Open, Part, Row, Why
from windlass.kernel.parts import runs, timers
from windlass.kernel.parts.flows import node_graph
from windlass.kernel.parts.flows.node_graph import Node
from windlass.kernel.parts.tools import dispatch, gate
from windlass.kernel.phases import STARTED, WORKING, Idle

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State

ROUNDS_MAX = 64
"""How often a node may make calls in one attempt, whatever its kind."""
CALLS_MAX = 256
"""How many calls a node may make at once."""
CAUSE_CHARS_MAX = 500
"""How much is kept of why a call of a node did not end well."""
DIRECT = ("spawn", "tool")
"""Kinds whose output is what their one call gave, unless it must fit a schema."""
BY_ITEM = ("map",)
"""Kinds that make a call for each item; when they are tried again, for those alone that did not end well."""
NOT_TAKEN: frozenset[type[Fact]] = frozenset(
    {PromptReceived, QueueEdited, SignalReceived, CallReceived, CompactReceived, UndoReceived, RewindReceived}
)
"""What is said to an agent, and means nothing to a workflow."""
STOPPABLE = ("pausing", *node_graph.AT_WORK)


class Flow(msgspec.Struct, kw_only=True, gc=False):
    """A workflow. Blank in every other session."""

    graph: FlowGraph | None = None
    specs: dict[str, FlowNode] = {}
    nodes: dict[str, Node] = {}
    ready: list[str] = []
    falling: dict[str, NodeEnd] = {}
    """Nodes that will never begin, each with the reason in a word."""
    computing: dict[str, int] = {}
    """Nodes of which the host is to say what comes next, each with the record since which."""
    returned: list[str] = []
    """Nodes whose attempt is over and that have not come to their end yet."""
    expired: list[str] = []
    """Nodes whose time is over."""
    calls: dict[str, str] = {}
    """The node that each open call belongs to."""
    deadlines: dict[str, str] = {}
    """The node that each timer belongs to."""
    pauses: dict[str, str] = {}
    """The node that begins again when each of these timers fires."""
    phases: list[str] = []
    """The nodes that are phases: what they unlock may not be used before they have passed."""
    at_work: int = 0
    unbegun: int = 0
    open: int = 0
    """How many nodes have not ended."""
    input_seq: int = 0
    """Where the input is; 0 before it was begun."""
    stops: str = ""
    """The node because of which everything is to stop."""


def cancelled(state: State) -> bool:
    """Whether somebody stopped the workflow for good, so that what has not ended never will."""
    flow, run = state.flow, state.run
    return bool(run.run_id) and isinstance(state.phase, Idle) and not run.resumable and not node_graph.over(flow)


# --- verbs --------------------------------------------------------------------------------------------------------


def failed_below(state: State, call: str, cause: str) -> None:
    """What a node called did not end well, and this is why."""
    name = state.flow.calls.get(call)
    if name is not None:
        state.flow.nodes[name].cause = cause


def unsure(state: State, call: Call, how: str) -> None:
    """A call ended so that nobody knows what it did. What may be done once is not done again by itself then."""
    name = state.flow.calls.get(call.call_id)
    contract, _ = dispatch.terms(call, state.toolset.tools.get(call.tool))
    if name is not None and contract == "at_most_once":
        state.flow.nodes[name].unsure = True
        state.flow.nodes[name].cause = f"the outcome of {call.tool} is not known: {how}"


def call_requested(state: State, node: str, call: str, ordinal: int) -> None:
    """A node makes a call."""
    state.flow.calls[call] = node
    state.flow.nodes[node].open[call] = ordinal


def call_closed(state: State, call: Call, ok: bool) -> None:
    """A call of a node has its result: the event being folded now."""
    flow = state.flow
    name = flow.calls.pop(call.call_id, None)
    if name is None:
        return  # its node was stopped before
    node = flow.nodes[name]
    node.results[-1][node.open.pop(call.call_id)] = state.seq
    if not ok:
        node.unwell.append(state.seq)
    node.ok = node.ok and ok
    if node.open:
        return
    spec = flow.specs[name]
    if spec.kind in DIRECT and (spec.output is None or not ok):
        node.status, node.output_seq = "returned", state.seq
        flow.returned.append(name)
    else:
        node.status = "computing"
        flow.computing[name] = state.seq


def quarantines(state: State, call: Call) -> bool:
    """Whether the child of a call may only read because its node says so."""
    return bool(call.node) and state.flow.specs[call.node].quarantine


def leave(state: State, node: Node) -> None:
    """A node is not at work any more: what it has open is nobody's, its time does not count."""
    flow = state.flow
    for call in node.open:
        flow.calls.pop(call, None)
    node.open = {}
    flow.computing.pop(node.name, None)
    for line in (flow.returned, flow.expired, flow.ready):
        if node.name in line:
            line.remove(node.name)
    if node.timer_id:
        timers.drop(state, node.timer_id)
        flow.deadlines.pop(node.timer_id, None)
        flow.pauses.pop(node.timer_id, None)
        node.timer_id = ""
    if node.status in node_graph.AT_WORK:
        flow.at_work -= 1
    else:
        flow.unbegun -= 1


# --- fold ---------------------------------------------------------------------------------------------------------


def session_started(state: State, event: SessionStarted) -> None:
    begun = event.setup.flow
    if begun is not None:
        state.flow = Flow(graph=begun)
        node_graph.add(state.flow, begun.nodes)


def flow_received(state: State, event: FlowReceived) -> None:
    flow_begun(state, event.command_id)


def task_received(state: State, event: PromptReceived) -> None:
    """A workflow that is a child has its task as its input."""
    flow_begun(state, event.command_id)


def flow_begun(state: State, command_id: str) -> None:
    runs.join(state, command_id)
    if not state.flow.input_seq:
        state.flow.input_seq = state.seq


def node_started(state: State, event: NodeStarted) -> None:
    flow, node = state.flow, state.flow.nodes[event.node]
    if node.status != "ready":
        raise Misfit(f"{event.node} is {node.status}")
    flow.ready.remove(event.node)
    flow.computing[event.node] = state.seq
    flow.at_work += 1
    flow.unbegun -= 1
    node_graph.begin_attempt(node, event.attempt, keeps=flow.specs[event.node].kind in BY_ITEM)
    if event.expires_ms is not None:
        node.timer_id = timer_id(state.seq)
        flow.deadlines[node.timer_id] = event.node
        timers.put(state, node.timer_id, event.expires_ms, "node")


def node_computed(state: State, event: NodeComputed) -> None:
    flow, node = state.flow, state.flow.nodes[event.node]
    del flow.computing[event.node]
    node.branch, node.reason = event.branch, event.reason
    if event.calls:
        node.status = "working"
        node.round += 1
        node.ok = True
        node.results.append([0] * event.calls)
        if event.calls == len(node.kept):
            node.kept = []  # in older logs every item is worked on again
        return
    node.status = "returned"
    node.ok, node.closed = event.outcome != "failed", event.outcome == "closed"
    node.output_seq = state.seq if event.output_seq is None else event.output_seq
    flow.returned.append(event.node)


def timer_fired(state: State, event: TimerFired) -> None:
    flow = state.flow
    name = flow.deadlines.pop(event.timer_id, None)
    if name is not None:
        flow.nodes[name].timer_id = ""
        flow.expired.append(name)
    pause_over(state, event)


def pause_over(state: State, event: TimerFired | TimerCancelled) -> None:
    """A node has paused long enough, or somebody had the workflow woken."""
    paused = state.flow.pauses.pop(event.timer_id, None)
    if paused is not None:
        state.flow.nodes[paused].timer_id = ""
        node_graph.be_ready(state.flow, state.flow.nodes[paused])


def node_retried(state: State, event: NodeRetried) -> None:
    node = state.flow.nodes[event.node]
    if event.at_ms is None:
        start_over(state, node)
        return
    leave(state, node)
    state.flow.unbegun += 1
    node.status, node.timer_id = "pausing", timer_id(state.seq)
    state.flow.pauses[node.timer_id] = event.node
    timers.put(state, node.timer_id, event.at_ms, "node")


def node_stopped(state: State, event: NodeStopped) -> None:
    node = state.flow.nodes[event.node]
    if node.status not in STOPPABLE:
        raise Misfit(f"{event.node} is {node.status}")
    start_over(state, node)


def start_over(state: State, node: Node) -> None:
    """A node that was at work waits for its turn again."""
    leave(state, node)
    state.flow.unbegun += 1
    node_graph.be_ready(state.flow, node)


def node_finished(state: State, event: NodeFinished) -> None:
    flow, node = state.flow, state.flow.nodes[event.node]
    if node.status not in node_graph.UNDECIDED:
        raise Misfit(f"{event.node} is {node.status}")
    leave(state, node)
    flow.falling.pop(event.node, None)
    flow.open -= 1
    node.status, node.output_seq = event.status, event.output_seq
    node.branch, node.reason = event.branch, event.reason
    if event.status == "failed" and flow.graph is not None and flow.graph.on_failure == "stop":
        flow.stops = flow.stops or event.node
    node_graph.decided(flow, node)


def run_started(state: State, event: RunStarted) -> None:
    """Whoever has a workflow go on means what failed, too; what is done stays."""
    flow = state.flow
    if flow.graph is None or event.trigger not in ("wake", "flow") or event.continues is None:
        return
    flow.stops = ""
    flow.falling = {}
    again = [node for node in flow.nodes.values() if node.status in node_graph.AGAIN]
    for node in again:
        node.status = "waiting"
    flow.open += len(again)
    flow.unbegun += len(again)
    for node in flow.nodes.values():
        if node.status == "waiting":
            node_graph.look_at(flow, node)


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_fact(state: State, fact: Fact) -> None:
    """Raises `Refused` for what is said to a workflow as if it were an agent."""
    if isinstance(fact, PromptReceived) and is_task(state, fact):
        return
    if type(fact) in NOT_TAKEN:
        told = f"{state.session_id!r} is a workflow and has no conversation: start, interrupt, wake or cancel it"
        raise Refused("a_flow", told)


def is_task(state: State, fact: PromptReceived) -> bool:
    """Whether a prompt is the task of a workflow that is a child, and has not begun."""
    own = state.parent_id is not None and fact.command_id == child_task_id(state.session_id)
    return own and not state.flow.input_seq


def check_received(state: State, fact: FlowReceived) -> None:
    flow = state.flow
    if flow.graph is None:
        raise Refused("no_flow", f"{state.session_id!r} is no workflow")
    if state.parent_id is not None and state.run.run_id and isinstance(state.phase, Idle):
        raise Refused("ended", "this child session has ended, and its budget with it: fork it to go on from here")
    if node_graph.over(flow) and not node_graph.failed(flow):
        raise Refused("flow_over", f"the workflow {state.session_id!r} has run: start another one under another id")
    if not flow.input_seq and fact.body is None:
        raise Refused("no_content", "a workflow needs its input")


def check_computed(state: State, fact: NodeComputed) -> None:
    node = state.flow.nodes.get(fact.node)
    here = node is not None and node.status == "computing" and (node.attempt, node.round) == (fact.attempt, fact.round)
    if not here or not state.active:
        raise Refused("stale", f"nobody waits for the node {fact.node}")
    calls = fact.body.calls if fact.body is not None else ()
    if len(calls) != fact.calls or fact.calls > CALLS_MAX or (fact.calls and fact.round >= ROUNDS_MAX):
        raise Refused("malformed", f"a node makes {CALLS_MAX} calls at once, {ROUNDS_MAX} times, at the most")


def on_received(state: State, fact: FlowReceived) -> Decisions:
    if state.active:
        return
    yield from runs.begin(state, "flow", (fact.command_id,), continues=bool(state.run.run_id))


def on_computed(state: State, fact: NodeComputed) -> Decisions:
    """Requests the calls of a node; each goes through the gate like any other."""
    seq = state.seq
    for ordinal, made in enumerate(fact.body.calls if fact.body is not None else ()):
        prepared = made.prepared
        yield ToolRequested(
            call_id=call_id(seq, ordinal),
            tool=made.tool,
            ordinal=ordinal,
            digest=prepared.digest if prepared is not None else "",
            labels=prepared.labels if prepared is not None else (),
            traits=prepared.traits if prepared is not None else None,
            spawning=prepared.spawning if prepared is not None else None,
            node=fact.node,
            body=CallBody(args=made.args),
        )
    for ordinal, made in enumerate(fact.body.calls if fact.body is not None else ()):
        call = state.calls.by_id[call_id(seq, ordinal)]
        yield from gate.rule(state, call, made.prepared, made.args, None)


def stop(state: State, why: Why) -> Decisions:
    """What is at work is stopped; it begins anew if the workflow goes on. What is done stays. What may be done once and
    was running is not begun anew as if nothing had been: what a person says of it is its result, else it has failed."""
    if state.flow.graph is None or why == "superseded":
        return
    for node in [node for node in state.flow.nodes.values() if node.status in STOPPABLE]:
        once = [
            call for call in _open_calls(state, node) if why != "not_carried_over" and dispatch.is_once(state, call)
        ]
        if not once:
            yield NodeStopped(node=node.name, reason=why)
        elif not any(dispatch.is_to_be_settled(state, call) for call in once):
            reason = f"the outcome of {once[0].tool} is not known: it was stopped"
            yield NodeFinished(node=node.name, status="failed", attempt=node.attempt, reason=reason)


def _open_calls(state: State, node: Node) -> list[Call]:
    return [state.calls.by_id[name] for name in node.open if name in state.calls.by_id]


# --- what is open -------------------------------------------------------------------------------------------------


def owes(state: State) -> Iterable[ComputeNode]:
    if not state.flow.computing or not state.active:
        return ()
    return [_compute(state.flow.nodes[name]) for name in state.flow.computing]


def _compute(node: Node) -> ComputeNode:
    effect_id = f"{node.name}/{node.attempt}.{node.round}"
    return ComputeNode(effect_id=effect_id, node=node.name, attempt=node.attempt, round=node.round)


def opens(state: State) -> Iterator[Open]:
    for name, seq in state.flow.computing.items():
        yield Open(kind="node", open_id=name, by="us", seq=seq)


NAMED_MAX = 3
"""How many failed nodes are named where one line says how a workflow stands."""


def stands(state: State) -> str:
    """How many of its nodes have ended; and if that is all there will be, how it came to that."""
    flow = state.flow
    if flow.graph is None:
        return ""
    count = f"{len(flow.nodes) - flow.open} of {len(flow.nodes)} nodes ended"
    if not isinstance(state.phase, Idle):
        return count
    if cancelled(state):
        return f"cancelled, {count}"
    names = [node.name for node in node_graph.failed(flow)] if node_graph.over(flow) else []
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{count}, without {', '.join(names[:NAMED_MAX])}{more}" if names else count


PART = Part(
    name="nodes",
    facts={
        FlowReceived: Row(when=STARTED, check=check_received, fold=flow_received, then=on_received),
        NodeComputed: Row(when=WORKING, check=check_computed, fold=node_computed, then=on_computed),
    },
    decisions={
        NodeStarted: node_started,
        NodeRetried: node_retried,
        NodeStopped: node_stopped,
        NodeFinished: node_finished,
    },
    keeps=lambda state: state.flow.computing,
    hears={
        SessionStarted: session_started,
        TimerFired: timer_fired,
        TimerCancelled: pause_over,
        RunStarted: run_started,
    },
    stop=stop,
    owes=owes,
    opens=opens,
    stands=stands,
)
