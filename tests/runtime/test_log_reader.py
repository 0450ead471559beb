"""One reader answers what is asked of logs, through forks and past appends that begin far before what is looked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import windlass
from windlass.events.commands import PromptReceived
from windlass.events.errors import NotFound
from windlass.events.runs import RunCompleted, Terminal
from windlass.runtime.api.session import Session
from windlass.runtime.streams import log_reader
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key

from .support import agent_of


@asynccontextmanager
async def talked(*replies: str) -> AsyncIterator[tuple[Session, LogReader]]:
    agent = agent_of(*replies)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        for _ in replies:
            await session.result(await session.prompt("go"))
        yield session, runtime.host.log


@pytest.fixture(params=[1, 2, 1_024])
def reach(request, monkeypatch):
    """How far before a record its append is looked for first: also far too short."""
    monkeypatch.setattr(log_reader, "APPEND_EVENTS_MAX", request.param)


async def test_records_begin_behind_any_seq(reach):
    async with talked("one", "two") as (session, log):
        whole = [record async for record in log.records(session.key)]
        assert [record.seq for record in whole] == list(range(1, len(whole) + 1))
        for after in range(len(whole) + 2):
            assert [record async for record in log.records(session.key, after=after)] == whole[after:]


async def test_every_record_is_found_by_its_seq_with_the_append_that_holds_it(reach):
    async with talked("one", "two") as (session, log):
        whole = [record async for record in log.records(session.key)]
        for record in whole:
            append = await log.append_at(session.key, record.seq)
            assert append is not None
            assert (append.first_seq, append.hash) == (record.first, record.hash)
            assert await log.event_at(session.key, record.seq) == record.event
        seqs = [record.seq for record in whole]
        assert await log.events_at(session.key, seqs[::3]) == {r.seq: r.event for r in whole[::3]}
        assert await log.last_event(session.key) == whole[-1].event
        assert await log.append_at(session.key, len(whole) + 1) is None
        with pytest.raises(NotFound, match=f"has no event {len(whole) + 1}"):
            await log.events_at(session.key, [1, len(whole) + 1])


async def test_a_boundary_is_the_end_of_the_last_append_at_or_before_a_seq(reach):
    async with talked("one", "two") as (session, log):
        appends = [sealed async for sealed in log.appends(session.key)]
        for seq in range(1, appends[-1].last_seq + 1):
            before = [sealed for sealed in appends if sealed.last_seq <= seq]
            assert await log.boundary(session.key, seq) == (before[-1] if before else None)
        assert await log.boundary(session.key, None) == appends[-1]


async def test_a_fork_is_read_as_one_log_with_its_origin(reach):
    async with talked("one", "two") as (session, log):
        fork = await session.fork("f")
        shared = [record async for record in log.records(session.key)]
        assert [record async for record in log.records(fork.key)][: len(shared)] == shared
        assert await log.event_at(fork.key, 1) == shared[0].event


async def test_the_newest_of_a_kind_is_found_near_the_end_and_far_from_it(monkeypatch):
    async with talked("one", "two", "three") as (session, log):
        end = (await session.state()).seq
        last = [record.event async for record in log.records(session.key) if isinstance(record.event, Terminal)][-1]
        for among in (1, 64):
            monkeypatch.setattr(log_reader, "NEWEST_AMONG", among)
            assert await log.newest(session.key, Terminal, until=end) == last
            assert await log.newest(session.key, windlass.RunFailed, until=end) is None
            assert isinstance(await log.newest(session.key, PromptReceived, until=end), PromptReceived)


async def test_a_state_is_folded_as_its_owner_has_it_and_as_it_was_before():
    async with talked("one", "two") as (session, log):
        state = (await log.fold(session.key)).state
        assert state == await session.state()
        ends = [record.seq async for record in log.records(session.key) if isinstance(record.event, RunCompleted)]
        then = await log.state_at(session.key, ends[0])
        assert (then.seq, then.run.run_id) != (state.seq, state.run.run_id)
        assert not then.active


async def test_there_is_nothing_to_read_of_a_session_that_is_not_there():
    async with talked("one") as (_, log):
        nobody = Key("default", "nobody")
        assert [record async for record in log.records(nobody)] == []
        assert await log.append_at(nobody, 1) is None
        assert await log.last_event(nobody) is None
        with pytest.raises(NotFound, match="there is no session 'nobody'"):
            await log.fold(nobody)
