"""Files that the built-in tools change: asked about with their difference, kept, reported, and put back by a rewind."""

from __future__ import annotations

import windlass
from windlass.events.tools.permissions import PermissionRequested
from windlass.testing.scripted import call

from .stage import QUICK, Stage, scripted

TOOLS = ("read", "write", "edit", "patch", "make_directory", "move", "remove")


async def files(stage: Stage) -> None:
    """Each tool that writes, agreed to and denied; one that touches what agents obey; then everything is put back."""
    root = stage.folder / "files"
    root.mkdir()
    (root / "a.py").write_text("one\ntwo\n")
    model = scripted(
        [
            call("edit", path="a.py", old="two", new="2"),
            call("write", path="new.py", content="print(1)\n"),
            call("write", path="AGENTS.md", content="obey\n"),
            call("write", path=".git/hooks/pre-commit", content="evil\n"),
        ],
        [
            call("patch", edits=[{"path": "a.py", "old": "one", "new": "1"}]),
            call("make_directory", path="sub"),
            call("move", path="new.py", to="sub/new.py"),
        ],
        [call("remove", path="a.py")],
        "done",
    )
    agent = windlass.Agent("writer", model=model, tools=windlass.file_tools(root, TOOLS), settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "files")
        before = (await session.state()).seq
        await session.prompt("change it")
        await session.result()
        for each in await stage.until(session, PermissionRequested, 3):  # in whichever order they were looked at
            if each.body.detail.path.endswith("AGENTS.md"):
                await session.deny(each.request_id, "not that one", actor="ada")
            else:
                await session.approve(each.request_id, digest=each.digest, actor="ada")
        await session.result()
        for count in (6, 7):
            for each in (await stage.until(session, PermissionRequested, count))[count - (3 if count == 6 else 1) :]:
                await session.approve(each.request_id, digest=each.digest, actor="ada")
            await session.result()
        (root / "sub" / "new.py").write_text("somebody else's\n")
        await session.rewind(before, files=True)


SCENARIOS = {"files": files}
