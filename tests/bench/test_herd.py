"""200 equal pods by measured load: the engine spreads them where the originals' plugins send them to one place."""

from __future__ import annotations

import numpy as np
import pytest

from bench.herd import CORES, MEASURED, PODS, POLICIES, SEES_EXPECTED, by_the_engine, pod_by_pod


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("gang", [True, False])
def test_all_pods_are_placed_and_no_node_is_asked_for_more_than_it_has(policy: str, gang: bool) -> None:
    found = by_the_engine(policy, gang=gang)
    assert sum(found.pods) == PODS
    assert max(found.used) <= 100
    assert found == by_the_engine(policy, gang=not gang)  # a gang goes where its pods would go one by one


@pytest.mark.parametrize("policy", POLICIES)
def test_no_node_comes_to_be_hotter_by_more_than_a_pod_than_where_they_are_placed_one_by_one(policy: str) -> None:
    """Whichever of equal nodes is drawn for the originals' pods."""
    for seed in range(3):
        assert max(by_the_engine(policy).used) <= max(pod_by_pod(policy, seed=seed).used) + 100 / CORES


def test_by_variation_nodes_come_to_be_used_alike_and_the_originals_pods_herd() -> None:
    ours, theirs = by_the_engine("LoadVariationRiskBalancing"), pod_by_pod("LoadVariationRiskBalancing")
    assert max(ours.used) - min(ours.used) <= 6
    assert max(theirs.used) - min(theirs.used) >= 60
    coolest = np.argsort(MEASURED)[:10]
    assert sum(theirs.pods[number] for number in coolest) == PODS  # half the nodes get all of them
    assert min(ours.pods) > 0


def test_by_power_the_originals_pods_overload_the_machines_on_which_they_draw_least() -> None:
    assert sum(one > 100 for one in pod_by_pod("Peaks").used) >= 5
    assert sum(one > 100 for one in by_the_engine("Peaks").used) == 0


def test_where_the_original_counts_who_came_since_both_do_the_same() -> None:
    assert sorted(SEES_EXPECTED) == ["TargetLoadPacking"]
    ours, theirs = by_the_engine("TargetLoadPacking"), pod_by_pod("TargetLoadPacking")
    assert max(abs(one - other) for one, other in zip(ours.pods, theirs.pods, strict=True)) <= 1
