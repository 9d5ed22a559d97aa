"""Every recorded quota decision is met, but for those that known.py names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.__main__ import judged
from tests.differential.known import NO_FEATURE, QUOTA
from tests.differential.quota_topics import ENGINE, TOPICS, asked, compare, remarks

HERE = Path(__file__).parent

CASES = {
    "available": 5,
    "cycle": 34,
    "cycle-fair": 14,
    "cycle-topology": 36,
    "entry-order": 2,
    "fair-preemption": 22,
    "fair-preemption-generated": 106,
    "flavor-assignment": 40,
    "flavor-rank": 6,
    "local-queue-usage": 5,
    "partial-count": 5,
    "preemption": 31,
    "preemption-generated": 107,
    "preemption-policy": 4,
    "queue-order": 7,
    "requeue": 7,
    "reserve": 4,
    "share": 13,
    "share-division": 48,
    "share-division-generated": 120,
    "topology-placement": 57,
    "tree-generated": 120,
    "usage-cycle": 3,
    "usage-report": 2,
    "usage-tree": 7,
    "victim-order": 4,
    "victim-queue-order": 4,
}
"""How many cases each topic has."""

NOT_OURS = {"runtime-quota": 13}
"""How many cases each topic has that there is nothing of here."""


@pytest.mark.parametrize("topic", TOPICS)
def test_recorded_quota_decisions_are_met(topic):
    found = dict(compare(HERE / f"quota-{topic}.jsonl"))
    assert len(found) == CASES[topic]
    judgements = {case: judged(case, difference) for case, difference in found.items()}
    failed = {case: text for case, (outcome, text) in judgements.items() if outcome == "failed"}
    assert not failed, "\n".join(f"{case}: {text}" for case, text in failed.items())


DRAWN = {"quota-random.jsonl": 101, "quota-drawn.jsonl.gz": 207}
"""How many cases there are that were drawn at random, by file."""


@pytest.mark.parametrize("name", DRAWN)
def test_what_was_drawn_at_random_is_decided_as_kueue_does(name):
    found = dict(compare(HERE / name))
    assert len(found) == DRAWN[name]
    failed = {case: text for case, text in found.items() if text is not None}
    assert not failed, "\n".join(f"{case}: {text}" for case, text in failed.items())


def test_every_known_difference_is_of_a_case_that_there_is():
    recorded = {case for topic in TOPICS for case in asked(HERE / f"quota-{topic}.jsonl")}
    assert set(QUOTA) <= recorded


def test_what_is_no_feature_is_counted_apart():
    for topic, cases in NOT_OURS.items():
        path = HERE / f"quota-{topic}.jsonl"
        assert not list(compare(path))
        assert remarks(path) == [f"{cases} left out, no feature of ours: {NO_FEATURE[topic]}"]


def test_whole_cycles_are_asked_of_the_engine():
    for topic in ("cycle", "cycle-fair", "cycle-topology", "requeue", "topology-placement", "usage-cycle"):
        assert set(asked(HERE / f"quota-{topic}.jsonl").values()) == {ENGINE}


def test_a_known_difference_that_is_none_any_more_fails():
    case = next(iter(QUOTA))
    assert judged(case, "otherwise")[0] == "known"
    assert judged(case, None)[0] == "failed"
    assert judged("another", "otherwise") == ("failed", "otherwise")


def test_a_wrong_answer_is_told_apart(tmp_path):
    text = (HERE / "quota-partial-count.jsonl").read_text().splitlines()[1].replace('"total":150000', '"total":149999')
    (tmp_path / "quota-partial-count.jsonl").write_text(text)
    ((_, difference),) = compare(tmp_path / "quota-partial-count.jsonl")
    assert difference == "total: 150000 instead of 149999"


def test_whom_the_engine_admits_is_told_apart(tmp_path):
    first = (HERE / "quota-cycle.jsonl").read_text().splitlines()[0]
    (tmp_path / "quota-cycle.jsonl").write_text(
        first.replace('"admitted":["eng-alpha/new","sales/new"]', '"admitted":[]')
    )
    ((_, difference),) = compare(tmp_path / "quota-cycle.jsonl")
    assert difference is not None
    assert difference.startswith("admitted: ['eng-alpha/new', 'sales/new'] instead of []")
