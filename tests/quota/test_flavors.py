"""Which flavors requests may be counted in, in the order to try them.

Rules: Kueue 0.20, pkg/scheduler/flavorassigner.
"""

from __future__ import annotations

from tutti.api.selectors import Taint, Toleration
from tutti.quota.flavors import Flavor, FlavorGroup, Queue, flavor_assignments, tolerated, uncovered, usage_of, where_of

SPOT = Flavor("spot", (("kind", "spot"),), (Taint("spot", "true", "NoSchedule"),))
LARGE = Flavor("large", (("kind", "large"),), tolerations=(Toleration("large", "Exists"),))
FLAVORS = {flavor.name: flavor for flavor in (SPOT, LARGE, Flavor("net"))}
QUEUE = Queue("q", groups=(FlavorGroup(("cpu", "gpu"), ("spot", "large")), FlavorGroup(("nic",), ("net",))))


def ways(requests, tolerations=(), queue=QUEUE, flavors=FLAVORS):
    return list(flavor_assignments(queue, flavors, requests, tolerations))


def test_all_resources_of_a_group_take_the_same_flavor_in_the_order_of_the_queue():
    tolerant = [Toleration("spot", "Exists")]
    assert ways({"cpu": 1, "gpu": 1}, tolerant) == [
        {"cpu": "spot", "gpu": "spot"},
        {"cpu": "large", "gpu": "large"},
    ]


def test_groups_choose_apart():
    assert ways({"gpu": 1, "nic": 1}) == [{"gpu": "large", "nic": "net"}]


def test_a_flavor_whose_taints_are_not_tolerated_is_left_out():
    assert ways({"cpu": 1}) == [{"cpu": "large"}]


def test_a_flavor_may_tolerate_its_own_taints():
    own = Flavor("own", node_taints=(Taint("a", "", "NoSchedule"),), tolerations=(Toleration("a", "Exists"),))
    assert tolerated(own, ())


def test_a_taint_that_only_prefers_keeps_nobody_out():
    assert tolerated(Flavor("soft", node_taints=(Taint("a", "", "PreferNoSchedule"),)), ())


def test_a_flavor_that_does_not_exist_is_no_way():
    assert ways({"cpu": 1}, flavors={}) == []


def test_what_is_not_asked_for_needs_no_flavor():
    assert ways({"cpu": 0}) == [{}]
    assert ways({}) == [{}]


def test_what_no_group_covers_cannot_be_had():
    assert uncovered(QUEUE, {"cpu": 1, "fpga": 2, "nothing": 0, "pods": 1}) == ["fpga"]


def test_pods_count_only_where_they_are_covered():
    queue = Queue("q", groups=(FlavorGroup(("pods",), ("net",)),))
    assert ways({"pods": 1}, queue=queue) == [{"pods": "net"}]
    assert ways({"pods": 1}) == [{}]


def test_usage_is_counted_in_the_assigned_flavors():
    assert usage_of({"gpu": "large", "nic": "net"}, {"gpu": 2, "nic": 1, "cpu": 5}, 3) == {
        ("large", "gpu"): 6,
        ("net", "nic"): 3,
    }


def test_pods_go_where_the_labels_of_all_their_flavors_are():
    where = where_of({"gpu": "large", "cpu": "large", "nic": "net"}, FLAVORS)
    assert where.node_labels == (("kind", "large"),)
    assert where.tolerations == (Toleration("large", "Exists"),)
