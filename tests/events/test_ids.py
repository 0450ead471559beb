"""Ids are derived from where a thing began, so that a replay gives the same ones."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.values import ids

BY_SEQ = [
    ids.run_id,
    ids.turn_id,
    ids.request_id,
    ids.permission_id,
    ids.question_id,
    ids.timer_id,
    ids.prompt_id,
    ids.signal_id,
    ids.grant_id,
]


def test_ids_of_different_things_that_began_at_the_same_seq_differ():
    found = [make(7) for make in BY_SEQ] + [ids.call_id(7, 0), ids.call_id(7, 1)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("make", BY_SEQ)
def test_an_id_follows_from_the_seq_alone(make):
    assert make(7) == make(7)
    assert make(7) != make(8)


@given(st.integers(1, 2**40), st.integers(0, 999), st.integers(1, 2**40), st.integers(0, 999))
def test_two_calls_never_share_an_id(seq, ordinal, other_seq, other_ordinal):
    same = (seq, ordinal) == (other_seq, other_ordinal)
    assert (ids.call_id(seq, ordinal) == ids.call_id(other_seq, other_ordinal)) == same


def test_an_idempotency_key_is_the_same_for_each_attempt_and_differs_between_sessions():
    assert ids.idempotency_key("march", "c5.0") == "march:c5.0"
    assert ids.idempotency_key("april", "c5.0") != ids.idempotency_key("march", "c5.0")


@given(st.text(max_size=20), st.integers(1, 2**40))
def test_an_event_id_is_a_uuid_of_the_kind_for_derived_ones(session, seq):
    found = uuid.UUID(ids.event_id(session, seq))
    assert str(found) == ids.event_id(session, seq)
    assert found.version == 8
    assert found.variant == uuid.RFC_4122


def test_event_ids_stay_what_they_are():
    """Readers keep them, so the derivation may not change."""
    assert ids.event_id("march", 1) == "b99fa425-b0cd-878b-987c-f5fcb0eada84"


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(1, 99)), unique=True, max_size=30))
def test_event_ids_differ_between_sessions_and_seqs(places):
    assert len({ids.event_id(session, seq) for session, seq in places}) == len(places)
