"""Verification on three levels: the chain holds, every event is legal, and the same decisions would be made again."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, Session, call, names
from windlass.events.base import Event
from windlass.events.errors import CodecError, Damaged, KernelError, NeedsNewer
from windlass.events.runs import WakeReceived
from windlass.events.sessions import ContentErased, SessionResumed
from windlass.events.stored import codec, record
from windlass.events.turns import ModelRequested, TurnFinished
from windlass.events.values.items import AssistantItem, CallPart
from windlass.kernel import log, parts, program, step
from windlass.kernel.fold import evolve
from windlass.kernel.parts import runs
from windlass.kernel.state import State
from windlass.testing.invariants import check_items


def story():
    session = Session(policy=ASK_PAY)
    session.prompt("pay it")
    session.reply("", call("pay"), call("add"))
    (request,) = session.state.asks.open
    session.finish()
    session.nobody()
    session.crash()
    session.approve(request)
    session.finish(text="paid")
    session.reply("done")
    return session


def reseal(lines, change):
    """The same log with its events changed and every hash made anew: what only a kernel can see through."""
    prev, seq, result = record.GENESIS, 1, []
    for index, line in enumerate(lines):
        append = codec.decode(line)
        events = change(index, list(append.events))
        sealed = codec.encode(
            events, prev_hash=prev, seq=seq, at_ms=append.at_ms, epoch=append.epoch, salt=lambda: "salt"
        )
        prev, seq = sealed.hash, sealed.last_seq + 1
        result.append(sealed.data)
    return result


def problems(lines):
    return [(p.level, p.seq, p.drift) for p in log.verify(lines).problems]


def test_a_log_that_we_wrote_is_sound():
    session = story()
    report = session.verify()
    assert (report.problems, report.sound, report.records) == ([], True, session.state.seq)
    assert report.state is not None
    assert log.state_hash(report.state) == log.state_hash(session.state)


# --- level 1: the chain ---


def test_any_changed_byte_of_what_was_stored_is_found():
    session = story()
    line = session.lines[3]
    for at in range(0, len(line), 7):
        flipped = bytearray(line)
        flipped[at] ^= 1
        lines = [*session.lines[:3], bytes(flipped), *session.lines[4:]]
        assert not log.verify(lines).sound, f"byte {at}"


def test_a_missing_or_moved_append_is_found():
    session = story()
    assert problems([*session.lines[:3], *session.lines[4:]])[0][0] == "chain"
    swapped = [*session.lines[:3], session.lines[4], session.lines[3], *session.lines[5:]]
    assert problems(swapped)[0][0] == "chain"
    with pytest.raises(Damaged, match="expected"):
        log.fold_lines([*session.lines[:3], *session.lines[4:]])


# --- level 2: every event is legal where it stands ---


def test_an_event_that_cannot_stand_there_is_damage_even_if_the_chain_holds():
    session = story()

    def drop_the_request(index, events):
        return [e for e in events if not isinstance(e, ModelRequested)] if index == 1 else events

    found = problems(reseal(session.lines, drop_the_request))
    assert found == [("decisions", 2, True), ("decisions", 5, True), ("legal", 5, False)]


def test_an_append_begins_with_a_fact_and_holds_only_one():
    session = story()
    assert problems(reseal(session.lines, lambda i, e: e[1:] if i == 1 else e))[0] == ("legal", 2, False)
    twice = reseal(session.lines, lambda i, e: [*e, WakeReceived(command_id="x")] if i == 1 else e)
    assert problems(twice)[0] == ("legal", 2, False)


def test_a_decision_that_no_state_allows_is_refused_by_the_fold():
    session = Session()
    with pytest.raises(KernelError, match=r"event 2: turn.finished is not legal in Idle"):
        evolve(session.state, TurnFinished())


def test_an_event_of_a_later_version_is_skipped_only_where_it_may_be():
    session = story()
    skipped = codec.Unknown(tag="mood.noted@2?", skeleton=b'{"type":"mood.noted@2?","x":1}')
    lines = reseal(session.lines, lambda i, e: [*e, skipped] if i == 1 else e)
    assert log.fold_lines(lines[:2]).seq == 6
    needed = codec.Unknown(tag="mood.noted@2", skeleton=b'{"type":"mood.noted@2","x":1}')
    lines = reseal(session.lines, lambda i, e: [*e, needed] if i == 1 else e)
    with pytest.raises(NeedsNewer, match=r"event 6: 'mood.noted@2'"):
        log.fold_lines(lines)
    assert problems(lines)[0] == ("legal", 2, False)


# --- level 3: the same decisions would be made again ---


def test_other_decisions_are_drift_not_damage(monkeypatch):
    session = story()
    real = runs.ended
    monkeypatch.setattr(
        runs,
        "ended",
        lambda state, kind, stop, **more: msgspec.structs.replace(real(state, kind, stop, **more), turns=9),
    )
    report = session.verify()
    assert report.sound
    assert [(p.level, p.drift, p.message) for p in report.problems] == [
        ("decisions", True, "other decisions would be made today")
    ] * 2
    assert report.state is not None
    assert log.state_hash(report.state) == log.state_hash(session.state)


def test_a_fact_that_would_be_refused_today_is_drift_too(monkeypatch):
    session = story()
    never = msgspec.structs.replace(parts.TABLES.facts[SessionResumed], when=())
    monkeypatch.setitem(parts.TABLES.facts, SessionResumed, never)
    report = session.verify()
    assert report.sound
    assert [p.message for p in report.problems] == [
        "the fact would not be taken today: session.resumed does not fit a session that is asked"
    ]


def test_folding_an_old_log_needs_no_policy_code(monkeypatch):
    session = story()
    expected = log.state_hash(session.state)

    def forbidden(*args, **kwargs):
        raise AssertionError("a fold decides nothing")

    for module, name in ((program, "advance"), (step, "step"), (step, "check"), (step, "consequences")):
        monkeypatch.setattr(module, name, forbidden)
    assert log.state_hash(log.fold_lines(session.lines)) == expected


# --- erased content ---


def erase(session, seq):
    """As a store does it: the body gives way to a tombstone, and a fact says so."""
    session.take(ContentErased(seq=seq, by="ada", why="a person asked for it"))
    for index, line in enumerate(session.lines):
        append = codec.decode(line, bodies=False)
        if append.first_seq <= seq <= append.last_seq:
            session.lines[index] = record.erase(line, seq, by="ada", why="a person asked for it", at_ms=5)


def test_erased_content_leaves_the_chain_whole_and_the_state_the_same():
    session = story()
    bodies = [seq for seq, event in enumerate(session.events(), 1) if getattr(event, "body", None) and not event.ECHO]
    for seq in bodies:
        erase(session, seq)
    assert session.verify().problems == []
    assert log.state_hash(session.folded()) == log.state_hash(session.state)
    check_items(session.items())
    assert all(event.body is None for event in session.events() if hasattr(event, "body"))


def test_an_erased_reply_still_has_its_calls_and_their_results():
    session = story()
    erase(session, 6)
    reply = next(item for item in session.items() if isinstance(item, AssistantItem))
    assert [part.tool for part in reply.content if isinstance(part, CallPart)] == ["erased", "erased"]
    assert [i.content[0].text for i in session.results()] == ["paid", "ok"]


def test_erased_content_says_so_where_a_model_would_see_it():
    session = story()
    erase(session, 2)
    assert session.items()[0].content[0].text == "[this content was erased]"


# --- snapshots ---


def test_a_snapshot_of_other_bytes_is_refused():
    with pytest.raises(CodecError, match="snapshot"):
        log.load(b"\x93not a state")


def test_a_copy_is_independent():
    session = story()
    copy = log.copy(session.state)
    session.prompt("more")
    assert copy.seq < session.state.seq
    assert copy.history.items != session.state.history.items


def test_the_fold_is_the_live_state_after_every_append():
    session = story()
    state = State()
    for line, events in zip(session.lines, session.appends, strict=True):
        log.fold_append(state, codec.decode(line))
        assert all(isinstance(event, Event) for event in events)
    assert log.dump(state) == log.dump(session.state)
    assert names(session.appends[-1])[-1] == "run.completed"
