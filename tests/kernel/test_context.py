"""The context plan: elide, summarise, cut; whole exchanges only, pins and the last request verbatim, never a loop."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from tests.kernel.session import MODEL, Session, Settings, call, names
from windlass.events.changes import ChangeModel, ChangePins
from windlass.events.context import (
    CompactionFinished,
    CompactionStarted,
    ContextElided,
    ContextPagedIn,
    ContextTruncated,
    PageBody,
    UndoReceived,
)
from windlass.events.errors import Refused
from windlass.events.sessions import SessionStarted, SetupBody
from windlass.events.tools.calls import ResultReceived
from windlass.events.turns import ModelRequested, PrefixChanged
from windlass.events.values.blocks import Text
from windlass.events.values.items import UserItem
from windlass.events.values.setup import ItemRef, Limits, RunOptions
from windlass.events.values.usage import Usage
from windlass.kernel import log
from windlass.kernel.parts.context import compaction, context_size
from windlass.kernel.phases import Compacting
from windlass.testing.invariants import check_items


def sized(window, **changes):
    return msgspec.structs.replace(MODEL, window_tokens=window, max_output_tokens=500, **changes)


def talk(session, count, *, tokens=100, reply_tokens=100):
    for n in range(count):
        session.prompt(f"question {n}", tokens=tokens)
        session.reply(f"answer {n}", tokens=reply_tokens, usage=Usage(input_tokens=1, output_tokens=1))


def visible(session):
    return [(ref.kind, ref.seq) for ref in session.state.history.items]


def texts(session):
    return [item.content[0].text for item in session.items()]


def test_a_summary_stands_for_the_older_exchanges():
    session = Session(settings=Settings(keep_exchanges=2))
    talk(session, 4)
    started = session.compact()
    assert names(started) == ["compact.received", "run.started", "compaction.started", "model.requested"]
    assert (started[2].trigger, started[2].items, started[2].tokens) == ("command", 6, 600)
    assert (started[3].lane, started[3].initiator) == ("compact", "compaction")
    end = session.reply("they talked", usage=Usage(input_tokens=600, output_tokens=30))
    assert names(end) == ["model.replied", "compaction.finished", "run.completed"]
    finished = end[1]
    assert isinstance(finished, CompactionFinished)
    assert (finished.items_before, finished.items_after, finished.tokens_before, finished.tokens_after) == (
        8,
        3,
        800,
        230,
    )
    assert texts(session) == ["[Summary of the earlier conversation]\nthey talked", "question 3", "answer 3"]
    assert end[-1].commands == (started[0].command_id,)


def test_a_full_window_is_compacted_before_the_next_request_and_the_prefix_is_said_to_change():
    session = Session(model=sized(2_000), settings=Settings(keep_exchanges=2))
    talk(session, 4, tokens=200, reply_tokens=200)
    events = session.prompt("question 4", tokens=100)
    assert names(events) == ["prompt.received", "run.started", "compaction.started", "model.requested"]
    assert events[2].trigger == "tokens"
    after = session.reply("summary", usage=Usage(input_tokens=600, output_tokens=30))
    assert names(after) == ["model.replied", "compaction.finished", "prefix.changed", "turn.started", "model.requested"]
    assert after[2] == PrefixChanged(reasons=("compaction",))
    assert texts(session)[-1] == "question 4"


def test_below_the_mark_nothing_happens():
    session = Session(model=sized(2_000))
    talk(session, 7)
    assert "compaction.started" not in names(session.prompt("x", tokens=200))
    session.reply("ok", tokens=1)
    assert "compaction.started" in names(session.prompt("x", tokens=1))


def test_what_the_provider_counted_outweighs_our_estimate():
    session = Session(model=sized(10_000), settings=Settings(keep_exchanges=1))
    talk(session, 2)
    session.prompt(tokens=10)
    session.reply("x", tokens=10, usage=Usage(input_tokens=7_900, output_tokens=5))
    assert context_size.context_tokens(session.state) == 7_910
    assert "compaction.started" in names(session.prompt("y", tokens=100))


def test_bytes_are_a_trigger_of_their_own():
    session = Session(settings=Settings(keep_exchanges=1, compact_bytes=200))
    for _ in range(3):
        session.prompt("x" * 60, tokens=1)
        session.reply("y", tokens=1)
        if session.state.active:
            break
    events = [e for append in session.appends for e in append if isinstance(e, CompactionStarted)]
    assert [event.trigger for event in events] == ["bytes"]


def with_results(count, *, tokens=400, **changes):
    session = Session(**changes)
    session.prompt("look", tokens=10)
    for n in range(count):
        session.reply("", call("add", {"n": n}), tokens=10, usage=Usage(input_tokens=1, output_tokens=1))
        session.finish(text=f"result {n}", tokens=tokens)
    return session


def test_old_results_are_shortened_first_and_that_may_be_enough():
    session = with_results(6, model=sized(3_000), settings=Settings(keep_exchanges=2))
    elided = [e for e in session.events() if isinstance(e, ContextElided)]
    assert len(elided) == 1
    assert "compaction.started" not in session.names()
    (event,) = elided
    assert event.tokens_before - event.tokens_after == len(event.seqs) * (400 - 24)
    shown = [item.content for item in session.results()]
    assert shown[0] == (
        Text(text=f"[the result of add is left out here; read_result with call_id '{session.called()}' shows it]"),
    )
    assert shown[-1] == (Text(text="result 5"),)
    assert session.event(event.seqs[0]).body.content == (Text(text="result 0"),)


def test_small_results_are_left_as_they_are():
    session = with_results(12, tokens=190, model=sized(2_000), settings=Settings(keep_exchanges=2, summarise=False))
    assert "context.elided" not in session.names()
    assert "context.truncated" in session.names()


def test_an_exchange_is_never_split():
    session = Session(model=sized(2_000), settings=Settings(keep_exchanges=1, summarise=False))
    session.prompt("look", tokens=10)
    for turn in range(6):
        session.reply("", *[call("add", {"n": n, "t": turn}) for n in range(3)], tokens=10)
        for name in session.running():
            session.finish(name, tokens=150)
        check_items(session.items())
    assert "context.truncated" in session.names()


def test_pinned_items_and_the_last_request_stay_verbatim():
    session = Session(settings=Settings(keep_exchanges=1))
    talk(session, 3)
    first, last = session.state.history.items[0].seq, session.state.history.items[4].seq
    session.change(ChangePins(pin=(first,)))
    session.compact()
    finished = session.reply("sum", usage=Usage(input_tokens=1, output_tokens=5))[1]
    assert finished.kept == (first, last)
    assert texts(session) == ["[Summary of the earlier conversation]\nsum", "question 0", "question 2", "answer 2"]
    with pytest.raises(Refused, match="no visible item"):
        session.change(ChangePins(pin=(999,)))


def test_a_pinned_result_keeps_its_exchange():
    session = with_results(4, settings=Settings(keep_exchanges=1))
    result = session.state.history.items[2].seq
    session.change(ChangePins(pin=(result,)))
    session.compact()
    session.reply("done")
    check_items(session.items())
    session.change(ChangePins(unpin=(result,)))
    assert session.state.history.pinned == {}


def test_a_compaction_asked_for_while_the_session_works_happens_at_the_next_boundary():
    session = with_results(3, settings=Settings(keep_exchanges=1))
    events = session.compact()
    assert names(events) == ["compact.received", "command.completed"]
    session.reply("", call("add", {"n": 9}))
    assert names(session.finish())[-2:] == ["compaction.started", "model.requested"]


def test_a_short_history_is_not_compacted():
    session = Session()
    talk(session, 1)
    with pytest.raises(Refused) as refusal:
        session.compact()
    assert refusal.value.code == "too_short"


def full(options=None, **changes):
    session = Session(model=sized(2_000), settings=Settings(keep_exchanges=2, **changes.pop("settings", {})), **changes)
    talk(session, 4, tokens=200, reply_tokens=200)
    session.prompt("question 4", tokens=100, options=options)
    return session


CUT = ["context.truncated", "prefix.changed", "turn.started", "model.requested"]


def test_when_no_summary_is_to_be_had_a_cut_by_rule_succeeds():
    session = full()
    assert names(session.model_fails("invalid_request")) == ["model.failed", "compaction.failed", *CUT]
    session = full()
    assert names(session.reply("")) == ["model.replied", "compaction.failed", *CUT]
    session = full()
    assert names(session.reply("", call("add"))) == ["model.replied", "compaction.failed", *CUT]
    session = full()
    assert names(session.reply("no", finish="content_filter")) == ["model.replied", "compaction.failed", *CUT]
    session = full()
    long = session.reply("longer than before", usage=Usage(input_tokens=1, output_tokens=5_000))
    assert names(long) == ["model.replied", "compaction.failed", *CUT]
    assert long[1].reason == "useless"
    session = full(settings={"summarise": False})
    assert names(session.appends[-1]) == ["prompt.received", "run.started", *CUT]
    assert texts(session)[0] == "question 3"


def test_a_summary_that_cannot_be_paid_is_not_asked_for():
    session = full(RunOptions(limits=Limits(tokens=2_000)))
    assert "compaction.started" in session.names()
    session = full(RunOptions(limits=Limits(tokens=1_400)))
    assert names(session.appends[-1]) == ["prompt.received", "run.started", *CUT]


def test_a_summary_that_would_not_fit_the_window_itself_is_not_asked_for():
    session = Session(settings=Settings(keep_exchanges=2))
    talk(session, 6, tokens=2_000)
    session.change(ChangeModel(model=sized(6_000)))
    assert names(session.prompt("now", tokens=100)) == ["prompt.received", "run.started", *CUT]


def test_a_summary_must_fit_beside_what_every_request_carries():
    session = Session(settings=Settings(keep_exchanges=2))
    talk(session, 6, tokens=200)
    state, leaving = session.state, session.state.history.items[:4]
    model, settings = state.summary_model, state.setup.settings
    room = model.window_tokens - min(settings.summary_tokens_max, model.max_output_tokens)
    assert compaction.can_summarise(state, leaving)
    state.workspace.instructions_tokens = room
    assert not compaction.can_summarise(state, leaving)


def test_attempts_are_bounded_until_somebody_asks():
    session = Session(model=sized(2_000), settings=Settings(keep_exchanges=2, compact_attempts_max=2))
    session.prompt("go", tokens=100)
    asked = 0
    for n in range(30):
        if isinstance(session.state.phase, Compacting):
            asked += 1
            session.model_fails("invalid_request")
        else:
            session.reply("", call("add", {"n": n}), tokens=100, usage=Usage(input_tokens=1, output_tokens=1))
            session.finish(tokens=100)
    assert asked == 2


def test_archived_items_are_offered_before_they_leave():
    session = Session(settings=Settings(keep_exchanges=2, archive=True))
    talk(session, 4)
    session.compact()
    end = session.reply("sum", usage=Usage(input_tokens=1, output_tokens=5))
    assert names(end) == ["model.replied", "context.paged_out", "compaction.finished", "run.completed"]
    assert (end[1].first, end[1].last, end[1].items) == (2, 20, 6)
    paged = session.take(ContextPagedIn(query="question 0", tokens=9, body=PageBody(text="question 0")))
    assert names(paged) == ["context.paged_in"]
    assert texts(session)[-1] == "[recalled] question 0"


# --- the provider says that it is too much ---


def test_an_overflow_makes_room_once():
    session = Session(settings=Settings(keep_exchanges=1))
    talk(session, 3)
    session.prompt("more", tokens=100)
    first = session.model_fails("context_exceeded")
    assert names(first) == ["model.failed", "turn.finished", "compaction.started", "model.requested"]
    again = session.reply("sum", usage=Usage(input_tokens=1, output_tokens=5))
    assert names(again)[-2:] == ["turn.started", "model.requested"]
    end = session.model_fails("context_exceeded")
    assert names(end) == ["model.failed", "turn.finished", "run.failed"]
    assert end[-1].stop == "context_overflow"


def test_an_overflow_with_nothing_to_leave_out_ends_the_run():
    session = Session()
    session.prompt("huge", tokens=100)
    end = session.model_fails("request_too_large")
    assert (names(end)[-1], end[-1].stop) == ("run.failed", "context_overflow")


def test_a_later_overflow_gets_its_own_attempt():
    session = Session(settings=Settings(keep_exchanges=1))
    talk(session, 3)
    session.prompt("more", tokens=100)
    session.model_fails("context_exceeded")
    session.reply("sum", usage=Usage(input_tokens=1, output_tokens=5))
    for n in range(3):
        session.reply("", call("add", {"n": n}))
        session.finish()
    assert names(session.model_fails("context_exceeded"))[-2:] == ["compaction.started", "model.requested"]


def test_where_the_newest_exchanges_are_too_much_they_are_cut_as_well():
    session = with_results(4, tokens=190, model=sized(10_000), settings=Settings(keep_exchanges=9, summarise=False))
    session.change(ChangeModel(model=sized(900)))
    session.reply("", call("add", {"n": 7}), tokens=10, usage=Usage(input_tokens=1, output_tokens=1))
    events = session.finish(tokens=300)
    assert [e.reason for e in events if isinstance(e, ContextTruncated)] == ["overflow"]
    assert context_size.fits(session.state, context_size.context_tokens(session.state))
    check_items(session.items())


# --- undo ---


def undo(session):
    return session.take(UndoReceived(command_id=session.command(), restored=log.before_compaction(session.lines)))


def test_a_compaction_is_undone_with_what_came_since():
    session = Session(settings=Settings(keep_exchanges=1))
    talk(session, 3)
    before = visible(session)
    session.compact()
    session.reply("sum", usage=Usage(input_tokens=1, output_tokens=5))
    talk(session, 1)
    since = visible(session)[-2:]
    undone = undo(session)
    assert names(undone) == ["undo.received", "compaction.undone", "command.completed"]
    assert visible(session) == before + since
    with pytest.raises(Refused) as refusal:
        undo(session)
    assert refusal.value.code == "nothing_to_undo"


def test_compactions_are_undone_one_after_the_other():
    session = Session(settings=Settings(keep_exchanges=1))
    talk(session, 3)
    first = visible(session)
    session.compact()
    session.reply("one", usage=Usage(input_tokens=1, output_tokens=5))
    talk(session, 2)
    second = visible(session)
    session.compact()
    session.reply("two", usage=Usage(input_tokens=1, output_tokens=5))
    undo(session)
    assert visible(session) == second
    undo(session)
    assert visible(session) == first + second[-4:]


def test_a_cut_is_undone_too():
    session = full(settings={"summarise": False})
    session.reply("ok")
    assert session.state.compaction.count == 1
    undo(session)
    assert len(session.state.history.items) == 10
    assert session.state.compaction.count == 0


# --- imported histories ---


def test_an_imported_history_is_part_of_the_context_and_can_be_compacted():
    from tests.kernel.session import setup
    from windlass.events.values.items import AssistantItem

    imported = tuple(
        UserItem(content=(Text(text=f"q{n}"),)) if n % 2 == 0 else AssistantItem(content=(Text(text=f"a{n}"),))
        for n in range(6)
    )
    refs = tuple(ItemRef(seq=0, kind="import", tokens=50, part=str(n)) for n in range(6))
    session = Session(start=False)
    session.take(
        SessionStarted(
            command_id="start",
            session_id="s1",
            epoch=1,
            setup=setup(settings=Settings(keep_exchanges=2)),
            imported=refs,
            body=SetupBody(imported=imported),
        )
    )
    session.prompt("new", tokens=10)
    assert texts(session) == ["q0", "a1", "q2", "a3", "q4", "a5", "new"]
    session.reply("fine", tokens=10)
    session.compact()
    session.reply("sum", usage=Usage(input_tokens=1, output_tokens=5))
    assert texts(session) == ["[Summary of the earlier conversation]\nsum", "new", "fine"]


# --- the property ---


@settings(max_examples=60, deadline=None)
@given(draw.data())
def test_after_a_compaction_the_next_request_fits_or_the_run_ends_clearly(data):
    """A provider with a window, that counts as it likes and fails as it likes, never sees more requests than this."""
    window = data.draw(draw.integers(2_000, 8_000))
    session = Session(
        model=sized(window),
        settings=Settings(
            keep_exchanges=data.draw(draw.integers(1, 5)),
            summarise=data.draw(draw.booleans()),
            turns_max=12,
            elide_over_tokens=data.draw(draw.integers(50, 400)),
        ),
    )
    requests = 0
    for _ in range(3):
        session.prompt("go", tokens=data.draw(draw.integers(1, window // 2)))
        while session.state.active:
            requests += 1
            assert requests < 200, "it goes on and on"
            request = next(iter(session.state.requests.open.values()), None)
            if request is None:
                session.fire()
                continue
            real = sum(ref.tokens for ref in session.state.history.items)
            if request.lane == "compact":
                fate = data.draw(draw.sampled_from(["summary", "empty", "broken", "busy"]))
                size = data.draw(draw.integers(1, 400))
                if fate in ("summary", "empty"):
                    session.reply("s" if fate == "summary" else "", usage=Usage(input_tokens=1, output_tokens=size))
                else:
                    session.model_fails("invalid_request" if fate == "broken" else "overloaded")
            elif real > window:
                session.model_fails("context_exceeded")
            else:
                last = data.draw(draw.integers(0, 5)) == 0
                calls = () if last else (call("add", {"n": requests}),)
                session.reply("x", *calls, tokens=data.draw(draw.integers(1, 300)), usage=Usage(input_tokens=real + 1))
                for name in session.running():
                    session.finish(name, tokens=data.draw(draw.integers(1, window // 2)))
            check_items(session.items())
    ends = {event.stop for event in session.events() if hasattr(event, "stop") and hasattr(event, "run_id")}
    assert ends <= {"completed", "max_turns", "context_overflow", "error"}
    assert session.verify().problems == []


def test_a_result_from_outside_counts_too():
    session = Session(model=sized(1_000), settings=Settings(keep_exchanges=1, summarise=False))
    session.prompt(tokens=10)
    for n in range(4):
        session.reply("", call("ui", {"n": n}), tokens=10, usage=Usage(input_tokens=1, output_tokens=1))
        name = next(c for c in session.state.calls.by_id)
        session.take(ResultReceived(command_id=session.command(), call_id=name, tokens=300, body=None))
    assert "context.elided" in session.names() or "context.truncated" in session.names()
    assert [e.lane for e in session.events() if isinstance(e, ModelRequested)][-1] == "main"


def test_a_summary_that_holds_calls_is_no_summary_and_none_of_them_runs():
    session = Session(settings=Settings(keep_exchanges=2))
    talk(session, 4)
    session.compact()
    # Also if the provider says that it stopped as it should.
    end = session.reply("they talked", call("search", {"q": "x"}), finish="stop")
    assert "compaction.finished" not in names(end)
    assert "compaction.failed" in names(end)
    assert not [name for name in names(end) if name.startswith("tool.")]
    assert session.state.calls.by_id == {}
    assert "they talked" not in "".join(texts(session))
