"""How far nodes are from data, and what that is worth, beside a rule written down node by node."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.placement.scenes import node, pod
from tests.placement.single_decision import decide
from tutti.api.data_locality import DATASET_LABEL, datasets_in
from tutti.api.profiles import SchedulerProfile
from tutti.cluster.cluster import Cluster
from tutti.engine.reading.profiles import profile_of
from tutti.placement.framework import FlavorConstraints
from tutti.placement.profile import filter_nodes

LEVELS = ["rack", "zone"]
nodes = st.fixed_dictionaries(
    {},
    optional={
        "rack": st.sampled_from(["r0", "r1", "r2"]),
        "zone": st.sampled_from(["z0", "z1"]),
        "fluid.io/s-default-images": st.sampled_from(["true", "false", ""]),
        "fluid.io/s-default-words": st.just("true"),
    },
)


def distance(labels: dict[str, str], everywhere: list[dict[str, str]], dataset: str) -> int | None:
    """How far a node is from a dataset; None where no node holds it."""
    key = f"fluid.io/s-default-{dataset}"
    holders = [one for one in everywhere if one.get(key, "false") != "false"]
    if not holders:
        return None
    if labels.get(key, "false") != "false":
        return 0
    for step, level in enumerate(LEVELS, start=1):
        if level in labels and labels[level] in [one.get(level) for one in holders]:
            return step
    return 3


@given(
    found=st.lists(nodes, min_size=1, max_size=6),
    names=st.lists(st.sampled_from(["images", "words", "nowhere"]), min_size=1, max_size=3),
    within=st.integers(0, 3),
)
def test_distances_are_those_of_each_node_by_itself(found: list[dict[str, str]], names: list[str], within: int):
    cluster = Cluster()
    cluster.watch_labels((DATASET_LABEL,))
    for number, labels in enumerate(found):
        cluster.put_node(node(f"n{number}", labels=labels))
    profile = profile_of(SchedulerProfile(data_locality={"levels": LEVELS, "weight": 3}))
    one = pod("p", labels={DATASET_LABEL: "_".join(names)})
    pod_class = cluster.classes.of(one.spec, "default", one.metadata.labels)
    far: list[list[int]] = []
    for name in dict.fromkeys(names):
        of_each = [distance(labels, found, name) for labels in found]
        if None not in of_each:
            far.append([step for step in of_each if step is not None])

    feasible = filter_nodes(pod_class, cluster.nodes, FlavorConstraints(data_within=within), profile).feasible
    decision = decide(pod_class, cluster.nodes, profile=profile)

    assert feasible.tolist() == [all(steps[at] <= within for steps in far) for at in range(len(found))]
    worth = [100, 50, 25, 0]
    points = [sum(worth[steps[at]] for steps in far) // len(far) for at in range(len(found))] if far else []
    said: Any = decision.scores.get("DataLocality")
    if len(found) > 1 and any(points):
        assert said.tolist() == [3 * one for one in points]


def test_a_pod_names_at_most_eight_datasets_each_once():
    assert datasets_in("a_b_a__c") == ("a", "b", "c")
    assert len(datasets_in("_".join(f"d{number}" for number in range(20)))) == 8
    assert datasets_in("") == ()
