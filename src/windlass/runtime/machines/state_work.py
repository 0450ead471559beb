"""Works out what a state does: reads its input, and says which call it makes or what the agent is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from windlass.events.trees.flows import NodeCall
from windlass.events.trees.machines import ComputedBody, MachineComputed, MachineMoved
from windlass.events.values.blocks import JsonObject
from windlass.events.values.machines import MachineState
from windlass.kernel.effects import ComputeState
from windlass.models.tokens import estimate_text
from windlass.runtime.bind.prepared_calls import looks_aside, prepared_call
from windlass.runtime.drive.effect_outcome import Done

from .inputs import arguments, environment, filled, input_of, unfit
from .state_tools import ASK, POLL, RUN

if TYPE_CHECKING:
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.owner.owner import Owner

REASON_CHARS_MAX = 1_000


class StateWork:
    """Performs what the states of one machine are owed. Called again after a crash: what it says depends on the log
    alone."""

    def __init__(self, owner: Owner, bound: Bound, hooks: SessionHooks) -> None:
        self._owner = owner
        self._bound = bound
        self._hooks = hooks

    async def compute(self, effect: ComputeState) -> Done | None:
        """What the current state does; None if nobody waits for it any more."""
        machine = self._owner.state.machine
        if (machine.visit, machine.attempt) != (effect.visit, effect.attempt):
            return None
        spec, name = machine.states[effect.state], machine.spec.name if machine.spec is not None else ""
        moved = await self._owner.event(machine.moved_seq)
        assert isinstance(moved, MachineMoved), "a state was entered there"
        given = await input_of(moved, self._owner.event)
        if reason := unfit(spec, given):
            return Done(self._fact(effect, "none", given, reason=reason))
        if spec.kind == "agent":
            return Done(self._fact(effect, "told", given, text=told(name, spec, given)))
        return Done(self._fact(effect, "call", given, call=self._call(*call_of(spec, given))))

    def _fact(
        self,
        effect: ComputeState,
        work: Literal["call", "told", "none"],
        given: JsonObject,
        *,
        reason: str = "",
        text: str = "",
        call: NodeCall | None = None,
    ) -> MachineComputed:
        return MachineComputed(
            visit=effect.visit,
            attempt=effect.attempt,
            work=work,
            tokens=estimate_text(text) if text else 0,
            reason=reason[:REASON_CHARS_MAX],
            body=ComputedBody(input=given, call=call, text=text),
        )

    def _call(self, tool: str, args: dict[str, Any]) -> NodeCall:
        """A call with what the gate needs to know; one that hooks or a sandbox must look at is prepared later."""
        state = self._owner.state
        aside = looks_aside(self._bound, state, tool) or bool(self._hooks.current.at("before_tool", tool))
        prepared = None if aside else prepared_call(self._bound, state, tool, args, None)
        return NodeCall(tool=tool, args=args, prepared=prepared)


def told(machine: str, spec: MachineState, given: JsonObject) -> str:
    """What the agent is told in its state."""
    shown = f"\nInput: {msgspec.json.encode(given, order='deterministic').decode()}" if given else ""
    return f"[machine {machine}, state {spec.name}] {filled(spec.prompt, given)}{shown}"


def call_of(spec: MachineState, given: JsonObject) -> tuple[str, dict[str, Any]]:
    """The call that a state makes: a program with its input as arguments and environment, or a question."""
    if spec.kind == "park":
        return ASK, {"question": filled(spec.question, given), "options": list(spec.next)}
    args = {
        "argv": arguments(spec.command, given),
        "env": environment(given),
        "cwd": spec.cwd,
        "timeout_ms": spec.timeout_ms,
        "success_codes": list(spec.success_codes),
    }
    return POLL if spec.kind == "poll" else RUN, args
