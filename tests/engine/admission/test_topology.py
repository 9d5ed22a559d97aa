"""Gangs whose members must be near one another, from what users write to the nodes they come to."""

from __future__ import annotations

import pytest

from tests.engine.world import World

RACK, BLOCK = "topology.tutti.dev/rack", "topology.tutti.dev/block"
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
KUEUE = "kueue.x-k8s.io"


def racks(world: World, *gpus: tuple[int, ...]) -> None:
    """Racks r0, r1, ... of nodes with so many GPUs each, two racks in a block."""
    for i, rack in enumerate(gpus):
        for j, free in enumerate(rack):
            world.node(f"r{i}-{j}", gpus=free, labels={RACK: f"r{i}", BLOCK: f"b{i // 2}"})


def in_racks(world: World, prefix: str) -> dict[str, int]:
    out: dict[str, int] = {}
    for node in world.where(prefix).values():
        rack = node.split("-")[0]
        out[rack] = out.get(rack, 0) + 1
    return out


def gang(world: World, name: str, size: int, *, min_count: int | None = None, **spec) -> None:
    world.pod_group(name, min_count or size, **spec)
    for rank in range(size):
        world.pod(f"{name}-{rank}", group=name)


def levels(*labels: str) -> dict:
    return {"levels": [{"nodeLabel": label} for label in labels]}


def test_a_pod_group_names_a_node_label_and_its_members_share_one_value():
    world = World()
    racks(world, (4, 1), (3, 3), (8,))
    gang(world, "ring", 6, **REQUIRED)
    world.run()
    assert in_racks(world, "ring") == {"r1": 6}


def test_what_does_not_fit_in_any_rack_waits_and_says_which_comes_closest():
    world = World()
    racks(world, (4, 1), (3, 3))
    gang(world, "ring", 8, **REQUIRED)
    world.run()
    why = world.why("PodGroup", "ring")
    assert why.reason == "Unschedulable"
    assert f"No {RACK} domain has room for all 8 pods; the best of 2, r1, has room for 6." in why.message
    assert why.details["fits"] == "6"
    assert why.details["bestDomain"] == "r1"
    assert world.pod_condition("ring-0").message.startswith("0/4 nodes are available: ")
    world.node("r1-2", gpus=2, labels={RACK: "r1", BLOCK: "b0"})
    world.run()
    assert in_racks(world, "ring") == {"r1": 8}


def test_a_label_that_no_node_has_is_told():
    world = World()
    world.node("n")
    gang(world, "ring", 1, **REQUIRED)
    world.run()
    assert world.reason("PodGroup", "ring") == "Impossible"
    assert f"no node has the label {RACK}" in world.why("PodGroup", "ring").message


def test_preferred_members_are_as_near_as_can_be():
    world = World()
    racks(world, (2,), (2,), (8,), (8,))
    together = {"topology": [{"key": BLOCK, "mode": "Required"}, {"key": RACK, "mode": "Preferred"}]}
    gang(world, "ring", 3, schedulingConstraints=together)
    world.run()
    assert in_racks(world, "ring") == {"r2": 3}  # a rack that fits goes before a tighter block
    gang(world, "wide", 12, schedulingConstraints=together)
    world.run()
    assert in_racks(world, "wide") == {"r2": 4, "r3": 8}
    gang(world, "wider", 5, schedulingConstraints=together)
    world.run()
    assert in_racks(world, "wider") == {}


def test_a_lost_member_comes_back_into_its_rack():
    world = World()
    racks(world, (2, 2), (8,))
    gang(world, "ring", 3, **REQUIRED)
    world.run()
    assert in_racks(world, "ring") == {"r0": 3}
    world.delete("ring-1")
    world.pod("ring-again", group="ring")
    world.run()
    assert in_racks(world, "ring") == {"r0": 3}


def test_a_replacement_that_finds_no_room_in_its_rack_waits_and_says_so():
    world = World()
    racks(world, (2, 1), (8,))
    gang(world, "ring", 3, **REQUIRED)
    world.run()
    world.delete("ring-1")
    taken = list(world.where("ring").values())
    world.pod("thief", node="r0-0" if taken.count("r0-0") < 2 else "r0-1")
    world.pod("ring-again", group="ring")
    world.run()
    assert "ring-again" not in world.where("ring")
    why = world.why("PodGroup", "ring")
    assert f"Its other members are in {RACK} r0, which has room for 0 of 1 more." in why.message
    world.delete("thief")
    world.run()
    assert in_racks(world, "ring") == {"r0": 3}


def test_late_members_join_the_others():
    world = World()
    racks(world, (5,), (9,))
    gang(world, "ring", 2, **REQUIRED)
    world.run()
    assert in_racks(world, "ring") == {"r0": 2}
    for rank in range(2, 8):
        world.pod(f"ring-{rank}", group="ring")
    world.run()
    assert in_racks(world, "ring") == {"r0": 5}


def test_a_gang_that_may_grow_begins_where_there_is_room_for_all():
    world = World()
    racks(world, (5,), (9,))
    gang(world, "ring", 8, min_count=4, **REQUIRED)
    world.run()
    assert in_racks(world, "ring") == {"r1": 8}
    world.workload("job", {"count": 6, "minCount": 2, "topology": {"mode": "Required", "level": RACK}})
    for rank in range(2):
        world.pod(f"job-{rank}", workload="job")
    racks(world, (5,), (9,), (3,), (7,))
    world.run()
    assert in_racks(world, "job") == {"r3": 2}


def test_members_that_are_not_alike_share_the_rack():
    world = World()
    racks(world, (4,), (5, 2), (3, 3))
    world.pod_group("ring", 4, **REQUIRED)
    world.pod("ring-0", group="ring", gpus=4)
    for rank in range(1, 4):
        world.pod(f"ring-{rank}", group="ring", gpus=1)
    world.run()
    assert in_racks(world, "ring") == {"r1": 4}


def test_a_leader_and_its_workers_share_the_rack():
    world = World()
    racks(world, (4,), (6,), (2, 2, 2))
    near = {"mode": "Required", "level": RACK, "groupName": "all"}
    world.workload(
        "job", {"name": "leader", "count": 1, "topology": near}, {"name": "workers", "count": 4, "topology": near}
    )
    world.pod("job-leader", workload="job", group="leader", gpus=2)
    for rank in range(4):
        world.pod(f"job-worker-{rank}", workload="job", group="workers")
    world.run()
    assert len(in_racks(world, "job")) == 1
    assert len(world.where("job")) == 5


def test_pod_groups_that_do_not_fit_together_say_so():
    world = World()
    racks(world, (4,), (4,))
    near = {"mode": "Required", "level": RACK, "groupName": "all"}
    world.workload("job", {"name": "a", "count": 3, "topology": near}, {"name": "b", "count": 2, "topology": near})
    for name, count in (("a", 3), ("b", 2)):
        for rank in range(count):
            world.pod(f"job-{name}-{rank}", workload="job", group=name)
    world.run()
    assert world.where("job") == {}
    assert f"no {RACK} domain was found with room for all 5 pods together" in world.why("Workload", "job").message


def test_slices_stay_in_one_rack_each():
    world = World()
    racks(world, (3, 2), (3,), (2,))
    world.workload(
        "job", {"count": 6, "topology": {"mode": "Preferred", "level": BLOCK, "sliceSize": 2, "sliceLevel": RACK}}
    )
    for rank in range(6):
        world.pod(f"job-{rank}", workload="job")
    world.run()
    assert all(n % 2 == 0 for n in in_racks(world, "job").values())
    assert sum(in_racks(world, "job").values()) == 6


def with_topology(world: World, *labels: str, gpus: int = 64, **flavor) -> None:
    world.object("Topology", "racks", levels(*labels))
    world.flavor("tas", topologyName="racks", **flavor)
    world.queue("cq", gpus, flavors=("tas",))


def test_a_queue_places_by_the_topology_of_the_flavor():
    world = World()
    racks(world, (4,), (6,), (3, 3))
    with_topology(world, BLOCK, RACK, HOSTNAME)
    world.workload("job", {"count": 6, "topology": {"mode": "Required", "level": RACK}}, queueName="queue")
    for rank in range(6):
        world.pod(f"job-{rank}", workload="job")
    world.run()
    assert len(in_racks(world, "job")) == 1
    assert world.used("cq", "tas") == 6


def test_a_level_that_the_topology_lacks_is_told():
    world = World()
    racks(world, (4,))
    with_topology(world, BLOCK)
    world.workload("job", {"count": 2, "topology": {"mode": "Required", "level": RACK}}, queueName="queue")
    for rank in range(2):
        world.pod(f"job-{rank}", workload="job")
    world.run()
    why = world.why("Workload", "job")
    assert why.reason == "NoMatchingFlavor"
    assert f"the topology of flavor tas has no level {RACK}" in why.message


def test_a_flavor_without_its_topology_makes_the_queue_inactive_until_it_is_there():
    world = World()
    racks(world, (4,))
    world.flavor("tas", topologyName="racks")
    world.queue("cq", 8, flavors=("tas",))
    world.pod("one", queue="queue")
    world.run()
    assert "Topology racks does not exist" in world.why("Pod", "one").message
    world.object("Topology", "racks", levels(RACK))
    world.run()
    assert in_racks(world, "one") == {"r0": 1}


def test_a_flavor_with_room_but_no_rack_is_passed_by():
    world = World()
    racks(world, (3,), (3,))
    for i, rack in enumerate(("s0", "s0")):
        world.node(f"{rack}-{i}", gpus=4, labels={RACK: rack, BLOCK: "c", "kind": "second"})
    for name in ("r0-0", "r1-0"):
        world.node(name, gpus=3, labels={RACK: name[:2], BLOCK: "b", "kind": "first"})
    world.object("Topology", "racks", levels(RACK))
    world.flavor("first", topologyName="racks", nodeLabels={"kind": "first"})
    world.flavor("second", topologyName="racks", nodeLabels={"kind": "second"})
    world.queue("cq", 64, flavors=("first", "second"))
    gang(world, "ring", 5, queueName="queue", **REQUIRED)
    world.run()
    assert in_racks(world, "ring") == {"s0": 5}
    assert world.used("cq", "first") == 0
    assert world.used("cq", "second") == 5


def annotated(world: World, name: str, count: int, gang: str, size: int, **notes: str) -> None:
    for rank in range(count):
        world.pod(
            f"{name}-{rank}",
            annotations={
                f"{KUEUE}/pod-group-name": gang,
                f"{KUEUE}/pod-group-total-count": str(size),
                **{f"{KUEUE}/podset-{key.replace('_', '-')}": value for key, value in notes.items()},
            },
        )


def test_kueues_annotations_are_understood():
    world = World()
    racks(world, (4,), (3, 3), (7,))
    annotated(world, "ring", 6, "ring", 6, required_topology=RACK)
    world.run()
    assert in_racks(world, "ring") == {"r1": 6}


@pytest.mark.parametrize("project", [KUEUE, "scheduling.tutti.dev"])
def test_annotations_count_whatever_makes_the_gang(project):
    """A Job in a queue has its queue on itself, and these in its template."""
    world = World()
    racks(world, (4,), (3, 3), (7,))
    for rank in range(6):
        world.pod(
            f"ring-{rank}",
            annotations={
                "scheduling.k8s.io/group-name": "ring",
                "scheduling.volcano.sh/group-min-member": "6",
                f"{project}/podset-required-topology": RACK,
            },
        )
    world.run()
    assert in_racks(world, "ring") == {"r1": 6}


def test_kueues_leader_and_workers_go_together():
    world = World()
    racks(world, (4,), (5,))
    near = {"required_topology": RACK, "group_name": "set"}
    world.pod(
        "lead",
        gpus=2,
        annotations={
            f"{KUEUE}/pod-group-name": "set",
            f"{KUEUE}/pod-group-total-count": "4",
            f"{KUEUE}/podset-required-topology": RACK,
            f"{KUEUE}/podset-group-name": "set",
        },
    )
    annotated(world, "work", 3, "set", 4, **near)
    world.run()
    assert in_racks(world, "lead") == in_racks(world, "work") | {"r1": 1} == {"r1": 1}
    assert in_racks(world, "work") == {"r1": 3}


@pytest.mark.parametrize("backwards", [False, True])
def test_after_a_restart_members_still_join_their_rack(backwards):
    world = World()
    racks(world, (4,), (9,))
    gang(world, "ring", 3, **REQUIRED)
    world.run()
    world.delete("ring-0")
    world.restart(backwards=backwards)
    world.pod("ring-again", group="ring")
    world.run()
    assert in_racks(world, "ring") == {"r0": 3}
    assert not world.replay().differences


def test_pods_that_do_not_ask_for_nearness_leave_flavors_with_a_topology_to_others():
    # Kueue, tas_flavorassigner.go: only in a queue of nothing but such flavors are all pods counted in them
    world = World()
    world.node("near", labels={RACK: "r", "kind": "near"})
    world.node("plain", labels={"kind": "plain"})
    world.object("Topology", "racks", levels(RACK))
    world.flavor("near", topologyName="racks", nodeLabels={"kind": "near"})
    world.flavor("plain", nodeLabels={"kind": "plain"})
    world.queue("both", 8, flavors=("near", "plain"))
    world.queue("only", 8, flavors=("near",), local="only")
    world.pod("one", queue="queue")
    world.pod("two", queue="only")
    world.run()
    assert world.where() == {"one": "plain", "two": "near"}


def test_a_gang_counted_in_two_topologies_is_told_that_it_needs_one():
    world = World()
    racks(world, (4,))
    world.object("Topology", "racks", levels(RACK))
    world.flavor("cpus", topologyName="racks")
    world.flavor("gpus", topologyName="racks")
    groups = [
        {"coveredResources": ["nvidia.com/gpu"], "flavors": [_flavor("gpus", "nvidia.com/gpu")]},
        {"coveredResources": ["cpu", "memory"], "flavors": [_flavor("cpus", "cpu", "memory")]},
    ]
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": groups})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    gang(world, "ring", 2, queueName="queue", **REQUIRED)
    world.run()
    why = world.why("PodGroup", "ring")
    assert why.reason == "NoMatchingFlavor"
    assert "its pods are counted in cpus and gpus, of which each has a topology: have one count them" in why.message


def _flavor(name: str, *resources: str) -> dict:
    return {"name": name, "resources": [{"name": one, "nominalQuota": "1000Gi"} for one in resources]}


def of_workload(world: World, size: int, **topology) -> dict[str, int]:
    world.workload("job", {"count": size, "topology": topology})
    for rank in range(size):
        world.pod(f"job-{rank}", workload="job")
    world.run()
    return in_racks(world, "job")


def test_balanced_members_are_about_as_many_in_each_rack():
    # Kueue, KEP-2724: racks of one node with 15 each, 25 pods: 13 and 12
    world = World()
    racks(world, (15,), (15,))
    assert of_workload(world, 25, mode="Preferred", level=RACK, balanced=True) == {"r0": 13, "r1": 12}


def test_slices_within_slices():
    # Kueue, corpus topology-placement-8ef9929a in small: racks in fours, nodes in twos
    world = World()
    racks(world, (3, 3), (2, 2), (5,))
    near = {"sliceSize": 4, "sliceLevel": RACK, "innerSlices": [{"level": HOSTNAME, "size": 2}]}
    found = of_workload(world, 8, mode="Unconstrained", **near)
    assert sorted(found.values()) == [4, 4]
    nodes = list(world.where("job").values())
    assert all(nodes.count(node) % 2 == 0 for node in nodes)


def test_several_required_labels_must_all_be_shared_in_whatever_order_they_are_named():
    world = World()
    racks(world, (3,), (3,), (5,))
    both = {"schedulingConstraints": {"topology": [{"key": RACK}, {"key": BLOCK}]}}
    gang(world, "ring", 5, **both)
    world.run()
    assert in_racks(world, "ring") == {"r2": 5}
    with_topology(world, BLOCK, RACK)
    gang(world, "queued", 3, queueName="queue", **both)
    world.run()
    assert len(in_racks(world, "queued")) == 1


def test_a_pod_group_of_a_workload_may_say_how_near_its_members_must_be():
    world = World()
    racks(world, (2, 1), (3,))
    world.workload("job", {"name": "workers", "count": 3})
    world.pod_group("workers", 3, workloadRef={"name": "job"}, **REQUIRED)
    for rank in range(3):
        world.pod(f"job-{rank}", group="workers")
    world.run()
    assert len(in_racks(world, "job")) == 1


def test_a_gang_that_has_begun_to_ask_for_one_rack_is_tried_again():
    world = World()
    racks(world, (2,), (2,))
    gang(world, "ring", 3, **REQUIRED)
    world.run()
    assert in_racks(world, "ring") == {}
    world.pod_group("ring", 3)
    world.run()
    assert sum(in_racks(world, "ring").values()) == 3


def test_who_was_to_be_near_pods_of_a_node_that_is_gone_is_placed_elsewhere_at_once():
    world = World()
    racks(world, (3,), (4,))
    for name in ("r1-0",):
        world.node(name, gpus=0, labels={RACK: "r1", BLOCK: "b0"})
    gang(world, "ring", 3, **REQUIRED)
    world.run()
    assert in_racks(world, "ring") == {"r0": 3}
    world.pod("ring-late", group="ring")
    world.node("r1-0", gpus=4, labels={RACK: "r1", BLOCK: "b0"})
    world.run()
    assert "Its other members are in" in world.why("PodGroup", "ring").message
    world.remove_node("r0-0")
    world.run()
    assert world.where("ring-late") == {"ring-late": "r1-0"}


def test_members_get_their_nodes_in_the_order_of_their_ranks_along_the_racks():
    """Rank r talks to r + 1: rings are short where neighbours share a rack (Kueue, TAS rank ordering)."""
    world = World()
    world.object("Topology", "racks", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]})
    world.flavor(topologyName="racks")
    world.queue("cq", 100)
    for number in range(6):
        world.node(f"n{number}", gpus=4, labels={"rack": f"r{number % 2}"})
    wish = {"kueue.x-k8s.io/podset-preferred-topology": "rack", "kueue.x-k8s.io/pod-group-total-count": "16"}
    for number in range(16):
        suffix = "qwertyuiopasdfgh"[number] * 5
        world.pod(
            f"train-{number}-{suffix}",
            queue="queue",
            annotations=wish,
            labels={"kueue.x-k8s.io/pod-group-name": "train"},
        )
    world.run()
    ranked = sorted(world.where().items(), key=lambda one: int(one[0].split("-")[1]))
    racks = [f"r{int(node[1:]) % 2}" for _, node in ranked]
    assert racks == ["r0"] * 12 + ["r1"] * 4
