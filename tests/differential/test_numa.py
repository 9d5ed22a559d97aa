"""Every recorded answer of scheduler-plugins' NodeResourceTopologyMatch is given by the plugins that profiles have."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.differential.__main__ import main
from tests.differential.numa import compare
from tests.differential.records import cases

RECORDED = Path(__file__).parent / "numa.jsonl.gz"
DRAWN = Path(__file__).parent / "numa-random.jsonl"


def test_all_cases_are_looked_at():
    found = list(cases(RECORDED))

    assert Counter(case["topic"] for case in found) == {"numa-filter": 196, "numa-score": 196}
    assert {case.get("strategy") for case in found} == {
        None,
        "LeastAllocated",
        "MostAllocated",
        "BalancedAllocation",
        "LeastNUMANodes",
    }
    messages = Counter(case["expect"].get("message") for case in found if case["topic"] == "numa-filter")
    assert messages == {
        None: 130,
        "cannot align pod": 33,
        "cannot align container": 27,
        "cannot align init container": 6,
    }


def test_recorded_answers_are_given():
    different = {case: why for case, why in compare(RECORDED) if why is not None}
    assert not different, "\n".join(f"{case}: {why}" for case, why in different.items())


def test_what_was_drawn_at_random_is_answered_as_scheduler_plugins_does():
    found = dict(compare(DRAWN))
    assert len(found) == 100
    different = {case: why for case, why in found.items() if why is not None}
    assert not different, "\n".join(f"{case}: {why}" for case, why in different.items())


WRONG = {
    "numa-filter": lambda expect: {"fits": not expect["fits"]},
    "numa-score": lambda expect: {"score": expect["score"] + 1},
}


@pytest.mark.parametrize("topic", sorted(WRONG))
def test_a_wrong_answer_is_told_apart(tmp_path, capsys, topic: str):
    case = next(case for case in cases(RECORDED) if case["topic"] == topic)
    path = tmp_path / "numa-1.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({**case, "expect": WRONG[topic](case["expect"])}))

    assert main([str(path)]) == 1
    assert "instead of" in capsys.readouterr().out
