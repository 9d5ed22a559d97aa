"""What a pod by itself wants is found out on a way of its own, and is what the only member of a gang would want."""

from __future__ import annotations

from tests.engine.world import World
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets


def waiting(*, gated: bool = False) -> list[PodSetRequest] | Explanation:
    world = World()
    world.pod("p", gated=gated)
    world.pod("g-0", group="g", gated=gated)
    world.pod_group("g", 1)
    world.run()
    workloads = world.engine.state.workloads
    alone, gang = (
        pending_pod_sets(workloads[kind, "default", name]) for kind, name in (("Pod", "p"), ("PodGroup", "g"))
    )
    assert type(alone) is type(gang)
    if isinstance(alone, list) and isinstance(gang, list):
        assert [need.shape for need in alone] == [need.shape for need in gang]
    return alone


def test_a_pod_by_itself_asks_for_one_node():
    found = waiting()
    assert isinstance(found, list)
    assert [(need.required, need.extra, [member.pod.name for member in need.members]) for need in found] == [
        (1, 0, ["p"])
    ]


def test_a_gated_pod_says_that_it_is_gated():
    found = waiting(gated=True)
    assert isinstance(found, Explanation)
    assert found.reason == "SchedulingGated"
