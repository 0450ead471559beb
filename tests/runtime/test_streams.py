"""Subscriptions: live typed events, bounded buffers, exact resumption; readers never slow a run."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from windlass.events.base import Event
from windlass.events.live import AttemptSuperseded, Live, StreamTruncated, TextDelta, ToolProgressed
from windlass.events.runs import RunCompleted, Terminal
from windlass.runtime.streams.cursors import CursorMismatch
from windlass.runtime.streams.record import Record
from windlass.runtime.streams.shared_buffer import Allowance
from windlass.runtime.streams.subscribers import BUFFER_MAX, READ_MIN, RUN_MAX, Hub
from windlass.testing.scripted import call, fail, pause, turn

from .support import agent_of, events_of, started, until

READERS = 200
WORDS = [f"word{number} " for number in range(3_000)]


@windlass.tool(contract="pure")
async def step(ctx: windlass.ToolContext, number: int) -> str:
    "Do a step."
    ctx.progress(f"step {number}", fraction=0.5)
    return f"step {number} done"


def steps(count: int) -> list[Any]:
    return [[f"thinking about {n}. ", call("step", number=n)] for n in range(count)]


def record(seq: int) -> Record:
    return Record(seq=seq, at_ms=0, event=RunCompleted(run_id=f"r{seq}", stop="completed"), first=seq)


def delta(number: int) -> TextDelta:
    return TextDelta(request_id="q1", text=str(number), index=number)


# --- one reader ---


async def test_a_slow_reader_loses_deltas_first_and_is_told_once_how_many():
    hub = Hub()
    reader = hub.subscribe(buffer_max=8)
    hub.live([delta(n) for n in range(8)])
    hub.live([delta(n) for n in range(8, 20)])
    hub.committed([record(1)])
    hub.live([delta(20)])
    got = [await reader.next() for _ in range(10)]
    hub.live([delta(21)])
    got.append(await reader.next())
    missing = StreamTruncated(reason="deltas_dropped", dropped=13)
    assert got == [missing, *(delta(n) for n in range(13, 20)), record(1), delta(20), delta(21)]


async def test_a_gap_says_behind_which_record_deltas_are_missing():
    hub = Hub()
    reader = hub.subscribe(buffer_max=2)
    hub.committed([record(3)])
    hub.live([msgspec.structs.replace(delta(n), after_seq=3) for n in range(5)])
    got = [await reader.next() for _ in range(4)]
    missing = StreamTruncated(reason="deltas_dropped", dropped=3, after_seq=3)
    assert got[0] == missing
    assert got[1] == record(3)
    assert [one.text for one in got[2:] if isinstance(one, TextDelta)] == ["3", "4"]


async def test_each_gap_that_was_told_may_be_followed_by_another():
    hub = Hub()
    reader = hub.subscribe(buffer_max=1)
    told = []
    for number in range(2):
        hub.live([delta(number), delta(10 + number)])
        told += [await reader.next(), await reader.next()]
    missing = StreamTruncated(reason="deltas_dropped", dropped=1)
    assert told == [missing, delta(10), missing, delta(11)]


async def test_what_is_told_comes_in_its_order_to_whoever_reads_slowly():
    hub = Hub()
    reader = hub.subscribe()
    hub.live([delta(1)])
    hub.committed([record(1), record(2)])
    hub.live([delta(2)])
    hub.committed([record(3)])
    assert [reader.at_hand() for _ in range(6)] == [delta(1), record(1), record(2), delta(2), record(3), None]


async def test_deltas_that_are_there_are_taken_together_up_to_the_next_record_and_a_few_at_a_time():
    hub = Hub()
    reader = hub.subscribe()
    hub.live([delta(n) for n in range(4)])
    hub.committed([record(1)])
    hub.live([delta(n) for n in range(4, 4 + 2 * RUN_MAX)])
    assert [reader.at_hand(), *reader.deltas_at_hand()] == [delta(n) for n in range(4)]
    assert reader.deltas_at_hand() == []
    assert [reader.at_hand(), reader.at_hand()] == [record(1), delta(4)]
    assert reader.deltas_at_hand() == [delta(n) for n in range(5, 5 + RUN_MAX)]


async def test_only_those_who_wait_are_woken_and_only_for_what_they_want_to_hear():
    hub = Hub()
    quiet, heard = hub.subscribe(live=False), hub.subscribe()
    abandoned = [hub.subscribe() for _ in range(READERS)]
    woken = [asyncio.ensure_future(quiet.next()), asyncio.ensure_future(heard.next())]
    await asyncio.sleep(0)
    hub.live([delta(1)])
    await asyncio.sleep(0)
    assert [one.done() for one in woken] == [False, True]
    assert hub._waiting == ({quiet}, set())
    hub.committed([record(1)])
    assert await woken[0] == record(1)
    assert await woken[1] == delta(1)
    assert all(one.at_hand() == delta(1) for one in abandoned)


async def test_a_reader_that_never_reads_is_let_go_by_and_by():
    hub = Hub()
    hub.subscribe()
    for seq in range(1, 3 * BUFFER_MAX):
        hub.committed([record(seq)])
    assert (hub.listening, hub.hearing) == (False, False)


async def test_records_take_the_place_of_deltas_in_a_full_buffer():
    hub = Hub()
    reader = hub.subscribe(buffer_max=4)
    hub.live([delta(n) for n in range(4)])
    for seq in range(1, 5):
        hub.committed([record(seq)])
    assert not reader.lagging
    seen = []
    for _ in range(8):
        told = await reader.next()
        if isinstance(told, Record):
            seen.append(told.seq)
        if seen == [1, 2, 3, 4]:
            break
    assert seen == [1, 2, 3, 4]


async def test_a_reader_that_backs_up_with_records_is_let_go():
    hub = Hub()
    reader = hub.subscribe(buffer_max=4)
    for seq in range(1, 7):
        hub.committed([record(seq)])
    assert reader.lagging
    assert await reader.next() is None
    assert (hub.listening, hub.hearing) == (False, False), "nobody waits for it any more"


async def test_a_buffer_never_grows_past_its_bound():
    hub = Hub()
    reader = hub.subscribe(buffer_max=16)
    for number in range(3 * BUFFER_MAX):
        hub.live([delta(number)])
        if number < 16:
            hub.committed([record(number + 1)])
    assert not reader.lagging
    assert len(reader._shared.deltas) == BUFFER_MAX
    assert len(reader._shared.records) == 16
    told = []
    while (one := reader.at_hand()) is not None:
        told.append(one)
    assert len(told) == 1 + 16 + 16, "what is missing, and what it may be behind by"


# --- what is kept for readers ---


def kept(reader: Any) -> tuple[int, int]:
    """How many records and deltas are kept for the readers of a session."""
    return len(reader._shared.records), len(reader._shared.deltas)


async def test_what_all_have_read_is_not_kept():
    hub = Hub()
    readers = [hub.subscribe(), hub.subscribe(), hub.subscribe(live=False)]
    told: list[list[Any]] = [[], [], []]
    reading = [asyncio.ensure_future(_collect(one, told[place])) for place, one in enumerate(readers)]
    most = (0, 0)
    for number in range(2 * BUFFER_MAX):
        hub.live([delta(number)])
        hub.committed([record(number + 1)])
        await asyncio.sleep(0)
        most = max(most, kept(readers[0]))
    assert max(most) <= READ_MIN + 1, "all have come so far, and nobody needs it any more"
    hub.close()
    await asyncio.gather(*reading)
    assert [len(one) for one in told] == [4 * BUFFER_MAX, 4 * BUFFER_MAX, 2 * BUFFER_MAX]


async def _collect(reader: Any, told: list[Any]) -> None:
    async for one in reader:
        told.append(one)


async def test_a_slow_reader_that_catches_up_or_leaves_holds_nothing_back():
    hub = Hub()
    quick, slow, gone = hub.subscribe(), hub.subscribe(), hub.subscribe()
    for number in range(500):
        hub.live([delta(number)])
        assert await quick.next() == delta(number)
    assert kept(quick) == (0, 500)
    gone.close()
    assert kept(quick) == (0, 500), "one that is as slow is there still"
    assert [await slow.next() for _ in range(500)] == [delta(number) for number in range(500)]
    waiting = asyncio.ensure_future(slow.next())
    await asyncio.sleep(0)
    assert kept(quick) == (0, 0)
    waiting.cancel()


async def test_who_hears_of_records_alone_holds_no_deltas_back():
    hub = Hub()
    hub.subscribe(live=False)
    reader = hub.subscribe()
    told: list[Any] = []
    reading = asyncio.ensure_future(_collect(reader, told))
    for number in range(500):
        hub.live([delta(number)])
        await asyncio.sleep(0)
    assert kept(reader)[1] <= READ_MIN + 1
    hub.close()
    await reading
    assert len(told) == 500


async def test_what_is_kept_for_slow_readers_is_bounded_over_all_sessions_and_whoever_has_most_gives_up():
    allowance = Allowance(bytes_max=100_000)
    hubs = [Hub(allowance) for _ in range(50)]
    mute = [hub.subscribe() for hub in hubs]
    some = Hub(allowance)
    slow = some.subscribe()
    some.live([delta(0)])
    for number in range(200):
        for hub in hubs:
            hub.live([delta(number)])
            assert allowance.used <= allowance.bytes_max
    assert slow.at_hand() == delta(0), "one with little keeps it"
    gap = mute[0].at_hand()
    assert isinstance(gap, StreamTruncated)
    rest = []
    while (one := mute[0].at_hand()) is not None:
        rest.append(one)
    assert rest == [delta(number) for number in range(gap.dropped, 200)]
    for hub in (*hubs, some):
        for left in tuple(hub._subscriptions):
            left.close()
    assert allowance.used == 0


async def test_large_records_count_by_their_size_and_their_slow_readers_go_on_with_the_log():
    allowance = Allowance(bytes_max=100_000)
    hub, other = Hub(allowance), Hub(allowance)
    slow, well = hub.subscribe(), other.subscribe()
    other.committed([record(1)], 1_000)
    for seq in range(1, 20):
        hub.committed([record(seq)], 10_000)
    assert allowance.used <= allowance.bytes_max
    assert slow.lagging
    assert await slow.next() is None
    assert await well.next() == record(1)


async def test_readers_read_what_is_left_when_their_session_is_closed():
    hub = Hub()
    readers = [hub.subscribe(), hub.subscribe()]
    hub.live([delta(1)])
    hub.committed([record(1)])
    assert readers[0].at_hand() == delta(1)
    hub.close()
    assert [await readers[0].next(), await readers[0].next()] == [record(1), None]
    assert [await readers[1].next() for _ in range(3)] == [delta(1), record(1), None]


READING = st.lists(
    st.tuples(st.sampled_from(["tell", "stream", "read", "wait", "join", "leave"]), st.integers(0, 40)), max_size=120
)


@given(READING, st.sampled_from([2_000, 10**9]))
def test_every_reader_is_told_all_in_order_or_how_much_it_missed(steps: list[tuple[str, int]], bytes_max: int):
    asyncio.run(_read_by_steps(steps, bytes_max))


async def _read_by_steps(steps: list[tuple[str, int]], bytes_max: int) -> None:
    allowance = Allowance(bytes_max)
    hub = Hub(allowance)
    readers: list[tuple[Any, list[int]]] = []
    seq = streamed = 0
    for what, count in steps:
        if what == "tell":
            hub.committed([record(seq + 1 + n) for n in range(count % 5 + 1)], 100)
            seq += count % 5 + 1
        elif what == "stream":
            hub.live([delta(streamed + n) for n in range(count)])
            streamed += count
        elif what == "join":
            readers.append((hub.subscribe(live=count % 3 > 0, buffer_max=count % 20 + 1), [seq, streamed]))
        elif readers and what == "leave":
            readers.pop(count % len(readers))[0].close()
        elif readers:
            reader, place = readers[count % len(readers)]
            for _ in range(count + 1):
                one = reader.at_hand()
                if one is None:
                    assert reader.lagging or place == [seq, streamed] or not reader.live
                    if what == "wait":
                        hub.waits(reader)
                    break
                if isinstance(one, StreamTruncated):
                    place[1] += one.dropped
                elif isinstance(one, Record):
                    assert one.seq == place[0] + 1
                    place[0] += 1
                else:
                    more = reader.deltas_at_hand() if count % 2 else []
                    assert [one, *more] == [delta(place[1] + n) for n in range(len(more) + 1)]
                    place[1] += len(more) + 1
        assert len(hub._subscriptions) >= 1 or allowance.used == 0


# --- sessions ---


async def test_a_reader_that_was_let_go_resumes_at_its_cursor_without_a_gap(monkeypatch):
    monkeypatch.setattr("windlass.runtime.streams.subscribers.BUFFER_MAX", 8)
    agent = agent_of(*steps(30), "done", tools=[step])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        hub = rt.slots.at(session.key).hub
        subscribe = hub.subscribe
        monkeypatch.setattr(hub, "subscribe", lambda **more: subscribe(**{**more, "buffer_max": 8}))
        seen: list[Event] = []
        after: str | None = None
        cuts = 0
        sending = asyncio.ensure_future(_prompt(session))
        while not (seen and isinstance(seen[-1], Terminal)):
            cursor = None
            async for event in session.events(after=after):
                if isinstance(event, StreamTruncated) and event.reason == "disconnected":
                    cursor = event.cursor
                elif isinstance(event, Event):
                    seen.append(event)
                    if isinstance(event, Terminal):
                        break
                if cuts == 0:
                    await started(session, Event, count=len(seen) + 20)  # more than its buffer holds
                await asyncio.sleep(0.003)
            if cursor is not None:
                cuts += 1
                after = cursor
                assert after == await rt.host.cursors.behind(session.key, len(seen))
        await sending
        assert seen == await events_of(session)
        assert cuts > 0


async def _prompt(session: Any) -> None:
    await session.prompt("go")
    await session.result()


async def test_a_stream_resumed_at_any_record_gives_exactly_the_rest():
    agent = agent_of(*steps(3), "done", tools=[step])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        whole = [record async for record in session.records()]
        places: list[Any] = [(None, 0), (0, 0), *((record.cursor, record.seq) for record in whole[:-1])]
        places += [(record.seq, record.seq) for record in whole[:-1]]
        for after, cut in places:
            rest = []
            async for told in session.tail(after=after):
                rest.append(told)
                if len(rest) == len(whole) - cut:
                    break
            assert rest == whole[cut:]
            assert [record async for record in session.records(after=after)] == whole[cut:]
        assert await session.cursor() == whole[-1].cursor


# --- cursors ---


async def test_what_is_told_live_has_the_cursor_that_the_log_gives():
    agent = agent_of(*steps(2), "done", tools=[step])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        told: list[Record] = []

        async def listen() -> None:
            async for one in session.tail():
                if isinstance(one, Record):
                    told.append(one)
                    if isinstance(one.event, Terminal):
                        return

        listening = asyncio.ensure_future(listen())
        await asyncio.sleep(0)
        await session.prompt("go")
        await listening
        assert told == [record async for record in session.records()]
        assert len({record.cursor for record in told}) == len(told)


async def test_a_cursor_outlives_the_process_and_fits_a_fork_up_to_where_it_left(tmp_path):
    store = str(tmp_path / "work.db")
    agent = agent_of("one", "two", "three")
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.result()
        shared = await session.cursor()
        fork = await session.fork("f")
        await session.prompt("b")
        await session.result()
        later = await session.cursor()
    async with windlass.open(store) as rt:
        session, fork = await rt.get("s"), await rt.get("f")
        whole = [record async for record in session.records()]
        cut = next(record.seq for record in whole if record.cursor == shared)
        assert [record async for record in session.records(after=shared)] == whole[cut:]
        assert [record.seq async for record in fork.records(after=shared)] == [cut + 1]
        with pytest.raises(CursorMismatch) as caught:
            await anext(fork.events(after=later))
        assert (caught.value.cursor, caught.value.restart) == (later, "c1.0.")
        assert "restart from the beginning" in str(caught.value)
        assert await anext(fork.events(after=caught.value.restart)) == whole[0].event


async def test_a_cursor_of_another_log_is_told_apart_from_one_past_the_end():
    agent = agent_of("one", "two")
    async with windlass.open(agents=[agent]) as rt:
        one, two = await rt.session(agent, "one"), await rt.session(agent, "two")
        with pytest.raises(CursorMismatch, match="record 1 is another one there"):
            await anext(two.events(after=await one.cursor()))
        await one.prompt("a")
        await one.result()
        with pytest.raises(CursorMismatch, match="the log ends before record"):
            await anext(two.tail(after=await one.cursor()))


@pytest.mark.parametrize("text", ["", "7", "c1.7", "c1.7.", "c1.7.short", "c2.0.", "c1.-1.AAAAAAAAAAAA", "c1.0.\n"])
async def test_what_is_no_cursor_is_refused(text):
    agent = agent_of("one")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.UsageError, match="is no cursor"):
            await anext(session.events(after=text))


@pytest.mark.parametrize("before", ["nobody", "somebody", "a_commit"])
async def test_a_late_reader_gets_the_attempts_text_so_far_first(before):
    release = asyncio.Event()
    held: list[int] = []

    async def slow(request):
        return ["one ", "two ", pause(0), "three"]

    async def hold(seconds):
        held.append(1)
        await release.wait()

    from windlass.testing.scripted import ScriptedModel

    agent = windlass.Agent("w", model=ScriptedModel([slow], sleep=hold))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        if before == "somebody":
            rt.slots.subscribe(session.key)
        await session.prompt("go")
        await until(lambda: held)
        if before == "a_commit":
            await session.set_title("meanwhile")
        heard: list[str] = []

        async def late() -> None:
            async for event in session.events():
                if isinstance(event, TextDelta):
                    heard.append(event.text)
                if isinstance(event, Terminal):
                    return

        listening = asyncio.ensure_future(late())
        await until(lambda: heard)
        release.set()
        await listening
        assert "".join(heard) == "one two three"


async def test_a_new_attempt_supersedes_the_old_ones_text():
    agent = agent_of(["half of ", fail("connection_reset")], ["the whole"])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        live = [event async for event in session.prompt("go") if isinstance(event, Live)]
        kinds = [type(event).__name__ for event in live]
        assert kinds == ["TextDelta", "AttemptSuperseded", "TextDelta"]
        assert isinstance(live[1], AttemptSuperseded)
        assert isinstance(live[0], TextDelta)
        assert live[0].request_id == live[1].request_id
        assert (await session.result()).text == "the whole"


async def test_live_events_are_never_kept_and_carry_the_last_committed_seq():
    agent = agent_of(*steps(2), "done", tools=[step])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        committed = 0
        async for event in session.prompt("go"):
            if isinstance(event, Live):
                assert event.after_seq <= committed + 1
            else:
                committed += 1
        assert not any(isinstance(event, Live) for event in await events_of(session))
        seen = [e async for e in _first(session, ToolProgressed)]
        assert seen == []


async def _first(session: Any, kind: type[Any]) -> Any:
    for event in await events_of(session):
        if isinstance(event, kind):
            yield event


async def test_progress_of_tools_is_streamed():
    agent = agent_of(*steps(2), "done", tools=[step])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        told = [event.message async for event in session.prompt("go") if isinstance(event, ToolProgressed)]
        assert told == ["step 0", "step 1"]


async def test_two_hundred_readers_that_do_not_read_neither_slow_nor_grow_a_run():
    agent = agent_of(turn(*WORDS, call("step", number=99)), *steps(20), "done", name="loud", tools=[step])
    quiet = agent_of(turn(*WORDS, call("step", number=99)), *steps(20), "done", name="quiet", tools=[step])
    async with windlass.open(agents=[agent, quiet]) as rt:
        alone = await _timed(await rt.session(quiet, "quiet"))
        session = await rt.session(agent, "loud")
        readers = [rt.slots.subscribe(session.key) for _ in range(READERS)]
        crowded = await _timed(session)
        assert len({id(reader._shared) for reader in readers}) == 1, "what was told is kept once"
        assert crowded < alone + 1.0, f"{crowded:.2f} s with readers, {alone:.2f} s without"
        healthy = [event async for event in _all(session)]
        assert healthy == await events_of(session)


async def _timed(session: Any) -> float:
    begun = time.process_time()  # what others do on this machine does not count
    await session.prompt("go")
    result = await session.result()
    assert result.status == "completed"
    return time.process_time() - begun


async def _all(session: Any) -> Any:
    async for event in session.events():
        if isinstance(event, Event):
            yield event
            if isinstance(event, Terminal):
                return
