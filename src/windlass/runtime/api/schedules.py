"""Schedules as a user of the package holds them: made by `Runtime.schedule`, kept in a log like any session."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.schedules import ScheduleAction, ScheduleReceived
from windlass.events.values.attention import Urgency
from windlass.events.values.plans import Misfire, Overlap, SchedulePlan
from windlass.runtime.host.first_facts import Beginning
from windlass.store.base import IndexRow, Key

from .new_sessions import check_here
from .session import Session

if TYPE_CHECKING:
    from windlass.kernel.parts import schedules as kernel_schedules

    from .agent import Agent
    from .runtime import Runtime

KIND = "windlass.kind"
SCHEDULE = {KIND: "schedule"}
"""The metadata by which schedules are found in an index of sessions."""


class Planned(TypedDict, total=False):
    """What a schedule is made of."""

    cron: str | None
    """Five fields, as cron has them, in the time zone."""
    every: float | datetime.timedelta | None
    """Instead: again and again, every so many seconds."""
    timezone: str
    prompt: str
    """What is said to the agent."""
    session: str
    """The session that is told; a new one for each occurrence if absent."""
    signal: str
    """The kind of a signal that is sent to that session instead of a prompt."""
    urgency: Urgency
    misfire: Misfire
    """For times that were missed: `skip` them, `once` for all of them, or `all`, at most `catch_up_max`."""
    overlap: Overlap
    """If the occurrence before is still at work: `skip`, `queue`, `cancel` that one, or `allow`."""
    grace: float
    """How many seconds late a time may be noticed and still count as on time."""
    catch_up_max: int


def planned(*, now_ms: int, **given: Unpack[Planned]) -> SchedulePlan:
    """A plan out of what a caller gave. Raises `UsageError` that names what is wrong with it."""
    import msgspec

    from windlass.runtime.schedules.times import check_plan
    from windlass.tools.types.wrong_fields import wrong_field

    fields: dict[str, Any] = dict(given)
    every, grace = fields.pop("every", None), fields.pop("grace", 60)
    seconds = every.total_seconds() if isinstance(every, datetime.timedelta) else every
    for name, value in (("every", seconds), ("grace", grace)):
        if not isinstance(value, float | int | None):
            raise UsageError(f"schedule: {name}={value!r}: give a number of seconds, such as 600")
    if isinstance(seconds, float | int) and not seconds > 0:
        raise UsageError(f"schedule: every {seconds:g} seconds: give a number above 0")
    try:
        every_ms = None if seconds is None else round(seconds * 1000)
        plan = SchedulePlan(every_ms=every_ms, start_ms=now_ms, grace_ms=round(grace * 1000), **fields)
        known_types.convert(msgspec.to_builtins(plan, enc_hook=repr), SchedulePlan)
    except msgspec.ValidationError as error:
        raise UsageError(f"schedule: {wrong_field(error, SchedulePlan)}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"schedule: {error}") from None
    check_plan(plan)
    return plan


def check_same_plan(schedule_id: str, here: kernel_schedules.Schedule, wanted: SchedulePlan) -> None:
    """Raises `UsageError` if a schedule that was found is not the one that was asked for."""
    had, fix = here.plan, "take another name"
    if had is None:
        raise UsageError(f"{schedule_id!r} is a session and no schedule: {fix}")
    if here.status == "removed":
        raise UsageError(f"schedule {schedule_id!r} was removed: {fix}")
    differs = [
        f"{name}={getattr(had, name)!r}, not {getattr(wanted, name)!r}"
        for name in SchedulePlan.__struct_fields__
        if name != "start_ms" and getattr(had, name) != getattr(wanted, name)
    ]
    if differs:
        raise UsageError(
            f"schedule {schedule_id!r} is there with {'; '.join(differs)}: remove it, and {fix} for another plan"
        )


class Schedule:
    """One schedule: a session that begins work at its times."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @property
    def schedule_id(self) -> str:
        return self.session.session_id

    async def pause(self) -> None:
        """Begins nothing more until it is resumed; times that pass meanwhile are not made up for."""
        await self._send("pause")

    async def resume(self) -> None:
        """Goes on with the next time."""
        await self._send("resume")

    async def remove(self) -> None:
        """Ends it for good. Its log stays, and so do the sessions that it began."""
        await self._send("remove")

    async def run_now(self, command_id: str | None = None) -> None:
        """Begins an occurrence now, beside those of the plan."""
        await self._send("run_now", command_id)

    async def occurrences(self, limit: int = 100) -> list[IndexRow]:
        """The sessions that it began, the newest change first."""
        return await self.session.runtime.sessions(metadata={"schedule": self.schedule_id}, limit=limit)

    async def _send(self, action: ScheduleAction, command_id: str | None = None) -> None:
        runtime = self.session.runtime
        command = ScheduleReceived(command_id=command_id or runtime.ports.fresh_id(), actor="user", action=action)
        await runtime.send(self.session.key, command)


def key_of(runtime: Runtime, schedule_id: str) -> Key:
    if not schedule_id or "~" in schedule_id:
        raise UsageError(f"schedule {schedule_id!r}: give a name without '~'; what it begins is named after it")
    return Key(runtime.tenant, schedule_id)


async def begin(runtime: Runtime, agent: Agent, schedule_id: str, plan: Planned) -> Schedule:
    """Creates a schedule, or finds the one of this id."""
    check_here(runtime.host.elsewhere, "schedule")
    key = key_of(runtime, schedule_id)
    made = planned(now_ms=runtime.ports.now_ms(), **plan)
    beginning = Beginning(bound=runtime.bind(agent), title=schedule_id, metadata=SCHEDULE, schedule=made)
    await runtime.host.directory.open(key, beginning, None)
    session = Session(runtime, key)
    check_same_plan(schedule_id, (await session.state()).schedule, made)
    return Schedule(session)
