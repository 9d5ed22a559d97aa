"""Conditions: when one is written, and since when it holds (metav1.Condition)."""

from __future__ import annotations

from tutti.api.conditions import (
    Condition,
    condition_json,
    find_condition,
    is_true,
    legible_conditions,
    merge_conditions,
    timestamp,
)

THEN = "2026-01-01T00:00:00Z"
ADMITTED = {**condition_json("Admitted", "False", "Quota"), "lastTransitionTime": THEN}
NOW = 1_800_000_000.9


def test_times_are_whole_seconds_in_utc():
    assert timestamp(0) == "1970-01-01T00:00:00Z"
    assert timestamp(NOW) == "2027-01-15T08:00:00Z"


def test_a_new_reason_keeps_the_time_and_a_new_status_moves_it():
    reason = condition_json("Admitted", "False", "Placement", "no node fits")
    status = condition_json("Admitted", "True", "Admitted")

    assert merge_conditions([ADMITTED], [reason], now=NOW) == [{**reason, "lastTransitionTime": THEN}]
    assert merge_conditions([ADMITTED], [status], now=NOW) == [{**status, "lastTransitionTime": timestamp(NOW)}]


def test_a_merge_that_changes_nothing_equals_what_was_there():
    assert merge_conditions([ADMITTED], [condition_json("Admitted", "False", "Quota")], now=NOW) == [ADMITTED]
    assert merge_conditions([ADMITTED], [], now=NOW) == [ADMITTED]


def test_what_was_there_stays_as_it_was_written():
    merged = merge_conditions([ADMITTED], [condition_json("Admitted", "True", "Admitted")], now=NOW)
    assert ADMITTED["lastTransitionTime"] == THEN
    assert merged[0] is not ADMITTED


def test_new_types_come_last_and_others_stay():
    merged = merge_conditions([ADMITTED], [condition_json("Finished", "True", "Succeeded")], now=NOW)
    assert [condition["type"] for condition in merged] == ["Admitted", "Finished"]
    assert merged[0] == ADMITTED


def test_conditions_are_found_by_type():
    found = [Condition.model_validate(ADMITTED), Condition(type="Finished", status="True")]
    assert is_true(found, "Finished")
    assert not is_true(found, "Admitted")
    assert not is_true(found, "Evicted")
    assert find_condition(found, "Evicted") is None


def test_the_written_form_has_every_field_the_api_requires():
    assert merge_conditions([], [condition_json("Admitted", "Unknown", "")], now=0) == [
        {
            "type": "Admitted",
            "status": "Unknown",
            "reason": "Admitted",
            "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
    ]
    assert condition_json("Admitted", "True", "Admitted", generation=3)["observedGeneration"] == 3


def test_what_is_no_condition_is_not_taken_for_one():
    odd = [None, [], "x", {}, {"type": "a"}, {"type": [], "status": "True"}, {"type": "a", "status": None}]
    assert legible_conditions({"conditions": [*odd, ADMITTED]}) == [ADMITTED]
    assert [legible_conditions(status) for status in (None, [], "x", {}, {"conditions": {}}, {"conditions": None})] == [
        []
    ] * 6
