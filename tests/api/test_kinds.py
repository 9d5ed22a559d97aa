"""Reading objects of our kinds: what is accepted, what is refused and with which words."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.api.manifests import RIGHT, manifest
from tests.api.wrong_manifests import WRONG
from tutti.api.kinds import KINDS, ClusterQueue, ObjectError, PodGroup, Workload, parse_object
from tutti.api.kinds.parsing import UNSUPPORTED
from tutti.api.selectors import LabelSelector, Taint


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_object_is_read_and_survives_writing(name):
    kind, spec = RIGHT[name]
    read = parse_object(kind, manifest(kind, spec))

    assert isinstance(read, KINDS[kind])
    assert parse_object(kind, read.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)) == read


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_object_is_refused_with_its_place_and_what_is_right(name):
    wrong = WRONG[name]
    with pytest.raises(ObjectError) as caught:
        parse_object(wrong.kind, manifest(wrong.kind, wrong.spec))

    assert (caught.value.kind, caught.value.name) == (wrong.kind, "sample")
    places = {problem.path: problem.message for problem in caught.value.problems}
    assert wrong.message in places[wrong.path]
    assert wrong.path in str(caught.value)


def test_every_entry_of_the_unsupported_table_is_tried():
    tried = {(wrong.kind, wrong.path.replace("[1]", "[]").removeprefix("spec.")) for wrong in WRONG.values()}
    assert {(entry.kind, entry.path) for entry in UNSUPPORTED} <= tried


def test_quotas_are_kept_in_milli_units_and_selectors_ready_to_match():
    kind, spec = RIGHT["cluster queue with every default spelt out"]
    queue = parse_object(kind, manifest(kind, spec))

    assert isinstance(queue, ClusterQueue)
    quota = queue.spec.resource_groups[0].flavors[0].resources[0]
    assert (quota.nominal_quota, quota.borrowing_limit, quota.lending_limit) == (8_000, 4_000, 0)
    assert queue.spec.namespace_selector.matches({"team": "a", "x": ""})
    assert not queue.spec.namespace_selector.matches({"team": "a"})


def test_no_namespace_selector_differs_from_an_empty_one():
    assert parse_object("ClusterQueue", manifest("ClusterQueue", "{}")).spec.namespace_selector is None
    assert (
        parse_object("ClusterQueue", manifest("ClusterQueue", "{namespaceSelector: null}")).spec.namespace_selector
        is None
    )
    empty = parse_object("ClusterQueue", manifest("ClusterQueue", "{namespaceSelector: {}}")).spec.namespace_selector
    assert empty == LabelSelector()


def test_taints_and_tolerations_are_the_records_that_matching_uses():
    kind, spec = RIGHT["flavor as Kueue documents it"]
    flavor = parse_object(kind, manifest(kind, spec)).spec

    assert flavor.node_taints == [Taint(key="spot", value="true", effect="NoSchedule")]
    assert flavor.tolerations[1].tolerates(Taint(key="any", effect="NoExecute"))
    assert not flavor.tolerations[1].tolerates(flavor.node_taints[0])


def test_defaults_are_kueues():
    spec = parse_object("ClusterQueue", manifest("ClusterQueue", "{}")).spec
    assert (spec.queueing_strategy, spec.stop_policy) == ("BestEffortFIFO", "None")
    assert (spec.flavor_fungibility.when_can_borrow, spec.flavor_fungibility.when_can_preempt) == (
        "MayStopSearch",
        "TryNextFlavor",
    )
    assert (spec.preemption.within_cluster_queue, spec.preemption.reclaim_within_cohort) == ("Never", "Never")


def test_quorums_are_minimum_counts():
    workload = parse_object(
        "Workload", manifest("Workload", "podGroups: [{count: 3}, {name: b, count: 3, minCount: 2}]")
    )
    assert isinstance(workload, Workload)
    assert [group.quorum for group in workload.spec.pod_groups] == [3, 2]
    for policy, least in (("gang: {minCount: 4}", 4), ("basic: {}", 1)):
        group = parse_object("PodGroup", manifest("PodGroup", f"schedulingPolicy: {{{policy}}}"))
        assert isinstance(group, PodGroup)
        assert group.spec.min_count == least


def test_what_the_server_and_newer_controllers_add_is_left_alone():
    raw = manifest("PodGroup", "schedulingPolicy: {basic: {}}")
    raw["metadata"] |= {"uid": "u", "generation": 3, "managedFields": [{"manager": "kubectl"}], "selfLink": "/x"}
    raw["status"] = {"members": 2, "fromTheFuture": {"a": 1}, "conditions": [{"type": "A", "status": "True", "new": 1}]}
    group = parse_object("PodGroup", raw)

    assert (group.metadata.uid, group.metadata.generation) == ("u", 3)
    assert (group.status.members, group.status.conditions[0].type) == (2, "A")


def test_a_kind_that_is_not_ours_and_an_object_without_metadata_are_named():
    with pytest.raises(ObjectError, match="did you mean 'ClusterQueue'"):
        parse_object("ClusterQueues", {"metadata": {"name": "a"}})
    with pytest.raises(ObjectError, match="spec: must be given"):
        parse_object("PodGroup", {})
    with pytest.raises(ObjectError, match=r"PodGroup ns/a: spec"):
        parse_object("PodGroup", {"metadata": {"name": "a", "namespace": "ns"}, "spec": "gang"})


def test_what_is_left_out_is_the_same_default_for_all_objects():
    first, second = (
        parse_object("PodGroup", manifest("PodGroup", "{schedulingPolicy: {basic: {}}}")) for _ in range(2)
    )
    assert first.status is second.status
    assert deepcopy(first) is first


def test_objects_cannot_be_changed_by_accident():
    queue = parse_object("ClusterQueue", manifest("ClusterQueue", "{}"))
    with pytest.raises(ValueError, match="frozen"):
        queue.spec.cohort_name = "other"
