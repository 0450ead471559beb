"""Schedules at work: real stores, real time in small steps, processes that are killed; calendars by themselves."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import signal
import sys

import pytest

import windlass
from windlass.events.commands import PromptReceived
from windlass.events.errors import Refused, UsageError
from windlass.events.schedules import OccurrenceDelivered, OccurrenceStarted
from windlass.events.signals import SignalReceived
from windlass.events.values.plans import SchedulePlan
from windlass.runtime.api.schedules import planned
from windlass.runtime.schedules import times
from windlass.testing.scripted import ScriptedModel, hang

from .schedule_target import EVERY_MS, REPORTER
from .support import events_of, only, sound, started

WAIT_S = 60


def ms(text: str) -> int:
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000)


def told(at: int, zone: str = "UTC") -> str:
    return datetime.datetime.fromtimestamp(at / 1000, times.zone_of(zone)).isoformat()


def found(cron: str, zone: str, since: str, now: str) -> list[str]:
    plan = SchedulePlan(cron=cron, timezone=zone, prompt="x")
    return [told(at, zone) for at in times.computed(plan, ms(since), ms(now)).due]


# --- calendars ---


def test_a_time_that_spring_leaves_out_comes_once_that_day():
    due = found("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00")
    assert [text[:10] for text in due] == ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert due[1] == "2026-03-29T03:00:00+02:00"


def test_a_time_that_autumn_has_twice_comes_once():
    due = found("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00+02:00", "2026-10-27T00:00:00+01:00")
    assert due == ["2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


def test_every_hour_means_every_hour_whatever_the_clock_is_set_to():
    for since, now in (
        ("2026-03-29T00:30:00+01:00", "2026-03-29T06:30:00+02:00"),
        ("2026-10-25T00:30:00+02:00", "2026-10-25T06:30:00+01:00"),
    ):
        plan = SchedulePlan(cron="0 * * * *", timezone="Europe/Berlin", prompt="x")
        due = times.computed(plan, ms(since), ms(now)).due
        assert {after - before for before, after in itertools.pairwise(due)} == {3_600_000}


def test_a_clock_that_was_set_back_brings_no_time_twice():
    plan = SchedulePlan(every_ms=60_000, prompt="x")
    first = times.computed(plan, 0, 300_000)
    again = times.computed(plan, 300_000, 100_000)
    assert (first.due[-1], again.due, again.next_ms) == (300_000, (), 360_000)


def test_a_long_absence_is_bounded():
    plan = SchedulePlan(every_ms=1_000, prompt="x")
    computed = times.computed(plan, 0, 10**12)
    assert (len(computed.due), computed.missed) == (times.DUE_MAX, times.LOOK_BACK_MS // 1_000 - times.DUE_MAX)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"prompt": "x"}, "either cron"),
        ({"prompt": "x", "cron": "0 2 * * *", "every": 3}, "either cron"),
        ({"prompt": "x", "cron": "0 2 * *"}, "five fields"),
        ({"prompt": "x", "cron": "61 2 * * *"}, "61 2"),
        ({"prompt": "x", "cron": "0 2 * * *", "timezone": "Mars/Base"}, "Mars/Base"),
        ({"prompt": "x", "every": 0.001}, "at least"),
        ({"every": 3}, "needs a prompt"),
        ({"every": 3, "signal": "tick"}, "session="),
        ({"prompt": "x", "every": 3, "misfire": "onec"}, "misfire 'onec' is none of .*: did you mean 'once'"),
        ({"prompt": "x", "every": "10m"}, "every='10m': give a number of seconds"),
        ({"prompt": "x", "every": 3, "grace": "1m"}, "grace='1m': give a number of seconds"),
        ({"prompt": "x", "every": float("nan")}, "schedule"),
    ],
)
def test_a_plan_that_means_nothing_is_refused_with_the_reason(plan, says):
    with pytest.raises(UsageError, match=says):
        planned(now_ms=0, **plan)


# --- at work ---


async def occurrences(session, outcome, *, count=1):
    """Waits until so many occurrences came to an outcome."""
    async with asyncio.timeout(WAIT_S):
        while True:
            all_of_them = [e for e in only(await events_of(session), OccurrenceDelivered) if e.outcome == outcome]
            if len(all_of_them) >= count:
                return all_of_them
            await asyncio.sleep(0.02)


async def test_each_occurrence_begins_a_session_of_its_own_once(tmp_path):
    async with windlass.open(tmp_path / "work.db", agents=[REPORTER], poll_ms=10) as runtime:
        schedule = await runtime.schedule(REPORTER, "tick", every=0.1, prompt="report", overlap="allow")
        delivered = await occurrences(schedule.session, "begun", count=3)
        await schedule.remove()
        for each in delivered[:3]:
            begun = await runtime.get(each.session_id)
            await begun.wait_idle()
            assert (await begun.result()).text == "done"
            prompts = only(await events_of(begun), PromptReceived)
            assert [(prompt.command_id, prompt.origin.kind) for prompt in prompts] == [(each.session_id, "schedule")]
        assert len({each.session_id for each in delivered}) == len(delivered)
        assert {row.session for row in await schedule.occurrences()} >= {each.session_id for each in delivered[:3]}
        with pytest.raises(Refused, match="is a schedule"):
            await schedule.session.prompt("hello")
        await sound(schedule.session)


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel"])
async def test_an_occurrence_that_meets_the_one_before_does_as_the_plan_says(tmp_path, overlap):
    slow = windlass.Agent("slow", model=ScriptedModel([hang(), "done", "done", "done"]))
    async with windlass.open(tmp_path / "work.db", agents=[slow], poll_ms=10) as runtime:
        schedule = await runtime.schedule(slow, "tick", every=3600, prompt="report", overlap=overlap)
        await schedule.run_now()
        first = (await occurrences(schedule.session, "begun"))[0].session_id
        await schedule.run_now()
        if overlap == "skip":
            assert first in (await occurrences(schedule.session, "overlapped"))[0].note
            return
        before = await runtime.get(first)
        if overlap == "queue":
            await started(schedule.session, OccurrenceStarted, count=2)
            assert len(only(await events_of(schedule.session), OccurrenceDelivered)) == 1
            await before.cancel()
        assert len(await occurrences(schedule.session, "begun", count=2)) == 2
        await before.wait_idle()
        assert (await runtime.sessions(text=first))[0].state == "idle"


async def test_a_schedule_tells_a_session_that_is_there_and_says_if_it_is_not(tmp_path):
    async with windlass.open(tmp_path / "work.db", agents=[REPORTER], poll_ms=10) as runtime:
        march = await runtime.session(REPORTER, "march")
        for name, target in (("pulse", "march"), ("lost", "april")):
            schedule = await runtime.schedule(
                REPORTER, name, every=3600, session=target, signal="pulse", urgency="high"
            )
            await schedule.run_now()
            outcome = "begun" if target == "march" else "failed"
            delivered = await occurrences(schedule.session, outcome)
            assert delivered[0].session_id == target
        await march.wait_idle()
        assert [one.kind for one in only(await events_of(march), SignalReceived)] == ["pulse"]


async def test_a_schedule_survives_a_restart_and_makes_up_for_what_was_missed(tmp_path):
    place = tmp_path / "work.db"
    async with windlass.open(place, agents=[REPORTER], poll_ms=10) as runtime:
        schedule = await runtime.schedule(REPORTER, "tick", every=0.2, prompt="report", grace=0.01, overlap="allow")
        await occurrences(schedule.session, "begun")
    await asyncio.sleep(0.5)  # the absence is the subject
    async with windlass.open(place, agents=[REPORTER], poll_ms=10) as runtime:
        again = await runtime.get("tick")
        await occurrences(again, "begun", count=3)
        state = await sound(again)
        assert state.schedule.plan is not None


# --- two processes, one of them killed ---


async def target(place) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtime.schedule_target", str(place), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def killed(process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.wait()


async def test_two_processes_on_one_store_begin_each_occurrence_once_also_if_one_is_killed(tmp_path):
    place = tmp_path / "work.db"
    async with windlass.open(place, poll_ms=20) as watching:
        processes = [await target(place)]
        try:
            processes.append(await target(place))
            tick = await watching.get("tick")
            for number in (4, 10):
                await occurrences(tick, "begun", count=number)
                await killed(processes.pop(0))
                processes.append(await target(place))
            await occurrences(tick, "begun", count=14)
        finally:
            for process in processes:
                await killed(process)
        begun = only(await events_of(tick), OccurrenceStarted)
        at = [one.at_ms for one in begun]
        assert len(set(at)) == len(at)
        assert {after - before for before, after in itertools.pairwise(at)} == {EVERY_MS}, "none was lost"
        delivered = [one for one in only(await events_of(tick), OccurrenceDelivered) if one.outcome == "begun"]
        assert len({one.session_id for one in delivered}) == len(delivered)
        for one in delivered:
            session = await watching.get(one.session_id)
            assert len(only(await events_of(session), PromptReceived)) <= 1
