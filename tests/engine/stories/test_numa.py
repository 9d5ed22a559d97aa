"""Gangs and pods on nodes whose kubelets align to NUMA zones: nobody is sent where he would be refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.numa_world import NumaWorld
from tests.engine.world import GPU, replaced
from tutti.api.core import Container, ResourceRequirements
from tutti.api.numa import RESTRICTED
from tutti.engine.records.explanation import Gate
from tutti.placement.plugins.numa_fit import ZoneSearch

PINNED = {"guaranteed": True, "memory": "1Gi"}


def test_a_gang_takes_one_zone_per_member_and_not_what_the_node_has_in_all():
    world = NumaWorld()
    for name in ("a", "b"):
        world.machine(name, gpus=4, cpu=8)
    world.gang("fits", 2, gpus=3, cpu="4", **PINNED)
    world.gang("late", 4, gpus=0, cpu="5", **PINNED)

    world.run()

    assert len(world.where("fits")) == 2
    assert not world.where("late")
    why = world.why("PodGroup", "late")
    assert why is not None
    assert why.gate is Gate.PLACEMENT
    assert "NUMA zones have room for 2 of 4 pods; by all that the nodes have free, 4 pods would fit." in why.message


@pytest.mark.parametrize("fingerprints", [True, False])
def test_zones_that_are_given_away_stay_so_until_the_report_knows(fingerprints: bool):
    world = NumaWorld(fingerprints=fingerprints)
    world.machine("a", gpus=4)
    world.gang("first", 2, gpus=4, cpu="2", **PINNED)
    world.run()
    assert set(world.where("first").values()) == {"a"}
    world.now += 60
    world.report("a")  # the agent looked before the kubelet has started anybody
    world.pod("second", gpus=4, cpu="2", **PINNED)
    world.run()
    assert not world.where("second")

    world.now += 60
    world.admit("first-0", "first-1")
    world.run()
    assert not world.where("second")
    world.now += 60
    world.report("a")
    world.run()
    assert not world.where("second")

    world.end("first-0")
    world.run()
    assert not world.where("second")  # the report still has it
    world.now += 60
    world.report("a")
    world.run()
    assert world.where("second") == {"second": "a"}
    world.admit("second")
    assert not world.refused


def test_roles_of_a_gang_share_a_node_where_every_order_of_them_is_admitted():
    world = NumaWorld()
    world.machine("a", gpus=4)
    world.workload("job", {"name": "small", "count": 2}, {"name": "large", "count": 1})
    for name, role, gpus in (("s-0", "small", 2), ("s-1", "small", 2), ("l-0", "large", 4)):
        labels = {"scheduling.tutti.dev/workload": "job", "scheduling.tutti.dev/pod-group": role}
        world.pod(name, gpus=gpus, cpu="2", labels=labels, **PINNED)

    world.run()

    assert set(world.where()) == {"s-0", "s-1", "l-0"}
    world.admit("s-0", "l-0", "s-1")
    assert not world.refused


def test_a_restart_changes_nothing_of_what_is_known_to_be_taken():
    world = NumaWorld()
    world.machine("a", gpus=4)
    world.pod("first", gpus=3, cpu="2", **PINNED)
    world.pod("other", gpus=3, cpu="2", **PINNED)
    world.run()
    world.restart()
    world.pod("late", gpus=2, cpu="2", **PINNED)
    world.pod("small", gpus=1, cpu="2", **PINNED)
    world.run()

    assert set(world.where()) == {"first", "other", "small"}
    assert not world.replay().differences


def test_pods_of_other_schedulers_count_before_the_report_has_them():
    world = NumaWorld()
    world.machine("a", gpus=4)
    world.pod("foreign", gpus=4, cpu="2", scheduler="default-scheduler", node="a", **PINNED)
    world.pod("two", gpus=4, cpu="2", **PINNED)
    world.pod("three", gpus=4, cpu="2", **PINNED)
    world.run()
    assert len(world.where("t")) == 1

    world.admit("foreign", *world.where("t"))
    assert not world.refused


def test_nodes_without_a_report_take_whoever_fits():
    world = NumaWorld()
    world.machine("a", gpus=4, report=False)
    world.pod("large", gpus=6, cpu="2", **PINNED)
    world.run()
    assert world.where() == {"large": "a"}


def test_without_the_plugin_zones_do_not_matter():
    world = NumaWorld()
    world.configuration = world.configuration.model_copy(
        update={
            "profiles": [
                one.model_copy(update={"node_resource_topology_match": None}) for one in world.configuration.profiles
            ]
        }
    )
    world.restart()
    world.machine("a", gpus=4)
    world.pod("large", gpus=6, cpu="2", **PINNED)
    world.run()
    assert world.where() == {"large": "a"}


def test_what_stands_in_the_way_is_told_in_numbers():
    world = NumaWorld()
    world.machine("a", gpus=4, cpu=8)
    world.machine("b", gpus=4, cpu=8)
    world.pod("first", gpus=1, cpu="2", **PINNED)
    world.run()
    world.pod("huge", gpus=6, cpu="6", **PINNED)
    world.run()

    huge = world.why("Pod", "huge")
    assert huge is not None
    assert "0/2 nodes are available: 2 cannot align container." in huge.message
    assert (
        "On 2 nodes no NUMA zone has 6 nvidia.com/gpu, 6 cpu and 1Gi memory free; the largest hole is 4 nvidia.com/gpu, 8 cpu and 256Gi memory, in zone 0 of "
        in huge.message
    )
    assert "1 node has pods that the report does not know yet" in huge.message
    assert (
        "A pod asks for 6 nvidia.com/gpu, 6 cpu and 1Gi memory of one NUMA zone; the most that any has is 4 nvidia.com/gpu"
        in huge.message
    )


def test_a_report_that_cannot_be_right_costs_its_node_and_nobody_else():
    world = NumaWorld()
    for name in ("a", "b"):
        world.machine(name)
    world.report("a", problem="zones: two of them are node-0; each NUMA node is to stand there once", zones=())
    world.gang("gang", 2, gpus=4, cpu="2", **PINNED)
    world.run()
    world.pod("unpinned", gpus=0, cpu="1")
    world.pod("late", gpus=4, cpu="2", **PINNED)
    world.run()

    assert set(world.where("gang").values()) == {"b"}
    assert "unpinned" in world.where()
    assert [event.note for event in world.events("InvalidNodeTopology", "a")] == [
        "zones: two of them are node-0; each NUMA node is to stand there once. Until then no pod that has to be aligned to NUMA zones goes to this node"
    ]
    why = world.why("Pod", "late")
    assert why is not None
    assert "1 invalid node topology data" in why.message
    assert "What 1 node reports of NUMA zones cannot be used: a: zones: two of them are node-0" in why.message

    world.report("a")
    world.run()
    assert world.where("late") == {"late": "a"}


def test_a_restricted_node_gives_as_few_zones_as_could_hold_a_pod():
    world = NumaWorld()
    world.machine("a", zones=4, gpus=2, cpu=8, policy=RESTRICTED)
    world.pod("wide-0", gpus=4, cpu="12", **PINNED)
    world.pod("wide-1", gpus=4, cpu="12", **PINNED)
    world.pod("wide-2", gpus=4, cpu="12", **PINNED)
    world.pod("odd", gpus=1, cpu="10", **PINNED)  # one zone has the GPU, two have the cores: never the same set
    world.run()

    assert len(world.where("wide")) == 2
    assert not world.where("odd")
    world.admit(*world.where())
    assert not world.refused


def test_the_least_important_pods_leave_so_that_a_zone_has_room():
    world = NumaWorld()
    world.machine("a", gpus=4)
    for name, gpus in (("small-0", 2), ("small-1", 2), ("large", 4)):
        world.pod(name, gpus=gpus, cpu="2", priority=5 if name == "large" else 1, **PINNED)
        world.run()
        world.now += 60
        world.admit(name)
        world.now += 60
        world.report("a")
    world.hold_evictions = True

    world.pod("urgent", gpus=4, cpu="2", priority=10, **PINNED)
    world.run()

    leaving = {name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp}
    assert leaving == {"small-0", "small-1"}


SIZES = st.sampled_from([("1", 1), ("2", 2), ("4", 2), ("6", 1), ("3", 3), ("8", 4)])


@given(data=st.data())
@examples(120)
def test_no_kubelet_ever_refuses_a_pod_of_ours(data):
    """Random lives of pods, with kubelets that admit in any order and agents that report late."""
    world = NumaWorld()
    scope, policy = data.draw(st.booleans()), data.draw(st.sampled_from(["single-numa-node", RESTRICTED]))
    for at in range(data.draw(st.integers(1, 3))):
        world.machine(f"n{at}", zones=data.draw(st.integers(1, 3)), pod_scope=scope, policy=policy)
    for turn in range(data.draw(st.integers(4, 14))):
        world.now += 10
        what = data.draw(st.sampled_from(["pod", "gang", "admit", "report", "end", "restart"]))
        if what == "pod":
            cpu, gpus = data.draw(SIZES)
            world.pod(f"pod-{turn}", cpu=cpu, gpus=gpus, **PINNED)
        elif what == "gang":
            cpu, gpus = data.draw(SIZES)
            world.gang(f"gang-{turn}", data.draw(st.integers(2, 4)), cpu=cpu, gpus=gpus, **PINNED)
        elif what == "admit":
            new = world.waiting_for_kubelets()
            world.admit(*data.draw(st.permutations(new))[: data.draw(st.integers(0, len(new)))])
        elif what == "report":
            world.report(data.draw(st.sampled_from(sorted(world.kubelets))))
        elif what == "end":
            running = sorted(name for there in world.kubelets.values() for name in there.pinned)
            if running:
                world.end(data.draw(st.sampled_from(running)))
        else:
            world.restart()
        world.run()
        assert not world.refused
    world.admit(*data.draw(st.permutations(world.waiting_for_kubelets())))
    assert not world.refused
    assert GPU in world.engine.state.cluster.nodes.numa.column_of


def test_a_pod_of_hundreds_of_containers_is_not_put_on_a_node_container_by_container_a_hundred_times(monkeypatch):
    world = NumaWorld()
    for number in range(3):
        world.machine(f"m{number}", cpu=64)
    world.run()
    steps = 0
    choose = ZoneSearch._choose

    def counted(*args: Any) -> Any:
        nonlocal steps
        steps += 1
        return choose(*args)

    monkeypatch.setattr(ZoneSearch, "_choose", counted)
    many = [Container(f"c{number}", resources=ResourceRequirements({"cpu": "1m"})) for number in range(200)]
    fat = Container("fat", resources=ResourceRequirements({"memory": "2000Gi"}))
    pod = world.pod("fat", gpus=0)
    world.put(replaced(pod, spec=replaced(pod.spec, containers=[*many, fat])))
    world.run()

    assert world.where("fat") == {}
    assert 0 < steps <= 20_000  # else 110 pods of 201 containers
