"""Which shard is to have what, and what may go to another one when."""

from __future__ import annotations

from tutti.api.selectors import LabelSelector
from tutti.api.shards import DEFAULT_SHARD, SHARD_ANNOTATION, Shard
from tutti.shards.ownership import CLUSTER_QUEUE, COHORT, NAMESPACE, NODE, Holding, Ownership, may_leave

SHARDS = [
    Shard(name="gpu", cohorts=["research"], cluster_queues=["alone"], nodes=LabelSelector({"pool": "gpu"})),
    Shard(name="big", cohorts=["batch"], nodes=LabelSelector({"size": "big"})),
]


def of(shard: str) -> dict[str, str]:
    return {SHARD_ANNOTATION: shard}


def known() -> Ownership:
    """Two trees, a queue of nobody's and one namespace for each; all that there is has been handed over."""
    found = Ownership(SHARDS)
    found.put_cohort("research", "", of("gpu"))
    found.put_cohort("vision", "research", of("gpu"))
    found.put_cluster_queue("cats", "vision", of("gpu"))
    found.put_cluster_queue("alone", "", of("gpu"))
    found.put_cluster_queue("nightly", "batch", of("big"))
    found.put_cluster_queue("other", "", {})
    for name, queue, shard in (("cats", "cats", "gpu"), ("night", "nightly", "big"), ("rest", "other", DEFAULT_SHARD)):
        found.put_local_queue(name, "queue", "2026-01-01T00:00:00Z", queue)
        found.put_namespace(name, of(shard))
    return found


def test_trees_and_namespaces_are_due_by_the_root():
    found = known()
    assert found.due(Holding(CLUSTER_QUEUE, "cats")) == "gpu"
    assert found.due(Holding(CLUSTER_QUEUE, "alone")) == "gpu"
    assert found.due(Holding(COHORT, "vision")) == "gpu"
    assert found.due(Holding(NAMESPACE, "cats")) == "gpu"
    assert found.due(Holding(CLUSTER_QUEUE, "nightly")) == "big"
    assert found.due(Holding(CLUSTER_QUEUE, "other")) == DEFAULT_SHARD
    assert found.held_by("big") == {Holding(CLUSTER_QUEUE, "nightly"), Holding(NAMESPACE, "night")}
    assert not found.leaving("gpu")


def test_a_queue_in_a_cohort_goes_by_the_cohort_though_it_is_named():
    found = known()
    found.put_cluster_queue("alone", "batch", of("gpu"))
    assert found.leaving("gpu") == {Holding(CLUSTER_QUEUE, "alone"): "big"}
    assert Holding(CLUSTER_QUEUE, "alone") in found.used_by(
        "gpu"
    )  # whoever holds its quota is counted until it has left


def test_a_ring_of_cohorts_is_the_default_shards():
    found = known()
    found.put_cohort("research", "vision", of("gpu"))
    assert found.due(Holding(CLUSTER_QUEUE, "cats")) == DEFAULT_SHARD
    assert found.due(Holding(COHORT, "research")) == DEFAULT_SHARD


def test_a_node_that_several_shards_select_is_due_to_the_first():
    found = Ownership(SHARDS)
    found.put_node("n", {"size": "big", "pool": "gpu"}, {})
    assert found.due(Holding(NODE, "n")) == "gpu"
    assert found.selected_by_several() == {"n": ("gpu", "big")}
    found.put_node("n", {"size": "big"}, {})
    assert found.due(Holding(NODE, "n")) == "big"
    assert not found.selected_by_several()


def test_what_is_due_is_used_only_once_it_was_handed_over():
    found = Ownership(SHARDS)
    found.put_node("n", {"pool": "gpu"}, {})
    node = Holding(NODE, "n")
    assert not found.held_by("gpu")
    assert not found.held_by(DEFAULT_SHARD)
    assert found.leaving(DEFAULT_SHARD) == {node: "gpu"}
    assert found.awaited("gpu") == {DEFAULT_SHARD: [node]}
    found.put_node("n", {"pool": "gpu"}, of("gpu"))
    assert found.held_by("gpu") == {node}


def test_what_a_shard_has_that_is_not_configured_any_more_is_awaited_by_whose_it_is():
    found = Ownership(SHARDS[:1])
    found.put_node("n", {"pool": "gpu"}, of("retired"))
    found.put_node("m", {}, of("retired"))
    assert found.awaited("gpu") == {"retired": [Holding(NODE, "n")]}
    assert found.awaited(DEFAULT_SHARD) == {"retired": [Holding(NODE, "m")]}


def test_a_namespace_stays_where_any_of_its_queues_leads_and_without_any_where_it_is():
    found = known()
    found.put_local_queue("cats", "a", "2025-01-01T00:00:00Z", "other")  # older, but of another shard
    assert found.due(Holding(NAMESPACE, "cats")) == "gpu"
    assert list(found.misled()) == [("cats", "a", "other", "gpu", DEFAULT_SHARD)]
    found.drop("LocalQueue", "cats", "queue")
    assert found.due(Holding(NAMESPACE, "cats")) == DEFAULT_SHARD
    found.drop("LocalQueue", "cats", "a")
    assert found.due(Holding(NAMESPACE, "cats")) == "gpu"


def test_a_new_namespace_goes_by_its_oldest_queue():
    found = known()
    found.put_namespace("new", {})
    found.put_local_queue("new", "b", "2026-01-02T00:00:00Z", "cats")
    found.put_local_queue("new", "a", "2026-01-03T00:00:00Z", "nightly")
    assert found.due(Holding(NAMESPACE, "new")) == "gpu"


def moved() -> Ownership:
    found = known()
    found.put_cohort("vision", "batch", of("gpu"))
    return found


def test_a_tree_goes_with_all_that_use_it_and_first_those_who_do():
    found = moved()
    leaving = found.leaving("gpu")
    assert list(leaving) == [Holding(NAMESPACE, "cats"), Holding(CLUSTER_QUEUE, "cats"), Holding(COHORT, "vision")]
    assert may_leave(leaving, {("cats", "cats"): 3}, found, "gpu") == leaving


def test_a_queue_waits_for_a_namespace_whose_work_holds_its_quota_and_stays():
    found = moved()
    found.put_local_queue("dogs", "queue", "2026-01-01T00:00:00Z", "alone")
    found.put_namespace("dogs", of("gpu"))
    charged = {("dogs", "cats"): 1, ("cats", "cats"): 1}
    assert may_leave(found.leaving("gpu"), charged, found, "gpu") == {}
    assert set(may_leave(found.leaving("gpu"), {("dogs", "alone"): 1}, found, "gpu")) == set(found.leaving("gpu"))


def test_a_namespace_waits_while_it_holds_quota_that_stays():
    found = known()
    found.put_local_queue("cats", "queue", "2026-01-01T00:00:00Z", "nightly")
    leaving = found.leaving("gpu")
    assert leaving == {Holding(NAMESPACE, "cats"): "big"}
    assert may_leave(leaving, {("cats", "cats"): 1}, found, "gpu") == {}
    assert may_leave(leaving, {}, found, "gpu") == leaving


def test_who_has_gone_is_nobodys():
    found = known()
    version = found.version
    found.drop(CLUSTER_QUEUE, "", "nightly")
    assert found.version > version
    assert found.has(Holding(CLUSTER_QUEUE, "nightly")) == ""
    assert found.due(Holding(NAMESPACE, "night")) == "big"  # it leads nowhere now, and stays
