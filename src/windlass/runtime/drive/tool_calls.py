"""Calls of tools: prepared for the gate, run in their plane once they are allowed, reported as one fact each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from windlass.events.hooks import HookRuling
from windlass.events.tools.calls import CallBody, PreparedBody, ResultBody, ToolFinished, ToolPrepared
from windlass.events.trees.flows import NodeComputed
from windlass.events.trees.machines import MachineComputed
from windlass.events.turns import ModelReplied, Prepared
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.failures import FailureKind, failure
from windlass.events.values.tools import SKILL_TOOLS
from windlass.kernel.effects import PrepareCall, RunTool
from windlass.kernel.parts.runs import traced
from windlass.kernel.parts.tools import policy_rules, rule_sessions
from windlass.kernel.parts.tools.calls import Call
from windlass.kernel.parts.tools.dispatch import terms
from windlass.models.tokens import estimate_block
from windlass.runtime.bind.builtin_tools import SUBMIT
from windlass.runtime.bind.prepared_calls import prepared_aside
from windlass.runtime.context.recall_tools import RECALL_TOOLS, perform, pointed
from windlass.runtime.trees.tree_tools import TREE_TOOLS
from windlass.tools.context import ToolContext
from windlass.tools.planes.large_output import LOOP_BYTES_MAX, Blob
from windlass.tools.planes.withheld_content import Withheld, withheld_by

from .effect_outcome import Done
from .result_hooks import ruled_outcome

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.host.rare_hands import RareHands
    from windlass.runtime.owner.owner import Owner
    from windlass.tools.context import Seat
    from windlass.tools.planes.outcome import Outcome
    from windlass.tools.tool import AnyTool

    from .jobs import Jobs
    from .tool_runner import ToolRunner

OWN_TOOLS = frozenset({*RECALL_TOOLS, *SKILL_TOOLS, SUBMIT, *TREE_TOOLS})
"""Built-in tools that no plane runs."""
ERASED = "the arguments of this call were erased before it could run"


class ToolCalls:
    """Prepares and runs the calls of one session."""

    def __init__(
        self,
        owner: Owner,
        bound: Bound,
        runner: ToolRunner,
        seat: Seat,
        hooks: SessionHooks,
        jobs: Jobs,
        rare: RareHands,
    ) -> None:
        self._owner = owner
        self._bound = bound
        self._runner = runner
        self._seat = seat
        self._hooks = hooks
        self._jobs = jobs
        self._rare = rare

    async def prepare(self, effect: PrepareCall) -> Done | None:
        """Looks up what the gate needs to know of a call; None if it is not owed any more."""
        state = self._owner.state
        if effect.call_id not in state.calls.by_id:
            return None
        body = await self.arguments(effect.call_id)
        if body is None:
            prepared = Prepared(digest="", errors=(ERASED,))
            return Done(ToolPrepared(call_id=effect.call_id, digest="", body=PreparedBody(prepared=prepared)))
        box = self._runner.sandbox
        prepared = await prepared_aside(self._bound, state, effect.tool, body.args, body.text, box)
        rulings: tuple[HookRuling, ...] = ()
        changed = False
        if not prepared.errors and self._hooks.current.at("before_tool", effect.tool):
            shown = body.args if body.text is None else body.text
            moment = self._hooks.moment("before_tool", shown, call_id=effect.call_id, tool=effect.tool)
            ruled = await self._hooks.current.run(moment)
            rulings, changed = tuple(ruled.rulings), ruled.changed
            if changed:
                # What a hook made of the arguments is checked like what a model wrote.
                body = CallBody(args=ruled.value) if body.text is None else CallBody(text=ruled.value)
                prepared = await prepared_aside(self._bound, state, effect.tool, body.args, body.text, box)
        return Done(
            ToolPrepared(
                call_id=effect.call_id,
                digest=prepared.digest,
                changed=changed,
                labels=prepared.labels,
                traits=prepared.traits,
                spawning=prepared.spawning,
                hooks=rulings,
                body=PreparedBody(prepared=prepared, args=body.args, text=body.text),
            )
        )

    async def run(self, effect: RunTool) -> Done | None:
        """Runs a tool under its key; None if it is not owed any more."""
        owner, ports = self._owner, self._owner.ports
        tool = self._bound.tool(owner.state, effect.tool)
        if tool is None:
            told = f"the tool {effect.tool!r} is not available in this process"
            return Done(_unavailable(effect, "tool_unavailable", told))
        if effect.call_id not in owner.state.calls.by_id:
            return None
        body = await self.arguments(effect.call_id)
        if body is None:
            return Done(_unavailable(effect, "tool_arguments", ERASED))
        if not await owner.may_begin(lambda: self._is_started(effect)):
            return None
        state = owner.state
        call = state.calls.by_id[effect.call_id]
        prepared = await self._prepared(call, tool)
        if prepared is not None and (changed := await self._other_sandbox(prepared)) is not None:
            return Done(_unavailable(effect, "tool_unavailable", changed))
        context = ToolContext(
            session=state.session_id,
            call_id=effect.call_id,
            tool=effect.tool,
            run_id=state.run.run_id,
            agent=state.setup.agent.name,
            epoch=owner.epoch,
            attempt=effect.attempt,
            depth=state.depth,
            seat=self._seat,
            sandbox=self._runner.sandbox,
            secrets=self._runner.secrets,
            exclude=policy_rules.unseen_by(rule_sessions.rules_here(state), tool.spec),
            folder=state.workspace.folder.cwd if state.workspace.folder is not None else None,
            jobs=self._jobs,
            basis=prepared.basis if prepared is not None and (call.approval or effect.attempt > 1) else "",
            access=call.access,
            blotted=withheld.blotted if (withheld := self._patterns()) is not None else None,
            traceparent=_traceparent(state, effect),
        )
        started = ports.monotonic_ms()
        ports.point("before_tool")
        if tool.options.source == "builtin" and effect.tool in OWN_TOOLS:
            outcome = await self._carried_out(effect, body.args or {})
        else:
            outcome = await self._runner.run(tool, body, context)
        if outcome.job is not None:
            await self._jobs.keep(outcome.job.job_id)
        ports.point("after_tool")
        if self._bound.skills is not None:
            named = body.args.get("path") if body.args else None
            paths = [named] if isinstance(named, str) else []
            await self._bound.skills.saw((*paths, *(change.path for change in outcome.changes)), effect.call_id)
        outcome, rulings = await ruled_outcome(self._hooks, effect.call_id, effect.tool, outcome)
        outcome = await self._withheld(outcome)
        if outcome.spooled and "read_result" in state.toolset.tools:
            outcome = pointed(outcome, effect.call_id)
        tokens = sum([estimate_block(block) for block in outcome.body.content]) if outcome.body else 0
        duration = max(0, ports.monotonic_ms() - started)
        settle = outcome.status == "timed_out" and self._is_settled(effect)
        fact = outcome.fact(effect.call_id, duration_ms=duration, tokens=tokens, hooks=rulings, settle=settle)
        blobs = await read_blobs(outcome.blobs) if outcome.blobs else None
        return Done(fact, blobs)

    async def _carried_out(self, effect: RunTool, args: JsonObject) -> Outcome:
        """The outcome of a tool by which a model reaches what is the session's own: its archive, skills and tree."""
        owner = self._owner
        if effect.tool in RECALL_TOOLS:
            return await perform(effect.tool, args, owner, self._bound, self._rare.pager)
        if effect.tool in SKILL_TOOLS:
            from windlass.runtime.skills import skill_tools

            return await skill_tools.perform(effect.tool, args, effect.call_id, self._bound.skills, owner.state)
        if effect.tool == SUBMIT:
            return await self._rare.submission.perform(effect.call_id, args)
        return await self._rare.tree_tools.perform(effect.tool, effect.call_id, args)

    def _patterns(self) -> Withheld | None:
        patterns = self._owner.state.gate.policy.exclude_patterns
        return withheld_by(tuple(patterns)) if patterns else None

    async def _withheld(self, outcome: Outcome) -> Outcome:
        """The outcome without what the session's policy keeps from every model."""
        withheld = self._patterns()
        if withheld is None:
            return outcome
        return await asyncio.to_thread(withheld.outcome, outcome) if outcome.blobs else withheld.outcome(outcome)

    async def _prepared(self, call: Call, tool: AnyTool) -> Prepared | None:
        """What the call must still be about: what a person agreed to, or what an earlier attempt began with; and the
        sandbox that a command was judged by. A call that a rule allowed is judged by what it touches, not by what that
        holds."""
        held = bool(call.approval) or call.attempt > 1 or policy_rules.runs_in_sandbox(tool.spec)
        if call.prepared_seq is None or not held:
            return None
        event = await self._owner.event(call.prepared_seq)
        return event.body.prepared if isinstance(event, ToolPrepared) and event.body is not None else None

    async def _other_sandbox(self, prepared: Prepared) -> str | None:
        """Why a command may not run now that was let pass in a sandbox: what would hold it is not what it was then.
        One that cannot be opened runs nothing, and says so itself."""
        judged = prepared.sandbox
        if judged is None:
            return None
        try:
            holds = await self._runner.sandbox.capabilities()
        except (Exception, SystemExit):  # somebody else's code
            return None
        if (judged.name, judged.confines_files, judged.confines_network) == (
            holds.name,
            holds.confines_files,
            holds.confines_network,
        ):
            return None
        return f"this was to run in the sandbox {judged.name!r} and would run in {holds.name!r} now: call it again"

    def _is_settled(self, effect: RunTool) -> bool:
        """Whether a person is to say what became of a call if nobody else can."""
        state = self._owner.state
        call = state.calls.by_id.get(effect.call_id)
        if call is None:
            return False
        contract, settle = terms(call, state.toolset.tools.get(effect.tool))
        return contract == "at_most_once" and settle

    def _is_started(self, effect: RunTool) -> bool:
        call = self._owner.state.calls.by_id.get(effect.call_id)
        return call is not None and call.status == "started" and call.attempt == effect.attempt

    async def arguments(self, call_id: str) -> CallBody | None:
        """The arguments of a call, as its reply, its person or its hooks left them."""
        return await arguments_of(self._owner.state.calls.by_id[call_id], self._owner.event)


async def arguments_of(call: Call, event_at: Callable[[int], Awaitable[Any]]) -> CallBody | None:
    """What a call was given: as hooks changed it, else as the reply or the person has it. None if that was erased:
    no other arguments may take its place."""
    return arguments_in(call, await event_at(call.source_seq if call.changed_seq is None else call.changed_seq))


def arguments_in(call: Call, source: Any) -> CallBody | None:
    """The same, out of the event that has them."""
    if source.body is None:
        return None
    if isinstance(source, ToolPrepared):
        return CallBody(args=source.body.args, text=source.body.text)
    if isinstance(source, ModelReplied):
        reply_call = source.body.calls[call.ordinal].call
        return CallBody(args=reply_call.args, text=reply_call.text)
    if isinstance(source, NodeComputed):
        return CallBody(args=source.body.calls[call.ordinal].args)
    if isinstance(source, MachineComputed):
        return CallBody(args=source.body.call.args)
    return CallBody(args=source.body.args)


def _traceparent(state: State, effect: RunTool) -> Callable[[], str]:
    """The trace context of a call of the run that is going on now, made if the tool asks for it: most never do."""
    run = state.run
    return lambda: traced(state, effect.call_id, effect.attempt, run=run).traceparent


def _unavailable(effect: RunTool, kind: FailureKind, told: str) -> ToolFinished:
    """The result of a call that cannot be run here."""
    return ToolFinished(
        call_id=effect.call_id,
        ok=False,
        failure=failure(kind, told),
        error_code=kind,
        tokens=16,
        body=ResultBody(content=(Text(text=told),)),
    )


async def read_blobs(blobs: tuple[Blob, ...]) -> dict[str, bytes]:
    """What is to be kept beside a fact; much of it is read in a thread."""

    def read() -> dict[str, bytes]:
        contents = {blob.ref.digest: blob.read() for blob in blobs}
        for blob in blobs:
            blob.close()
        return contents

    large = sum(blob.ref.size for blob in blobs) > LOOP_BYTES_MAX
    return await asyncio.to_thread(read) if large else read()
