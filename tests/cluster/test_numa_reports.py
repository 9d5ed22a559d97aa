"""What follows from a report and the pods on a node: whom it does not know, and which zone somebody's leaving frees."""

from __future__ import annotations

import pytest

from tests.placement.test_numa import GPU, container
from tutti.api.core import Container, ObjectMeta, PodSpec
from tutti.api.numa import NodeTopology, ZoneReport
from tutti.cluster.class_book import ClassBook
from tutti.cluster.classes import PodClass
from tutti.cluster.numa_reports import freed_by, unreported
from tutti.cluster.pod_fingerprint import METHOD_EXCLUSIVE, fingerprint
from tutti.cluster.pods import PodRecord
from tutti.cluster.signatures import PodSignature

BOOK = ClassBook()


def pod(name: str, gpu: int = 2, *, started: float | None = 10.0, node: str = "n") -> PodRecord:
    return record(name, BOOK.of(PodSpec(containers=[container(cpu=1, memory=1, gpu=gpu)])), started=started, node=node)


def record(name: str, pod_class: PodClass, *, started: float | None = 10.0, node: str = "n") -> PodRecord:
    found = PodRecord.of(ObjectMeta(name=name), pod_class, PodSignature("", {}, pod_class.inter_pod), ())
    found.node, found.started = node, started
    return found


def report(*left: int, whole: int = 4, **more) -> NodeTopology:
    """Zones with so many GPUs left of four."""
    return NodeTopology(
        "n", zones=tuple(ZoneReport(at, {GPU: free}, {GPU: whole}) for at, free in enumerate(left)), **more
    )


A, B, C = pod("a"), pod("b", started=20.0), pod("c", started=None)
ALL = fingerprint(one.key for one in (A, B, C))
CASES = [
    ({"fingerprint": ALL, "written": 0.0}, []),
    ({"fingerprint": fingerprint([A.key, B.key])}, ["c"]),
    ({"fingerprint": fingerprint([A.key])}, ["b", "c"]),
    ({"fingerprint": fingerprint([A.key, B.key]), "fingerprint_method": METHOD_EXCLUSIVE}, ["c"]),
    ({"fingerprint": fingerprint([("", "gone")]), "written": 30.0}, ["c"]),
    ({"fingerprint": fingerprint([("", "gone")]), "written": 22.0}, ["b", "c"]),  # it may have looked before b began
    ({"fingerprint": fingerprint([("", "gone")])}, ["a", "b", "c"]),
]


@pytest.mark.parametrize(("said", "missing"), CASES)
def test_whom_a_report_does_not_know(said, missing):
    assert [one.name for one in unreported(report(4, 4, **said), [C, A, B])] == missing


@pytest.mark.parametrize(("left", "missing"), [((4, 4), ["b", "a"]), ((2, 4), ["b"]), ((2, 2), []), ((0, 4), [])])
def test_without_a_fingerprint_as_many_are_missing_as_the_report_lacks(left, missing):
    assert [one.name for one in unreported(report(*left), [A, B])] == missing


@pytest.mark.parametrize(("method", "missing"), [(METHOD_EXCLUSIVE, []), ("all", ["a", "plain", "b"])])
def test_pods_that_take_nothing_of_zones_count_in_no_fingerprint_of_those_that_do(method, missing):
    spec = PodSpec(containers=[Container()])
    plain = record("plain", BOOK.of(spec), started=15.0)
    said = report(4, 4, fingerprint=fingerprint([A.key, B.key]), fingerprint_method=method)
    assert [one.name for one in unreported(said, [A, B, plain])] == missing


def test_what_is_only_reserved_is_in_no_report():
    reserved = pod("r", node="", started=None)
    assert unreported(report(4, 4, fingerprint=fingerprint([("", "r")])), [reserved]) == [reserved]


def test_a_zone_is_known_to_be_freed_where_pods_can_be_in_one_way_only():
    large, small = pod("large", 3), pod("small", 1)
    left = report(1, 3)
    assert freed_by(left, [large, small], [large]) == ({GPU: 3}, {})
    assert freed_by(left, [large, small], [small]) == ({}, {GPU: 1})
    assert freed_by(left, [large, small], [large, small]) is None


def test_ways_that_exchange_equal_zones_count_as_one_and_others_free_what_is_sure():
    twins = [pod("one", 4), pod("two", 4)]
    assert sorted(zone.get(GPU, 0) for zone in freed_by(report(0, 0), twins, twins[:1])) == [0, 4]
    mixed = [pod("p", 2), pod("q", 2), pod("r", 1), pod("s", 1)]
    assert freed_by(report(2, 0), mixed, mixed[2:3]) == (
        {},
        {},
    )  # alone in a zone with s, or beside p or q: nobody knows


@pytest.mark.parametrize(("whole", "freed"), [(True, {0: 4}), (False, {})])
def test_a_pod_is_in_one_zone_where_its_kubelet_aligns_it_as_a_whole(whole, freed):
    """Or else its containers may be in one each."""
    spec = PodSpec(containers=[container(cpu=1, memory=1, gpu=2) for _ in range(2)])
    pods = [record("two", BOOK.of(spec)), pod("q", 2), pod("r", 2)]
    found = freed_by(report(0, 0, pod_scope=whole), pods, pods[:1])
    assert {at: zone[GPU] for at, zone in enumerate(sorted(found, key=len, reverse=True)) if zone} == freed


def test_where_pods_can_be_in_more_ways_than_are_looked_at_nothing_is_sure():
    """Of the ways that are looked at first, all free the same zone; to look at all of them would take years."""
    several = [pod(f"p{at:02}", 1) for at in range(32)]
    assert freed_by(report(*[0] * 8), several, several[:1]) == ({},) * 8


def test_where_amounts_do_not_add_up_nothing_is_sure():
    assert freed_by(report(1, 4), [pod("p", 2), pod("q", 2)], [pod("p", 2)]) == ({}, {})
