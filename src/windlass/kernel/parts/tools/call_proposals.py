"""Calls on their way to a verdict: those of a reply, those that the host has prepared, those that a person makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.tools.calls import CallBody, CallReceived, ToolPrepared, ToolRequested
from windlass.events.turns import ModelReplied
from windlass.events.values.ids import call_id
from windlass.kernel.part import Decisions
from windlass.kernel.parts import runs
from windlass.kernel.parts.tools import calls, gate
from windlass.kernel.phases import Asked, Asleep

if TYPE_CHECKING:
    from windlass.kernel.state import State


def propose(state: State, fact: ModelReplied, seq: int) -> Decisions:
    """Requests every call of the reply at `seq`, then rules on each that the host has prepared."""
    proposals = fact.body.calls if fact.body is not None else ()
    for proposed in proposals:
        call = proposed.call
        yield ToolRequested(
            call_id=call_id(seq, call.ordinal),
            tool=call.tool,
            ordinal=call.ordinal,
            digest=proposed.prepared.digest if proposed.prepared is not None else "",
            labels=proposed.prepared.labels if proposed.prepared is not None else (),
            traits=proposed.prepared.traits if proposed.prepared is not None else None,
            spawning=proposed.prepared.spawning if proposed.prepared is not None else None,
            body=CallBody(args=call.args, text=call.text, malformed=call.malformed),
        )
    ruling = next((ruling for ruling in fact.hooks if ruling.denies and ruling.call_id is None), None)
    truncated = fact.finish in ("length", "content_filter", "error")
    most = state.setup.settings.calls_per_turn_max
    for proposed in proposals:
        call = proposed.call
        here = state.calls.by_id[call_id(seq, call.ordinal)]
        if ruling is not None:
            yield calls.denied(here, "hook", ruling.message or f"the reply was denied by {ruling.hook_id}")
        elif call.malformed is not None or (call.args is None and call.text is None):
            yield calls.denied(here, "malformed_arguments", call.error or "the arguments could not be read")
        elif truncated:
            yield calls.denied(here, "truncated_reply", "the reply was cut off, so this call may be incomplete")
        elif call.ordinal >= most:
            yield calls.denied(here, "too_many_calls", f"at most {most} calls in one reply")
        else:
            yield from gate.rule(state, here, proposed.prepared, call.args, call.text)


def on_prepared(state: State, fact: ToolPrepared) -> Decisions:
    """The host has prepared a call: gate it now."""
    if fact.body is not None:
        call, body = state.calls.by_id[fact.call_id], fact.body
        yield from gate.rule(state, call, body.prepared, body.args, body.text, fact.hooks)


def on_received(state: State, fact: CallReceived) -> Decisions:
    """A person's own call: same gate, same log."""
    name = call_id(state.seq, 0)
    if not state.active:
        resumes = isinstance(state.phase, Asked | Asleep)
        yield from runs.begin(state, "call", (fact.command_id,), continues=resumes)
    args = fact.body.args if fact.body is not None else {}
    prepared = fact.body.prepared if fact.body is not None else None
    yield ToolRequested(
        call_id=name,
        tool=fact.tool,
        digest=prepared.digest if prepared is not None else "",
        by_person=True,
        labels=prepared.labels if prepared is not None else (),
        traits=prepared.traits if prepared is not None else None,
        spawning=prepared.spawning if prepared is not None else None,
        body=CallBody(args=args),
    )
    yield from gate.rule(state, state.calls.by_id[name], prepared, args, None)
