"""Every recorded decision of kube-scheduler about devices is met by the engine, but for those that are known to differ."""

from __future__ import annotations

import copy
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.differential.devices import FAMILIES, compare, differences, question
from tests.differential.known import DEVICES
from tests.differential.records import cases

RECORDED = Path(__file__).parent / "dra-1.36.jsonl.gz"
BEHIND_GATES = Path(__file__).parent / "dra-rules-groups-1.36.jsonl.gz"
"""Decisions with DeviceTaintRules and claims of PodGroups, which are off by default in 1.36."""
DRAWN = Path(__file__).parent / "dra-drawn-1.36.jsonl.gz"
"""What kube-scheduler's own code decided of pods one after another, in scenes drawn at random."""


def test_all_cases_are_looked_at():
    all_cases = list(cases(RECORDED))

    assert len(all_cases) == 479
    more = Counter(case["family"] for case in cases(BEHIND_GATES))
    assert more == {"taint-rules": 130, "group-claims": 120}
    assert {case["family"] for case in all_cases} | more.keys() == set(FAMILIES)
    drawn = Counter(case["family"] for case in cases(DRAWN))
    assert (set(drawn.values()), drawn.keys() - set(FAMILIES)) == ({17}, set())
    assert drawn.total() == 204
    asked = Counter(question(case) for case in all_cases)
    assert asked == {"node and devices": 245, "nobody fits": 210, "scheduler error": 20, "not looked at": 4}


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_decisions_are_met(family):
    found = dict(compare(RECORDED, only=family)) or dict(compare(BEHIND_GATES, only=family))
    different = {case: why for case, why in found.items() if why is not None}
    known = DEVICES.keys() & found.keys()
    assert set(different) == known, "\n".join(f"{case}: {why}" for case, why in different.items())


@pytest.mark.parametrize("family", sorted({case["family"] for case in cases(DRAWN)}))
def test_drawn_decisions_are_met(family):
    different = [f"{case}: {why}" for case, why in compare(DRAWN, only=family) if why is not None]

    assert not different, "\n".join(different)


@pytest.fixture(scope="module")
def known():
    """The cases that are known to differ, and in what they do."""
    every = (*cases(RECORDED), *cases(BEHIND_GATES))
    return {f"dra-{one['id']}": (one, differences(one)) for one in every if f"dra-{one['id']}" in DEVICES}


def test_what_differs_is_no_more_than_is_said_of_it(known):
    """Each known difference stands for a meaning that is documented otherwise than kube-scheduler 1.36 acts."""
    elsewhere = re.compile(
        r"message: .*|\S+: 'cannot allocate all claims' instead of 'invalid resource pools were encountered'"
    )
    for case, found in known.values():
        used = [one.get("resourceClaimName") for one in case["probe"]["spec"].get("resourceClaims", ())]
        said = case["result"]["message"] or ""
        if case["family"] == "taint-rules":
            assert any("deviceSelector" not in one["spec"] for one in case["deviceTaintRules"])
            assert "cannot allocate all claims" in said
        elif "must have at most 256 items" in said:
            assert all("256 users" in one for one in found)
        elif case["family"] == "group-claims":
            (group,) = case["podGroups"]
            listed = group["spec"].get("resourceClaims", ())
            assert any(one not in listed for one in case["probe"]["spec"]["resourceClaims"])
            assert all("is reserved for [('podgroups', " in one and "('pods', " in one for one in found)
        elif "claim-twice" in case["tags"]:
            assert len(set(used)) < len(used)
        elif "quirk-counters-elsewhere" in case["tags"]:
            assert all(elsewhere.fullmatch(one) for one in found)
        elif "quirk" in case["tags"]:
            requests = [one for claim in case["claims"] for one in claim["spec"]["devices"]["requests"]]
            assert any(one.get("exactly", {}).get("count", 1) > 2 for one in requests)
        else:
            assert "nil or empty request mappings" in said
            assert "extendedResourceClaimStatus" not in case["result"]


def one_with_results(most: int = 1) -> dict:
    return copy.deepcopy(
        next(
            case
            for case in cases(RECORDED)
            if question(case) == "node and devices"
            and case["family"] == "basic"
            and sum(len(one["status"]["allocation"]["devices"]["results"]) for one in case["result"]["claims"]) >= most
        )
    )


def test_another_device_is_told_apart():
    case = one_with_results()
    case["result"]["claims"][0]["status"]["allocation"]["devices"]["results"][0]["device"] = "another"

    assert any("another" in one for one in differences(case))


def test_another_order_of_devices_is_told_apart():
    case = one_with_results(2)
    for claim in case["result"]["claims"]:
        claim["status"]["allocation"]["devices"]["results"].reverse()

    assert any(one.startswith("claim ") for one in differences(case))


def test_a_device_that_is_not_there_is_told_apart():
    case = one_with_results()
    node = case["result"]["node"]
    case["resourceSlices"] = [one for one in case["resourceSlices"] if one["spec"].get("nodeName") != node]

    assert any(node in one for one in differences(case))


@pytest.mark.parametrize("family", ["taint-rules", "group-claims"])
def test_rules_and_groups_that_are_not_there_are_told_apart(family):
    """What is behind gates decides in these cases: without it many are decided otherwise."""
    chosen = [case for case in cases(BEHIND_GATES) if case["family"] == family]
    other = [case | {"deviceTaintRules": [], "podGroups": []} for case in chosen]

    assert sum(bool(differences(case)) for case in other) > len(chosen) / 4


def test_another_reason_of_one_node_is_told_apart():
    case = copy.deepcopy(
        next(
            case
            for case in cases(RECORDED)
            if any("reason" in one for one in (case["result"]["nodes"] or {}).values()) and not differences(case)
        )
    )
    next(one for one in case["result"]["nodes"].values() if "reason" in one)["reason"] = "something else"

    assert any("something else" in one for one in differences(case))
