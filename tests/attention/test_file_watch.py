"""A folder that is watched: each file that comes or changes is told once, whoever looks, also across restarts."""

from __future__ import annotations

import asyncio
import os
import pathlib
from typing import Any

import pytest

import windlass
from tests.runtime.support import QUICK, JumpPorts, events_of, only, sound, started
from windlass.events.errors import UsageError
from windlass.events.signals import SignalDisposed, SignalReceived
from windlass.runtime.attention import file_watch, folder_scan
from windlass.runtime.attention.folder_scan import CLOCK_GRAIN_NS
from windlass.runtime.host.ports import SystemPorts
from windlass.signals import FileWatch
from windlass.testing.scripted import ScriptedModel, hang


class StoppedPorts(SystemPorts):
    """The real world with a wall clock that stands still."""

    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self._at_ms = at_ms

    def now_ms(self) -> int:
        return self._at_ms


def clerk(*replies: Any) -> windlass.Agent:
    script = list(replies)
    return windlass.Agent("clerk", ScriptedModel(script or (lambda request: "Seen.")), settings=QUICK)


async def told(session: Any) -> list[str]:
    """The files that the session was told of, in order."""
    found = only(await events_of(session), SignalReceived)
    return [event.body.payload["path"] for event in found if event.body is not None]


async def looked(watch: FileWatch) -> None:
    """Looks until two looks in a row have found the same."""
    await watch.look()
    await watch.look()


@pytest.fixture
def inbox(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


async def test_a_file_that_comes_and_one_that_changes_are_told_once_each(inbox):
    async with windlass.open(agents=[agent := clerk()]) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, "*.csv", every=0.01, urgency="high", labels=["untrusted:files"]):
            (inbox / "a.csv").write_text("one")
            (inbox / "other.txt").write_text("no")
            (inbox / ".hidden.csv").write_text("no")
            await started(session, SignalReceived, count=1)
            (inbox / "a.csv").write_text("another one")
            (first, second) = await started(session, SignalReceived, count=2)
        assert first.body.text == f"a.csv (3 bytes) is in {inbox}"
        assert second.body.payload == {"path": "a.csv", "folder": str(inbox), "size": 11}
        assert (second.kind, second.urgency, second.labels) == ("file", "high", ("untrusted:files",))
        await sound(session)


async def test_what_came_while_nobody_looked_is_told_and_nothing_twice(inbox, tmp_path):
    for name in ("a", "b", "c"):
        async with windlass.open(tmp_path / "work.db", agents=[agent := clerk()]) as runtime:
            session = await runtime.session(agent, "s")
            (inbox / name).write_text(name)
            async with FileWatch(session, inbox, every=60) as watch:
                await looked(watch)
                await looked(watch)
                assert await told(session) == [each for each in ("a", "b", "c") if each <= name]


async def test_two_that_look_at_once_tell_each_file_once(inbox, tmp_path):
    async with (
        windlass.open(tmp_path / "work.db", agents=[agent := clerk()]) as one,
        windlass.open(tmp_path / "work.db", agents=[clerk()]) as other,
    ):
        first, second = await one.session(agent, "s"), await other.get("s")
        async with FileWatch(first, inbox, every=60) as here, FileWatch(second, inbox, every=60) as there:
            for name in ("a", "b", "c"):
                (inbox / name).write_text(name)
            await asyncio.gather(looked(here), looked(there))
            await asyncio.gather(looked(here), looked(there))
        await started(first, SignalReceived, count=3)
        assert sorted(await told(first)) == ["a", "b", "c"]


async def test_what_lay_there_before_the_session_began_is_not_told(inbox):
    old = inbox / "old"
    old.write_text("before")
    ports = JumpPorts()
    ports.ahead_ms = 2 * CLOCK_GRAIN_NS // 1_000_000  # the session begins that much later
    async with windlass.open(agents=[agent := clerk()], ports=ports) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, every=60) as watch:
            await looked(watch)
            assert await told(session) == []


async def test_a_file_that_was_moved_here_is_told_although_it_was_written_before(inbox, tmp_path):
    (tmp_path / "old").write_text("before")
    os.utime(tmp_path / "old", (1, 1))
    async with windlass.open(agents=[agent := clerk()]) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, every=60) as watch:
            (tmp_path / "old").rename(inbox / "moved")
            await looked(watch)
            assert await told(session) == ["moved"]


async def test_a_file_whose_time_lies_a_tick_of_the_file_system_before_the_session_is_told(inbox):
    (inbox / "a").write_text("a")
    arrived_ms = (inbox / "a").stat().st_ctime_ns // 1_000_000
    async with windlass.open(agents=[agent := clerk()], ports=StoppedPorts(arrived_ms + 10)) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, every=60) as watch:
            await looked(watch)
            assert await told(session) == ["a"]


async def test_a_file_that_is_being_written_is_told_when_it_is_whole(inbox):
    async with windlass.open(agents=[agent := clerk()]) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, every=60) as watch:
            for text in ("a", "ab", "abc"):
                (inbox / "growing").write_text(text)
                await watch.look()
                assert await told(session) == []
            await watch.look()
            assert await told(session) == ["growing"]


async def test_many_files_are_told_bit_by_bit_the_oldest_first(inbox, monkeypatch):
    monkeypatch.setattr(file_watch, "AT_ONCE", 2)
    async with windlass.open(agents=[agent := clerk()]) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, every=60) as watch:
            for name in ("d", "c", "b", "a", "e"):
                (inbox / name).write_text(name)
            await watch.look()
            assert [await watch.look() for _ in range(4)] == [2, 2, 1, 0]
            assert sorted(await told(session)) == ["a", "b", "c", "d", "e"]


async def test_a_critical_file_cuts_off_an_answer_whose_stream_stalls(inbox):
    async with windlass.open(agents=[agent := clerk(hang(), "I looked at it.")]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("Wait.")
        async with FileWatch(session, inbox, urgency="critical", every=0.01):
            (inbox / "fire").write_text("!")
            (disposed,) = await started(session, SignalDisposed, count=1)
            assert (disposed.disposition, disposed.busy) == ("interrupt", "model")
            await session.wait_idle()
        assert (await session.result()).text == "I looked at it."


async def test_folders_below_are_watched_if_that_is_wanted_and_links_are_not_followed(inbox):
    (inbox / "deep").mkdir()
    async with windlass.open(agents=[agent := clerk()]) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, "deep/*.csv", recursive=True, every=60) as watch:
            (inbox / "deep" / "a.csv").write_text("a")
            (inbox / "a.csv").write_text("a")
            (inbox / "deep" / "link.csv").symlink_to(inbox / "a.csv")
            await looked(watch)
            assert await told(session) == ["deep/a.csv"]


async def test_a_folder_that_cannot_be_read_for_a_while_loses_nothing(inbox, caplog):
    async with windlass.open(agents=[agent := clerk()]) as runtime:
        session = await runtime.session(agent, "s")
        async with FileWatch(session, inbox, every=60, files_max=2) as watch:
            for name in ("a", "b", "c"):
                (inbox / name).write_text(name)
            await looked(watch)
            assert await told(session) == []
            assert [record.getMessage() for record in caplog.records if "tells nothing" in record.getMessage()] == [
                f"the watch of {inbox} tells nothing for now: {inbox} has more than 2 files"
            ]
            os.unlink(inbox / "a")
            await looked(watch)
            assert sorted(await told(session)) == ["b", "c"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"folder": "nowhere"}, "is no folder: make it"),
        ({"urgency": "soon"}, "urgency 'soon': there are critical, high, normal, low"),
        ({"every": 0}, "every 0: give a number of seconds of at least 0.01"),
        ({"pattern": ""}, "a watch needs a pattern"),
    ],
)
async def test_what_cannot_be_watched_is_refused_with_the_reason(inbox, given, why):
    async with windlass.open(agents=[agent := clerk()]) as runtime:
        session = await runtime.session(agent, "s")
        folder = inbox / given.pop("folder", ".")
        with pytest.raises(UsageError, match=why.replace("[", r"\[")):
            async with FileWatch(session, folder, **given):
                pass


def test_a_name_that_is_no_text_has_a_digest_of_its_own(inbox):
    (inbox / os.fsdecode(b"\xff.csv")).write_text("x")
    (seen,) = folder_scan.scan(inbox, "*.csv", recursive=False).values()
    assert len(seen.digest()) == 32
