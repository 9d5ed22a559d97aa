"""Pod groups of one groupName, and shapes of one gang that are near one another: one flavor for all, or none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import GPU, World, replaced
from tutti.api.core import Container, Pod, ResourceRequirements

RACK, ZONE, HOSTNAME = "rack", "zone", "kubernetes.io/hostname"
T = {"mode": "Required", "level": RACK, "groupName": "x"}
KUEUE = "kueue.x-k8s.io"


def racks(*, gpus: int, nodes: int = 6, **kinds: str) -> World:
    """Racks of two nodes, and a flavor by whose topology they are counted."""
    world = World()
    world.object("Topology", "t", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]})
    world.flavor("default", topologyName="t")
    for i in range(nodes):
        world.node(f"n{i}", gpus=gpus, labels={RACK: f"r{i // 2}", ZONE: "z", **kinds})
    return world


def led(world: World, workers: int, gpus: int, *, lead: int = 1, priority: int = 0, **group: Any) -> None:
    """A Workload of a leader and its workers, made as any controller makes them."""
    groups = [{"name": "lead", "count": 1, "topology": T}, {"name": "work", "count": workers, "topology": T, **group}]
    world.workload("job", *groups, queueName="queue")
    world.pod("job-lead", workload="job", group="lead", gpus=lead, priority=priority)
    for rank in range(workers):
        world.pod(f"job-{rank}", workload="job", group="work", gpus=gpus, priority=priority)


def mixed(world: World, *gpus: int, mode: str = "Required", least: int | None = None, queue: str = "queue") -> None:
    """A PodGroup whose members are of several shapes and near one another."""
    near = {"topology": [{"key": RACK, "mode": mode}]}
    queued = {"queueName": queue} if queue else {}
    world.pod_group("ring", least or len(gpus), schedulingConstraints=near, **queued)
    for rank, number in enumerate(gpus):
        world.pod(f"ring-{rank}", group="ring", gpus=number)


def test_workers_for_whom_no_rack_has_room_wait_beside_their_leader():
    world = racks(gpus=4)
    world.queue("q", 100)
    led(world, 6, 2)
    world.run()
    assert world.where() == {}
    assert world.reason("Workload", "job") == "Unschedulable"
    assert "No rack domain has room for all 6 pods" in world.why("Workload", "job").message


def test_shapes_of_a_gang_for_which_no_rack_has_room_wait():
    world = racks(gpus=4)
    world.queue("q", 100)
    mixed(world, 1, 2, 2, 2, 2, 2, 2)
    world.run()
    assert world.where() == {}
    assert world.reason("PodGroup", "ring") == "Unschedulable"


def test_a_party_that_may_have_fewer_starts_with_what_its_rack_has_room_for():
    world = racks(gpus=4)
    world.queue("q", 100)
    led(world, 6, 2, minCount=2)
    world.run()
    assert len(world.where()) == 4  # a rack of 8 GPUs: the leader's and three times 2
    assert world.used("q") == 7


@pytest.mark.parametrize("ours", [True, False])
def test_members_that_would_rather_be_near_are_told_what_they_lack_when_they_fit_nowhere(ours):
    world = racks(gpus=4)
    world.queue("q", 100)
    mixed(world, 1, *[4] * 7, mode="Preferred", queue="queue" if ours else "")
    world.run()
    assert world.where() == {}
    assert world.reason("PodGroup", "ring") == "Unschedulable"


def test_workers_take_out_less_important_pods_for_their_party():
    world = racks(gpus=4)
    world.queue("q", 4, preemption={"withinClusterQueue": "LowerPriority"})
    world.pod("low", gpus=4, queue="queue")
    world.run()
    led(world, 2, 2, lead=0, priority=5)
    world.run()
    assert set(world.where()) == {"job-lead", "job-0", "job-1"}
    assert world.used("q") == 4


def test_a_flavor_without_a_rack_for_the_workers_is_passed_by_with_their_leader():
    world = World()
    world.object("Topology", "t", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]})
    for kind, gpus in (("a", 2), ("b", 4)):
        world.flavor(kind, topologyName="t", nodeLabels={"kind": kind})
        for i in range(4):
            world.node(f"{kind}{i}", gpus=gpus, labels={RACK: f"{kind}{i // 2}", "kind": kind})
    world.queue("q", 100, flavors=("a", "b"))
    led(world, 3, 2)
    world.run()
    assert len(world.where()) == 4
    assert (world.used("q", "a"), world.used("q", "b")) == (0, 7)


# What a party is short of is what all of it asks for.


def test_a_party_with_too_little_quota_is_told_its_sum():
    world = racks(gpus=8)
    world.queue("q", 8)
    led(world, 4, 2)
    world.run()
    why = world.why("Workload", "job")
    assert why.reason == "ExceedsMaxQuota"
    assert f"needs 9 {GPU} in default; 8 free now" in why.message


@pytest.mark.parametrize("mode", ["Required", "Preferred"])
def test_shapes_with_too_little_quota_are_told_their_sum(mode):
    world = racks(gpus=8)
    world.queue("q", 4)
    mixed(world, 1, 2, 1, 2, mode=mode)
    world.run()
    assert f"needs 6 {GPU} in default; 4 free now" in world.why("PodGroup", "ring").message


def test_shapes_wait_for_quota_that_others_use_for_the_moment():
    world = racks(gpus=8)
    world.queue("q", 8)
    world.pod("other", gpus=4, queue="queue")
    world.run()
    mixed(world, 1, 2, 1, 2)
    world.run()
    assert world.reason("PodGroup", "ring") == "WaitingForQuota"
    assert f"needs 6 {GPU} in default; 4 free now" in world.why("PodGroup", "ring").message
    world.delete("other")
    world.run()
    assert len(world.where("ring")) == 4


@pytest.mark.parametrize(("shapes", "runs"), [((1, 2, 1, 2), 4), ((1, 1, 1, 1, 1, 1), 4)])
def test_a_party_with_quota_for_its_minimum_starts_with_that_and_what_else_fits(shapes, runs):
    world = racks(gpus=8)
    world.queue("q", 4)
    mixed(world, *shapes, least=2)
    world.run()
    assert world.used("q") <= 4
    assert 2 <= len(world.where()) <= runs


def test_a_pod_set_behind_a_party_is_told_what_that_takes():
    world = racks(gpus=8)
    world.queue("q", 6)
    groups = [
        {"name": "r0", "count": 1, "topology": T},
        {"name": "r1", "count": 2},
        {"name": "r2", "count": 1, "topology": T},
    ]
    world.workload("job", *groups, queueName="queue")
    for name, gpus in (("r0", 1), ("r1", 2), ("r1", 2), ("r2", 2)):
        world.pod(f"job-{name}-{len(world.pods)}", workload="job", group=name, gpus=gpus)
    world.run()
    assert f"needs 7 {GPU} in default; 6 free now" in world.why("Workload", "job").message


def test_members_beyond_the_minimum_that_ask_for_what_the_queue_lacks_do_not_keep_the_others():
    world = racks(gpus=8)
    world.queue("q", 100)
    world.pod_group("ring", 2, queueName="queue", schedulingConstraints={"topology": [{"key": RACK}]})
    for rank in range(2):
        world.pod(f"ring-{rank}", group="ring")
    world.put(_asking(world.pod("ring-odd", group="ring"), {"example.com/fpga": "1"}))
    world.run()
    assert set(world.where()) == {"ring-0", "ring-1"}
    assert "example.com/fpga" in world.why("PodGroup", "ring").message


def test_a_late_shape_keeps_to_the_flavor_in_which_its_party_runs():
    world = World()
    world.object("Topology", "t", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]})
    for kind in "ab":
        world.flavor(kind, topologyName="t", nodeLabels={"kind": kind})
        world.node(f"n{kind}", gpus=8, labels={RACK: "r", "kind": kind})
    world.queue("q", 2, flavors=("a", "b"))
    mixed(world, 1, 1, mode="Preferred")
    world.run()
    assert world.used("q", "a") == 2
    world.pod("ring-late", group="ring", gpus=2)
    world.run()
    assert "ring-late" not in world.where()
    assert f"needs 2 {GPU} in a" in world.why("PodGroup", "ring").message


def test_a_party_that_was_bound_by_hand_in_two_flavors_takes_either():
    world = World()
    world.object("Topology", "t", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]})
    for kind in "ab":
        world.flavor(kind, topologyName="t", nodeLabels={"kind": kind})
        world.node(f"n{kind}", gpus=2, labels={RACK: "r", "kind": kind})
    world.queue("q", 100, flavors=("a", "b"))
    led(world, 2, 1)
    for pod, node in (("job-lead", "na"), ("job-0", "nb"), ("job-1", "nb")):
        world.bound_by_another(pod, node)
    world.run()
    assert (world.used("q", "a"), world.used("q", "b")) == (1, 2)
    world.delete("job-0")
    world.pod("filler", node="nb", scheduler="other")
    world.pod("job-2", workload="job", group="work")
    world.run()
    assert world.where("job-2") == {"job-2": "na"}
    assert (world.used("q", "a"), world.used("q", "b")) == (2, 1)


# Flavors are for the pod groups that they were chosen for, in whatever order these are listed.


@pytest.mark.parametrize("asked", [(0, 0, 2), (0, 8, 0), (2, 0, 0)])
def test_a_pod_group_between_those_of_a_party_gets_its_own_flavors(asked):
    world = racks(gpus=8, nodes=4)
    world.queue("q", 100)
    groups = [
        {"name": "r0", "count": 1, "topology": T},
        {"name": "r1", "count": 2},
        {"name": "r2", "count": 1, "topology": T},
    ]
    world.workload("job", *groups, queueName="queue")
    for name, gpus in (("r0", asked[0]), ("r1", asked[1]), ("r1", asked[1]), ("r2", asked[2])):
        world.pod(f"job-{name}-{len(world.pods)}", workload="job", group=name, gpus=gpus)
    world.run()
    assert len(world.where()) == 4
    assert world.used("q") == asked[0] + 2 * asked[1] + asked[2]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)])
def test_flavors_do_not_depend_on_the_order_in_which_pod_groups_are_listed(order):
    world = World()
    world.object("Topology", "t", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]})
    world.flavor("fa", topologyName="t", nodeLabels={"kind": "a"})
    world.flavor("fb", nodeLabels={"kind": "b"})
    world.queue("q", 100, flavors=("fa", "fb"))
    for i in range(4):
        world.node(f"n{i}", labels={RACK: "r", "kind": "ab"[i % 2]})
    groups = [
        {"name": "r0", "count": 1, "topology": T},
        {"name": "r1", "count": 2},
        {"name": "r2", "count": 1, "topology": T},
    ]
    world.workload("job", *(groups[i] for i in order), queueName="queue")
    for name in (groups[i]["name"] for i in order):
        for rank in range(2 if name == "r1" else 1):
            world.pod(
                f"job-{name}-{rank}", workload="job", group=name, selector={"kind": "b"} if name == "r1" else None
            )
    world.run()
    assert len(world.where()) == 4
    assert (world.used("q", "fa"), world.used("q", "fb")) == (2, 2)
    charged = {m.pod.name: m.charge.flavors[GPU] for m in world.engine.state.members.values()}
    assert charged == {"job-r0-0": "fa", "job-r2-0": "fa", "job-r1-0": "fb", "job-r1-1": "fb"}


def _asking(pod: Pod, more: dict[str, str]) -> Pod:
    requests = {**pod.spec.containers[0].resources.requests, **more}
    return replaced(pod, spec=replaced(pod.spec, containers=[Container("c", resources=ResourceRequirements(requests))]))


# Those that go to one domain together say the same of it, or are told that they do not.


@pytest.mark.parametrize("queued", [True, False])
@pytest.mark.parametrize("other", [{**T, "level": ZONE}, {**T, "mode": "Preferred"}])
def test_a_workload_whose_parts_want_different_things_of_one_domain_is_refused(other, queued):
    world = racks(gpus=8)
    world.queue("q", 100)
    groups = [{"name": "lead", "count": 2, "topology": T}, {"name": "work", "count": 2, "topology": other}]
    world.workload("job", *groups, **({"queueName": "queue"} if queued else {}))
    for name in ("lead", "work"):
        for rank in range(2):
            world.pod(f"job-{name}-{rank}", workload="job", group=name)
    world.pod("beside", queue="queue")
    world.run()
    assert set(world.where()) == {"beside"}
    assert world.reason("Workload", "job") == "InvalidWorkload"
    assert "the same mode and level" in world.why("Workload", "job").message


def annotated(world: World, name: str, mode: str, level: str) -> None:
    notes = {"pod-group-name": "g", "pod-group-total-count": "3", "podset-group-name": "x"}
    notes |= {f"podset-{mode}-topology": level}
    world.pod(name, annotations={f"{KUEUE}/{key}": value for key, value in notes.items()})


@pytest.mark.parametrize("other", [("required", ZONE), ("preferred", RACK)])
def test_pods_of_a_gang_that_want_different_things_of_one_domain_are_told(other):
    world = racks(gpus=8)
    for name in ("a", "b"):
        annotated(world, name, "required", RACK)
    annotated(world, "c", *other)
    world.pod("beside")
    world.run()
    assert set(world.where()) == {"beside"}
    why = world.why("PodGroup", "g")
    assert why.reason == "InvalidGang"
    said = " ".join((other[0].title(), other[1]))
    assert why.message.startswith("those of groupName x want to be near in different ways: ")
    assert f"{said} (pod c)" in why.message
    assert f"Required {RACK} (pod a)" in why.message
    world.delete("c")
    annotated(world, "c", "required", RACK)
    world.run()
    assert set(world.where()) == {"a", "b", "c", "beside"}


def test_slices_of_one_part_of_a_domain_are_its_own():
    world = racks(gpus=2)
    sliced = {**T, "sliceLevel": HOSTNAME, "sliceSize": 2}
    world.workload("job", {"name": "lead", "count": 2, "topology": T}, {"name": "work", "count": 2, "topology": sliced})
    for name in ("lead", "work"):
        for rank in range(2):
            world.pod(f"job-{name}-{rank}", workload="job", group=name)
    world.run()
    nodes = world.where()
    assert len(nodes) == 4
    assert nodes["job-work-0"] == nodes["job-work-1"]
