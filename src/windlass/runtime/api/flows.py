"""Workflows as a user of the package holds them: made by `Runtime.flow`, kept in a log like any session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.trees.flows import FlowBody, FlowReceived, NodeFinished, NodeRetried, NodeStarted, NodeStopped
from windlass.events.trees.growth import NodesReceived
from windlass.events.values.failures import Failure
from windlass.events.values.graphs import FlowGraph
from windlass.events.values.usage import NANOS_PER_USD, Usage
from windlass.kernel.parts.flows.node_graph import UNDECIDED, current, results
from windlass.kernel.parts.flows.nodes import cancelled
from windlass.kernel.phases import Asked, Asleep
from windlass.runtime.flows.outputs import outcome_of
from windlass.runtime.flows.references import text_of
from windlass.runtime.flows.steps import Step
from windlass.runtime.host.first_facts import Beginning
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record
from windlass.store.base import Key, Store
from windlass.tools.planes.task_stops import ended

from .new_sessions import check_here
from .result import Status
from .session import Session

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.runtime.flows.flow import Flow
    from windlass.runtime.workspace.folder import Folder

    from .runtime import Runtime

KIND = "windlass.kind"
FLOW = {KIND: "flow"}
"""The metadata by which workflows are found in an index of sessions."""
WHY_CHARS_MAX = 500
INPUT_CHARS_MAX = 80
NodeEvent = NodeStarted | NodeFinished | NodeRetried | NodeStopped


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node, as far as it has got."""

    name: str
    status: str
    """`waiting`, `ready`, `computing`, `working`; or how it ended: `done`, `failed`, `skipped`, `pruned`,
    `cancelled`."""
    output: Any = None
    """What it gave, if it is done."""
    attempt: int = 0
    branch: str = ""
    reason: str = ""


class FlowResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a workflow ended, or why it rests."""

    session: str
    status: Status
    nodes: dict[str, NodeView]
    results: tuple[str, ...] = ()
    """The nodes that it was there for."""
    usage: Usage = Usage()
    """What the whole workflow has used so far, its child sessions included."""
    cost_nanos: int = 0
    waiting_for: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        return self.status == "completed"

    @property
    def outputs(self) -> dict[str, Any]:
        """The outputs of all nodes that are done, by name."""
        return {name: node.output for name, node in self.nodes.items() if node.status == "done"}

    @property
    def output(self) -> Any:
        """The output of the node that it was there for; of several, those that are done by name."""
        done = {name: self.nodes[name].output for name in self.results if self.nodes[name].status == "done"}
        return next(iter(done.values()), None) if len(self.results) == 1 else done

    @property
    def cost_usd(self) -> float:
        return self.cost_nanos / NANOS_PER_USD


class FlowRun:
    """One workflow that was begun: a session whose work is the graph."""

    def __init__(self, session: Session, since: int = 0) -> None:
        self.session = session
        self.since = since
        """The record behind which it was found here: what is older happened before."""

    @property
    def flow_id(self) -> str:
        return self.session.session_id

    async def start(self, input: Any = None, *, command_id: str | None = None) -> None:
        """Begins it, or has it go on where it failed or was stopped: what is done stays."""
        runtime = self.session.runtime
        command = FlowReceived(
            command_id=command_id or runtime.ports.fresh_id(), actor="user", auth="none", body=FlowBody(input=input)
        )
        await runtime.send(self.session.key, command)

    async def check_input(self, input: Any) -> None:
        """Raises `UsageError` for an input that is not the one which it was begun with: it would be ignored."""
        state = await self.session.state()
        if input is None or state.flow.graph is None or not state.flow.input_seq:
            return
        log = LogReader(self.session.runtime.store)
        before = outcome_of(await log.event_at(self.session.key, state.flow.input_seq)).value
        if _form(before) != _form(input):
            raise UsageError(
                f"workflow {self.flow_id!r} was begun with the input {_short(before)}, not with {_short(input)}: give "
                "this one another id, or go on with that one without an input"
            )

    async def result(self) -> FlowResult:
        """How it ended, with the outputs of its nodes. Also if it only rests: `status` is `asked` then."""
        ended = await self.session.result()
        state = await self.session.state()
        graph = state.flow
        return FlowResult(
            session=self.flow_id,
            status=ended.status,
            nodes=await self._views(state),
            results=results(graph),
            usage=state.budget.spent.usage,
            cost_nanos=state.budget.spent.cost_nanos,
            waiting_for=ended.waiting_for,
            failure=ended.failure,
        )

    async def nodes(self) -> dict[str, NodeView]:
        """Its nodes as they are now."""
        return await self._views(await self.session.state())

    async def nodes_at_first(self) -> dict[str, str]:
        """The states of its nodes when it was found here."""
        log = LogReader(self.session.runtime.store)
        state = await (log.state_at(self.session.key, self.since) if self.since else self.session.state())
        return {name: node.status if self.since else "waiting" for name, node in state.flow.nodes.items()}

    async def rests(self) -> bool:
        """Whether it waits for people or a time, and nothing of it is at work."""
        state = await self.session.state()
        return isinstance(state.phase, Asked | Asleep)

    async def has_graph(self, graph: FlowGraph) -> bool:
        """Whether it was begun with a certain graph."""
        return (await self.session.state()).flow.graph == graph

    async def _views(self, state: State) -> dict[str, NodeView]:
        return await views_of(LogReader(self.session.runtime.store), self.session.key, state)

    async def progress(self, *, after: int = 0) -> AsyncIterator[NodeEvent]:
        """What becomes of its nodes, live, until `result` would give how it ended or why it rests. From the beginning;
        `after=run.since` leaves out what happened before it was found here."""
        over = asyncio.ensure_future(self._result())
        told = self.session.runtime.tail(self.session.key, after=after)
        try:
            async for record in _until(told, over):
                event = record.event
                if isinstance(event, NodeStarted | NodeFinished | NodeRetried | NodeStopped):
                    yield event
        finally:
            over.cancel()
            await ended([over])

    async def _result(self) -> int:
        """Waits until it has come to its end or rests; the last record by then."""
        await self.session.result()
        return (await self.session.state()).seq

    async def add(self, steps: Sequence[Step], *, before: Sequence[str] = (), command_id: str | None = None) -> None:
        """Adds nodes while it runs; those that `before` names and that have not begun wait for them, too. Raises
        `Refused` with all that is wrong with them, or if there would be more than its settings allow."""
        runtime = self.session.runtime
        command = NodesReceived(
            command_id=command_id or runtime.ports.fresh_id(),
            actor="user",
            auth="none",
            nodes=tuple(step.node for step in steps),
            before=tuple(before),
        )
        await runtime.send(self.session.key, command)

    async def interrupt(self) -> None:
        """Stops what is at work; `wake` has it go on."""
        await self.session.interrupt()

    async def wake(self) -> None:
        """Has it go on where it was interrupted or failed: what is done stays."""
        await self.session.wake()

    async def cancel(self) -> None:
        """Stops it for good. What is done stays on record."""
        await self.session.cancel()


async def _until(told: AsyncIterator[Any], over: asyncio.Future[int]) -> AsyncIterator[Record]:
    """The records of a stream until something is over, and those up to the place that it names then."""
    following: asyncio.Future[Any] | None = None
    seq = 0
    try:
        while not over.done() or seq < over.result():
            following = following or asyncio.ensure_future(anext(told))
            await asyncio.wait({following, *(() if over.done() else (over,))}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                record, following = following.result(), None
                if isinstance(record, Record):
                    seq = record.seq
                    yield record
    except StopAsyncIteration:
        return
    finally:
        if following is not None:
            following.cancel()
            await ended([following])
        await told.aclose()  # type: ignore[attr-defined]


def _form(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _short(value: Any) -> str:
    text = _form(value).decode()
    return text if len(text) <= INPUT_CHARS_MAX else f"{text[:INPUT_CHARS_MAX]}…"


async def kept_flow(store: Store, key: Key) -> tuple[FlowGraph, dict[str, NodeView]] | None:
    """A workflow as a store has it: its graph with what was added to it, and its nodes; None if a session is none."""
    log = LogReader(store)
    state = (await log.fold(key)).state
    begun = state.flow.graph
    return None if begun is None else (current(begun, state.flow), await views_of(log, key, state))


async def views_of(log: LogReader, key: Key, state: State) -> dict[str, NodeView]:
    """The nodes of a workflow with what they gave, read from its log. In one that was cancelled, so is whatever has not
    ended."""
    graph, over = state.flow, cancelled(state)
    ended = {node.output_seq for node in graph.nodes.values() if node.status in ("done", "failed")}
    said: dict[int, Any] = {}
    if ended - {None}:
        records = log.records(key, after=0)
        said = {record.seq: outcome_of(record.event).value async for record in records if record.seq in ended}
    return {
        name: NodeView(
            name=name,
            status="cancelled" if over and node.status in UNDECIDED else node.status,
            output=said.get(node.output_seq or 0) if node.status == "done" else None,
            attempt=node.attempt,
            branch=node.branch,
            reason=_why(node, said),
        )
        for name, node in graph.nodes.items()
    }


def _why(node: Any, said: dict[int, Any]) -> str:
    """Why a node did not end well: in its own words, else in those of what it called."""
    if node.status == "failed" and node.output_seq in said and said[node.output_seq]:
        return text_of(said[node.output_seq])[:WHY_CHARS_MAX]
    return str(node.reason)


def key_of(runtime: Runtime, flow_id: str | None) -> Key:
    name = runtime.ports.fresh_id() if flow_id is None else flow_id
    if not isinstance(name, str) or not name or "~" in name:
        raise UsageError(f"workflow id {name!r}: give a name without '~'; its child sessions are named after it")
    return Key(runtime.tenant, name)


async def begin(
    runtime: Runtime,
    flow: Flow,
    flow_id: str | None,
    value: Any,
    metadata: Mapping[str, str] | None,
    folder: Folder | None,
) -> FlowRun:
    """Begins a workflow with a value in a folder, or finds the one of this id."""
    check_here(runtime.host.elsewhere, "workflow")
    key = key_of(runtime, flow_id)
    beginning = Beginning(bound=runtime.bind(flow), title=flow.name, metadata={**(metadata or {}), **FLOW})
    head = await runtime.store.log.head(key)
    await runtime.host.directory.open(key, beginning, folder)
    await runtime.host.trees.take_up(key)
    run = FlowRun(Session(runtime, key), since=head.seq if head is not None else 0)
    await run.check_input(value)
    await run.start(value, command_id=f"flow:{key.session}")
    return run
