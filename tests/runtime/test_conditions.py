"""Conditions of policies are judged in bounded time; what would take longer is asked about."""

from __future__ import annotations

import time

import pytest

from windlass.runtime.bind.cel_expressions import Expression, loop_power

MANY = {"args": {"xs": ["a"] * 20_000}, "call": {}}
FEW = {"args": {"xs": ["a"] * 100}, "call": {}}
LONG = {"args": {"xs": ["a"] * 440, "s": "a" * 900_000}, "call": {}}


@pytest.mark.parametrize(
    ("source", "power"),
    [
        ("args.x > 1", 0),
        ("size(args.xs) > 1", 0),
        ("args.xs.exists(x, x == 'b')", 1),
        ("args.xs.exists(x, x == 'b') && args.xs.all(y, y == 'a')", 1),
        ("args.xs.map(x, x).size() > 0", 2),
        ("args.xs.exists(x, args.xs.exists(y, x == y))", 2),
        ("args.xs.map(x, args.xs.filter(y, x == y)).size() > 0", 4),
        ("args.s == '.map(((' || args.xs.exists(x, x == ')')", 1),
    ],
)
def test_the_work_of_a_condition_is_read_off_its_loops(source, power):
    assert loop_power(source) == power


@pytest.mark.parametrize(
    "source",
    [
        "args.xs.map(x, x).size() > 0",
        "args.xs.filter(x, x == 'a').size() > 0",
        "args.xs.exists(x, args.xs.exists(y, x == y + 'b'))",
    ],
)
def test_a_condition_that_would_take_too_long_is_not_judged(source):
    begun = time.process_time()
    assert Expression.of(source).holds(MANY) is None
    assert time.process_time() - begun < 2  # it was 20 s and more
    assert Expression.of(source).holds(FEW) is not None


def test_a_condition_without_nested_loops_is_judged_over_many_elements():
    assert Expression.of("args.xs.exists(x, x == 'b')").holds(MANY) is False


@pytest.mark.parametrize(
    "source",
    [
        "args.xs.exists(x, args.xs.exists(y, (args.s + x + y).contains('b')))",
        "args.xs.map(x, args.s + x).size() > 0",
    ],
)
def test_a_condition_whose_steps_each_read_a_long_text_is_not_judged(source):
    begun = time.process_time()
    assert Expression.of(source).holds(LONG) is None
    assert time.process_time() - begun < 2  # it was 10 s and more
    assert Expression.of(source).holds({"args": {**LONG["args"], "s": "a" * 9_000}, "call": {}}) is not None


def test_one_loop_over_a_long_text_is_judged():
    assert Expression.of("args.xs.exists(x, args.s.contains(x))").holds(LONG) is True
