"""Workflows as a user of the package holds them: made by `Runtime.flow`, kept in a log like any session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.flows import FlowBody, FlowReceived, NodeFinished, NodeRetried, NodeStarted, NodeStopped
from windlass.events.runs import Terminal
from windlass.events.values.failures import Failure
from windlass.events.values.usage import NANOS_PER_USD, Usage
from windlass.runtime.flows.outputs import outcome_of
from windlass.runtime.flows.references import text_of
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record
from windlass.store.base import Key

from .result import Status

if TYPE_CHECKING:
    from windlass.kernel.parts.flows.nodes import Flow as Graph

    from .runtime import Runtime
    from .session import Session

KIND = "windlass.kind"
FLOW = {KIND: "flow"}
"""The metadata by which workflows are found in an index of sessions."""
WHY_CHARS_MAX = 500
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

    def __init__(self, session: Session) -> None:
        self.session = session

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

    async def result(self) -> FlowResult:
        """How it ended, with the outputs of its nodes. Also if it only rests: `status` is `asked` then."""
        ended = await self.session.result()
        graph = (await self.session.state()).flow
        return FlowResult(
            session=self.flow_id,
            status=ended.status,
            nodes=await self._views(graph),
            results=_results(graph),
            usage=ended.usage,
            cost_nanos=ended.cost_nanos,
            waiting_for=ended.waiting_for,
            failure=ended.failure,
        )

    async def nodes(self) -> dict[str, NodeView]:
        """Its nodes as they are now."""
        return await self._views((await self.session.state()).flow)

    async def _views(self, graph: Graph) -> dict[str, NodeView]:
        return await views_of(LogReader(self.session.runtime.store), self.session.key, graph)

    async def progress(self) -> AsyncIterator[NodeEvent]:
        """What becomes of its nodes, from the beginning, live, until it ends or rests."""
        async for told in self.session.runtime.tail(self.session.key, after=0):
            event = told.event if isinstance(told, Record) else None
            if isinstance(event, NodeStarted | NodeFinished | NodeRetried | NodeStopped):
                yield event
            elif isinstance(event, Terminal) and await self._is_last(event):
                return

    async def _is_last(self, ended: Terminal) -> bool:
        """Whether no other run has begun since one ended."""
        state = await self.session.state()
        return not state.active and state.run.run_id == ended.run_id

    async def interrupt(self) -> None:
        """Stops what is at work; `wake` has it go on."""
        await self.session.interrupt()

    async def wake(self) -> None:
        """Has it go on where it was interrupted or failed: what is done stays."""
        await self.session.wake()

    async def cancel(self) -> None:
        """Stops it for good. What is done stays on record."""
        await self.session.cancel()


async def views_of(log: LogReader, key: Key, graph: Graph) -> dict[str, NodeView]:
    """The nodes of a workflow with what they gave, read from its log."""
    ended = {node.output_seq for node in graph.nodes.values() if node.status in ("done", "failed")}
    said: dict[int, Any] = {}
    if ended - {None}:
        records = log.records(key, after=0)
        said = {record.seq: outcome_of(record.event).value async for record in records if record.seq in ended}
    return {
        name: NodeView(
            name=name,
            status=node.status,
            output=said.get(node.output_seq or 0) if node.status == "done" else None,
            attempt=node.attempt,
            branch=node.branch,
            reason=_why(node, said),
        )
        for name, node in graph.nodes.items()
    }


def _results(graph: Graph) -> tuple[str, ...]:
    assert graph.graph is not None, "only a workflow has one"
    return graph.graph.results or tuple(name for name, node in graph.nodes.items() if not node.wanted_by)


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
