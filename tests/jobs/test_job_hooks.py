"""What the beginning and the end of a job tell a model passes by the hooks at `after_tool`, and carries labels."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from tests.jobs.jobbing import TOOLS, events, opened, played, requests, shows_what_it_printed, until
from windlass.events.hooks import HookRuled
from windlass.events.runs import RunCompleted, RunStarted
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.jobs import JobFinished, JobStarted
from windlass.events.tools.labels import LabelsJoined
from windlass.runtime.hooks.hook import Changed, Denied, Hook, Moment
from windlass.testing.scripted import ScriptedModel, call

JOB = "j6.0"
LATE = "cat conf; while [ ! -e go ]; do sleep 0.02; done; cat conf"


def coder(script: list[Any], *hooks: Hook, tools: Any = TOOLS) -> windlass.Agent:
    policy = windlass.Policy(default="allow")
    return windlass.Agent("coder", model=ScriptedModel(script), tools=tools, policy=policy, hooks=hooks)


def secretive(seen: list[Any], **more: Any) -> Hook:
    """A guard that keeps back what holds a certain word."""

    def no(moment: Moment) -> Denied | None:
        seen.append(moment.value)
        return Denied(message="not for models", **more) if "CANARY" in str(moment.value) else None

    return Hook(point="after_tool", kind="guard", run=no, tool="shell")


async def test_a_guard_keeps_back_what_a_job_printed_before_its_start_and_at_its_end(tmp_path, monkeypatch):
    shows_what_it_printed(monkeypatch)
    (tmp_path / "conf").write_text("CANARY\n")
    seen: list[Any] = []
    agent = coder([[call("shell", command=LATE, timeout_ms=3_000)], "waits", "told"], secretive(seen))
    async with opened(tmp_path, agent) as session:
        await played(session)
        (tmp_path / "go").touch()
        await until(session, RunCompleted, 2)
        log = await events(session)
    started = next(event for event in log if isinstance(event, JobStarted))
    ended = next(event for event in log if isinstance(event, JobFinished))
    assert [value["job"]["status"] for value in seen] == ["running", "completed"]
    assert [value["text"].count("CANARY") for value in seen] == [1, 2]
    told = str([request.items for request in requests(agent)])
    assert "CANARY" not in told
    assert told.count("withheld: not for models") >= 2
    assert f"as job {started.job_id}" in told
    assert "CANARY" not in str((started.body, ended.body))
    assert [event.ruling.outcome for event in log if isinstance(event, HookRuled)] == ["denied", "denied"]


async def test_a_transform_changes_what_is_told_of_a_job_and_the_exit_code_stays(tmp_path):
    def shorter(moment: Moment) -> Changed:
        return Changed(value={"text": "in short: " + moment.value["job"]["status"]})

    hook = Hook(point="after_tool", kind="transform", run=shorter)
    line = "while [ ! -e go ]; do sleep 0.02; done; echo o; echo ut; exit 3"
    agent = coder([[call("shell", command=line, background=True)], "waits", "told"], hook)
    async with opened(tmp_path, agent) as session:
        await played(session)
        (tmp_path / "go").touch()
        ended = await until(session, JobFinished)
        await until(session, RunCompleted, 2)
    assert (ended.exit_code, ended.body.content[0].text) == (3, "in short: failed")
    last = str(requests(agent)[-1].items[-1])
    assert "in short: failed" in last
    assert "o\\nut" not in last


async def test_a_fatal_no_to_the_end_of_a_job_begins_no_run(tmp_path):
    (tmp_path / "conf").write_text("CANARY\n")
    agent = coder(
        [[call("shell", command="while [ ! -e go ]; do sleep 0.02; done; cat conf", background=True)], "waits", "next"],
        secretive([], fatal=True),
    )
    async with opened(tmp_path, agent) as session:
        await played(session)
        (tmp_path / "go").touch()
        await until(session, HookRuled, 2)
        await session.wait_idle()
        assert sum(isinstance(event, RunStarted) for event in await events(session)) == 1
        await played(session, "and now?")
    assert "CANARY" not in str(requests(agent)[-1].items)


@windlass.tool(labels=("untrusted:visitors",))
async def guests(ctx: windlass.ToolContext) -> Any:
    """Counts guests, for as long as nobody says that it is enough."""
    from windlass.events.values.blocks import Text
    from windlass.events.values.ids import job_id
    from windlass.tools.jobs.job_host import Background
    from windlass.tools.sandboxes.sandbox import Launch

    assert ctx.jobs is not None
    assert ctx.folder is not None
    name = job_id(ctx.call_id, ctx.attempt)
    line = ("/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; echo a guest")
    await ctx.jobs.host.start(name, Launch(argv=line, cwd=ctx.folder, env={"PATH": "/usr/bin:/bin"}), "guests")
    return Background(job_id=name, title="guests", content=(Text(text="counting"),))


async def held(session: windlass.Session) -> list[str]:
    return [found.label for found in await session.labels()]


@pytest.mark.parametrize("how", ["told", "asked"])
async def test_what_a_job_prints_is_marked_again_after_a_person_took_the_label_away(tmp_path, how):
    script = ["waits", "told"] if how == "told" else ["waits", [call("job_output", job_id=JOB)], "read"]
    agent = coder([[call("guests")], *script], tools=(guests, *TOOLS))
    label = "untrusted:visitors"
    async with opened(tmp_path, agent) as session:
        await played(session)
        started = await until(session, JobStarted)
        assert label in await held(session)
        await session.declassify(label, reason="looked at")
        assert label not in await held(session)
        if how == "asked":
            assert started.job_id == JOB, "the script names it"
            await played(session, "what does it say?")
            finished = [event for event in await events(session) if isinstance(event, ToolFinished)]
            assert finished[-1].labels == (label,)
            (tmp_path / "go").touch()
        else:
            (tmp_path / "go").touch()
            await until(session, RunCompleted, 2)
            joined = [event for event in await events(session) if isinstance(event, LabelsJoined)]
            assert [found.label for event in joined for found in event.labels] == [label, label]
        assert label in await held(session)
