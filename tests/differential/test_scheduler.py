"""Every recorded decision of kube-scheduler is met, but for those named here; this list may only shrink."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path

import pytest

from tests.differential.scheduler import FAMILIES, LEFT_OUT, cases, compare, differences

RECORDED = Path(__file__).parent / "kube-scheduler-1.36.jsonl.gz"

KNOWN: set[str] = set()
"""Ids and families of the cases that are decided otherwise."""


def test_all_cases_are_looked_at():
    all_cases = list(cases(RECORDED))

    assert len(all_cases) == 1000
    assert {case["family"] for case in all_cases} == set(FAMILIES)
    assert sum(LEFT_OUT in case["tags"] for case in all_cases) == 6


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_decisions_are_met(family):
    different = {case: why for case, why in compare(RECORDED, only=family) if why is not None}

    mine = {case for case in KNOWN if case.endswith(family)}
    assert set(different) == mine, "\n".join(f"{case}: {why}" for case, why in different.items())


def test_a_wrong_answer_is_told_apart():
    case = next(case for case in cases(RECORDED) if len(case["result"]["scores"]) > 1)
    wrong = copy.deepcopy(case)
    node, scores = next(iter(wrong["result"]["scores"].items()))
    scores["TaintToleration"] -= 1
    wrong["result"]["finalScores"][node] -= 1

    assert differences(case) == []
    assert len(differences(wrong)) == 2


def test_a_wrong_message_is_told_apart(tmp_path):
    case = next(case for case in cases(RECORDED) if case["result"]["message"].startswith("0/"))
    case["result"]["message"] = "0/1 nodes are available: 1 Too many pods."
    with gzip.open(tmp_path / "kube-scheduler-1.jsonl.gz", "wt") as file:
        file.write(json.dumps(case))
    ((_, difference),) = compare(tmp_path / "kube-scheduler-1.jsonl.gz")

    assert "Too many pods" in difference
