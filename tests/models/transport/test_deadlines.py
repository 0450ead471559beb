"""One timer for many deadlines: each is rung when it has passed, none before, and one that moved is rung where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from windlass.models.transport.deadlines import Alarm


class Timer:
    def __init__(self, at: float, work: Callable[[], None]) -> None:
        self.at, self.work, self.cancelled = at, work, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """As much of a loop as an alarm uses: the time and its timers, both moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, **_: Any) -> Any:
        self.timers.append(Timer(when, callback))
        return self.timers[-1]

    def set(self) -> list[float]:
        return [timer.at for timer in self.timers if not timer.cancelled]

    def run_to(self, until: float) -> None:
        while due := sorted((t for t in self.timers if not t.cancelled and t.at <= until), key=Timer.when):
            self.timers.remove(due[0])
            self.now = due[0].at
            due[0].work()
        self.now = until


class Sleeper:
    def __init__(self, alarm: Alarm, due: float, *, again: float | None = None) -> None:
        self.alarm, self.due, self.again = alarm, due, again
        self.rung_at: list[float] = []
        alarm.enter(self)

    def rung(self, now: float) -> None:
        self.rung_at.append(now)
        if self.again is None:
            self.alarm.leave(self)
        else:
            self.due, self.again = now + self.again, None


def test_each_is_rung_at_its_time_by_one_timer():
    clock = Clock()
    alarm = Alarm(cast(Any, clock))
    sleepers = [Sleeper(alarm, due) for due in (5.0, 2.0, 9.0, 2.0)]
    assert clock.set() == [2.0]
    clock.run_to(1.9)
    assert [sleeper.rung_at for sleeper in sleepers] == [[], [], [], []]
    clock.run_to(100.0)
    assert [sleeper.rung_at for sleeper in sleepers] == [[5.0], [2.0], [9.0], [2.0]]
    assert clock.set() == []


def test_who_leaves_is_not_rung_and_no_timer_is_called_back_for_it():
    clock = Clock()
    alarm = Alarm(cast(Any, clock))
    first, second = Sleeper(alarm, 3.0), Sleeper(alarm, 7.0)
    alarm.leave(first)
    alarm.leave(first)
    assert clock.set() == [3.0]  # it fires for nothing
    clock.run_to(10.0)
    assert (first.rung_at, second.rung_at) == ([], [7.0])


def test_deadline_that_moved_is_rung_where_it_is_now():
    clock = Clock()
    alarm = Alarm(cast(Any, clock))
    away, nearer, set_again = Sleeper(alarm, 3.0), Sleeper(alarm, 9.0), Sleeper(alarm, 4.0, again=2.5)
    away.due = 8.0
    nearer.due = 1.0
    alarm.enter(nearer)
    clock.run_to(20.0)
    assert (away.rung_at, nearer.rung_at, set_again.rung_at) == ([8.0], [1.0], [4.0, 6.5])


def test_one_who_is_rung_may_send_another_away():
    clock = Clock()
    alarm = Alarm(cast(Any, clock))
    second = Sleeper(alarm, 1.0)

    class Leaving(Sleeper):
        def rung(self, now: float) -> None:
            super().rung(now)
            self.alarm.leave(second)

    alarm.leave(second)
    first = Leaving(alarm, 1.0)
    alarm.enter(second)
    clock.run_to(5.0)
    assert (first.rung_at, second.rung_at) == ([1.0], [])


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), max_size=20))
def test_any_deadlines_are_rung_once_and_in_time(moves: list[tuple[float, float]]):
    clock = Clock()
    alarm = Alarm(cast(Any, clock))
    sleepers = []
    for first, then in moves:
        sleeper = Sleeper(alarm, first)
        nearer, sleeper.due = then < first, then
        if nearer:
            alarm.enter(sleeper)
        sleepers.append(sleeper)
    clock.run_to(100.0)
    assert [sleeper.rung_at for sleeper in sleepers] == [[then] for _, then in moves]
