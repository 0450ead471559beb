"""Children in worktrees of their own: made once, merged or not as their author says, and cleaned up behind them."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import windlass
from tests.runtime.support import QUICK, STEP_S, WAIT_S, events_of, only, sound, until
from windlass import flows
from windlass.events.base import Event
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolRequested
from windlass.events.trees.children import ChildFinished
from windlass.events.trees.worktrees import WorktreeMerged, WorktreeRemoved, WorktreeSettled
from windlass.kernel.effects import RemoveWorktree
from windlass.runtime.streams.record import Record
from windlass.runtime.trees import session_children
from windlass.runtime.trees.session_worktree import SessionWorktree
from windlass.testing import ScriptedModel, by_history, call

from .support import ALLOWED, branches, commit, git, lead, repository, worktrees, writer


async def child_of(session: windlass.Session) -> windlass.Session:
    """The one child, as soon as it has begun."""
    async with asyncio.timeout(WAIT_S):
        while True:
            rows = [row for row in await session.runtime.sessions(root=session.session_id) if row.parent is not None]
            if rows:
                (row,) = rows
                return await session.runtime.get(row.session)
            await asyncio.sleep(STEP_S)


def there(folder: str) -> bool:
    return pathlib.Path(folder).exists()


async def recorded(session: windlass.Session, wanted: Callable[[Event], bool]) -> None:
    """Waits until the log holds such an event."""
    async with asyncio.timeout(WAIT_S):
        async for one in session.tail(after=0):
            if isinstance(one, Record) and wanted(one.event):
                return


async def removed(child: windlass.Session) -> WorktreeRemoved:
    """Waits until the worktree is gone."""
    await recorded(child, lambda event: isinstance(event, WorktreeRemoved))
    (gone,) = only(await events_of(child), WorktreeRemoved)
    assert isinstance(gone, WorktreeRemoved)
    return gone


async def test_what_a_child_changed_is_merged_and_its_worktree_removed(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    async with windlass.open(tmp_path / "work.db", agents=[agent := lead(writer())]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        child = await child_of(session)
        gone = await removed(child)
        events = await events_of(child)
        (began,), (merged,) = only(events, SessionStarted), only(events, WorktreeMerged)
        assert began.worktree is not None
        assert began.workspace is not None
        assert began.workspace.cwd == began.worktree.folder
        assert (merged.outcome, gone.branch) == ("merged", "")
        assert (place / "notes.txt").read_text() == "two\n"
        assert git(place, "rev-parse", "HEAD") == merged.commit
        assert (branches(place), worktrees(place)) == ([], 0)
        assert began.worktree.folder not in git(place, "worktree", "list")
        assert not there(began.worktree.folder)
        await sound(child)
        await sound(session)


async def test_both_sides_are_joined_if_they_changed_different_files(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    async with windlass.open(tmp_path / "work.db", agents=[agent := lead(writer(path="new/file.txt"))]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        await session.result()
        child = await child_of(session)
        (began,) = only(await events_of(child), SessionStarted)
        assert began.worktree is not None
        assert (place / "new/file.txt").read_text() == "two\n"
        assert git(place, "rev-parse", "HEAD~1") == began.worktree.base


async def test_a_conflict_keeps_both_branches_and_is_asked_about_at_the_root(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    agent = lead(rival(place))
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).status == "asked"
    before = git(place, "rev-parse", "HEAD")
    assert (place / "notes.txt").read_text() == "theirs\n"
    assert git(place, "status", "--porcelain") == ""
    (kept,) = branches(place)
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:  # it waits while no process runs
        session = await runtime.get("s")
        (request,) = await session.questions()
        assert "notes.txt" in request.body.message
        assert kept in request.body.message
        await session.answer(request.question_id, ["keep both branches"])
        assert (await session.result()).text == "done"
        child = await child_of(session)
        gone = await removed(child)
        events = await events_of(child)
        assert [one.how for one in only(events, WorktreeSettled)] == ["keep"]
        assert (gone.branch, gone.commit) == (kept, git(place, "rev-parse", kept))
        assert git(place, "show", f"{kept}:notes.txt") == "ours"
        assert (git(place, "rev-parse", "HEAD"), worktrees(place)) == (before, 0)
        await sound(child)


async def test_a_conflict_that_a_person_resolved_is_merged(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    agent = lead(rival(place))
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (kept,) = branches(place)
        git(place, "merge", "--strategy-option=theirs", "-m", "by hand", kept)
        (request,) = await session.questions()
        await session.answer(request.question_id, ["merge again"])
        assert (await session.result()).text == "done"
        child = await child_of(session)
        await removed(child)
        assert [one.outcome for one in only(await events_of(child), WorktreeMerged)] == ["conflict", "merged"]
        assert ((place / "notes.txt").read_text(), branches(place), worktrees(place)) == ("ours\n", [], 0)


async def test_files_that_nobody_committed_are_never_overwritten(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    agent = lead(rival(place, commits=False))
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        assert (place / "notes.txt").read_text() == "theirs\n"
        (request,) = await session.questions()
        await session.answer(request.question_id, ["drop the changes"])
        assert (await session.result()).text == "done"
        child = await child_of(session)
        await removed(child)
        assert [one.outcome for one in only(await events_of(child), WorktreeMerged)] == ["failed"]
        assert ((place / "notes.txt").read_text(), branches(place), worktrees(place)) == ("theirs\n", [], 0)


async def test_in_autopilot_nobody_is_waited_for_and_both_branches_stay(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    agent = lead(rival(place, mode="autopilot", settings=windlass.Settings(nudges_max=0)))
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        await session.result()
        child = await child_of(session)
        await removed(child)
        assert [(one.how, one.by) for one in only(await events_of(child), WorktreeSettled)] == [("keep", "nobody")]
        assert (len(branches(place)), worktrees(place)) == (1, 0)


@pytest.mark.parametrize("at_end", ["keep", "drop"])
async def test_what_is_not_to_be_merged_is_kept_or_dropped(tmp_path: pathlib.Path, at_end: str):
    place = repository(tmp_path / "repo")
    async with windlass.open(tmp_path / "work.db", agents=[agent := lead(writer(at_end=at_end))]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        child = await child_of(session)
        gone = await removed(child)
        events = await events_of(child)
        assert only(events, WorktreeMerged) == []
        assert ((place / "notes.txt").read_text(), worktrees(place)) == ("one\n", 0)
        assert branches(place) == ([gone.branch] if at_end == "keep" else [])
        if at_end == "keep":
            assert git(place, "show", f"{gone.branch}:notes.txt") == "two"


async def test_a_child_that_was_stopped_leaves_what_it_wrote_on_a_branch_that_its_log_names(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    agent = lead(stuck())
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        child = await child_of(session)
        await recorded(child, lambda event: isinstance(event, ToolRequested) and event.tool == "hang")
        await session.interrupt()
        gone = await removed(child)
        assert branches(place) == [gone.branch]
        assert git(place, "show", f"{gone.branch}:notes.txt") == "two"
        assert (place / "notes.txt").read_text() == "one\n"


async def test_no_program_of_the_repository_runs(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    (place / ".gitattributes").write_text("*.txt filter=evil\n")
    commit(place, "attributes")
    trap = tmp_path / "ran"
    for name in ("post-checkout", "pre-commit", "post-commit", "post-merge", "reference-transaction"):
        hook = place / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
        hook.chmod(0o755)
    for key in ("clean", "smudge", "process"):
        git(place, "config", f"filter.evil.{key}", f"touch {trap}; cat")
    git(place, "config", "filter.evil.required", "true")
    git(place, "config", "core.fsmonitor", f"touch {trap}")
    trap.unlink(missing_ok=True)
    async with windlass.open(tmp_path / "work.db", agents=[agent := lead(writer())]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert (place / "notes.txt").read_text() == "two\n"
        assert not trap.exists()


def kept_for_worktrees(place: pathlib.Path, evil: pathlib.Path) -> None:
    git(place, "config", "core.repositoryformatversion", "1")
    git(place, "config", "extensions.worktreeConfig", "true")
    git(place, "config", "--worktree", "filter.evil.smudge", f"touch {evil}; cat")


def included(place: pathlib.Path, evil: pathlib.Path, condition: str) -> None:
    more = evil.with_suffix(".config")
    more.write_text(f'[filter "evil"]\n\tsmudge = "touch {evil}; cat"\n')
    git(place, "config", f"includeIf.{condition}.path", str(more))


def led_elsewhere(place: pathlib.Path, evil: pathlib.Path) -> None:
    other = repository(evil.with_suffix(".other"))
    (place / ".git").rename(evil.with_suffix(".git"))
    (place / ".git").symlink_to(other / ".git")


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (kept_for_worktrees, "extensions.worktreeconfig"),
        (lambda place, evil: included(place, evil, "gitdir:**/worktrees/**"), "includeif"),
        (lambda place, evil: included(place, evil, "onbranch:windlass/**"), "includeif"),
        (lambda place, evil: git(place, "config", "remote.origin.promisor", "true"), "remote.origin.promisor"),
        (lambda place, evil: git(place, "config", "core.worktree", str(evil.parent)), "core.worktree"),
        (led_elsewhere, "is a link"),
    ],
)
async def test_no_worktree_is_made_if_nobody_can_say_what_it_would_run_or_write(tmp_path, sets: Any, told: str):
    place = repository(tmp_path / "repo")
    (place / ".gitattributes").write_text("*.txt filter=evil\n")
    commit(place, "attributes")
    evil = tmp_path / "ran"
    sets(place, evil)
    async with windlass.open(tmp_path / "work.db", agents=[agent := lead(writer())]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        await session.result()
        (end,) = only(await events_of(session), ChildFinished)
        assert told in str(end.body)
    assert not evil.exists()


async def test_without_a_repository_the_call_says_so_and_a_role_does_without(tmp_path: pathlib.Path):
    for given, text in (
        ({"isolation": "worktree"}, "no git repository"),
        ({"isolation": None, "role": "implement"}, "written"),
    ):
        place = tmp_path / text.replace(" ", "-")
        place.mkdir()
        (place / "notes.txt").write_text("one\n")
        async with windlass.open(agents=[agent := lead(writer(**given))]) as runtime:
            session = await runtime.session(agent, "s", workspace=place)
            await session.prompt("go")
            await session.result()
            (end,) = only(await events_of(session), ChildFinished)
            assert text in str(end.body)


async def test_a_grandchild_is_merged_into_the_worktree_of_its_parent(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    between = windlass.Agent(
        "between",
        ScriptedModel(by_history([call("spawn", agent="writer", task="write"), "passed on"])),
        agents=[writer()],
        isolation="worktree",
        at_end="keep",
    )
    async with windlass.open(tmp_path / "work.db", agents=[agent := lead(between)]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        await until(lambda: worktrees(place) == 0)
        (kept,) = branches(place)
        assert git(place, "show", f"{kept}:notes.txt") == "two"
        assert (place / "notes.txt").read_text() == "one\n"


def rival(place: pathlib.Path, *, commits: bool = True, **more: object) -> windlass.Agent:
    """A specialist while whose work somebody else changes the same file."""

    @windlass.tool(contract="idempotent")
    def meanwhile() -> str:
        """Somebody works on the main branch."""
        (place / "notes.txt").write_text("theirs\n")
        if commits:
            commit(place, "theirs")
        return "done"

    replies: list[Any] = [
        call("read", path="notes.txt"),
        [call("write", path="notes.txt", content="ours\n"), call("meanwhile")],
        "written",
    ]
    return windlass.Agent(
        "writer",
        ScriptedModel(by_history(replies)),
        tools=["read", "write", meanwhile],
        policy=ALLOWED,
        isolation="worktree",
        **more,  # type: ignore[arg-type]
    )


def stuck() -> windlass.Agent:
    """A specialist that writes a file, and then hangs."""

    @windlass.tool(contract="pure")
    async def hang() -> str:
        """Takes for ever."""
        await asyncio.Event().wait()
        return ""

    replies: list[Any] = [
        call("read", path="notes.txt"),
        call("write", path="notes.txt", content="two\n"),
        call("hang"),
    ]
    return windlass.Agent(
        "writer",
        ScriptedModel(by_history(replies)),
        tools=["read", "write", hang],
        policy=ALLOWED,
        isolation="worktree",
    )


async def test_no_git_is_at_work_once_a_runtime_is_closed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    repo, begun, ended = repository(tmp_path / "repo"), tmp_path / "begun", tmp_path / "ended"
    slow, real = tmp_path / "bin" / "git", shutil.which("git")
    slow.parent.mkdir()
    slow.write_text(
        f"""#!/bin/sh
case "$*" in "worktree remove"*) touch {begun}; sleep 1; {real} "$@"; touch {ended}; exit 0 ;; esac
exec {real} "$@"
"""
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    agent = lead(writer())
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "work", workspace=repo)
        await session.prompt("go")
        while not begun.exists():
            await asyncio.sleep(0.01)
    assert ended.exists()


def implementers(**more: Any) -> flows.Flow:
    """A workflow with two nodes that each write a file of their own, in a worktree by their role."""
    agents = [
        writer(f"by {name}\n", path=f"{name}.txt", name=name, isolation=None, role="implement", **more)
        for name in ("a", "b")
    ]
    return flows.Flow("work", [flows.spawn(agent.name, agent, "write") for agent in agents])


async def test_nodes_of_a_workflow_work_in_worktrees_of_the_folder_that_it_was_given(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    async with windlass.open(tmp_path / "work.db", agents=[flow := implementers()]) as runtime:
        run = await runtime.flow(flow, "f", workspace=place)
        result = await run.result()
        assert result.status == "completed", result.failure
        folder = (await run.session.state()).workspace.folder
        assert folder is not None
        assert folder.git_root == str(place)
        children = [await runtime.get(row.session) for row in await runtime.sessions(root="f") if row.parent]
        assert len(children) == 2
        for child in children:
            (begun,) = only(await events_of(child), SessionStarted)
            assert begun.worktree is not None
            await removed(child)
        assert ((place / "a.txt").read_text(), (place / "b.txt").read_text()) == ("by a\n", "by b\n")
        await sound(run.session)
    assert (worktrees(place), branches(place), git(place, "status", "--porcelain")) == (0, [], "")


async def test_a_workflow_that_is_trusted_tells_its_agents_the_instructions_of_its_folder(tmp_path: pathlib.Path):
    (tmp_path / "AGENTS.md").write_text("Speak in rhymes.")
    seen: list[str] = []

    def answer(request: Any) -> str:
        seen.append(request.instructions)
        return "done"

    agent = windlass.Agent("poet", ScriptedModel(answer), description="writes")
    flow = flows.Flow("work", [flows.spawn("n", agent, "write")])
    async with windlass.open(tmp_path / "work.db", agents=[flow]) as runtime:
        await (await runtime.flow(flow, "plain", workspace=tmp_path)).result()
        await (await runtime.flow(flow, "trusted", workspace=tmp_path, trusted=True)).result()
    assert ["Speak in rhymes." in one for one in seen] == [False, True]


async def test_a_workflow_in_a_folder_that_is_not_there_is_refused(tmp_path: pathlib.Path):
    async with windlass.open(agents=[flow := implementers()]) as runtime:
        with pytest.raises(windlass.UsageError, match="is no folder: give one that exists"):
            await runtime.flow(flow, "f", workspace=tmp_path / "gone")


async def never_ending() -> None:
    await asyncio.Event().wait()


def three(settings: windlass.Settings = QUICK) -> windlass.Agent:
    """An agent that has three specialists work in one turn, whose changes are merged, dropped and kept."""
    ends: list[Any] = ["merge", "drop", "keep"]
    below = [
        writer(f"by {at_end}\n", path=f"{at_end}.txt", name=at_end, isolation=None, role="implement", at_end=at_end)
        for at_end in ends
    ]
    spawned = [call("spawn", agent=agent.name, task="write") for agent in below]
    model = ScriptedModel(by_history([list(spawned), "done", "again"]))
    return windlass.Agent("lead", model, agents=below, settings=settings)


async def test_whoever_closes_a_runtime_leaves_no_worktree_of_a_child_that_has_ended(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    async with windlass.open(tmp_path / "work.db", agents=[agent := three()]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        await session.prompt("go")
        assert (await session.result()).text == "done"
    assert worktrees(place) == 0
    (kept,) = branches(place)
    assert "by keep" in git(place, "show", f"{kept}:keep.txt")


async def test_what_children_owe_behind_their_end_is_taken_up_with_the_session_above_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    place = repository(tmp_path / "repo")
    performs = SessionWorktree.perform

    async def hangs(self: SessionWorktree, effect: Any) -> Any:
        return await (never_ending() if isinstance(effect, RemoveWorktree) else performs(self, effect))

    with monkeypatch.context() as patched:
        patched.setattr(session_children, "ENDING_MS", 0)  # nothing is waited for, as in a crash
        patched.setattr(SessionWorktree, "perform", hangs)
        async with windlass.open(tmp_path / "work.db", agents=[agent := three()]) as runtime:
            session = await runtime.session(agent, "s", workspace=place)
            await session.prompt("go")
            await session.result()
    assert worktrees(place) == 3
    async with windlass.open(tmp_path / "work.db", agents=[agent := three()], take_up=False) as runtime:
        await runtime.session(agent, "s", workspace=place)
    assert (worktrees(place), len(branches(place))) == (0, 1)


async def test_a_tree_that_is_told_live_tells_what_children_do_behind_their_ends(tmp_path: pathlib.Path):
    place = repository(tmp_path / "repo")
    async with windlass.open(tmp_path / "work.db", agents=[agent := three()]) as runtime:
        session = await runtime.session(agent, "s", workspace=place)
        stream = session.tail_tree()
        await session.prompt("go")
        removals: list[str] = []
        async with asyncio.timeout(WAIT_S):
            async for told in stream:
                if isinstance(told.told, Record) and isinstance(told.told.event, WorktreeRemoved):
                    removals.append(told.told.event.branch)
                    if len(removals) == 3:
                        await session.wait_idle()
                        await session.prompt("go on")
                if len(removals) == 3 and not told.scope and listened_to(stream) == {""}:
                    break  # those that owe nothing are not listened to any more
        assert [bool(branch) for branch in sorted(removals)] == [False, False, True]


def listened_to(stream: Any) -> set[str]:
    return set(stream._listeners)
