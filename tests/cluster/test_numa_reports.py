"""What follows from a report and the pods on a node: whom it does not know, and which zone somebody's leaving frees."""

from __future__ import annotations

import pytest

from tests.placement.test_numa import GPU, container
from tutti.api.core import ObjectMeta, PodSpec
from tutti.api.numa import NodeTopology, ZoneReport
from tutti.cluster.classes import ClassBook
from tutti.cluster.numa_reports import freed_by, unreported
from tutti.cluster.pod_fingerprint import METHOD_EXCLUSIVE, fingerprint
from tutti.cluster.pods import PodRecord
from tutti.cluster.signatures import PodSignature

BOOK = ClassBook()


def pod(name: str, gpu: int = 2, *, started: float | None = 10.0, node: str = "n") -> PodRecord:
    pod_class = BOOK.of(PodSpec(containers=[container(cpu=1, memory=1, gpu=gpu)]))
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


def test_where_amounts_do_not_add_up_nothing_is_sure():
    assert freed_by(report(1, 4), [pod("p", 2), pod("q", 2)], [pod("p", 2)]) == ({}, {})
