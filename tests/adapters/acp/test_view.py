"""The view over committed logs of real runs: the official package's own types read every update of it."""

from __future__ import annotations

import collections
from typing import Any

import pytest
from acp import schema

from tests.adapters.committed_runs import names
from windlass.adapters.acp.view.fold import Asked, AskedBelow, Closed

from .told_runs import said_of, updates_of

ENDS = ("completed", "failed")


@pytest.mark.parametrize("name", names())
def test_the_packages_own_types_read_every_update_and_know_each_of_its_fields(name):
    for update in updates_of(name):
        read = schema.SessionNotification.model_validate({"sessionId": name, "update": update.body})
        kept = read.update.model_dump(by_alias=True, exclude_none=True)
        assert set(update.body) <= set(kept), update.body


@pytest.mark.parametrize("name", names())
def test_a_call_begins_once_and_ends_at_most_once_and_nothing_is_told_of_it_before(name):
    begun: collections.Counter[str] = collections.Counter()
    ended: collections.Counter[str] = collections.Counter()
    for update in updates_of(name):
        body = update.body
        if body["sessionUpdate"] == "tool_call":
            begun[body["toolCallId"]] += 1
        elif body["sessionUpdate"] == "tool_call_update":
            assert begun[body["toolCallId"]] == 1, body
            ended[body["toolCallId"]] += body.get("status") in ENDS
    assert set(begun.values()) <= {1}
    assert set(ended.values()) <= {0, 1}


def texts(name: str, *, live: bool) -> dict[tuple[str, str], str]:
    """Every message that was told in chunks, whole."""
    found: dict[tuple[str, str], str] = collections.defaultdict(str)
    for update in updates_of(name, live=live):
        body: dict[str, Any] = update.body
        if body["sessionUpdate"].startswith("agent_") and "messageId" in body:
            found[body["sessionUpdate"], body["messageId"]] += body["content"]["text"]
    return dict(found)


@pytest.mark.parametrize("name", names())
def test_whoever_missed_what_is_told_early_is_told_the_same_texts(name):
    early, late = texts(name, live=True), texts(name, live=False)
    assert set(late) <= set(early)
    for message, text in late.items():
        assert early[message].endswith(text), message


@pytest.mark.parametrize("name", names())
def test_what_is_asked_is_closed_once(name):
    open_now: set[str] = set()
    for said in said_of(name):
        if isinstance(said, Asked):
            assert said.ask_id not in open_now
            open_now.add(said.ask_id)
        elif isinstance(said, AskedBelow):
            assert not open_now & set(said.ask_ids)
            open_now |= set(said.ask_ids)
        elif isinstance(said, Closed):
            open_now.remove(said.ask_id)
