"""A runner's name says where its process is, whatever of that is known, and any other name does no harm."""

from __future__ import annotations

import pytest

from windlass.store.base import LEASE_MS_MAX, Key
from windlass.store.rules.lease_expiry import SIGHTINGS_MAX, Sightings
from windlass.store.runner_names import HOST_CHARS_MAX, Whereabouts, process_of, runner_name, whereabouts

WHOLE = Whereabouts(host="build-7.example", room="0abc-12", pid=4711, start="99")


@pytest.mark.parametrize(
    ("where", "name", "told"),
    [
        (WHOLE, "r1/build-7.example@0abc-12:4711:99", "process 4711 on build-7.example"),
        (Whereabouts(room="0abc-12", pid=4711, start="99"), "r1@0abc-12:4711:99", "process 4711"),
        (Whereabouts(host="build-7"), "r1/build-7", "a process on build-7"),
        (Whereabouts(), "r1", "'r1'"),
    ],
)
def test_what_is_known_is_read_again_from_the_name(where: Whereabouts, name: str, told: str):
    assert runner_name("r1", where) == name
    assert whereabouts(name) == where
    assert process_of(name) == told


def test_the_host_may_be_left_out_where_the_number_says_enough():
    assert process_of(runner_name("r1", WHOLE), host=False) == "process 4711"
    assert process_of("r1/build-7", host=False) == "a process on build-7"


def test_half_a_process_is_none():
    assert runner_name("r1", Whereabouts(host="h", room="", pid=1, start="2")) == "r1/h"
    assert runner_name("r1", Whereabouts(host="h", room="0a", pid=1, start="")) == "r1/h"


def test_odd_host_names_are_made_plain_and_cut():
    name = runner_name("r1", Whereabouts(host="a b/c@d:1\x1b" + "x" * 100))
    assert whereabouts(name).host == ("a-b-c-d-1-" + "x" * 100)[:HOST_CHARS_MAX]


@pytest.mark.parametrize(
    "name", ["", "me", "a@b", "r1@:1:2", "r1@0a:1", "r1@0a:1:2\n", "r1@0a:" + "9" * 5000 + ":1", "/"]
)
def test_any_other_name_tells_nothing(name: str):
    assert whereabouts(name) == Whereabouts()
    assert process_of(name) == repr(name)


def test_names_from_before_hosts_were_in_them_are_understood():
    assert process_of("runner-x@8af297ba-b326-4c27-a7cd-61f615eee123:25055:2371680") == "process 25055"


def test_only_so_many_doubtful_leases_are_remembered_and_the_oldest_goes_first():
    sightings, lease = Sightings(), (1, "r", 10 * LEASE_MS_MAX)
    keys = [Key("t", f"s{number}") for number in range(SIGHTINGS_MAX + 1)]
    for key in keys:
        assert sightings.note(key, lease, 0) == LEASE_MS_MAX
    assert sightings.believed(keys[0], lease, 5) == LEASE_MS_MAX + 5, "it was forgotten, and is met anew"
    assert {sightings.believed(key, lease, 5) for key in keys[1:]} == {LEASE_MS_MAX}


def test_a_clock_that_is_set_back_makes_nobody_wait_longer():
    sightings, key, lease = Sightings(), Key("t", "s"), (1, "r", 10 * LEASE_MS_MAX)
    assert sightings.note(key, lease, 1_000_000) == 1_000_000 + LEASE_MS_MAX
    assert sightings.note(key, lease, 7) == 7 + LEASE_MS_MAX
    assert sightings.note(key, lease, 1_000_000) == 7 + LEASE_MS_MAX
