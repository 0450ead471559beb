"""The host's side of schedules: works out their times, and begins what an occurrence is to begin, once."""

from __future__ import annotations

import datetime
from collections.abc import Coroutine
from typing import Any, Literal

from windlass.events.base import Command
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.runs import CancelReceived
from windlass.events.schedules import OccurrenceDelivered, ScheduleComputed
from windlass.events.signals import SignalBody, SignalReceived
from windlass.events.values.blocks import Text
from windlass.events.values.ids import child_id
from windlass.events.values.plans import SchedulePlan
from windlass.events.values.setup import Origin
from windlass.kernel.effects import BeginOccurrence, ComputeTimes
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.commands.sender import Sender
from windlass.runtime.drive.effect_outcome import Done
from windlass.runtime.host.first_facts import Beginning
from windlass.runtime.host.host_settings import HostSettings
from windlass.runtime.host.ports import Ports
from windlass.runtime.owner.owner import Owner
from windlass.runtime.sessions.directory import Directory
from windlass.store.base import Key, Store

from . import times

AT_WORK = ("running", "asked", "sleeping")
NOTE_CHARS_MAX = 500
ACTOR = "schedule"
Outcome = Literal["begun", "overlapped", "failed"]


class Occurrences:
    """Performs what schedules are owed. Called again after a crash, with the same ids: nothing begins twice."""

    def __init__(
        self,
        store: Store,
        ports: Ports,
        settings: HostSettings,
        agents: BoundAgents,
        sessions: Directory,
        sender: Sender,
    ) -> None:
        self._store = store
        self._agents = agents
        self._ports = ports
        self._poll_ms = settings.poll_ms
        self._sessions = sessions
        self._sender = sender

    def perform(self, owner: Owner, effect: ComputeTimes | BeginOccurrence) -> Coroutine[Any, Any, Done]:
        """What came of an effect, as a fact."""
        return self._compute(effect, owner) if isinstance(effect, ComputeTimes) else self._begin(effect, owner)

    async def _compute(self, effect: ComputeTimes, owner: Owner) -> Done:
        """What has come since the times were last worked out, and what comes next."""
        now = max(effect.since_ms, owner.now_ms())
        computed_times = times.computed(_plan(owner), effect.since_ms, now)
        return Done(
            ScheduleComputed(
                since_ms=effect.since_ms,
                until_ms=now,
                due=computed_times.due,
                missed=computed_times.missed,
                next_ms=computed_times.next_ms,
            )
        )

    async def _begin(self, effect: BeginOccurrence, owner: Owner) -> Done:
        """Begins an occurrence, unless the one before is still at work and the plan says to leave it out then."""
        plan, name = _plan(owner), child_id(owner.key.session, effect.occurrence_id)
        key = Key(owner.key.tenant, plan.session or name)
        before = Key(owner.key.tenant, plan.session or owner.state.schedule.last)
        try:
            if not plan.signal and not await self._clear(plan, before, key, name):
                return _done(effect, "overlapped", key, f"{before.session} is still at work")
            await self._say(plan, key, effect, owner, name)
        except (Refused, NotFound, UsageError) as error:
            return _done(effect, "failed", key, str(error)[:NOTE_CHARS_MAX])
        return _done(effect, "begun", key)

    async def _clear(self, plan: SchedulePlan, before: Key, key: Key, name: str) -> bool:
        """Whether nothing is in the way, after it was waited for or cancelled if the plan says so."""
        begun_already = not plan.session and before == key
        if not before.session or plan.overlap == "allow" or begun_already or not await self._at_work(before):
            return True
        if plan.overlap == "cancel":
            await self._sender.send(before, CancelReceived(command_id=f"cancel:{name}", actor=ACTOR))
            return True
        while plan.overlap == "queue" and await self._at_work(before):
            await self._ports.sleep_ms(self._poll_ms)
        return plan.overlap == "queue"

    async def _at_work(self, key: Key) -> bool:
        row = await self._store.index.get(key)
        if row is None:
            return False
        return row.state in AT_WORK or row.owed or bool(await self._store.inbox.waiting(key, limit=1))

    async def _say(self, plan: SchedulePlan, key: Key, effect: BeginOccurrence, owner: Owner, name: str) -> None:
        """Creates the session unless it is there or was named, and says to it what is to be said."""
        if plan.session:
            await self._sessions.find(key)
        else:
            await self._sessions.open(key, self._beginning(effect, owner), None)
        await self._sender.send(key, _command(plan, owner.key.session, name))

    def _beginning(self, effect: BeginOccurrence, owner: Owner) -> Beginning:
        bound = self._agents.get(owner.state.setup.agent.name)
        assert bound is not None, "a schedule is driven where its agent is bound"
        at = datetime.datetime.fromtimestamp(effect.at_ms / 1000, times.zone_of(_plan(owner).timezone))
        told = at.isoformat(timespec="seconds")
        metadata = {"schedule": owner.key.session, "occurrence": told}
        return Beginning(bound=bound, title=f"{owner.state.setup.title or owner.key.session} {told}", metadata=metadata)


def _plan(owner: Owner) -> SchedulePlan:
    plan = owner.state.schedule.plan
    assert plan is not None, "only a schedule owes this"
    return plan


def _command(plan: SchedulePlan, schedule: str, name: str) -> Command:
    """What is said, under an id that is derived from the occurrence: taken once, however often it is sent."""
    if plan.signal:
        body = SignalBody(text=plan.prompt)
        return SignalReceived(
            command_id=name, actor=ACTOR, kind=plan.signal, source=schedule, urgency=plan.urgency, body=body
        )
    origin = Origin(kind="schedule", name=schedule)
    return PromptReceived(
        command_id=name, actor=ACTOR, origin=origin, body=PromptBody(content=(Text(text=plan.prompt),))
    )


def _done(effect: BeginOccurrence, outcome: Outcome, key: Key, note: str = "") -> Done:
    return Done(
        OccurrenceDelivered(
            occurrence_id=effect.occurrence_id,
            outcome=outcome,
            session_id=key.session,
            note=note,
        )
    )
