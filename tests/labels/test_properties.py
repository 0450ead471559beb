"""Whatever happens to a session: its labels are what its events add up to, grow until a person takes one away, and
nothing leads out of what is untrusted and private without somebody's word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.chaos import Chaos, some_setup
from tests.kernel.session import Session, Settings, call
from tests.labels.sessions import MARKED, do, held, marked, open_asks, prepare
from windlass.events.sessions import RewindReceived
from windlass.events.tools.labels import LabelsDeclassified
from windlass.events.values.policy import Policy
from windlass.kernel import log
from windlass.kernel.parts.context import context_size
from windlass.kernel.parts.tools import labels
from windlass.testing.carried_labels import Carried

TICKS = 150


def chaos(data: st.DataObject) -> Chaos:
    """A session under random pressure, with tools that bring all three legs."""

    def pick(below: int) -> int:
        return data.draw(st.integers(0, below - 1))

    setup = some_setup(pick)
    setup["tools"] = (*setup["tools"], *MARKED)
    return Chaos(pick, **setup)


def follow(session: Session) -> Carried:
    """Holds a session's log against the promises, append by append."""
    carried, before = Carried(), frozenset[str]()
    for index, append in enumerate(session.appends):
        for event in append:
            carried.feed(event)
        state = log.fold_lines(session.lines[: index + 1])
        now = labels.current(state)
        assert now == carried.held == carried.told, f"append {index}: {append[0]!r}"
        taken = frozenset(append[0].labels) if isinstance(append[0], LabelsDeclassified) else frozenset()
        assert before - taken <= now, "a label was lost"
        before = now
    assert carried.unagreed == []
    return carried


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_labels_are_what_the_events_add_up_to_and_only_a_person_takes_one_away(data):
    there = chaos(data)
    for _ in range(data.draw(st.integers(5, 60))):
        there.tick()
    follow(there.session)


@pytest.mark.parametrize("seed", range(6))
def test_long_courses_of_things_keep_to_it_and_get_somewhere(seed):
    from tests.kernel.chaos import seeded

    pick = seeded(seed)
    setup = some_setup(pick)
    there = Chaos(pick, **{**setup, "tools": (*setup["tools"], *MARKED)})
    for _ in range(TICKS):
        there.tick()
    carried = follow(there.session)
    assert carried.told or there.session.state.labels.cleared or len(there.session.lines) < TICKS // 2


STEPS = st.lists(
    st.sampled_from(
        ["surf", "files", "send", "fetch", "upload", "shell", "add", "both", "compact", "rewind", "fork", "crash"]
    ),
    max_size=12,
)


def play(steps: list[str], **changes: Any) -> Session:
    """A session to which these things happen, one after the other; whoever is asked says no."""
    session = marked(settings=Settings(keep_exchanges=1), **changes)
    for step in steps:
        if step in ("compact", "rewind", "fork"):
            if session.state.active:
                session.reply("done")
            session = path(session, step)
            session.prompt()
        elif step == "crash":
            session.crash()
            refuse(session)
        elif step == "both":
            session.reply("", call("files", {"n": session.state.seq}), call("send", {"n": session.state.seq}))
            refuse(session)
        else:
            do(session, step)
            refuse(session)
    return session


def refuse(session: Session) -> None:
    """Ends what is open: calls give their results, and whatever is asked is denied."""
    while session.running() or session.state.asks.open or prepare(session):
        for request in list(session.state.asks.open):
            session.deny(request)
        for name in session.running():
            session.finish(name)


def path(session: Session, step: str) -> Session:
    if step == "rewind":
        session.take(RewindReceived(command_id=session.command(), to_seq=0))
    elif step == "fork":
        return session.fork(session.state.seq)
    elif context_size.older(session.state)[0]:
        session.compact()
        if session.state.requests.open:
            session.reply("short", tokens=1)
    return session


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_the_union_holds_over_every_path(steps):
    """Results, summaries, cuts, rewinds, forks, crashes, the end of the run: what there was before is there after."""
    session = marked(settings=Settings(keep_exchanges=1))
    before: frozenset[str] = frozenset()
    for length in range(len(steps) + 1):
        session = play(steps[:length])
        now = held(session)
        assert before <= now
        before = now
    if session.state.active:
        assert session.reply("done")[-1].labels == tuple(sorted(before))


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_no_course_of_things_leads_out_with_both_legs_seen(steps):
    """With everything allowed, and nobody who agrees."""
    session = play(steps, policy=Policy(default="allow"))
    carried = Carried()
    for event in session.events():
        carried.feed(event)
    assert carried.unagreed == []
    assert open_asks(session) == []
