"""Trees of sessions whose git goes wrong: the parent hears of it, nobody waits for ever, and nothing else is held up."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterator

import pytest

import windlass
from tests.runtime.support import WAIT_S, events_of, only, sound, until
from windlass.events.trees.children import ChildFinished
from windlass.events.trees.worktrees import WorktreeMerged
from windlass.runtime.api.result import Parked
from windlass.runtime.host.opener import Opener
from windlass.runtime.trees import git_process
from windlass.testing import ScriptedModel, by_history, call

from .faulty_git import FaultyGit
from .support import branches, commit, git, lead, repository, worktrees, writer
from .test_worktrees import child_of, removed

MANY = 8
"""More than a small machine has threads for everything else."""


@pytest.fixture
def faulty(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyGit]:
    found = FaultyGit(tmp_path / "bin", monkeypatch)
    yield found
    found.end()


async def out_of_time(faulty: FaultyGit, fault: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the time of a command that hangs run out, and of no other."""
    if fault == "hangs":
        await until(lambda: any(one.startswith(verb) for one in faulty.calls))
        monkeypatch.setattr(git_process, "COMMAND_S", 0.0)


@pytest.mark.parametrize("fault", ["fails", "killed", "hangs"])
async def test_a_parent_hears_why_no_worktree_can_be_made(tmp_path, faulty: FaultyGit, monkeypatch, fault: str):
    place = repository(tmp_path / "repo")
    agent = lead(writer())
    faulty.plan(fault, verb="worktree add")
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        await out_of_time(faulty, fault, "worktree add", monkeypatch)
        assert (await session.result()).text == "done"
        (end,) = only(await events_of(session), ChildFinished)
        assert end.status == "error"
        assert "no worktree can be made for it: git worktree" in str(end.body)
        await sound(session)


async def test_a_parent_hears_that_its_folder_has_no_place_in_the_worktree(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    (place / "part").write_text("a file")
    commit(place, "a file")
    (place / "part").unlink()
    (place / "part").mkdir()
    async with windlass.open(tmp_path / "work.db", agents=[agent := lead(writer())]) as runtime:
        session = await runtime.session(agent, "s", workspace=place / "part")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        (end,) = only(await events_of(session), ChildFinished)
        assert end.status == "error"
        assert "no worktree can be made for it" in str(end.body)


@pytest.mark.parametrize("fault", ["fails", "killed", "hangs"])
async def test_a_merge_that_git_cannot_make_is_asked_about_and_made_again(tmp_path, faulty, monkeypatch, fault: str):
    place = repository(tmp_path / "repo")
    agent = lead(writer())
    faulty.plan(fault, verb="merge --ff-only")
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        await out_of_time(faulty, fault, "merge --ff-only", monkeypatch)
        assert (await session.result()).status == "asked"
        faulty.mend()
        monkeypatch.setattr(git_process, "COMMAND_S", WAIT_S)
        (request,) = await session.questions()
        assert "git could not do it: git merge" in request.body.message
        await session.answer(request, ["merge again"])
        assert (await session.result()).text == "done"
        child = await child_of(session)
        await removed(child)
        assert [one.outcome for one in only(await events_of(child), WorktreeMerged)] == ["failed", "merged"]
        assert ((place / "notes.txt").read_text(), branches(place), worktrees(place)) == ("two\n", [], 0)


async def test_many_children_that_wait_for_git_hold_up_nobody_else(tmp_path: pathlib.Path, faulty: FaultyGit):
    place = repository(tmp_path / "repo")
    children = [writer(path=f"new{number}.txt") for number in range(MANY)]
    named = [
        windlass.Agent(f"w{number}", one.model, tools=one.tools, policy=one.policy, isolation="worktree")
        for number, one in enumerate(children)
    ]
    spawns = [call("spawn", agent=one.name, task="write") for one in named]
    agent = windlass.Agent("lead", ScriptedModel(by_history([spawns, "done"])), agents=named)
    other = windlass.Agent("other", ScriptedModel(by_history(["hello"])))
    faulty.plan("held", verb="worktree add")
    async with windlass.open(tmp_path / "work.db", agents=[agent, other]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        await until(lambda: any(one.startswith("worktree add") for one in faulty.calls))
        beside = await runtime.session(other, "beside")
        await beside.prompt("hi")
        assert (await beside.result()).text == "hello"
        faulty.mend()
        assert (await session.result()).text == "done"
        await until(lambda: worktrees(place) == 0)
        assert len(git(place, "ls-files", "new*").split()) == MANY


async def test_a_runtime_is_closed_while_git_hangs_and_the_next_one_starts_the_child(tmp_path, faulty: FaultyGit):
    place = repository(tmp_path / "repo")
    agent = lead(writer())
    faulty.plan("hangs", verb="worktree add")
    async with asyncio.timeout(WAIT_S):
        async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
            session = await runtime.session(agent, "s", workspace=place)
            await session.prompt("go", command_id="go")
            await until(lambda: any(one.startswith("worktree add") for one in faulty.calls))
    assert faulty.at_work() == []
    faulty.mend()
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.get("s")
        assert (await session.result("go")).text == "done"
        await removed(await child_of(session))
        assert ((place / "notes.txt").read_text(), branches(place), worktrees(place)) == ("two\n", [], 0)


async def test_whoever_waits_for_a_parent_is_told_that_its_child_cannot_be_resumed(tmp_path, monkeypatch):
    hangs = asyncio.Event()

    @windlass.tool(contract="idempotent")
    async def hang() -> str:
        """Takes long, the first time."""
        if not hangs.is_set():
            hangs.set()
            await asyncio.Event().wait()
        return ""

    child = windlass.Agent("child", ScriptedModel(by_history([call("hang"), "well"])), tools=[hang])
    between = windlass.Agent(
        "between", ScriptedModel(by_history([call("spawn", agent="child", task="t"), "passed on"])), agents=[child]
    )
    agent = lead(between)
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go", command_id="go")
        await hangs.wait()
    adopt = Opener._adopt

    async def broken(self, slot, *more):
        if slot.key.session.count("~") == 2:
            raise LookupError("a bug of ours")
        return await adopt(self, slot, *more)

    monkeypatch.setattr(Opener, "_adopt", broken)
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.get("s")
        for waits in (session.result, lambda: session.result("go"), session.wait_idle):
            with pytest.raises(
                Parked, match=r"session 's' waits for 's~c6\.0~c6\.0', which is parked: .*a bug of ours"
            ):
                await waits()
    monkeypatch.setattr(Opener, "_adopt", adopt)
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        assert (await (await runtime.get("s")).result("go")).text == "done"
