"""Writing tools in a session: what a person is shown is what is written, what was there is kept, twice is once."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import windlass
from tests.runtime.support import agent_of, events_of, only, sound
from windlass.events.tools.calls import ToolDenied, ToolFinished, ToolPrepared
from windlass.events.tools.permissions import PermissionRequested, WriteDetail
from windlass.events.workspace import FilesChanged, FilesKept
from windlass.runtime.api.approvals import PermissionAsk
from windlass.testing.scripted import call
from windlass.tools.files import FILE_TOOLS, WRITE_TOOLS, file_tools

ALLOWED = windlass.ALLOW_ALL


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def writer(root: pathlib.Path, *turns: Any, **more: Any) -> windlass.Agent:
    return agent_of(*turns, name="writer", tools=file_tools(root, (*FILE_TOOLS, *WRITE_TOOLS)), **more)


async def ran(agent: windlass.Agent, **more: Any) -> tuple[list[Any], Any]:
    """The events of a session in which the agent did all that it wanted, and its state."""
    async with windlass.open(agents=[agent], **more) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.wait_idle()
        return await events_of(session), await sound(session)


def told(events: list[Any]) -> list[str]:
    return [event.body.content[0].text for event in only(events, ToolFinished)]


async def test_a_person_is_shown_the_difference_and_gets_it(root):
    (root / "a.py").write_text("one\ntwo\n")
    seen: list[PermissionAsk] = []

    async def agree(asked: Any) -> bool:
        seen.append(asked)
        return True

    events, state = await ran(writer(root, [call("edit", path="a.py", old="two", new="2")], "done", approver=agree))
    (asked,) = only(events, PermissionRequested)
    assert asked.kind == "write"
    assert isinstance(asked.body.detail, WriteDetail)
    assert asked.body.detail.diff == "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert told(events) == ["changed a.py (+1 -1)"]
    assert (root / "a.py").read_text() == "one\n2\n"
    assert (state.workspace.code.lines_added, state.workspace.code.lines_removed) == (1, 1)


async def test_what_changed_between_the_approval_and_the_call_is_not_written_to(root):
    (root / "a.py").write_text("one\ntwo\n")

    async def agree_late(asked: Any) -> bool:
        (root / "a.py").write_text("zero\none\ntwo\n")  # the edit would still fit, but nobody saw it there
        return True

    events, _ = await ran(writer(root, [call("edit", path="a.py", old="two", new="2")], "done", approver=agree_late))
    assert told(events) == [
        "a.py has changed since this call was agreed to, so nothing was written\nread it again, and make the call anew"
    ]
    assert (root / "a.py").read_text() == "zero\none\ntwo\n"
    assert only(events, FilesChanged) == []


async def test_two_edits_of_one_reply_that_a_rule_allows_are_both_made(root):
    (root / "a.py").write_text("one\ntwo\n")
    both = [call("edit", path="a.py", old="one", new="1"), call("edit", path="a.py", old="two", new="2")]
    events, _ = await ran(writer(root, both, "done", policy=ALLOWED))
    assert told(events) == ["changed a.py (+1 -1)"] * 2
    assert (root / "a.py").read_text() == "1\n2\n"


async def test_what_a_file_held_is_kept_before_it_changes(root):
    (root / "a.py").write_text("one\n")
    agent = writer(root, [call("edit", path="a.py", old="one", new="1")], "done", policy=ALLOWED)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.wait_idle()
        events = await events_of(session)
        (kept,), (changed,) = only(events, FilesKept), only(events, FilesChanged)
        (file,), (change,) = kept.body.files, changed.changes
        assert (file.path, change.path) == (str(root / "a.py"),) * 2
        assert (file.before.digest, file.after.digest) == (change.before, change.after)
        assert events.index(kept) < events.index(only(events, ToolFinished)[0])
        assert await runtime.store.blobs.get(session.key.tenant, file.before.digest) == b"one\n"


async def test_a_secret_is_not_kept_beside_the_log(root):
    (root / "a.py").write_text("key = 'correct-horse-battery'\n")
    agent = writer(root, [call("edit", path="a.py", old="key", new="name")], "done", policy=ALLOWED)
    events, _ = await ran(agent, secrets=["correct-horse-battery"])
    (file,) = only(events, FilesKept)[0].body.files
    assert (file.before, file.after, file.left_out) == (None, None, "it holds a secret that is never written down")
    assert "correct-horse" not in repr(events)
    assert (root / "a.py").read_text() == "name = 'correct-horse-battery'\n"


async def test_nobody_is_asked_about_a_call_that_would_come_to_nothing(root):
    (root / "a.py").write_text("one\n")
    events, _ = await ran(writer(root, [call("edit", path="a.py", old="two", new="2")], "done"))
    assert only(events, PermissionRequested) == []
    (denied,) = only(events, ToolDenied)
    assert denied.reason == "invalid_arguments"
    assert "the text to replace is not in a.py" in denied.detail


async def test_an_approval_is_bound_to_what_the_file_held(root):
    digests = []
    for content in ("one\n", "one\nmore\n"):
        (root / "a.py").write_text(content)
        events, _ = await ran(writer(root, [call("edit", path="a.py", old="one", new="1")], "done", approver=_no))
        digests.append(only(events, PermissionRequested)[0].digest)
        assert only(events, ToolPrepared)[0].body.prepared.basis
    assert digests[0] != digests[1]


async def _no(asked: Any) -> bool:
    return False


async def test_a_difference_that_does_not_fit_a_screen_is_asked_about_once_only(root):
    agent = writer(root, [call("write", path="a.txt", content="x" * 150_000)], "done", approver=_no)
    events, _ = await ran(agent)
    (asked,) = only(events, PermissionRequested)
    assert asked.body.subject is None
    assert not asked.body.detail.session_approval_offered
