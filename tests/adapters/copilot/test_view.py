"""The view over committed logs of real runs: the published client's own types read every event of it."""

from __future__ import annotations

import collections

import pytest

from tests.adapters.committed_runs import names
from windlass.adapters.copilot.view.event_types import EPHEMERAL, EVENT_TYPES

from .support import client_types
from .told_runs import events_of


def test_there_are_58_types():
    assert len(EVENT_TYPES) == len(set(EVENT_TYPES)) == 58


@pytest.mark.parametrize("name", names())
def test_the_clients_own_types_read_every_event_of_a_run(name):
    for event in events_of(name):
        read = client_types().session_event_from_dict(event)
        assert read.type.value == event["type"]
        kept = {key for key, value in read.data.to_dict().items() if value is not None}
        assert set(event["data"]) <= kept, (event["type"], set(event["data"]) - kept)


@pytest.mark.parametrize("name", names())
def test_what_is_kept_is_one_chain_and_what_is_not_hangs_on_it(name):
    last = None
    ids = [event["id"] for event in events_of(name)]
    assert len(set(ids)) == len(ids)
    for event in events_of(name):
        assert event["parentId"] == last
        assert bool(event.get("ephemeral")) == (event["type"] in EPHEMERAL)
        if not event.get("ephemeral"):
            last = event["id"]


@pytest.mark.parametrize("name", names())
def test_a_call_begins_and_ends_once_and_a_request_is_answered_once(name):
    begun: collections.Counter[str] = collections.Counter()
    ended: collections.Counter[str] = collections.Counter()
    for event in events_of(name):
        data, kind = event["data"], event["type"]
        if kind == "tool.execution_start":
            begun[data["toolCallId"]] += 1
        elif kind == "tool.execution_complete":
            assert begun[data["toolCallId"]] == 1
            ended[data["toolCallId"]] += 1
        elif kind.endswith(".requested"):
            begun[data["requestId"] + kind] += 1
        elif kind.endswith(".completed") and "requestId" in data:
            name_of_request = data["requestId"] + kind.replace("completed", "requested")
            assert begun[name_of_request] == 1
            ended[name_of_request] += 1
    assert not {name: count for name, count in ended.items() if count > 1}
