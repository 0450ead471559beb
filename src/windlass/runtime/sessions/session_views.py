"""What can be said of a session at one moment: its state, what it is busy with, what it is set up with. Only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.tools.labels import Provenance
from windlass.events.values.access import SandboxTerms
from windlass.events.values.policy import Grant
from windlass.events.values.setup import SessionOptions
from windlass.events.workspace import InstructionsRendered
from windlass.kernel import log as kernel_log
from windlass.kernel.parts.tools import policy_rules, verdicts
from windlass.kernel.phases import Left
from windlass.kernel.state import State
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk, asked_of
from windlass.runtime.api.open_things import Waiting, begun, dates, waiting_of
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.drive.jobs import job_rows
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.host.opener import Opener
from windlass.runtime.host.ports import Ports
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.trees.session_children import Trees
from windlass.store.base import Key
from windlass.tools.description import Description, described
from windlass.tools.jobs.job_host import JobRow

if TYPE_CHECKING:
    from windlass.runtime.api.setup_summary import SetupSummary
    from windlass.runtime.bind.bound_agent import Bound


class SessionViews:
    """Looks at sessions: in memory if they are driven here, else in the log."""

    def __init__(
        self,
        slots: Slots,
        log: LogReader,
        ports: Ports,
        agents: BoundAgents,
        opener: Opener,
        tools: ToolRunners,
        trees: Trees,
    ) -> None:
        self._slots = slots
        self._log = log
        self._ports = ports
        self._agents = agents
        self._opener = opener
        self._tools = tools
        self._trees = trees

    async def state(self, key: Key) -> State:
        """The state of a session, as the log has it."""
        state = await self.seen(key)
        driven = self._slots.driven_at(key)
        return kernel_log.copy(state) if driven is not None and driven.owner.state is state else state

    async def seen(self, key: Key) -> State:
        """The same, perhaps the owner's own: to be read at once, neither kept nor changed."""
        driven = self._slots.driven_at(key)
        if driven is not None and not driven.owner.stale:
            return driven.owner.state
        return (await self._log.fold(key)).state

    async def works(self, key: Key) -> bool:
        """Whether a run is active, as far as memory or the log can tell."""
        driven = self._slots.driven_at(key)
        if driven is None:
            return (await self.seen(key)).active
        return driven.owner.stale or driven.owner.state.active

    async def waiting(self, key: Key) -> tuple[Waiting, ...]:
        """What a session is busy with or waits for, as the log has it; first room in the store, if it waits."""
        waiting = await self._waiting(key)
        paused = self._slots.paused().get(key)
        return (Waiting(kind="room in the store", open_id=paused), *waiting) if paused else waiting

    async def jobs(self, key: Key) -> tuple[JobRow, ...]:
        """The background jobs of a session: those that run, and the last that have ended."""
        state = await self.state(key)
        driven = self._slots.driven_at(key)
        now_ms = driven.owner.now_ms() if driven is not None else self._ports.now_ms()
        seqs = [*(job.seq for job in state.jobs.open.values()), *(job.seq for job in state.jobs.ended)]
        return job_rows(state, await self._log.events_at(key, sorted(seqs)) if seqs else {}, now_ms)

    async def _waiting(self, key: Key) -> tuple[Waiting, ...]:
        state = await self.state(key)
        first = begun(state)
        if first > state.seq:
            return waiting_of(state, {}, state.now_ms)
        since = dates(state, [record async for record in self._log.records(key, after=first - 1)])
        driven = self._slots.driven_at(key)
        return waiting_of(state, since, driven.owner.now_ms() if driven is not None else self._ports.now_ms())

    async def asked(self, key: Key) -> tuple[PermissionAsk | QuestionAsk, ...]:
        """What a session asks of people, as an approver would be asked; then what its children do, under the ids that
        it knows those by."""
        if isinstance((await self.seen(key)).phase, Left):  # what it asked is asked where it goes on
            return ()
        asks = list(await self._asked(key))
        for path, below in await self._trees.asked(key):
            asks += [_as_known(path, ask) for ask in await self._asked(below)]
        return tuple(asks)

    async def _asked(self, key: Key) -> tuple[PermissionAsk | QuestionAsk, ...]:
        seqs = sorted(ask.seq for ask in (await self.seen(key)).asked)
        events = await self._log.events_at(key, seqs) if seqs else {}
        asks = (asked_of(key.session, events[seq]) for seq in seqs)
        return tuple(asked for asked in asks if asked is not None)

    async def grants(self, key: Key) -> tuple[Grant, ...]:
        """The standing approvals of a session that hold now."""
        state = await self.state(key)
        state.now_ms = max(state.now_ms, self._ports.now_ms())
        return verdicts.standing(state)

    async def labels(self, key: Key) -> tuple[Provenance, ...]:
        """The labels of a session, each with what brought it."""
        here = (await self.state(key)).labels
        return tuple(sorted((*here.held.values(), *here.met.values()), key=lambda provenance: provenance.seq))

    async def explain(self, key: Key, tool: str, args: Mapping[str, Any]) -> str:
        """What would become of a call in a session, and why. Raises `UsageError` if its code is not here."""
        from windlass.runtime.bind.explanation import explained

        state = await self.state(key)
        state.now_ms = max(state.now_ms, self._ports.now_ms())
        slot, bound = self._slots.get(key), self._bound(key, state)
        if bound is not None and slot is not None:
            bound = bound.for_session(slot.local_code)
        name = bound.canonical(state, tool) if bound is not None else tool
        code = bound.tool(state, name) if bound is not None else None
        if bound is None or code is None:
            there = f"session {key.session!r} has the tools {', '.join(state.toolset.tools) or 'none'}"
            raise UsageError(f"no code of a tool {tool!r} is at hand: {there}")
        terms = None
        if policy_rules.runs_in_sandbox(code.spec):
            terms = await self._terms(state, described(code, dict(args), bound.place(state)))
        return explained(state, code, dict(args), bound.place(state), sandbox=terms)

    def _bound(self, key: Key, state: State) -> Bound | None:
        """The agent that runs a session, if its code is here."""
        driven = self._slots.driven_at(key)
        if driven is not None:
            return driven.driver.performer.bound
        bound, by = self._agents.get(state.setup.agent.name), state.setup.options.specialist
        if bound is None or by is None or by.name not in bound.specialists:
            return bound
        return bound.with_options(SessionOptions(specialist=by))

    async def _terms(self, state: State, about: Description) -> SandboxTerms | None:
        """Where a command of a session would run, as a sandbox that is opened for this says."""
        folder = state.workspace.folder
        return await self._tools.terms(
            state.session_id, folder.cwd if folder is not None else None, state.setup.options.sandbox, about
        )

    async def setup(self, key: Key) -> SetupSummary:
        """What a session is set up with: as its log has it, and as its folder is if one was named here."""
        from windlass.runtime.api.setup_summary import recorded_files, summary

        state = await self.state(key)
        bound = self._bound(key, state)
        slot = self._slots.get(key)
        driven = slot.driven if slot is not None else None
        folder = slot.folder if slot is not None else None
        place = driven.instructions.place if driven is not None else await self._opener.place(slot, None)
        if place is not None and place.files is not None:
            files = place.files.files
        else:
            rendered = await self._log.event_at(key, state.workspace.instructions_seq)
            files = recorded_files(rendered.sources if isinstance(rendered, InstructionsRendered) else ())
        if place is not None and place.workspace is not None:
            state.workspace.folder = place.workspace
        knowledge = bound.agent.knowledge if bound is not None else ()
        by_sandbox = any(rule.confined for rule in state.gate.policy.rules)
        runs = by_sandbox and any(policy_rules.runs_in_sandbox(spec) for spec in state.toolset.tools.values())
        terms = await self._terms(state, Description()) if runs else None
        confined = terms is not None and terms.confines
        trusted = None if folder is None else folder.trusted
        specialists = tuple(bound.specialists) if bound is not None else ()
        return summary(
            state, files=files, knowledge=knowledge, trusted=trusted, confined=confined, specialists=specialists
        )


def _as_known(path: str, ask: PermissionAsk | QuestionAsk) -> PermissionAsk | QuestionAsk:
    """What a child asks, under the id that a session above it knows it by."""
    if isinstance(ask, PermissionAsk):
        return msgspec.structs.replace(ask, request_id=f"{path}/{ask.request_id}")
    return msgspec.structs.replace(ask, question_id=f"{path}/{ask.question_id}")
