"""Every name of the five systems has a place here: counted, complete, and pointing at what really exists."""

from __future__ import annotations

from collections import Counter

import pytest
from dev import coverage, places

COUNTS = {
    "copilot": {"envelope": 1, "event": 58, "attachment": 4, "content": 6, "permission": 7, "permission_result": 5},
    "meerkat": {
        "envelope": 2,
        "event": 35,
        "error_class": 24,
        "error_reason": 16,
        "cause_kind": 12,
        "outcome": 7,
        "stop_reason": 6,
        "hook_point": 8,
        "hook_reason": 5,
        "budget_type": 3,
        "skill_failure": 11,
        "tool_config_status": 5,
        "job_status": 6,
        "source": 5,
        "scope": 2,
    },
    "duet": {"command": 6, "event": 11, "step": 6, "status": 7, "state_field": 8, "question": 1},
    "deepstrike": {
        "session_event": 34,
        "stream_event": 9,
        "action": 4,
        "status": 7,
        "observation": 22,
        "termination": 7,
    },
    "zidane": {"hook": 33, "error": 6, "finish_reason": 6, "behavior": 1},
}

ASKED_FOR = {"event", "command", "step", "session_event", "stream_event", "action", "status", "hook"}
"""Kinds whose rows may not be left out: what one session can experience there, it can experience here."""


def all_rows() -> list[coverage.Row]:
    return [row for system in coverage.SYSTEMS for row in coverage.rows(system)]


@pytest.mark.parametrize("system", coverage.SYSTEMS)
def test_the_lists_have_the_published_counts(system):
    rows = coverage.source(system)["rows"]
    assert Counter(row["kind"] for row in rows) == COUNTS[system] == coverage.source(system)["counts"]
    names = Counter((row["kind"], row["name"]) for row in rows)
    assert names.most_common(1)[0][1] == 1, "a row stands twice"


@pytest.mark.parametrize("system", coverage.SYSTEMS)
def test_every_row_and_every_field_is_mapped_to_something_that_exists(system):
    found = [complaint for row in coverage.rows(system) for complaint in coverage.complaints(row)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("system", coverage.SYSTEMS)
def test_the_mapping_names_no_row_that_the_list_does_not_have(system):
    listed = {(row["kind"], row["name"]) for row in coverage.source(system)["rows"]}
    mapped = {(kind, name) for kind, entries in coverage.mapping(system).items() for name in entries}
    assert mapped == listed


@pytest.mark.parametrize("system", coverage.SYSTEMS)
def test_few_rows_fall_back_to_the_general_notice(system):
    assert sum(coverage.is_notice(row) for row in coverage.rows(system)) <= coverage.NOTICES_MAX


def test_no_row_of_the_kinds_asked_for_is_left_out():
    assert [row.at for row in all_rows() if row.kind in ASKED_FOR and row.to.startswith("drop")] == []


def test_a_row_is_planned_as_a_whole_or_says_of_each_field_where_it_is():
    """One remark for all fields of a row is only for rows that come with a later part."""
    short = [
        f"{system} {kind} {name}"
        for system in coverage.SYSTEMS
        for kind, entries in coverage.mapping(system).items()
        for name, entry in entries.items()
        if not isinstance(entry, str) and isinstance(entry.get("fields"), str)
        if not (entry["to"].startswith("planned: ") and entry["fields"].startswith("planned: "))
    ]
    assert short == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not mapped"),
        ("drop: because", "dropped without a reason"),
        ("planned: tea.poured", "'tea.poured' is not planned: see registry.PLANNED"),
        ("view: computed from nothing", "a view names in backticks what it is computed from"),
        ("view: computed from `run.started#nothing`", "'run.started#nothing': RunStarted has no 'nothing'"),
        ("tea.poured", "'tea.poured': not an event, a value or a module of windlass.events"),
        ("tea.poured#cup", "'tea.poured#cup': there is no event 'tea.poured'"),
        ("tool.finished#failure.cup", "'tool.finished#failure.cup': Failure has no 'cup'"),
        ("tool.finished#ok.cup", "'tool.finished#ok.cup': there is nothing below, so no 'cup'"),
        ("model.replied#body.blocks[cup]", "'model.replied#body.blocks[cup]': no kind 'cup' there"),
        ("model.replied#body.blocks.text", "'model.replied#body.blocks.text': CallSlot has no 'text'"),
        ("plan.changed#operation=pour", "'plan.changed#operation=pour': plan.changed#operation cannot be 'pour'; it can be create, delete, update"),
        ("model.replied[lane=tea]#usage", "'model.replied[lane=tea]#usage': lane cannot be 'tea'; it can be compact, judge, main, tool"),
        ("hook.ruled#ruling[cup=full].reason", "'hook.ruled#ruling[cup=full].reason': HookRuling has no 'cup'"),
        ("Cup.size", "'Cup.size': windlass.events has no 'Cup'"),
        ("ids.cup_id", "'windlass.events.values.ids.cup_id': module 'windlass.events.values.ids' has no attribute 'cup_id'"),
        ("run.started#run_id + tea.poured", "'tea.poured': not an event, a value or a module of windlass.events"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_named_with_the_step_at_which_it_ends(text, complaint):
    assert coverage.wrong_with(text) == [complaint]


@pytest.mark.parametrize(
    "text",
    [
        *("run.started", "notice.given", "text.delta#text", "tool.finished#failure.kind", "Failure.status"),
        *("model.replied#body.blocks[reasoning].opaque", "tool.denied#reason=rules", "tool.requested#by_person=true"),
        *(
            "model.replied[lane=compact]#usage",
            "Failure[kind=auth].status",
            "hook.ruled#ruling[outcome=denied].reason=policy",
        ),
        *("FailureKind=auth", "ids.event_id", "windlass.store.base.Snapshot", "BudgetWarned.fraction"),
        *(
            "run.started + run.failed",
            "run.started (while it lasts)",
            "planned: memory.written",
            "planned: memory: later",
        ),
        *("drop: nobody needs it", "view: from `ids.turn_id` and `turn.started#number`"),
    ],
)
def test_a_right_mapping_is_left_alone(text):
    assert coverage.wrong_with(text) == []


def test_every_part_that_the_page_names_brings_something():
    assert coverage.parts_planned() == list(coverage.PARTS), "a part that is here is no later one"


def test_a_word_is_looked_up_through_lists_and_options():
    assert places.find("prefix.changed#reasons=tools") is not None
    with pytest.raises(places.NoSuchPlace, match="cannot be 'tea'"):
        places.find("run.completed#cause=tea")
