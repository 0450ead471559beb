"""Recorded logs, replayed for ever: they open, add up to what was recorded, verify, and hold every event there is."""

from __future__ import annotations

import msgspec
import pytest
from dev.histories import FOLDER, SCENARIOS, SUMS, Sum, sum_of

from windlass.events.base import Event, tag_of
from windlass.events.stored import codec
from windlass.events.stored.registry import EVENTS
from windlass.kernel import log
from windlass.testing.invariants import Checker

RECORDED = msgspec.json.decode(SUMS.read_bytes(), type=dict[str, Sum])


def lines_of(name: str) -> list[bytes]:
    return (FOLDER / f"{name}.jsonl").read_bytes().splitlines()


def events_of(name: str) -> list[Event]:
    found = [event for line in lines_of(name) for event in codec.decode(line).events]
    return [event for event in found if isinstance(event, Event)]


def test_every_recorded_log_is_listed_and_every_listed_one_is_there():
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(RECORDED)
    assert set(SCENARIOS) <= set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_log_opens_and_adds_up_to_what_was_recorded(name):
    then, now = RECORDED[name], sum_of(lines_of(name))
    assert (now.records, now.overview, now.items) == (then.records, then.overview, then.items)
    if then.state_version == now.state_version:
        assert now.state == then.state, f"the state's shape or meaning changed: raise STATE_VERSION ({name})"


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_log_verifies(name):
    report = log.verify(lines_of(name))
    assert report.sound, report.problems
    if RECORDED[name].kernel_version == log.KERNEL_VERSION:
        assert report.problems == [], f"other decisions are made now: raise KERNEL_VERSION ({name})"


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_log_keeps_the_rules(name):
    checker = Checker()
    for event in events_of(name):
        checker.feed(event)
    checker.rest(log.fold_lines(lines_of(name)))


def test_every_durable_event_is_in_a_recorded_log():
    seen = {tag_of(event) for name in RECORDED for event in events_of(name)}
    missing = [tag_of(cls) for cls in EVENTS if tag_of(cls) not in seen]
    assert missing == [], "extend a scenario in dev/histories.py and record a new log"
