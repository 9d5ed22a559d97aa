"""Every recorded decision of kube-scheduler is met by the engine, but for those that are known to differ."""

from __future__ import annotations

import copy
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.differential.__main__ import main
from tests.differential.known import DRAWN_KNOWN, ELSEWHERE_IN_ZONE, SCHEDULER
from tests.differential.records import cases
from tests.differential.scheduler import (
    DRAWN_FAMILIES,
    FAMILIES,
    LEFT_OUT,
    VOLUME_FAMILIES,
    asked,
    compare,
    differences,
    question,
)
from tests.differential.scheduler_reading import decided, world_of
from tests.placement.naive_preemption import preempt, preempt_beside_leaving
from tutti.engine.records.decisions import Evict, SetPodCondition

RECORDED = Path(__file__).parent / "kube-scheduler-1.36.jsonl.gz"
VOLUMES = Path(__file__).parent / "kube-scheduler-volumes-1.36.jsonl.gz"
"""What kube-scheduler's own code decided of pods with volumes, in scenes drawn at random."""

DRAWN = Path(__file__).parent / "kube-scheduler-drawn-1.36.jsonl.gz"
"""What the binary decided of pods that came one after the other into worlds drawn at random."""


def test_all_cases_are_looked_at():
    all_cases = list(cases(RECORDED))

    assert len(all_cases) == 1000
    assert {case["family"] for case in all_cases} == set(FAMILIES)
    assert sum(LEFT_OUT in case["tags"] for case in all_cases) == 6
    asked = Counter(question(case) for case in all_cases if LEFT_OUT not in case["tags"])
    assert asked == {"node": 572, "nobody fits": 332, "victims": 82, "scheduler error": 8}


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_decisions_are_met(family):
    found = dict(compare(RECORDED, only=family))
    different = {case: why for case, why in found.items() if why is not None}
    known = SCHEDULER.keys() & found.keys()
    assert set(different) == known, "\n".join(f"{case}: {why}" for case, why in different.items())


@pytest.mark.parametrize(
    ("recorded", "family", "many"),
    [*((VOLUMES, one, 22) for one in VOLUME_FAMILIES), *((DRAWN, one, many) for one, many in DRAWN_FAMILIES.items())],
)
def test_decisions_in_drawn_worlds_are_met(recorded, family, many):
    found = dict(compare(recorded, only=family))
    different = {case: why for case, why in found.items() if why is not None}
    known = DRAWN_KNOWN.keys() & found.keys()

    assert len(found) == many
    assert set(different) == known, "\n".join(f"{case}: {why}" for case, why in different.items())


def test_what_is_leaving_is_room_that_is_coming():
    """Who waits for pods that leave takes out no more than the rule says, also where kube-scheduler does."""
    asked = 0
    for case in cases(DRAWN):
        leaving = any(pod["metadata"].get("deletionTimestamp") for pod in case["pods"])
        if case["result"]["node"] is not None or not leaving or DRAWN_KNOWN.get(str(case["id"])) is ELSEWHERE_IN_ZONE:
            continue
        said = decided(world_of(case)).decisions
        victims = sorted(f"{one.namespace}/{one.name}" for one in said if isinstance(one, Evict))
        nominated = [one.nominated_node for one in said if isinstance(one, SetPodCondition) and one.nominated_node]
        right = [(one.node, one.names) for one in preempt_beside_leaving(world_of(case))]
        assert (nominated[0], victims) in right if nominated else not right, case["id"]
        asked += 1

    assert asked == 82


def test_another_owner_is_told_apart():
    """The pods of a controller are spread by its selector, which no other case holds."""
    some = [one for one in cases(DRAWN) if one["family"] == "drawn-owners"]
    without = [one | {"replicasets": [], "statefulsets": [], "controllers": []} for one in some]

    assert any("PodTopologySpread" in text for one in without for text in differences(one))


def test_another_volume_is_told_apart():
    case = next(
        one for one in cases(VOLUMES) if any(key.startswith("pv/") for key in one["result"].get("volumes") or ())
    )
    wrong = copy.deepcopy(case)
    wrong["persistentVolumes"] = [
        one | {"spec": {key: value for key, value in one["spec"].items() if key != "claimRef"}}
        for one in wrong["persistentVolumes"]
    ]
    wrong["result"]["volumes"] = {"pv/another": "another"}

    assert differences(case) == []
    assert any(one.startswith("volumes: ") for one in differences(wrong))


def test_the_naive_preemption_is_what_was_recorded():
    """The oracle of the engine's random tests does what kube-scheduler does, budgets included."""
    for case in cases(RECORDED):
        if question(case) == "victims" and LEFT_OUT not in case["tags"]:
            found, result = preempt(world_of(case)), case["result"]
            assert found is not None
            assert (found.node, found.names) == (result["nominatedNode"], sorted(result["victims"]))


def written(tmp_path: Path, *some: dict) -> Path:
    path = tmp_path / "kube-scheduler-1.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(f"{json.dumps(case)}\n" for case in some)
    return path


def case_that_asks(what: str) -> dict:
    return copy.deepcopy(
        next(case for case in cases(RECORDED) if question(case) == what and str(case["id"]) not in SCHEDULER)
    )


def test_a_wrong_score_is_told_apart():
    case = next(case for case in cases(RECORDED) if len(case["result"]["scores"]) > 1)
    wrong = copy.deepcopy(case)
    node, scores = next(iter(wrong["result"]["scores"].items()))
    scores["TaintToleration"] -= 1
    wrong["result"]["finalScores"][node] -= 1

    assert differences(case) == []
    assert len(differences(wrong)) >= 2


def test_a_wrong_message_is_told_apart(tmp_path):
    case = case_that_asks("nobody fits")
    case["result"]["message"] = "0/1 nodes are available: 1 Too many pods."

    ((_, difference),) = compare(written(tmp_path, case))

    assert "Too many pods" in difference


def test_another_node_and_other_victims_are_told_apart():
    elsewhere, more = case_that_asks("node"), case_that_asks("victims")
    elsewhere["result"] |= {"node": "nowhere", "finalScores": {"nowhere": 1}, "scores": {}}
    more["result"]["victims"].append("team-a/somebody")

    assert any(one.startswith("node: ") for one in differences(elsewhere))
    assert any(one.startswith("victims: ") for one in differences(more))


def test_cases_are_counted_by_what_they_ask(tmp_path, capsys):
    known = next(case for case in cases(RECORDED) if str(case["id"]) == "1744")
    wrong = case_that_asks("victims")
    wrong["result"]["victims"] = []
    path = written(tmp_path, case_that_asks("node"), case_that_asks("nobody fits"), known, wrong)
    assert asked(path)["1744"] == "Engine, scheduler error"

    assert main([str(path)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert "Engine, node: 1 passed, 0 failed" in lines
    assert "Engine, scheduler error: 0 passed, 1 known, 0 failed" in lines
    assert lines[-1] == "2 passed, 1 known, 1 failed"


def test_what_is_known_to_differ_fails_once_it_does_not(tmp_path, capsys):
    case = case_that_asks("node") | {"id": 1744}

    assert main([str(written(tmp_path, case))]) == 1
    assert "1744: as recorded by now; take it out of known.py" in capsys.readouterr().out
