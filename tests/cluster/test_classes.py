"""Equal pods are one class; what differs between equal pods does not matter."""

from __future__ import annotations

import gc
import itertools

import msgspec
import pytest

from tutti.api.core import (
    Container,
    ContainerPort,
    PodSpec,
    ResourceRequirements,
    SchedulingGate,
    SchedulingGroup,
    TopologySpreadConstraint,
    Volume,
)
from tutti.api.selectors import Toleration
from tutti.cluster.class_book import _MOST_SPECS, ClassBook
from tutti.cluster.requests import pod_requests
from tutti.cluster.volumes import VolumeNeeds

ONE = Container("c", image="i", resources=ResourceRequirements({"cpu": "1"}, {"cpu": "2"}))
SPEC = PodSpec(scheduler_name="tutti", containers=[ONE])


def changed(**fields) -> PodSpec:
    return msgspec.structs.replace(SPEC, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"node_name": "n1"},
        {"priority": 5},
        {"priority_class_name": "high"},
        {"scheduling_gates": [SchedulingGate("g")]},
        {"scheduling_group": SchedulingGroup("g")},
        {"volumes": [Volume("kube-api-access-x7k2p")]},
        {"containers": [Container("other", image="i", resources=ResourceRequirements({"cpu": "1"}, {"cpu": "4"}))]},
    ],
)
def test_what_does_not_matter_to_placement_does_not_split_a_class(fields):
    book = ClassBook()
    pod_class = book.of(SPEC)
    assert book.of(changed(**fields)) is pod_class
    assert len(book) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"node_selector": {"a": "b"}},
        {"tolerations": [Toleration("a", "Exists")]},
        {"containers": [Container("c", resources=ResourceRequirements({"cpu": "2"}))]},
        {"containers": [ONE, ONE]},
        {"overhead": {"cpu": "1"}},
        {"containers": [Container("c", resources=ONE.resources, ports=[ContainerPort(80, host_port=80)])]},
    ],
)
def test_what_matters_to_placement_splits(fields):
    book = ClassBook()
    pod_class = book.of(SPEC)
    assert book.of(changed(**fields)) is not pod_class


def test_a_class_asks_for_what_its_pods_ask_for():
    assert ClassBook().of(SPEC).requests == pod_requests(SPEC)


def test_a_class_is_forgotten_with_the_last_pod_of_it():
    book = ClassBook()
    pod_class = book.of(SPEC)
    assert len(book) == 1
    del pod_class
    gc.collect()
    assert len(book) == 0


def test_a_class_whose_requests_cannot_be_read_asks_for_nothing_and_says_why():
    pod_class = ClassBook().of(PodSpec(containers=[Container(resources=ResourceRequirements({"cpu": "x"}))]))
    assert pod_class.requests == {}
    assert "'x' is not a quantity" in pod_class.problem


def test_the_signature_is_the_same_in_every_process():
    assert ClassBook().of(SPEC).signature == ClassBook().of(changed(priority=3)).signature


def test_an_owner_tells_pods_apart_only_where_they_are_spread_by_it():
    book = ClassBook()
    mine, other = ("ReplicaSet", "a"), ("ReplicaSet", "b")
    assert book.of(SPEC, owner=mine) is book.of(SPEC, owner=mine)
    assert len({book.of(SPEC, owner=owner).signature for owner in (mine, other, None)}) == 3
    spread = changed(topology_spread_constraints=[TopologySpreadConstraint("zone")])
    assert book.of(spread, owner=mine) is book.of(spread, owner=other)


def test_pods_of_one_spec_are_told_apart_whichever_was_seen_last():
    book = ClassBook()
    book.watch(["app"])
    kinds = [
        {},
        {"namespace": "other"},
        {"labels": {"app": "a"}},
        {"labels": {"app": "b", "nobody-reads": "this"}},
        {"owner": ("ReplicaSet", "a")},
        {"owner": ("ReplicaSet", "b")},
        {"volumes": VolumeNeeds(once=("default/data",))},
    ]
    classes = [book.of(SPEC, **kind) for kind in kinds]
    assert len(set(classes)) == len(kinds)
    for before, after in itertools.permutations(range(len(kinds)), 2):
        assert book.of(SPEC, **kinds[before]) is classes[before]
        assert book.of(SPEC, **kinds[after]) is classes[after]


def test_a_label_counts_from_when_somebody_reads_it():
    book = ClassBook()
    plain = book.of(SPEC, labels={"app": "a"})
    assert book.of(SPEC, labels={"app": "b"}) is plain
    book.watch(["app"])
    first, second = (book.of(SPEC, labels={"app": app}) for app in "ab")
    assert len({plain, first, second}) == 3


def test_a_pod_is_of_the_class_of_its_equals_after_keys_were_forgotten():
    book = ClassBook()
    book.watch(("app", "made-up"), lasting=False)
    first = book.of(PodSpec(), "default", {"app": "a", "late": "x"})
    book.forget(())
    assert book.of(PodSpec(), "default", {"app": "a", "late": "x", "made-up": "y"}) is first
    assert book.watched == {"app"}


def test_however_many_specs_were_seen_few_are_remembered_and_a_class_stays_the_same():
    book = ClassBook()
    pod_class = book.of(SPEC)
    for count in range(_MOST_SPECS + 8):
        book.of(changed(node_selector={"a": str(count)}))
    assert len(book._copies) <= _MOST_SPECS
    assert book.of(SPEC) is pod_class
