"""Rewinding with files: what tools changed is put back, what others changed is left, twice is once."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import windlass
from tests.runtime.support import agent_of, events_of, only, sound
from windlass.events.sessions import RewindReceived
from windlass.events.tools.calls import ToolFinished
from windlass.events.turns import ModelRequested
from windlass.events.workspace import FileChange
from windlass.runtime.api.session import Session
from windlass.runtime.operate.session_import import import_session
from windlass.store.transfer import export_session
from windlass.testing.scripted import call
from windlass.tools.files import FILE_TOOLS, WRITE_TOOLS, file_tools


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def writer(root: pathlib.Path, *turns: Any, **more: Any) -> windlass.Agent:
    more.setdefault("policy", windlass.ALLOW_ALL)
    return agent_of(*turns, name="writer", tools=file_tools(root, (*FILE_TOOLS, *WRITE_TOOLS)), **more)


async def worked(runtime: windlass.Runtime, agent: windlass.Agent) -> tuple[Session, int]:
    """A session that did all that it wanted, and where it stood before that."""
    session = await runtime.session(agent)
    before = (await session.state()).seq
    await session.prompt("go")
    await session.wait_idle()
    assert all(event.ok for event in only(await events_of(session), ToolFinished))
    return session, before


def content(root: pathlib.Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


WORK = (
    [call("edit", path="a.py", old="one", new="1")],
    [call("edit", path="a.py", old="two", new="2"), call("write", path="sub/new.py", content="new\n")],
    [call("remove", path="gone.py"), call("move", path="b.py", to="sub/c.py")],
    [call("patch", edits=[{"path": "a.py", "old": "1\n2", "new": "3"}, {"path": "d.py", "old": "", "new": "d"}])],
    "done",
)
BEFORE = {"a.py": "one\ntwo\n", "b.py": "b\n", "gone.py": "gone\n"}


def begin(root: pathlib.Path) -> None:
    for name, text in BEFORE.items():
        (root / name).write_text(text)


async def test_files_hold_again_what_they_held(root):
    begin(root)
    agent = writer(root, *WORK)
    async with windlass.open(agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        assert content(root) == {"a.py": "3\n", "d.py": "d", "sub/c.py": "b\n", "sub/new.py": "new\n"}
        await session.rewind(before, files=True)
        (rewound,) = only(await events_of(session), RewindReceived)
        await sound(session)
    assert content(root) == BEFORE
    assert rewound.left == ()
    assert sorted(pathlib.Path(change.path).name for change in rewound.changes) == [
        "a.py", "b.py", "c.py", "d.py", "gone.py", "new.py",
    ]  # fmt: skip


async def test_without_files_what_was_done_stays_done(root):
    begin(root)
    agent = writer(root, *WORK)
    async with windlass.open(agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        after = content(root)
        await session.rewind(before)
    assert content(root) == after


async def test_what_somebody_else_changed_is_left_and_named(root):
    begin(root)
    agent = writer(root, *WORK)
    async with windlass.open(agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        (root / "a.py").write_text("mine\n")
        (root / "gone.py").write_text("mine too\n")
        await session.rewind(before, files=True)
        (rewound,) = only(await events_of(session), RewindReceived)
    assert content(root) == {"a.py": "mine\n", "b.py": "b\n", "gone.py": "mine too\n"}
    assert {pathlib.Path(file.path).name: file.why for file in rewound.left} == {
        "a.py": "somebody else has changed it since",
        "gone.py": "somebody else has changed it since",
    }


async def test_what_somebody_else_changed_in_between_is_left_too(root):
    begin(root)
    turns = (
        [call("edit", path="a.py", old="one", new="1")],
        "first",
        [call("edit", path="a.py", old="1", new="I")],
        "x",
    )
    agent = writer(root, *turns)
    async with windlass.open(agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        (root / "a.py").write_text("1\nmine\n")
        await session.prompt("again")
        await session.wait_idle()
        await session.rewind(before, files=True)
        (rewound,) = only(await events_of(session), RewindReceived)
    assert (root / "a.py").read_text() == "I\nmine\n"
    assert [file.why for file in rewound.left] == ["somebody else has changed it since"]


async def test_a_second_rewind_goes_on_from_the_first(root):
    begin(root)
    turns = ([call("edit", path="a.py", old="one", new="1")], [call("edit", path="a.py", old="1", new="I")], "done")
    agent = writer(root, *turns)
    async with windlass.open(agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        events = await events_of(session)
        between = events.index(only(events, ModelRequested)[1]) + 1
        await session.rewind(between, files=True)
        assert (root / "a.py").read_text() == "1\ntwo\n"
        await session.rewind(before, files=True)
        assert (root / "a.py").read_text() == "one\ntwo\n"
        await session.rewind(before, files=True)
        assert [len(event.changes) for event in only(await events_of(session), RewindReceived)] == [1, 1, 0]
    assert content(root) == BEFORE


async def test_a_rewind_that_was_cut_off_half_way_is_finished_by_the_next_one(root):
    begin(root)
    agent = writer(root, *WORK)
    async with windlass.open(agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        (root / "a.py").write_text(BEFORE["a.py"])  # as an owner left it that was killed before it could say so
        (root / "gone.py").write_text(BEFORE["gone.py"])
        await session.rewind(before, files=True)
        (rewound,) = only(await events_of(session), RewindReceived)
    assert content(root) == BEFORE
    assert rewound.left == ()


async def test_a_file_that_holds_a_secret_is_left(root):
    (root / "a.py").write_text("key = 'correct-horse-battery'\n")
    agent = writer(root, [call("edit", path="a.py", old="key", new="name")], "done")
    async with windlass.open(agents=[agent], secrets=["correct-horse-battery"]) as runtime:
        session, before = await worked(runtime, agent)
        await session.rewind(before, files=True)
        (rewound,) = only(await events_of(session), RewindReceived)
    assert [file.why for file in rewound.left] == ["it holds a secret that is never written down"]


async def test_a_client_cannot_say_what_was_put_back(root):
    begin(root)
    agent = writer(root, *WORK)
    async with windlass.open(agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        forged = FileChange(path="/etc/passwd", operation="update")
        await runtime.send(session.key, RewindReceived(command_id="c", to_seq=before, changes=(forged,)))
        (rewound,) = only(await events_of(session), RewindReceived)
    assert rewound.changes == ()


async def test_an_imported_log_puts_nothing_back(root, tmp_path):
    """What somebody else wrote into a log may not choose what is written here."""
    begin(root)
    agent = writer(root, *WORK)
    async with windlass.open(tmp_path / "a.db", agents=[agent]) as runtime:
        session, before = await worked(runtime, agent)
        exported = b"".join([piece async for piece in export_session(runtime.store, session.key)])
    after = content(root)

    async def pieces() -> AsyncIterator[bytes]:
        yield exported

    async with windlass.open(tmp_path / "b.db", agents=[agent]) as runtime:
        await import_session(runtime.store, pieces(), session="brought", by="somebody")
        session = await runtime.get("brought")
        await session.rewind(before, files=True)
        rewound = only(await events_of(session), RewindReceived)[-1]
    assert (rewound.files, rewound.changes) == (True, ())
    assert content(root) == after
