"""Failures as data: each kind has one class, one cause for the run, and says whether trying again may help."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from windlass.events.hooks import HookRuling
from windlass.events.values.failures import (
    CAUSE_OF,
    CLASS_OF,
    RETRYABLE_KINDS,
    CauseKind,
    Failure,
    FailureClass,
    FailureKind,
    cause_of,
    failure,
)

KINDS: tuple[FailureKind, ...] = get_args(FailureKind)


def test_the_tables_speak_only_of_kinds_that_exist():
    assert set(CLASS_OF) <= set(KINDS)
    assert set(CAUSE_OF) <= set(KINDS)
    assert set(KINDS) >= RETRYABLE_KINDS


def test_every_class_is_reached_by_a_kind():
    assert {Failure(kind=kind, message="").failure_class for kind in KINDS} == set(get_args(FailureClass))


def test_every_cause_is_reached_by_a_kind_or_by_a_limit():
    by_kind = {cause_of(Failure(kind=kind, message="")) for kind in KINDS}
    by_limit = {"time_budget_exceeded", "turn_limit_reached"}
    assert by_kind | by_limit | {"unknown"} == set(get_args(CauseKind))


def test_every_kind_has_a_cause_that_is_known():
    assert [kind for kind in KINDS if cause_of(Failure(kind=kind, message="")) == "unknown"] == []
    assert cause_of(None) == "unknown"


@pytest.mark.parametrize(
    ("kind", "group", "cause"),
    [
        ("rate_limited", "model", "model_failure"),
        ("context_exceeded", "model", "model_failure"),
        ("auth", "auth", "model_failure"),
        ("reauth_required", "auth", "model_failure"),
        ("content_filtered", "content_filtered", "model_failure"),
        ("hook_denied", "hook", "hook_denied"),
        ("tool_raised", "tool", "tool_failure"),
        ("tool_timed_out", "tool", "tool_failure"),
        ("output_invalid", "output", "output_invalid"),
        ("price_unknown", "budget", "budget_exhausted"),
        ("retries_exhausted", "model", "retries_exhausted"),
        ("internal", "internal", "runtime_failure"),
        ("no_progress", "terminal", "fatal_failure"),
    ],
)
def test_a_kind_has_this_class_and_this_cause(kind, group, cause):
    found = Failure(kind=kind, message="")
    assert (found.failure_class, cause_of(found)) == (group, cause)


@pytest.mark.parametrize("kind", KINDS)
def test_retryable_follows_from_the_kind_and_absent_knowledge_means_no(kind):
    assert failure(kind, "x").retryable == (kind in RETRYABLE_KINDS)
    assert Failure(kind=kind, message="x").retryable is False
    assert failure(kind, "x", retryable=True).retryable is True


@pytest.mark.parametrize("kind", ["auth", "invalid_request", "context_exceeded", "content_filtered", "quota_exhausted"])
def test_what_will_fail_again_is_not_retried(kind):
    assert not failure(kind, "x").retryable


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "server_error", "truncated_reply", "idle_timeout"])
def test_what_may_pass_is_retried(kind):
    assert failure(kind, "x").retryable


def test_a_failure_keeps_what_the_other_side_said():
    found = failure(
        "overloaded",
        "529 overloaded",
        status=529,
        code="overloaded_error",
        provider="anthropic",
        request_id="req_1",
        retry_after_ms=1500,
        detail={"error": {"type": "overloaded_error"}},
    )
    assert msgspec.json.decode(msgspec.json.encode(found), type=Failure) == found


@pytest.mark.parametrize(
    ("outcome", "guard", "denies"),
    [
        ("allowed", True, False),
        ("changed", True, False),
        ("denied", False, True),
        ("denied", True, True),
        ("failed", False, False),
        ("failed", True, True),
        ("timed_out", False, False),
        ("timed_out", True, True),
    ],
)
def test_a_guard_that_cannot_answer_denies_and_an_observer_does_not(outcome, guard, denies):
    assert HookRuling(hook_id="h", point="before_tool", outcome=outcome, guard=guard).denies == denies
