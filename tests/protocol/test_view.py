"""Views: folds over what is told about a session, resumed from any record."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterable

import pytest

from tests.operate.support import DONE, payer, sessions
from windlass.cli.screen.live_printer import Narrator
from windlass.cli.screen.narration import Narration, Words
from windlass.cli.screen.timeline import Timeline
from windlass.events.live import AttemptSuperseded, Live, TextDelta
from windlass.protocol.log_tail import records
from windlass.protocol.record_json import RecordJson
from windlass.protocol.view import Told, UnknownRecord, View, forms
from windlass.runtime.api.runtime import Runtime

UNKNOWN = UnknownRecord(seq=99, at_ms=1, first=99, tag="later.kind", skeleton=b'{"type":"later.kind"}')


async def each(told: Iterable[Told]) -> AsyncIterator[Told]:
    for one in told:
        yield one


async def live_session() -> list[Told]:
    """A whole session as a reader gets it who is there from the beginning."""
    async with sessions() as store:
        agent = payer()
        async with Runtime(store, agents=[agent]) as runtime:
            session = await runtime.session(agent, "watched")
            return [told async for told in session.prompt("Pay it.").tail()]


@pytest.mark.parametrize("view", [Timeline, RecordJson, Narration])
async def test_a_view_resumed_at_any_record_goes_on_as_if_it_had_never_stopped(view: type[View[object]]):
    async with sessions() as store:
        told = [record async for record in records(store, DONE)]
    whole = {one.seq: list(fed.feed(one)) for fed in [view()] for one in told}
    for cut in range(len(told) + 1):
        resumed = [form async for form in forms(view(), each(told), after=cut)]
        assert resumed == [form for seq, made in whole.items() if seq > cut for form in made]


async def test_who_missed_the_live_events_is_told_everything_by_the_records():
    told = await live_session()
    durable = [one for one in told if not isinstance(one, Live)]
    assert len(durable) < len(told)
    assert said(told) == said(durable) == "Done: 7."


def said(told: Iterable[Told]) -> str:
    view = Narration()
    spoken = [form for one in told for form in view.feed(one)]
    return "".join(form.text for form in spoken if isinstance(form, Words))


async def test_text_that_was_streamed_is_not_said_twice_unless_it_was_superseded():
    told = await live_session()
    request = next(one.request_id for one in reversed(told) if isinstance(one, TextDelta))
    last = max(number for number, one in enumerate(told) if isinstance(one, TextDelta))
    told.insert(last + 1, AttemptSuperseded(request_id=request, reason="failed"))
    assert said(told) == "Done: 7.Done: 7."


async def test_live_events_of_a_resumed_reader_are_always_given():
    delta = TextDelta(request_id="q", text="more")
    assert [form async for form in forms(Narration(), each([delta]), after=1_000)] == [Words("more")]


async def test_half_an_answer_is_never_said_where_it_could_not_be_taken_back():
    told = await live_session()
    request = next(one.request_id for one in reversed(told) if isinstance(one, TextDelta))
    last = max(number for number, one in enumerate(told) if isinstance(one, TextDelta))
    told.insert(last + 1, AttemptSuperseded(request_id=request, reason="failed"))
    out, err = io.StringIO(), io.StringIO()
    narrator = Narrator(out, err, quiet=True)
    for one in told[: last + 2]:
        narrator.tell(one)
    assert (out.getvalue(), err.getvalue()) == ("", "")
    for one in told[last + 2 :]:
        narrator.tell(one)
    assert (out.getvalue(), err.getvalue()) == ("Done: 7.\n", "")


def test_a_record_of_a_newer_version_is_shown_by_its_name_and_told_to_nobody():
    assert [(entry.seq, entry.label, entry.said) for entry in Timeline().feed(UNKNOWN)] == [
        (99, "(unknown)", "later.kind")
    ]
    assert [json.loads(line) for line in RecordJson().feed(UNKNOWN)] == [
        {"seq": 99, "at_ms": 1, "cause": 99, "event": {"type": "later.kind"}}
    ]
    assert Narration().feed(UNKNOWN) == ()


async def test_a_narrator_prints_what_its_view_says():
    out, err = io.StringIO(), io.StringIO()
    narrator = Narrator(out, err)
    for told in await live_session():
        narrator.tell(told)
    assert out.getvalue() == "Done: 7.\n"
    assert err.getvalue() == "→ pay(cents=7)\n← paid 7\n"
