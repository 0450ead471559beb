"""Works out what comes next for a node: reads what it needs, asks the function of its kind, and reports a fact."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from windlass.events.stored import codec
from windlass.events.trees.flows import NodeBody, NodeCall, NodeComputed
from windlass.events.values.graphs import INPUT, FlowNode
from windlass.kernel.effects import ComputeNode
from windlass.kernel.parts.flows import node_graph
from windlass.kernel.parts.flows.nodes import CALLS_MAX, ROUNDS_MAX
from windlass.kernel.parts.tools.policy_rules import matches
from windlass.runtime.bind.prepared_calls import looks_aside, prepared_call
from windlass.runtime.drive.effect_outcome import Done

from .coordination import budget_left, coordinating, is_coordinator
from .kinds import classify, gate, loop, map_over, phase, reduce, spawn, tool, tournament
from .kinds.move import REASON_CHARS_MAX, Calls, Ended, Move, Work, failed
from .outputs import Outcome, outcome_of
from .reducers import REDUCERS

if TYPE_CHECKING:
    from windlass.kernel.parts.flows.node_graph import Node
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.owner.owner import Owner

KINDS: dict[str, Callable[[Work], Move]] = {
    "spawn": spawn.spawn,
    "verify": spawn.verify,
    "classify": classify.classify,
    "loop": loop.loop,
    "map": map_over.map_over,
    "tournament": tournament.tournament,
    "reduce": reduce.reduce,
    "tool": tool.tool,
    "gate": gate.gate,
    "phase": phase.phase,
}


class NodeWork:
    """Performs what the nodes of one workflow are owed. Called again after a crash: what it says depends on the log
    alone."""

    def __init__(self, owner: Owner, bound: Bound, hooks: SessionHooks) -> None:
        self._owner = owner
        self._bound = bound
        self._hooks = hooks

    async def compute(self, effect: ComputeNode) -> Done | None:
        """What comes next for a node; None if nobody waits for it any more."""
        flow = self._owner.state.flow
        node, spec = flow.nodes[effect.node], flow.specs[effect.node]
        if (node.attempt, node.round) != (effect.attempt, effect.round):
            return None
        try:
            move = await self._moved(spec, await self._work(node, spec))
            return Done(self._fact(effect, move))
        except (Exception, SystemExit) as error:  # a reducer is the user's code: whatever it raises fails its node
            return Done(self._fact(effect, failed(f"{type(error).__name__}: {error}")))

    async def _moved(self, spec: FlowNode, work: Work) -> Move:
        """What the node's kind says; a function of the user's own runs in a thread."""
        shut = node_graph.locks(self._owner.state.flow) if spec.kind == "tool" else {}
        lock = next((phase for tool, phase in shut.items() if matches(tool, spec.tool)), None)
        if lock is not None:
            return failed(
                f"the tool {spec.tool!r} is locked until the phase {lock!r} has passed: have it need {lock!r}"
            )
        if spec.reducer and spec.reducer not in REDUCERS:
            if spec.reducer not in work.functions:
                return failed(f"there is no reducer {spec.reducer!r} here: give the flow one, reducers={{...}}")
            return await asyncio.to_thread(KINDS[spec.kind], work)
        return KINDS[spec.kind](work)

    async def _work(self, node: Node, spec: FlowNode) -> Work:
        flow = self._owner.state.flow
        values: dict[str, Any] = {INPUT: (await self._outcome(flow.input_seq)).value}
        for name in (*spec.needs, *spec.optional):
            there = flow.nodes[name]
            if there.status == "done" and there.output_seq is not None:
                values[name] = (await self._outcome(there.output_seq)).value
        rounds = [[await self._outcome(seq) for seq in results] for results in node.results]
        kept = [await self._outcome(seq) if seq else None for seq in node.kept]
        agent = self._bound.agent
        functions = {**REDUCERS, **(agent.flow.reducers if agent.flow is not None else {})}
        return Work(spec, values, rounds, self._signal(spec), functions, kept)

    async def _outcome(self, seq: int) -> Outcome:
        return outcome_of(await self._owner.event(seq))

    def _signal(self, spec: FlowNode) -> str:
        """What a node is told of the workflow: a coordinator all that it needs to add nodes, others what is left of the
        budget if they want to know."""
        agent = self._bound.agent
        agents = {each.name: each for each in agent.agents}
        if spec.agent in agents and is_coordinator(agents[spec.agent]):
            return coordinating(self._owner.state, agents)
        return budget_left(self._owner.state) if spec.sees_budget else ""

    def _fact(self, effect: ComputeNode, move: Move) -> NodeComputed:
        fact = functools.partial(NodeComputed, node=effect.node, attempt=effect.attempt, round=effect.round)
        if isinstance(move, Calls):
            if len(move.calls) > CALLS_MAX or effect.round >= ROUNDS_MAX:
                return self._fact(effect, failed(f"it makes too many calls: {len(move.calls)} at once"))
            made = tuple(self._call(tool, args) for tool, args in move.calls)
            return fact(calls=len(made), body=NodeBody(calls=made))
        assert isinstance(move, Ended)
        value = msgspec.to_builtins(move.value)
        codec.require_finite(value, "output")
        return fact(
            outcome=cast("Literal['done', 'failed', 'closed']", move.outcome),
            branch=move.branch,
            reason=move.reason[:REASON_CHARS_MAX],
            body=NodeBody(output=value),
        )

    def _call(self, tool: str, args: dict[str, Any]) -> NodeCall:
        """A call with what the gate needs to know; one that hooks or a thread must look at is prepared later."""
        state = self._owner.state
        aside = looks_aside(self._bound, state, tool) or bool(self._hooks.current.at("before_tool", tool))
        prepared = None if aside else prepared_call(self._bound, state, tool, args, None)
        return NodeCall(tool=tool, args=args, prepared=prepared)
