"""The log as an archive: what left the history is found in it, and nothing else is."""

from __future__ import annotations

import pytest

import windlass
from tests.archive.talking import FACTS, agent_of, answering, forget, say, talked
from tests.runtime.support import events_of, only, sound
from windlass.events.context import CompactionFinished
from windlass.events.sessions import ContentErased
from windlass.events.values.usage import Usage
from windlass.runtime.context import archive as module
from windlass.runtime.context.archive import LogArchive
from windlass.runtime.streams import log_reader
from windlass.store import chain
from windlass.store.base import Key
from windlass.testing.scripted import call


def archive(session) -> LogArchive:
    return LogArchive(session.runtime.host.log)


async def found(session, query, limit=5) -> list[str]:
    return [page.text for page in await archive(session).search(session.key, query, limit)]


async def test_what_left_the_history_is_found_by_its_words_best_first():
    async with talked(agent_of()) as session:
        assert await found(session, "What does the ferry cost?") == [f"user: {FACTS[2]}\nassistant: noted"]
        assert await found(session, "lighthouse") == [f"user: {FACTS[1]}\nassistant: noted"]
        both = await found(session, "keeper of the harbour, keeper of the lighthouse")
        assert [FACTS[1] in both[0], FACTS[0] in both[1], len(both)] == [True, True, 2]


async def test_what_is_still_visible_or_never_said_is_not_found():
    async with talked(agent_of()) as session:
        assert await found(session, "bread") == []
        assert await found(session, "submarine") == []
        assert await found(session, "?!") == []
        assert await found(session, "") == []


async def test_nothing_of_a_query_is_an_operator():
    async with talked(agent_of()) as session:
        for query in ('ferry" OR "harbour', "ferry AND NOT", "ferry*", "NEAR(ferry, 1)", "text: ferry", "(", "-ferry"):
            assert isinstance(await found(session, query), list)
        assert len(await found(session, 'ferry" OR "harbour')) == 2


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("ein Café in Köln", "cafe koln"),
        ("東京の郵便番号は100です", "郵便番号"),
        ("call foo_bar_baz(1)", "foo_bar_baz"),
        ("invoice INV-2031 is open", "inv-2031"),
        ("they were running late", "run"),
    ],
)
async def test_words_are_found_in_many_spellings(said, query):
    async with talked(agent_of(), prompts=(said, "x", "y")) as session:
        assert [said in text for text in await found(session, query)] == [True]


async def test_scripts_without_blanks_are_not_found_by_the_wrong_order():
    async with talked(agent_of(), prompts=("東京の郵便番号", "x", "y")) as session:
        assert await found(session, "京東") == []


async def test_pages_have_stable_ids_and_are_read_by_them():
    async with talked(agent_of()) as session:
        pages = await archive(session).search(session.key, "ferry harbour lighthouse", 5)
        ids = sorted(page.page_id for page in pages)
        assert ids == sorted(f"p{page.seqs[0]}" for page in pages)
        again = await archive(session).get(session.key, [*ids, "p999", "nonsense"])
        assert {page.page_id: page for page in again} == {page.page_id: page for page in pages}
        assert all(page.tokens > 0 for page in pages)


async def test_a_page_holds_a_reply_with_its_calls_and_whole_results():
    @windlass.tool(contract="pure", labels=["private"])
    def timetable(day: str) -> str:
        "When the ferry leaves."
        return f"on {day} at six " + "and again " * 300

    def answer(request):
        if request.lane == "compact":
            return "an epitome"
        return call("timetable", day="Monday") if len(request.items) == 1 else "at six"

    async with talked(agent_of(answer, tools=[timetable]), prompts=("when does it leave?", "x", "y", "z")) as session:
        pages = await archive(session).search(session.key, "monday", 5)
        (page,) = pages
        assert page.text.startswith("user: when does it leave?\n[called timetable, call c")
        assert '{"day":"Monday"}' in page.text
        assert "gave] on Monday at six and again" in page.text
        assert page.text.endswith("assistant: at six")
        assert page.labels == ("private",)
        assert page.tokens > 500


async def test_it_is_extended_as_more_leaves_and_reads_no_more_of_the_log_than_is_new(monkeypatch):
    read = []
    real = chain.history

    def counted(store, key, *, after=0, until=None):
        read.append(after)
        return real(store, key, after=after, until=until)

    async with talked(agent_of()) as session:
        kept = archive(session)
        assert len(await kept.search(session.key, "ferry", 5)) == 1
        head = (await session.state()).seq
        await say(session, "the ferry is blue", "x", "y")
        await forget(session)
        monkeypatch.setattr(log_reader, "history", counted)
        texts = [page.text for page in await kept.search(session.key, "ferry", 5)]
        assert sorted("blue" in text for text in texts) == [False, True]
        assert read[0] == head
        await sound(session)


async def test_summaries_and_what_was_recalled_are_no_pages():
    async with talked(agent_of()) as session:
        await session.page_in("lighthouse")
        await say(session, "a", "b", "c")
        await forget(session)
        assert len(only(await events_of(session), CompactionFinished)) == 2
        assert await found(session, "lighthouse keeper") == [f"user: {FACTS[1]}\nassistant: noted"]
        assert await found(session, "epitome") == []


async def test_what_a_session_went_back_behind_is_not_found():
    async with talked(agent_of()) as session:
        before = (await session.state()).seq
        kept = archive(session)
        await say(session, "the bridge is closed", "x", "y")
        await forget(session)
        assert len(await kept.search(session.key, "bridge", 5)) == 1
        await session.rewind(before)
        assert await kept.search(session.key, "bridge", 5) == []
        assert len(await kept.search(session.key, "ferry", 5)) == 1, "it had left by then"
        await session.clear()
        assert await kept.search(session.key, "ferry", 5) == []
        assert await found(session, "ferry") == [], "nor from a fresh start"


async def test_what_an_undo_made_visible_again_is_no_page_until_it_leaves_again():
    async with talked(agent_of()) as session:
        kept = archive(session)
        assert len(await kept.search(session.key, "ferry", 5)) == 1
        await session.undo_compact()
        assert await kept.search(session.key, "ferry", 5) == []
        await forget(session)
        assert len(await kept.search(session.key, "ferry", 5)) == 1


async def test_a_fork_finds_what_its_origin_forgot_and_keeps_its_own_to_itself():
    async with talked(agent_of()) as session:
        fork = await session.fork("f")
        await say(fork, "the mast is broken", "x", "y")
        await forget(fork)
        kept = archive(session)
        assert [p.text for p in await kept.search(fork.key, "ferry", 5)] == [f"user: {FACTS[2]}\nassistant: noted"]
        assert len(await kept.search(fork.key, "mast", 5)) == 1
        assert await kept.search(session.key, "mast", 5) == []


async def test_what_was_erased_is_not_given_back():
    async with talked(agent_of()) as session:
        kept = archive(session)
        (page,) = await kept.search(session.key, "lighthouse", 5)
        await session.runtime.store.log.erase(session.key, page.seqs[0], by="me", why="private", at_ms=1)
        shown = await kept.get(session.key, [page.page_id])
        assert [p.text for p in shown] == ["user: [this content was erased]\nassistant: noted"]
        await erased_on_record(session, page.seqs[0])
        assert await kept.search(session.key, "lighthouse", 5) == [], "nor found by its words, once that is on record"
        assert len(await kept.search(session.key, "erased", 5)) == 1


async def erased_on_record(session, seq) -> None:
    owner = session.runtime.slots.driven_at(session.key).owner
    await owner.take(ContentErased(seq=seq, by="me", why="private"))


@pytest.mark.parametrize("more", [0, 5])
async def test_a_session_made_anew_under_the_same_id_has_none_of_the_old_pages(more):
    kept = None
    for word in ("tulip", "oak"):
        agent = agent_of()
        async with windlass.open(agents=[agent]) as runtime:
            session = await runtime.session(agent, "s")
            await say(session, f"plant a {word}", "x", "y", *(["z"] * more if kept is not None else []))
            await forget(session)
            if kept is None:
                kept = LogArchive(runtime.host.log)
                assert len(await kept.search(session.key, "tulip", 5)) == 1
                continue
            kept._log = runtime.host.log
            for shelf in kept._shelves.values():
                shelf._log = runtime.host.log
            assert await kept.search(session.key, "tulip", 5) == []
            assert len(await kept.search(session.key, "oak", 5)) == 1


async def test_another_tenant_finds_nothing():
    async with talked(agent_of()) as session:
        assert len(await found(session, "ferry")) == 1
        with pytest.raises(windlass.WindlassError):
            await archive(session).search(Key("other", session.session_id), "ferry", 5)


@pytest.mark.parametrize(("name", "most"), [("PAGES_MAX", 2), ("CHARS_MAX", 120)])
async def test_where_there_is_too_much_the_oldest_is_left_to_the_log(monkeypatch, name, most):
    monkeypatch.setattr(module, name, most)
    monkeypatch.setattr(module, "PAGES_AT_ONCE", 1)
    prompts = [f"the {word} is here" for word in ("anchor", "buoy", "crane", "dock", "engine")]
    async with talked(agent_of(), prompts=(*prompts, "x", "y")) as session:
        kept = archive(session)
        assert [len(await kept.search(session.key, word, 5)) for word in ("anchor", "engine")] == [0, 1]
        assert len((await kept._shelf(session.key)).leaves) <= 4
        await say(session, "the flag is here", "x", "y")
        await forget(session)
        assert len(await kept.search(session.key, "flag", 5)) == 1
        assert len((await kept._shelf(session.key)).leaves) <= 4


async def test_only_so_many_sessions_are_kept_indexed(monkeypatch):
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    agent = agent_of()
    async with windlass.open(agents=[agent]) as runtime:
        kept = LogArchive(runtime.host.log)
        for name in ("a", "b", "c"):
            session = await runtime.session(agent, name)
            await say(session, f"only {name}{name}{name}", "x", "y")
            await forget(session)
            assert len(await kept.search(session.key, f"{name}{name}{name}", 5)) == 1
        assert len(kept._shelves) == 2
        assert len(await kept.search(Key("default", "a"), "aaa", 5)) == 1


async def test_pages_are_cut_by_weight_and_by_who_speaks():
    def wordy(request):
        return answering(request) if request.lane == "compact" else "word " * 2_000

    agent = agent_of(wordy, usage=Usage(input_tokens=10, output_tokens=2_000))
    async with talked(agent, prompts=("one", "two", "x", "y")) as session:
        pages = await archive(session).search(session.key, "word one two", 20)
        begins = sorted(page.text[:12] for page in pages)
        assert begins == ["assistant: w", "assistant: w", "assistant: w", "user: one", "user: two"]
        assert all(len(page.text) <= 8_100 for page in pages)
        assert "characters left out" in max(pages, key=lambda page: page.tokens).text
