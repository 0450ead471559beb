"""Skills from every kind of place, activated and left in every way, and every reason why one cannot be had."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import sys
import tarfile
from collections.abc import Iterator

import windlass
from windlass.events.skills import SkillKey
from windlass.events.values.settings import Settings
from windlass.skills.config import InlineSkill, Skills
from windlass.testing.scripted import call

from .stage import Stage, scripted

SPLIT, ROTATED, LOST = (f"5b1f0000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))


@windlass.tool
def jot(text: str) -> str:
    "Write something down."
    return "written"


@windlass.tool
def send(text: str) -> str:
    "Send something."
    return "sent"


@windlass.tool(traits=("read",), contract="pure")
def look(path: str) -> str:
    "Look at a file."
    return "a,b"


def put(place: pathlib.Path, name: str, more: str = "", body: str = "Do it with care.") -> pathlib.Path:
    """A skill in a folder."""
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: About {name}.\n{more}---\n{body}\n"
    (folder / "SKILL.md").write_text(text)
    return folder


@contextlib.contextmanager
def home(stage: Stage) -> Iterator[pathlib.Path]:
    """A home, a state folder and a cache of this run's own, and a Python package that offers a skill."""
    place, before, path = stage.folder / "home", dict(os.environ), list(sys.path)
    site = stage.folder / "site"
    put(site / "skilled", "packaged")
    (site / "skilled" / "__init__.py").write_text("")
    info = site / "skilled-1.2.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: skilled\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[windlass.skills]\nskilled = skilled\n")
    os.environ.update(
        HOME=str(place), XDG_STATE_HOME=str(stage.folder / "state"), XDG_CACHE_HOME=str(stage.folder / "cache")
    )
    sys.path.insert(0, str(site))
    try:
        put(place / ".agents" / "skills", "homely")
        yield place
    finally:
        sys.path[:] = path
        sys.modules.pop("skilled", None)
        os.environ.clear()
        os.environ.update(before)


def archive(folder: pathlib.Path) -> str:
    path = folder / "skills.tar"
    with tarfile.open(path, "w") as tar:
        data = b"---\nname: packed\ndescription: About packed.\n---\nUnpack it.\n"
        info = tarfile.TarInfo("packed/SKILL.md")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return str(path)


async def places(stage: Stage) -> None:
    """Skills of each kind of place, by each way."""
    with home(stage):
        shelf, project = stage.folder / "shelf", stage.folder / "project"
        notes = put(shelf, "notes", "allowed-tools: jot\n", "Jot it down.")
        put(shelf, "tables", 'metadata:\n  windlass.paths: "*.csv"\n')
        put(project / ".agents" / "skills", "local")
        checkout = stage.folder / "checkout"
        (checkout / ".git").mkdir(parents=True, exist_ok=True)
        put(checkout / "skills", "cloned")
        config = Skills(
            scan=(str(shelf),),
            archives=(archive(stage.folder),),
            checkouts=(str(checkout),),
            packages=True,
            inline=(InlineSkill(name="written", description="About written."),),
            max_active=16,
        )
        model = scripted(
            [call("send", text="x"), call("jot", text="x")],
            call("skill", name="notes", active=False),
            call("skill", name="written"),
            call("look", path="a.csv"),
            "done",
            *(f"answer {number}" for number in range(9)),
        )
        settings = Settings(summarise=False, keep_exchanges=1)
        agent = windlass.Agent("skilled", model, tools=[jot, send, look], skills=config, settings=settings)
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "skills", workspace=project, trusted=True)
            await session.activate_skill("notes", via="user")
            await session.prompt("go")
            await session.wait_idle()
            for name in ("packaged", "homely", "local", "cloned", "packed"):
                await session.activate_skill(name)
            await session.prompt("use skill:tables")
            await session.wait_idle()
            await session.deactivate_skill("homely")
            await session.deactivate_skill("local", via="user")
            point = (await session.state()).seq
            await session.activate_skill("notes")
            (notes / "more.md").write_text("More.")
            config_of(session, notes)
            await session.prompt("go on")
            await session.wait_idle()
            await session.activate_skill("notes")
            await session.prompt("go on")
            await session.wait_idle()
            await session.rewind(point)
            for number in range(5):
                await session.prompt(f"question {number}")
                await session.wait_idle()
            await session.compact()
            await session.wait_idle()
            await session.prompt("and now?")
            await session.wait_idle()


def config_of(session: object, folder: pathlib.Path) -> None:
    """Trusts a skill as it is now."""
    from windlass.skills.catalogue import catalogue
    from windlass.skills.trust import TrustRecords

    found = catalogue(Skills(scan=(str(folder.parent),), skip_default_paths=True))
    for skill in found.changed:
        TrustRecords().trust(skill, by="a person")


async def reasons(stage: Stage) -> None:
    """Each of the reasons for which a skill cannot be had, out of files that are so."""
    with home(stage):
        folders = wrong_sources(stage.folder / "wrong")
        config = Skills(scan=tuple(map(str, folders)), skip_default_paths=True)
        agent = windlass.Agent("reasons", scripted("done", "done"), skills=config)
        async with stage.open(agent) as rt:
            first = await stage.session(rt, agent, "skills-before")
            await first.prompt("go")
            await first.wait_idle()
            (folders[3] / "skills.json").write_text(json.dumps({"source_uuid": LOST}))
            session = await stage.session(rt, agent, "skills-failed")
            for reference in (f"{SPLIT}/missing", "needy", "nobody"):
                await session.activate_skill(reference)
            await session.prompt("go")
            await session.wait_idle()


def wrong_sources(place: pathlib.Path) -> list[pathlib.Path]:
    """Folders of skills, each with something wrong."""

    def source(name: str, **says: object) -> pathlib.Path:
        folder = place / name
        put(folder, f"{name}-skill")
        (folder / "skills.json").write_text(json.dumps(says))
        return folder

    def key(uuid: str, name: str) -> dict[str, str]:
        made = SkillKey(source_uuid=uuid, skill_name=name)
        return {"source_uuid": made.source_uuid, "skill_name": made.skill_name}

    split = {"event_id": "e1", "kind": "split", "sources": [LOST], "targets": [SPLIT]}
    circle = [
        {"source": key(SPLIT, "a"), "target": key(SPLIT, "b")},
        {"source": key(SPLIT, "b"), "target": key(SPLIT, "a")},
    ]
    first = source("split", source_uuid=SPLIT, lineage=[split], remaps=circle, aliases={"s": "split-skill"})
    put(first, "needy", "metadata:\n  windlass.requires: gpu\n")
    again = source("again", source_uuid=SPLIT)
    stray = source("stray", remaps=[{"source": key(LOST, "a"), "target": key(ROTATED, "a")}])
    rotated = source("rotated", source_uuid=ROTATED)
    garbled = source("garbled")
    (garbled / "skills.json").write_text("{")
    broken = put(place / "broken", "broken")
    (broken / "SKILL.md").write_text("---\nname: broken\ndescription: a: b\n---\n")
    gone = place / "gone"
    return [first, again, stray, rotated, garbled, place / "broken", gone]


SCENARIOS = {"skills": places, "skills_failed": reasons}
