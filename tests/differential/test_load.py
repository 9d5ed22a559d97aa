"""Every recorded answer of those who made the rules of load and power is given by the plugins that profiles have."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.differential.__main__ import main
from tests.differential.load import ANSWERS, compare
from tests.differential.records import cases

RECORDED = Path(__file__).parent / "load.jsonl.gz"
DRAWN = Path(__file__).parent / "load-random.jsonl"


def test_all_cases_are_looked_at():
    kinds = Counter(case["kind"] for case in cases(RECORDED))

    assert kinds.total() == 386
    assert set(kinds) == set(ANSWERS)
    assert kinds["targetLoadPacking"] == 87
    assert kinds["lowRiskOverCommitment"] == 85
    assert kinds["loadVariationRiskBalancing"] == 67
    assert kinds["peaks"] == 53


def test_recorded_answers_are_given():
    different = {case: why for case, why in compare(RECORDED) if why is not None}
    assert not different, "\n".join(f"{case}: {why}" for case, why in different.items())


def test_what_was_drawn_at_random_is_answered_as_trimaran_and_koordinator_do():
    found = dict(compare(DRAWN))
    assert len(found) == 132
    different = {case: why for case, why in found.items() if why is not None}
    assert not different, "\n".join(f"{case}: {why}" for case, why in different.items())


WRONG = {
    "targetLoadPacking": lambda expect: {"score": expect["score"] + 1},
    "lowRiskOverCommitment": lambda expect: {"score": expect["score"] + 1},
    "loadVariationRiskBalancing": lambda expect: {"score": expect["score"] - 1},
    "peaks": lambda expect: {"rawScore": expect["rawScore"] * 2 + 5000},
    "koordinatorFilter": lambda _: {"ruledOutBy": "disk"},
    "volcanoStillUnmeasured": lambda expect: {"counted": not expect["counted"]},
    "betaProbability": lambda expect: {"probability": expect["probability"] + 0.01},
}


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_a_wrong_answer_is_told_apart(tmp_path, capsys, kind: str):
    case = next(case for case in cases(RECORDED) if case["kind"] == kind)
    path = tmp_path / "load-1.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({**case, "expect": WRONG[kind](case["expect"])}))

    assert main([str(path)]) == 1
    assert "instead of" in capsys.readouterr().out
