"""The program of a workflow: what comes next among its nodes.

what returned or ran out of time ends, or is tried again ─▶ what can never begin is left out
─▶ what is ready starts while there are places ─▶ all have ended: the run is over
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.runs import RunCompleted
from windlass.events.trees.children import ChildStopped
from windlass.events.trees.flows import NodeFinished, NodeRetried, NodeStarted
from windlass.events.values.failures import failure
from windlass.kernel.part import Decisions
from windlass.kernel.parts import asks, runs
from windlass.kernel.parts.flows import milestones, node_graph
from windlass.kernel.parts.tools import dispatch, open_calls

if TYPE_CHECKING:
    from windlass.kernel.parts.flows.node_graph import Node
    from windlass.kernel.state import State

NAMED_MAX = 5
"""How many nodes are named when a workflow fails."""
DOUBLINGS_MAX = 30
PAUSE_MS_MAX = 600_000
"""The longest pause before a node is tried again."""
TIME_OVER = "its time was over"


def go_on(state: State) -> Decisions:
    """Has nodes end and begin until each waits for something."""
    flow = state.flow
    while flow.returned or flow.expired or flow.falling or flow.stops or may_start(state):
        if flow.returned:
            yield from end_attempt(state, flow.nodes[flow.returned[0]])
        elif flow.expired:
            yield from run_out(state, flow.nodes[flow.expired[0]])
        elif flow.stops and node_graph.over(flow):
            break
        elif flow.stops:
            yield from stop_the_rest(state)
        elif flow.falling:
            name, end = next(iter(flow.falling.items()))
            yield NodeFinished(node=name, status=end, reason=why_left_out(state, flow.nodes[name], end))
        else:
            yield begin(state, flow.nodes[flow.ready[0]])


def may_start(state: State) -> bool:
    flow = state.flow
    return bool(flow.ready) and flow.graph is not None and flow.at_work < flow.graph.parallel_max


def begin(state: State, node: Node) -> NodeStarted | NodeFinished:
    """A node has its place. What a gate or a classifier has shut off since it was ready is left out."""
    if not node_graph.barred(state.flow, node):
        return start(state, node)
    reason = why_left_out(state, node, "pruned")
    return NodeFinished(node=node.name, status="pruned", attempt=node.attempt, reason=reason)


def start(state: State, node: Node) -> NodeStarted:
    timeout_ms = state.flow.specs[node.name].timeout_ms
    expires_ms = None if timeout_ms is None else state.now_ms + timeout_ms
    return NodeStarted(node=node.name, attempt=node.attempt + 1, expires_ms=expires_ms)


def end_attempt(state: State, node: Node) -> Decisions:
    """A node has its output, or what it tried did not end well."""
    if node.closed:
        yield NodeFinished(
            node=node.name, status="pruned", attempt=node.attempt, output_seq=node.output_seq, reason=node.reason
        )
    elif node.ok:
        yield from milestones.passed(state, node)
        yield NodeFinished(
            node=node.name, status="done", attempt=node.attempt, output_seq=node.output_seq, branch=node.branch
        )
    else:
        yield from not_well(state, node, node.reason or node.cause or "what it called did not end well")


def run_out(state: State, node: Node) -> Decisions:
    """The time of a node is over: what it has open is given up."""
    left = list(node.open)
    unsure = any(dispatch.is_once(state, call) for name in left if (call := state.calls.by_id.get(name)) is not None)
    yield from not_well(state, node, TIME_OVER, unsure=unsure)
    yield from give_up(state, left)


def not_well(state: State, node: Node, reason: str, *, unsure: bool = False) -> Decisions:
    """It is tried again, unless what may be done once may have been done: that is never done again by itself."""
    spec = state.flow.specs[node.name]
    again = node.attempt <= spec.retries and not state.flow.stops
    if again and (unsure or node.unsure):
        again, reason = False, f"{reason}; it may have happened, so it is not tried again"
    if again:
        pause_ms = min(spec.retry_wait_ms * 2 ** min(node.attempt - 1, DOUBLINGS_MAX), PAUSE_MS_MAX)
        at_ms = state.now_ms + pause_ms if pause_ms else None
        yield NodeRetried(node=node.name, attempt=node.attempt, reason=reason, at_ms=at_ms)
    else:
        yield from milestones.held_up(state, node, reason)
        yield NodeFinished(
            node=node.name, status="failed", attempt=node.attempt, output_seq=node.output_seq, reason=reason
        )


def give_up(state: State, left: list[str]) -> Decisions:
    """Closes calls that nobody waits for any more, what was asked about them, and their children."""
    for name in left:
        call, child = state.calls.by_id.get(name), state.children.open.get(name)
        if call is None:
            continue
        for ask in [ask for ask in state.asks.open.values() if ask.call_id == name]:
            yield asks.withdrawn(ask, "superseded")
        if child is not None and not child.stopping:
            yield ChildStopped(child_id=child.child_id, call_id=name, how="cancel")
        yield open_calls.given_up(state, call, "forced")


def stop_the_rest(state: State) -> Decisions:
    """A node failed, and the workflow is to stop then."""
    flow, why = state.flow, f"{state.flow.stops} failed"
    for node in [node for node in flow.nodes.values() if node.status in node_graph.UNDECIDED]:
        left = list(node.open)
        end = "cancelled" if node.status in node_graph.AT_WORK else "skipped"
        yield NodeFinished(node=node.name, status=end, attempt=node.attempt, reason=why)  # type: ignore[arg-type]
        yield from give_up(state, left)


def why_left_out(state: State, node: Node, end: str) -> str:
    """Which of those that it needs a node was left out for."""
    wanted = ("pruned",) if end == "pruned" else node_graph.AGAIN
    needs = state.flow.specs[node.name].needs
    named = [name for name in needs if state.flow.nodes[name].status in wanted]
    if end == "pruned":
        return f"left out with {named[0]}" if named else "another branch was taken"
    return f"it needs {', '.join(named[:NAMED_MAX])}"


def why_failed(node: Node) -> str:
    """Why a node failed, as deep down as it is known."""
    return node.reason if node.reason == TIME_OVER or not node.cause else node.cause


def finish(state: State) -> Decisions:
    """Every node has ended: so does the run."""
    lost = node_graph.failed(state.flow)
    if not lost:
        yield runs.ended(state, RunCompleted, "completed")
        return
    named = "; ".join(f"{node.name}: {node.reason or node.status}" for node in lost[:NAMED_MAX])
    more = f" and {len(lost) - NAMED_MAX} more" if len(lost) > NAMED_MAX else ""
    deeper = [node for node in node_graph.causes(state.flow) if node not in lost]
    told = "; ".join(f"{node.name}: {why_failed(node)}" for node in deeper[:NAMED_MAX])
    since = f", since {told}" if deeper else ""
    yield from runs.fail(state, "error", failure("node_failed", f"the workflow did not end well: {named}{more}{since}"))
