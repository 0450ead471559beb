"""Background jobs in the kernel: one closes its call, is watched until its end, and its end is told once."""

from __future__ import annotations

import pytest

from tests.kernel.session import Session, call, names
from windlass.events.errors import Refused
from windlass.events.runs import CancelReceived, InterruptReceived
from windlass.events.tools.jobs import JobBody, JobFinished, JobStarted, KillReceived
from windlass.events.values.blocks import Text
from windlass.events.values.ids import job_id
from windlass.events.values.items import UserItem
from windlass.kernel.effects import WatchJob
from windlass.kernel.owed import opens, overview
from windlass.kernel.phases import Asleep


def jobbing(**more) -> tuple[Session, str]:
    """A session whose call became a job, in the middle of its run."""
    session = Session()
    session.prompt()
    session.reply("", call("pay", {"n": 1}))
    (name,) = session.state.calls.by_id
    body = JobBody(title="make all", content=(Text(text="goes on"),))
    session.take(JobStarted(call_id=name, job_id=job_id(name), tokens=3, body=body, **more))
    return session, job_id(name)


def at_rest(**more) -> tuple[Session, str]:
    session, job = jobbing(**more)
    session.reply("done")
    assert not session.state.active
    return session, job


def ends(session: Session, job: str, status="completed", **more):
    body = JobBody(title="make all", content=(Text(text="tail"),))
    return session.take(JobFinished(job_id=job, status=status, exit_code=0, tokens=2, body=body, **more))


def watched(session: Session) -> list[WatchJob]:
    return [effect for effect in session.owed() if isinstance(effect, WatchJob)]


def test_a_job_closes_its_call_and_is_watched_also_at_rest():
    session, job = at_rest()
    assert session.results()[0].content == (Text(text="goes on"),)
    assert [effect.effect_id for effect in watched(session)] == [f"{job}/watch"]
    assert opens(session.state) == []
    assert (overview(session.state).state, overview(session.state).owed) == ("idle", True)
    assert session.verify().problems == []


def test_a_new_owner_watches_it_again_and_nothing_else_happens():
    session, job = at_rest()
    assert names(session.crash()) == ["session.resumed"]
    assert [effect.job_id for effect in watched(session)] == [job]


def test_its_end_begins_a_run_that_continues_the_last_and_is_told_once():
    session, job = at_rest()
    told = ends(session, job)
    assert names(told)[:3] == ["job.finished", "run.started", "turn.started"]
    assert (told[1].trigger, told[1].continues is not None) == ("job", True)
    note = session.items()[-1]
    assert isinstance(note, UserItem)
    said = f"[background job {job} completed with exit code 0 after 0.0 s: make all]"
    assert note.content == (Text(text=said), Text(text="tail"))
    with pytest.raises(Refused, match="is not open"):
        ends(session, job)
    assert session.verify().problems == []


def test_its_end_during_a_run_brings_the_next_turn():
    session, job = jobbing()
    assert names(ends(session, job)) == ["job.finished"]
    assert names(session.reply("done"))[-2:] == ["turn.started", "model.requested"]


@pytest.mark.parametrize("status", ["cancelled", "terminated"])
def test_an_end_that_somebody_asked_for_wakes_nobody(status):
    session, job = at_rest()
    assert names(ends(session, job, status)) == ["job.finished"]
    assert not session.state.active
    session.prompt("and now?")
    assert f"background job {job} {status}" in str(session.items())


@pytest.mark.parametrize("stop", ["interrupt", "cancel"])
def test_a_run_that_was_stopped_leaves_the_job_and_is_not_woken_by_it(stop):
    session, job = jobbing()
    getattr(session, stop)()
    assert [effect.stop for effect in watched(session)] == [""]
    assert names(ends(session, job)) == ["job.finished"]


def test_with_the_setting_off_its_end_waits_for_the_next_run():
    session, job = at_rest()
    session.change_settings(jobs_wake=False)
    assert names(ends(session, job)) == ["job.finished"]
    assert not session.state.active


@pytest.mark.parametrize("stop", [InterruptReceived, CancelReceived])
def test_a_stop_that_says_so_ends_jobs_but_for_those_that_are_detached(stop):
    session, job = jobbing()
    assert f"{job}/stop" not in [effect.effect_id for effect in watched(session)]
    assert "job.stopping" in names(session.take(stop(command_id="x1", jobs=True)))
    assert [effect.stop for effect in watched(session)] == ["stopped"]
    other, _ = jobbing(detached=True)
    assert "job.stopping" not in names(other.take(stop(command_id="x1", jobs=True)))


def test_a_kill_is_an_intent_on_record_and_comes_once():
    session, job = at_rest()
    assert names(session.take(KillReceived(command_id="k1", job_id=job))) == [
        "kill.received",
        "job.stopping",
        "command.completed",
    ]
    assert [(effect.effect_id, effect.stop) for effect in watched(session)] == [(f"{job}/stop", "killed")]
    assert names(session.take(KillReceived(command_id="k2", job_id=job))) == ["kill.received", "command.completed"]
    ends(session, job, "cancelled")
    with pytest.raises(Refused, match="no open job"):
        session.take(KillReceived(command_id="k3", job_id=job))


def test_a_job_may_be_killed_while_its_session_sleeps():
    session, job = jobbing()
    session.reply("", call("wait", {"for_ms": 60_000}))
    session.reply("later")
    assert isinstance(session.state.phase, Asleep)
    told = session.take(KillReceived(command_id="k1", job_id=job))
    assert names(told) == ["kill.received", "job.stopping", "command.completed"]
    assert isinstance(session.state.phase, Asleep)


def test_a_detached_job_keeps_no_session_busy():
    session, _ = at_rest(detached=True)
    assert watched(session) == []
    assert not overview(session.state).owed
    session.prompt("more")
    assert len(watched(session)) == 1


def test_a_fork_does_not_have_the_jobs_of_its_origin():
    session, job = at_rest()
    branch = session.fork(session.state.seq)
    assert (branch.state.jobs.open, watched(branch)) == ({}, [])
    assert job in session.state.jobs.open
    assert branch.verify().problems == []


def test_the_id_of_a_job_is_that_of_its_call():
    session = Session()
    session.prompt()
    session.reply("", call("pay", {"n": 1}))
    (name,) = session.state.calls.by_id
    with pytest.raises(Refused, match="derived from its call"):
        session.take(JobStarted(call_id=name, job_id="j1.0"))


def test_a_second_attempt_has_a_job_of_its_own_and_none_of_the_first():
    session = Session()
    session.prompt()
    session.reply("", call("put", {"n": 1}))  # idempotent: it runs again by itself
    (name,) = session.state.calls.by_id
    session.crash()
    assert session.state.calls.by_id[name].attempt == 2
    with pytest.raises(Refused, match="derived"):
        session.take(JobStarted(call_id=name, job_id=job_id(name), body=JobBody(title="t")))
    session.take(JobStarted(call_id=name, job_id=job_id(name, 2), body=JobBody(title="t")))
    assert list(session.state.jobs.open) == [f"j{name[1:]}.2"]
