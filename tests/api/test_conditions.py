"""Conditions: when one is written, and since when it holds (metav1.Condition)."""

from __future__ import annotations

from tutti.api.conditions import Condition, find, is_true, merge, timestamp, to_json

ADMITTED = Condition(type="Admitted", status="False", reason="Quota", last_transition_time="2026-01-01T00:00:00Z")
NOW = 1_800_000_000.9


def test_times_are_whole_seconds_in_utc():
    assert timestamp(0) == "1970-01-01T00:00:00Z"
    assert timestamp(NOW) == "2027-01-15T08:00:00Z"


def test_a_new_reason_keeps_the_time_and_a_new_status_moves_it():
    reason = Condition(type="Admitted", status="False", reason="Placement", message="no node fits")
    status = Condition(type="Admitted", status="True", reason="Admitted")

    assert merge([ADMITTED], [reason], now=NOW) == [
        reason.model_copy(update={"last_transition_time": "2026-01-01T00:00:00Z"})
    ]
    assert merge([ADMITTED], [status], now=NOW)[0].last_transition_time == timestamp(NOW)


def test_a_merge_that_changes_nothing_equals_what_was_there():
    again = ADMITTED.model_copy(update={"last_transition_time": ""})
    assert merge([ADMITTED], [again], now=NOW) == [ADMITTED]
    assert merge([ADMITTED], [], now=NOW) == [ADMITTED]


def test_new_types_come_last_and_others_stay():
    finished = Condition(type="Finished", status="True", reason="Succeeded")
    merged = merge([ADMITTED], [finished], now=NOW)

    assert [condition.type for condition in merged] == ["Admitted", "Finished"]
    assert merged[0] == ADMITTED
    assert is_true(merged, "Finished")
    assert not is_true(merged, "Admitted")
    assert not is_true(merged, "Evicted")
    assert find(merged, "Evicted") is None


def test_the_written_form_has_every_field_the_api_requires():
    bare = merge([], [Condition(type="Admitted", status="Unknown")], now=0)
    assert to_json(bare) == [
        {
            "type": "Admitted",
            "status": "Unknown",
            "reason": "Admitted",
            "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
    ]
