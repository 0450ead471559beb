"""Page-out to an archive of one's own and page-in from it: recorded, bounded, and never what a run depends on."""

from __future__ import annotations

import asyncio

import pytest

import windlass
from tests.archive.talking import FACTS, agent_of, forget, requests, say, talked, texts
from tests.runtime.support import events_of, only, sound, started, until
from windlass.events.context import ContextArchived, ContextPagedIn, ContextPagedOut
from windlass.events.sessions import NoticeGiven
from windlass.runtime.context import archive_pager as module
from windlass.runtime.context.archive import Page
from windlass.store.base import Key
from windlass.testing.scripted import call


class Shelf:
    """An archive that keeps pages in a dictionary, by session and id."""

    def __init__(self):
        self.pages: dict[tuple[Key, str], Page] = {}
        self.puts = 0

    async def put(self, session, pages):
        self.puts += 1
        self.pages.update({(session, page.page_id): page for page in pages})

    async def search(self, session, query, limit):
        return [page for (key, _), page in self.pages.items() if key == session and query in page.text][:limit]

    async def get(self, session, page_ids):
        return [self.pages[session, name] for name in page_ids if (session, name) in self.pages]


class Broken:
    """An archive that fails at everything."""

    async def put(self, session, pages):
        raise OSError("the disk is gone")

    async def search(self, session, query, limit):
        raise OSError("the disk is gone")

    async def get(self, session, page_ids):
        raise OSError("the disk is gone")


class Silent(Broken):
    """An archive that never answers."""

    async def put(self, session, pages):
        await asyncio.Event().wait()

    async def search(self, session, query, limit):
        await asyncio.Event().wait()


class Nonsense(Shelf):
    """An archive that gives back something else than pages."""

    async def search(self, session, query, limit):
        return ["a text"]


async def archived(session):
    return (await started(session, ContextArchived))[0]


# --- out ---


async def test_an_archive_is_given_what_leaves_and_that_is_on_record():
    own = Shelf()
    async with talked(agent_of(archive=own)) as session:
        done = await archived(session)
        (paged,) = only(await events_of(session), ContextPagedOut)
        assert (done.pages, done.failure) == (4, None)
        assert paged.items == 8
        kept = {page.page_id: page for page in own.pages.values()}
        assert next(iter(kept.values())).text == f"user: {FACTS[0]}\nassistant: noted"
        assert [seq for page in kept.values() for seq in page.seqs] == [ref.seq for ref in paged.refs]
        assert list(kept) == [f"p{page.seqs[0]}" for page in kept.values()]
        assert {key for key, _ in own.pages} == {session.key}
        await sound(session)


async def test_the_same_page_is_put_again_under_the_same_id():
    own = Shelf()
    async with talked(agent_of(archive=own)) as session:
        await archived(session)
        before = dict(own.pages)
        await session.undo_compact()
        await forget(session)
        await started(session, ContextArchived, count=2)
        assert (own.puts, own.pages) == (2, before)


async def test_a_put_that_was_cut_off_is_made_again_by_the_next_owner(tmp_path):
    path = str(tmp_path / "work.db")
    async with talked(agent_of(archive=Silent()), path) as session:
        await started(session, ContextPagedOut)
        assert only(await events_of(session), ContextArchived) == []
    own = Shelf()
    agent = agent_of(archive=own)
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        assert (await archived(session)).pages == 4
        assert len(own.pages) == 4
        await sound(session)


async def test_an_archive_that_fails_stops_no_run_and_the_log_says_so():
    async with talked(agent_of(archive=Broken())) as session:
        done = await archived(session)
        assert done.pages == 0
        assert done.failure.message == "the archive raised OSError: the disk is gone"
        await say(session, "go on")
        assert (await session.result()).text == "noted"
        await sound(session)


async def test_an_archive_that_does_not_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "ARCHIVE_TIMEOUT_MS", 20)
    async with talked(agent_of(archive=Silent())) as session:
        done = await archived(session)
        assert "did not answer within" in done.failure.message
        assert [page.text for page in await session.page_in("ferry")] == [f"user: {FACTS[2]}\nassistant: noted"]


async def test_a_run_does_not_wait_for_the_archive():
    class Slow(Shelf):
        entered, let_go = asyncio.Event(), asyncio.Event()

        async def put(self, session, pages):
            self.entered.set()
            await self.let_go.wait()
            await super().put(session, pages)

    own = Slow()
    async with talked(agent_of(archive=own)) as session:
        await own.entered.wait()
        await say(session, "go on")
        assert (await session.result()).text == "noted"
        assert own.pages == {}
        own.let_go.set()
        assert (await archived(session)).pages == 4


async def test_whoever_waits_for_rest_is_not_held_up_by_what_is_archived_then(tmp_path):
    async with asyncio.timeout(120), talked(agent_of(tools=["recall"]), str(tmp_path / "work.db")) as session:
        for word in ("a", "b", "c"):
            await say(session, word, word, word)
            await forget(session)
            await session.wait_idle()


async def test_nothing_is_paged_out_for_an_agent_without_archive_or_recall():
    async with talked(agent_of()) as session:
        assert only(await events_of(session), ContextPagedOut) == []
        assert len(await session.page_in("ferry")) == 1, "the log is there in any case"
    async with talked(agent_of(tools=["recall"])) as session:
        assert (await archived(session)).pages == 4


# --- in ---


async def test_what_is_paged_in_is_recorded_and_shown_at_the_next_turn():
    agent = agent_of()
    async with talked(agent) as session:
        pages = await session.page_in("how much is the ferry")
        assert [page.text for page in pages] == [f"user: {FACTS[2]}\nassistant: noted"]
        (event,) = only(await events_of(session), ContextPagedIn)
        assert (event.query, event.page_ids) == ("how much is the ferry", (pages[0].page_id,))
        text = f"[page {pages[0].page_id}]\nuser: {FACTS[2]}\nassistant: noted"
        assert event.body.text == text
        assert (event.bytes, event.tokens > 0) == (len(text), True)
        await say(session, "so?")
        assert texts(requests(agent)[-1].items)[-2:] == ["[recalled] " + text, "so?"]
        await sound(session)


async def test_pages_come_back_by_id_in_the_order_asked_for():
    async with talked(agent_of()) as session:
        known = await session.page_in("ferry harbour lighthouse")
        ids = [page.page_id for page in known]
        again = await session.page_in(page_ids=ids[::-1])
        assert [page.page_id for page in again] == ids[::-1]
        assert only(await events_of(session), ContextPagedIn)[-1].page_ids == tuple(ids[::-1])
        mixed = await session.page_in("lighthouse", page_ids=[ids[0]], limit=1)
        assert {page.page_id for page in mixed} >= {ids[0]}


async def test_what_is_not_found_is_not_recorded():
    async with talked(agent_of()) as session:
        assert await session.page_in("submarine") == ()
        assert await session.page_in(page_ids=["p999"]) == ()
        assert only(await events_of(session), ContextPagedIn) == []


async def test_nothing_or_too_much_cannot_be_asked_for():
    async with talked(agent_of()) as session:
        with pytest.raises(windlass.UsageError, match="give a query or page ids"):
            await session.page_in("  ")
        for limit in (0, module.FOUND_MAX + 1):
            with pytest.raises(windlass.UsageError, match="at most 20 pages"):
                await session.page_in("ferry", limit=limit)
        with pytest.raises(windlass.UsageError, match="at most 20 pages"):
            await session.page_in(page_ids=[f"p{n}" for n in range(21)])


async def test_an_archive_of_ones_own_is_asked_and_the_log_behind_it():
    own = Shelf()
    async with talked(agent_of(archive=own)) as session:
        await archived(session)
        (page,) = await session.page_in("ferry")
        assert page in own.pages.values()
        assert await session.page_in("how much is the ferry") == (), "its own search takes the query as it stands"
        own.pages.clear()
        assert await session.page_in("ferry") == ()
        assert await session.page_in(page_ids=[page.page_id]) == (page,), "by id the log has it"


@pytest.mark.parametrize("own", [Broken(), Nonsense()])
async def test_where_the_archive_fails_the_log_is_asked_and_that_is_noted(own):
    async with talked(agent_of(archive=own)) as session:
        assert [page.text for page in await session.page_in("ferry")] == [f"user: {FACTS[2]}\nassistant: noted"]
        notes = [event for event in only(await events_of(session), NoticeGiven) if event.code == "archive_failed"]
        assert len(notes) == 1
        assert "the log was asked instead" in notes[0].message
        await sound(session)


async def test_what_is_brought_back_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "RECALL_TOKENS_MAX", 20)
    async with talked(agent_of()) as session:
        pages = await session.page_in("ferry harbour lighthouse")
        (event,) = only(await events_of(session), ContextPagedIn)
        assert len(pages) == 1
        assert event.page_ids == tuple(page.page_id for page in pages)
        assert "no room for p" in event.body.text
        assert event.tokens < 100


@pytest.mark.parametrize(
    ("agents", "why"),
    [([], "agent 'talker', which is not bound here"), ([agent_of()], "another runtime of this process drives it")],
)
async def test_a_page_in_from_elsewhere_says_why_it_cannot_be(tmp_path, agents, why):
    path = str(tmp_path / "work.db")
    async with talked(agent_of(), path) as session:
        async with windlass.open(path, agents=agents) as other:
            seen = await other.get(session.session_id)
            with pytest.raises(windlass.UsageError, match=f"nothing can be paged in from here: .*{why}"):
                await seen.page_in("ferry")
        assert only(await events_of(session), ContextPagedIn) == []


async def test_what_is_paged_in_during_a_turn_stands_behind_its_results():
    let_go = asyncio.Event()

    @windlass.tool(contract="pure")
    async def slow() -> str:
        "Takes a while."
        await let_go.wait()
        return "done"

    def answer(request):
        if request.lane == "compact":
            return "an epitome"
        return call("slow") if request.items[-1].content[0].text == "start" else "noted"

    agent = agent_of(answer, tools=[slow])
    async with talked(agent) as session:
        await session.prompt("start")
        await until(lambda: len(requests(agent)) == 7)
        await session.page_in("ferry")
        let_go.set()
        await session.result()
        shown = texts(requests(agent)[-1].items)
        (event,) = only(await events_of(session), ContextPagedIn)
        assert shown[-2:] == ["done", f"[recalled] {event.body.text}"]
        await sound(session)
