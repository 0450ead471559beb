"""What a policy excludes is seen by no model: not by name, not through links, not in walks, not attached."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from tests.runtime.support import agent_of, events_of, only, sound
from windlass.events.commands import CommandRefused, PromptBody, PromptReceived
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.values.blocks import DirectoryAttachment, FileAttachment, Position, SelectionAttachment, Text
from windlass.testing.scripted import call
from windlass.tools.files.exclusion import Exclusion
from windlass.tools.files.glob_patterns import Glob

SECRET = "hunter2-in-the-clear"


@pytest.fixture
def root(tmp_path):
    """A folder with a secret, and other ways that lead to it."""
    place = tmp_path / "build" / "work"
    (place / "secrets").mkdir(parents=True)
    (place / "src").mkdir()
    (place / "secrets" / "key.txt").write_text(SECRET)
    (place / "src" / "server.pem").write_text(SECRET)
    (place / "src" / "main.py").write_text("print('hello')\n")
    (place / "innocent.txt").symlink_to("secrets/key.txt")
    (place / "door").symlink_to("secrets")
    return place


def reader(root: Any, *turns: Any, exclude: Any = ("secrets/", "*.pem")) -> windlass.Agent:
    policy = windlass.Policy(exclude=exclude)
    return agent_of(*turns, tools=windlass.file_tools(root), policy=policy)


async def shown(root: Any, tmp_path: Any, *turns: Any, **more: Any) -> tuple[list[Any], str]:
    """The events of a run, and all that the model was sent in it."""
    agent = reader(root, *turns, **more)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("look")
        await session.result()
        events = await events_of(session)
        await sound(session)
    model: Any = agent.model
    return events, str([request.items for request in model.requests])


@pytest.mark.parametrize("path", ["secrets/key.txt", "src/server.pem", "src/../secrets/key.txt", "./secrets/key.txt"])
async def test_a_call_that_names_it_is_denied_and_the_log_says_why(root, tmp_path, path):
    events, sent = await shown(root, tmp_path, call("read", path=path), "done")
    found = [(event.reason, event.detail) for event in only(events, ToolDenied)]
    (finished,) = only(events, ToolFinished) or [None]
    assert SECRET not in sent
    if finished is None:
        ((reason, detail),) = found
        assert reason == "content_excluded"
        assert "no model may see" in detail
    else:
        assert finished.error_code == "content_excluded"


@pytest.mark.parametrize("path", ["innocent.txt", "door/key.txt"])
async def test_a_link_that_leads_to_it_does_not_open_it(root, tmp_path, path):
    events, sent = await shown(root, tmp_path, call("read", path=path), call("grep", pattern="h", path=path), "done")
    assert SECRET not in sent
    assert [event.error_code for event in only(events, ToolFinished)] == ["content_excluded"] * 2


async def test_walks_leave_it_out_and_say_so(root, tmp_path):
    calls = [call("grep", pattern="hunter2"), call("list", depth=3, all=True), call("glob", pattern="**/*.pem")]
    events, sent = await shown(root, tmp_path, calls, "done")
    assert SECRET not in sent
    assert "key.txt" not in sent.replace("secrets/key.txt", "")  # only as where a link leads
    assert "server.pem" not in sent
    assert sent.count("excluded: no model may see what is there") == 3
    assert "main.py" in sent
    assert len(only(events, ToolFinished)) == 3


async def test_folders_above_the_root_do_not_count(root, tmp_path):
    events, sent = await shown(root, tmp_path, call("read", path="src/main.py"), "done", exclude="build")
    assert only(events, ToolDenied) == []
    assert "hello" in sent


async def test_a_place_from_the_root_of_the_file_system_counts_whole(root, tmp_path):
    turns = [call("read", path="src/main.py"), call("grep", pattern="print")], "done"
    events, sent = await shown(root, tmp_path, *turns, exclude=[f"{root}/src"])
    assert "hello" not in sent
    assert [event.reason for event in only(events, ToolDenied)] == ["content_excluded"]


async def test_what_is_excluded_cannot_be_attached_and_that_is_on_record(root, tmp_path):
    agent = reader(root, "fine")
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=root)
        place = Position(line=1, character=1)
        for attached in (
            FileAttachment(path=str(root / "innocent.txt")),
            SelectionAttachment(path=str(root / "src" / "server.pem"), text=SECRET, start=place, end=place),
        ):
            with pytest.raises(windlass.Refused, match="the policy of this session excludes"):
                await session.prompt("look", attachments=[attached])
        await session.prompt("look", attachments=[FileAttachment(path=str(root / "src" / "main.py"))])
        assert (await session.result()).text == "fine"
        events = await events_of(session)
        assert {refused.code for refused in only(events, CommandRefused)} <= {"content_excluded"}
        (begun,) = only(events, SessionStarted)
        assert begun.setup.policy.exclude == ("secrets/", "*.pem")
    model: Any = agent.model
    assert SECRET not in str(model.requests[0].items)


@pytest.mark.parametrize("wrong", ["", "/", "a/../b", "x" * 2_000, 5])
def test_what_is_no_pattern_is_refused_when_the_agent_is_made(wrong):
    with pytest.raises(windlass.UsageError):
        agent_of("x", policy=windlass.Policy(exclude=[wrong]))


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("*.pem", "/w/a/b.pem", True),
        ("*.pem", "/w/a.pem/b", True),
        ("*.pem", "/w/a/b.txt", False),
        ("secrets/**", "/w/x/secrets/k", True),
        ("secrets", "/w/secrets", True),
        ("conf/*.key", "/w/x/conf/a.key", True),
        ("conf/*.key", "/w/conf/deep/a.key", False),
        ("{a,b}.txt", "/w/b.txt", True),
        ("/w/private", "/w/private/x", True),
        ("/w/private", "/v/w/private/x", False),
    ],
)
def test_patterns_mean_names_at_any_depth_or_places(pattern, path, covered):
    assert (Exclusion((pattern,)).covering(path, "/w") is not None) is covered


def test_many_stars_are_matched_in_time():
    found = Exclusion(("**/".join("*a*" for _ in range(40)),))
    assert found.covering("/".join(["a" * 40] * 200) + "/b") is None or os.sep == "/"


async def test_a_path_that_begins_at_home_is_held_to_the_place_that_it_means(root, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    agent = reader(root, "done", exclude=[f"{root}/secrets"])
    with pytest.raises(windlass.Refused, match="excludes"):
        await agent.run("look", attachments=["~/secrets/key.txt"])


@pytest.mark.parametrize("later", [False, True])
async def test_an_instruction_file_that_leads_there_is_not_read(root, tmp_path, later):
    (root / "AGENTS.md").symlink_to("secrets/key.txt")
    agent = reader(root, "one", "two", exclude=["*.none"] if later else ["secrets/"])
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=root, trusted=True)
        await session.prompt("look")
        await session.result()
    if later:
        agent = reader(root, "two", exclude=["secrets/"])
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
            session = await rt.session(agent, "s", workspace=root, trusted=True)
            await session.prompt("look")
            await session.result()
    model: Any = agent.model
    assert SECRET not in str(model.requests)


@pytest.mark.parametrize("deep", [True, False])
def test_a_deep_path_is_judged_in_a_moment(deep):
    patterns = ("*.pem", "secrets/", "/etc/**", "**/*.key", ".env*", "**/private/**/*.json")
    path = "/".join(["ab"] * 1_300)
    began = time.process_time()
    found = Exclusion(patterns).covering(f"{path}/secrets/x" if deep else path)
    assert found == ("secrets/" if deep else None)
    assert time.process_time() - began < 1


HOSTILE = {
    "braces": ["{a,b,c,d,e,f,g,h}{a,b,c,d,e,f,g,h}*.x" + str(number) for number in range(256)],
    "any depth": ["**/*/" * 14 + f"x{number}" for number in range(200)],
    "any letters": ["?*" * 4 + f"*.x{number}" + "?" * 40 for number in range(256)],
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_patterns_that_would_be_held_against_every_path_for_long_are_refused(kind):
    with pytest.raises(windlass.UsageError, match="too many and too long"):
        agent_of("x", policy=windlass.Policy(exclude=HOSTILE[kind]))
    # A log that was written before this bound is opened: what it excludes stays so, with all that cannot be judged.
    assert Exclusion(tuple(HOSTILE[kind])).covering("/w/" + "ab/" * 1_300) is not None


def test_many_plain_patterns_cost_no_more_than_a_moment_for_each_path():
    patterns = [f"**/conf{number}/*.{{pem,key}}" for number in range(255)] + ["/etc/**"]
    agent_of("x", policy=windlass.Policy(exclude=patterns))
    exclusion = Exclusion(tuple(patterns))
    began = time.process_time()
    for number in range(1_000):
        assert exclusion.covering(f"/w/src/deep/down/file{number}.py") is None
    assert time.process_time() - began < 1  # pattern by pattern this takes more than ten times as long
    assert exclusion.covering("/w/a/conf254/x.key") == patterns[254]
    assert exclusion.covering("/etc/passwd") == "/etc/**"


GLOBS = st.lists(
    st.sampled_from(["**", "*", "a", "?", "a*", "*.b", "[!a]", "[+-9]", "[a-c]b", "{a,b}", ".", "é"]),
    min_size=1,
    max_size=4,
).map("/".join)
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "x.b", "5", "é", "\n", "a\udc80"]), min_size=1, max_size=5)


@settings(deadline=None, max_examples=300)
@given(globs=st.lists(GLOBS, min_size=1, max_size=3), names=PATHS)
def test_patterns_together_cover_what_each_of_them_covers(globs, names):
    covered = [text for text in globs if Glob(f"**/{text}").covers(names)]
    assert Exclusion(tuple(globs)).covering("/" + "/".join(names)) == (covered[0] if covered else None)


@pytest.fixture
def listed(root):
    (root / "src" / "line\nbreak.pem").write_text(SECRET)
    (root / "src" / "way").symlink_to("../secrets/key.txt")
    (root / "src" / "notes (old).pem").write_text(SECRET)
    return root


@pytest.mark.parametrize("inside", [True, False])
async def test_a_directory_that_is_attached_lists_no_name_that_is_excluded(listed, tmp_path, monkeypatch, inside):
    monkeypatch.chdir(listed if inside else tmp_path)
    agent = reader(listed, "fine", exclude=["secrets/", "*.pem"])
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=listed)
        await session.prompt("look", attachments=[str(listed / "src")])
        await session.result()
        (prompt,) = only(await events_of(session), PromptReceived)
    assert prompt.body is not None
    (attached,) = prompt.body.attachments
    assert isinstance(attached, DirectoryAttachment)
    assert attached.listing == f"{'' if inside else 'build/work/'}src/main.py (15 bytes)"
    assert attached.left_out == "4 entries excluded: no model may see what is there"


async def test_a_directory_is_judged_by_where_it_lies(listed, tmp_path, monkeypatch):
    monkeypatch.chdir(listed)
    agent = reader(listed, "fine", exclude=[f"{listed}/src/main.py"])
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("look", attachments=["."])
        await session.result()
        (prompt,) = only(await events_of(session), PromptReceived)
    assert "main.py" not in str(prompt.body)
    assert "src/server.pem" in str(prompt.body)


async def test_a_listing_that_is_longer_than_any_reader_makes_is_cut(root, tmp_path):
    agent = reader(root, "fine", exclude=["*.pem"])
    listing = "\n".join(f"{number}.{'pem' if number % 2 else 'txt'} (1 byte)" for number in range(3_000))
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("look", attachments=[DirectoryAttachment(path="/w", listing=listing)])
        await session.result()
        (prompt,) = only(await events_of(session), PromptReceived)
    assert prompt.body is not None
    (attached,) = prompt.body.attachments
    assert isinstance(attached, DirectoryAttachment)
    assert (attached.listing or "").count("\n") == 499
    told = "all behind the first 1,000 entries; 500 entries excluded: no model may see what is there"
    assert attached.left_out == told


async def test_a_relative_path_is_that_of_whoever_attaches_it(root, tmp_path, monkeypatch):
    """Sent from one folder, taken in another: by a policy that excludes a place, and in what the log says."""
    (tmp_path / "elsewhere").mkdir()
    agent = reader(root, "fine", exclude=[f"{root}/secrets"])
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        monkeypatch.chdir(root)
        sent = session.prompt("look", attachments=["src/main.py"])
        held = rt.host.sender.send

        async def from_elsewhere(*args: Any) -> None:
            monkeypatch.chdir(tmp_path / "elsewhere")
            await held(*args)

        monkeypatch.setattr(rt.host.sender, "send", from_elsewhere)
        await sent
        await session.result()
        (prompt,) = only(await events_of(session), PromptReceived)
        monkeypatch.chdir(root)
        with pytest.raises(windlass.Refused, match="excludes"):
            await session.prompt("look", attachments=["secrets/key.txt"])
    assert prompt.body is not None
    (attached,) = prompt.body.attachments
    assert isinstance(attached, FileAttachment)
    assert (attached.path, attached.name) == (str(root / "src" / "main.py"), "src/main.py")


@pytest.mark.parametrize("placed", [True, False])
async def test_a_relative_path_in_a_command_means_the_sessions_folder(root, tmp_path, monkeypatch, placed):
    """And never the folder that the owner of the session happens to work in."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere" if placed else root / "secrets")
    agent = reader(root, "fine", exclude=[f"{root}/secrets"])
    name = "secrets/key.txt" if placed else "key.txt"
    body = PromptBody(content=(Text(text="look"),), attachments=(FileAttachment(path=name, content=Text(text="x")),))
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=root)
        sent = rt.send(session.key, PromptReceived(command_id="c", body=body))
        if placed:
            with pytest.raises(windlass.Refused, match="excludes"):
                await sent
        else:
            await sent
            assert (await session.result()).text == "fine"
