"""Children that are kept apart: in worktrees of their own, merged, settled by people, dropped; and read-only."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import msgspec

import windlass
from windlass.events.trees.worktrees import WorktreeRemoved
from windlass.runtime.api.session import Session
from windlass.testing.scripted import call

from .stage import QUICK, Play, Stage, scripted

ALLOWED = windlass.Policy(rules=[windlass.allow("*")])
UNATTENDED = {"mode": "autopilot", "settings": msgspec.structs.replace(QUICK, nudges_max=0)}
NAMED = ("-c", "user.name=ada", "-c", "user.email=ada@localhost")


@contextlib.contextmanager
def state_in(folder: pathlib.Path) -> Iterator[None]:
    """Has what is kept between runs lie in a folder of the run."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    try:
        yield
    finally:
        del os.environ["XDG_STATE_HOME"]
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


def git(place: pathlib.Path, *words: str) -> None:
    subprocess.run(["git", *NAMED, *words], cwd=place, check=True, capture_output=True)


def repository(place: pathlib.Path) -> pathlib.Path:
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch=main")
    changed(place, "one\n")
    return place


def changed(place: pathlib.Path, text: str) -> None:
    (place / "notes.txt").write_text(text)
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "-m", "by hand")


def specialist(name: str, *replies: Any, **more: Any) -> windlass.Agent:
    given = {"tools": ["read", "write"], "policy": ALLOWED, "isolation": "worktree", "settings": QUICK, **more}
    return windlass.Agent(name, model=scripted(*replies), description="helps", **given)


def writing(text: str) -> list[Any]:
    return [call("read", path="notes.txt"), call("write", path="notes.txt", content=text)]


async def worktrees(stage: Stage) -> None:
    """What children changed is merged, conflicts and goes to a person, is in the way of others, or is kept out."""
    place = repository(stage.folder / "repo")

    @windlass.tool(contract="idempotent")
    def meanwhile(text: str, commits: bool = True) -> str:
        "Somebody else works on the main branch."
        if commits:
            changed(place, text)
        else:
            (place / "notes.txt").write_text(text)
        return "done"

    @windlass.tool(contract="idempotent")
    def vanish() -> str:
        "Somebody moves the repository."
        place.rename(stage.folder / "elsewhere")
        return "gone"

    rivals = ["read", "write", meanwhile]
    agents = [
        specialist("merged", *writing("two\n"), "written"),
        specialist("idle", "nothing to do"),
        specialist("rival", *writing("ours\n"), call("meanwhile", text="theirs\n"), "written", tools=rivals),
        specialist("in_the_way", *writing("x\n"), call("meanwhile", text="y\n", commits=False), "z", tools=rivals),
        specialist("alone", *writing("a\n"), call("meanwhile", text="b\n"), "z", tools=rivals, **UNATTENDED),
        specialist("reader", call("write", path="notes.txt", content="no"), "denied", isolation=None),
        specialist("moved", *writing("m\n"), call("vanish"), "z", tools=["read", "write", vanish], at_end="keep"),
    ]
    model = scripted(*[call("spawn", agent=agent.name, task="work") for agent in agents[:5]], *["done"] * 5)
    agent = windlass.Agent("lead", model=model, agents=agents, settings=QUICK)
    with state_in(stage.folder):
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "worktrees", workspace=place)
            await session.prompt("go")
            await settle(session, "merge again", "keep both branches")
            git(place, "reset", "--quiet", "--hard")
            await settle(session, "drop the changes", clean=place)
            await session.result()
            for each in await session.children():
                await stage.until(await rt.get(each), WorktreeRemoved)
            await (await session.spawn("reader", "look", isolation="read_only")).result()
            child = await session.spawn("moved", "work", isolation="worktree", mode="background")
            await stage.until(child, WorktreeRemoved)
            await session.wait_idle()


async def settle(session: Session, *answers: str, clean: pathlib.Path | None = None) -> None:
    """Answers what is asked about a merge, one after the other."""
    for answer in answers:
        await session.result()
        (asked,) = await session.questions()
        if clean is not None:
            git(clean, "reset", "--quiet", "--hard")
        await session.answer(asked.question_id, [answer], actor="ada")


SCENARIOS: dict[str, Play] = {"worktrees": worktrees}
