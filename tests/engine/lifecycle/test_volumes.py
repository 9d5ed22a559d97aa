"""A gang is bound when the volumes of all its members are."""

from __future__ import annotations

import pytest

from tests.engine.storage import ZONE
from tests.engine.world import World
from tests.placement.storage import HOSTNAME, at, claim, csi_node, storage_class, volume
from tutti.api.storage import SELECTED_NODE
from tutti.engine.records.decisions import ReserveVolume, SelectNode

PROVISIONER = "kubernetes.io/no-provisioner"


def late(*, nodes: int = 3, provisioner: str = "csi.example.com", **world) -> World:
    """Nodes in a zone each, and a class whose volumes wait for a node."""
    out = World(**world)
    for i in range(nodes):
        out.node(f"n{i}", gpus=1, labels={ZONE: "abcdef"[i]})
    out.storage.put(storage_class(provisioner=provisioner))
    return out


def gang(world: World, size: int = 3, *, name: str = "g", shared: str = "") -> None:
    """A gang whose members have a claim each, or share one."""
    world.pod_group(name, size)
    for rank in range(size):
        used = shared or f"{name}-{rank}"
        if ("PersistentVolumeClaim", used) not in world.storage.objects:
            world.storage.put(claim(used, modes=("ReadWriteMany",)))
        world.pod(f"{name}-{rank}", group=name, claims=(used,))


def replays(world: World) -> bool:
    return not world.replay().differences


def test_a_gang_gets_its_volumes_made_where_its_members_will_be():
    world = late()
    gang(world)
    world.run()

    where = world.where()
    assert len(where) == 3
    assert {one.name: one.node for one in world.storage.chosen} == where
    assert all(isinstance(one, SelectNode) for one in world.storage.chosen)
    assert replays(world)


def test_no_member_is_bound_before_the_volumes_of_all_are():
    world = late()
    world.storage.held = True
    gang(world)
    world.run()
    assert len(world.storage.chosen) == 3
    why = world.why("PodGroup", "g")
    assert (why.gate, why.reason) == ("Permit", "WaitingForVolumes")
    assert "3 claims of its members are being bound: default/g-0, default/g-1, default/g-2" in why.message
    assert world.status("PodGroup", "g")["pendingReason"]["reasons"][0]["gate"] == "Permit"

    world.storage.bind("g-0", "g-2")
    world.run()
    assert world.where() == {}
    assert world.why("PodGroup", "g").details["claims"] == "1"

    world.storage.bind("g-1")
    world.run()
    assert len(world.where()) == 3
    assert len(world.storage.chosen) == 3
    assert world.why("PodGroup", "g") is None
    assert replays(world)


def test_free_volumes_are_bound_where_they_are():
    world = late(provisioner=PROVISIONER)
    for i in range(3):
        world.storage.put(volume(f"v{i}", where=at(HOSTNAME, f"n{i}"), modes=("ReadWriteMany",)))
    gang(world)
    world.run()

    assert all(isinstance(one, ReserveVolume) for one in world.storage.chosen)
    got = {one.name: one.volume.replace("v", "n") for one in world.storage.chosen}
    assert got == world.where()
    assert len(set(got.values())) == 3


def test_too_few_free_volumes_leave_no_trace():
    world = late(provisioner=PROVISIONER)
    for i in range(2):
        world.storage.put(volume(f"v{i}", where=at(HOSTNAME, f"n{i}"), modes=("ReadWriteMany",)))
    gang(world)
    world.run()
    assert world.storage.chosen == []
    assert "node(s) didn't find available persistent volumes to bind" in world.why("PodGroup", "g").message

    world.storage.put(volume("v2", where=at(HOSTNAME, "n2"), modes=("ReadWriteMany",)))
    world.run()

    assert len(world.where()) == 3


def test_a_claim_that_comes_late_is_waited_for():
    world = late()
    world.pod("p", claims=("data",))
    world.run()
    why = world.why("Pod", "p")
    assert why.reason == "VolumesNotReady"
    assert 'persistentvolumeclaim "data" not found' in why.message
    assert why.pod_reason == "VolumesNotReady"

    world.storage.put(claim("data"))
    world.run()

    assert set(world.where()) == {"p"}


def test_volumes_that_do_not_come_in_time_give_everything_back():
    world = late(volumeBindingTimeoutSeconds=30)
    world.flavor()
    world.queue("cq", 3)
    world.storage.held = True
    world.pod_group("g", 2, queueName="queue")
    for rank in range(2):
        world.storage.put(claim(f"g-{rank}"))
        world.pod(f"g-{rank}", group="g", claims=(f"g-{rank}",))
    world.run()
    assert world.used("cq") == 2
    world.storage.bind("g-0")
    world.run()

    world.decide(advance=30.0)

    assert world.used("cq") == 0
    assert world.where() == {}
    why = world.why("PodGroup", "g")
    assert (why.gate, why.reason) == ("Permit", "VolumeBindingFailed")
    assert "default/g-1" in why.message
    assert len(world.events("VolumeBindingFailed")) == 1
    assert world.storage.claim("g-1").metadata.annotations[SELECTED_NODE]  # stays, as kube-scheduler leaves it
    world.until(5.0)
    assert world.used("cq") == 2  # reserved anew, without writing again what stands there
    assert len(world.storage.chosen) == 2
    world.storage.bind("g-1")
    world.run()
    assert len(world.where()) == 2
    assert replays(world)


def test_a_workload_says_how_long_it_waits_for_its_volumes():
    world = late()
    world.storage.held = True
    world.pod_group("g", 1, scheduleTimeoutSeconds=7)
    world.storage.put(claim("g-0"))
    world.pod("g-0", group="g", claims=("g-0",))
    world.run()
    assert world.why("PodGroup", "g").details["timeoutSeconds"] == "7"


def test_a_node_that_a_provisioner_cannot_serve_is_chosen_anew():
    world = late()
    world.storage.refused = {"g-1"}
    gang(world)
    world.run()
    assert world.where() == {}
    why = world.why("PodGroup", "g")
    assert why.reason == "VolumeBindingFailed"
    assert 'provisioning failed for persistentvolumeclaim "g-1"' in why.message

    world.storage.refused = set()
    world.until(5.0)

    assert len(world.where()) == 3
    assert [one.name for one in world.storage.chosen].count("g-1") == 2
    assert replays(world)


def test_a_choice_that_cannot_be_written_is_given_back_and_made_again():
    world = late()
    world.storage.conflicts = {"g-2"}
    gang(world)
    world.run()
    assert world.where() == {}
    assert "somebody else was first" in world.why("PodGroup", "g").message

    world.storage.conflicts = set()
    world.until(5.0)

    assert len(world.where()) == 3


def test_a_volume_that_is_reset_is_chosen_anew():
    world = late(provisioner=PROVISIONER)
    world.storage.held = True
    world.storage.put(volume("v", modes=("ReadWriteMany",)))
    gang(world, 1)
    world.run()
    assert [one.volume for one in world.storage.chosen] == ["v"]

    world.storage.put(volume("v", modes=("ReadWriteMany",)))
    world.run()
    assert "ClaimRef got reset" in world.why("PodGroup", "g").message

    world.storage.held = False
    world.until(5.0)
    assert len(world.where()) == 1


@pytest.mark.parametrize("loss", ["claim", "node", "pod"])
def test_what_is_lost_while_volumes_are_made_takes_the_reservation_with_it(loss):
    world = late(nodes=2)
    world.storage.held = True
    gang(world, 2)
    world.run()
    volumes = world.engine.state.cluster.nodes.volumes
    assert volumes.pledges
    match loss:
        case "claim":
            world.storage.drop("PersistentVolumeClaim", "g-0")
        case "node":
            world.remove_node(world.storage.chosen[0].node)
        case "pod":
            world.delete("g-0")
    world.until(5.0)
    assert world.where() == {}
    assert not volumes.pledges
    assert volumes.attachments.count("n1", "csi.example.com") == 0
    assert replays(world)


def test_a_restart_goes_on_with_the_nodes_that_were_chosen():
    world = late()
    world.storage.held = True
    gang(world)
    world.run()
    chosen = {one.name: one.node for one in world.storage.chosen}

    world.restart()
    world.run()
    assert len(world.storage.chosen) == 3  # nothing is written twice
    world.storage.bind("g-0", "g-1", "g-2")
    world.run()

    assert world.where() == chosen


def test_a_claim_that_a_gang_shares_lets_its_members_spread():
    world = late()
    gang(world, shared="dataset")
    world.storage.held = True
    world.run()
    assert len(world.storage.chosen) == 1

    world.storage.bind("dataset", zone="abc")  # a volume that no node can reach
    world.run()
    assert "cannot be used on node" in world.why("PodGroup", "g").message
    world.until(5.0)
    assert world.where() == {}
    assert "node(s) didn't match PersistentVolume's node affinity" in world.why("PodGroup", "g").message


def test_a_shared_volume_that_all_can_reach_serves_all():
    world = World()
    for i in range(3):
        world.node(f"n{i}", gpus=1)
    world.storage.put(storage_class())
    gang(world, shared="dataset")
    world.run()
    assert sorted(world.where().values()) == ["n0", "n1", "n2"]
    assert len(world.storage.chosen) == 1


def test_a_member_that_joins_a_running_gang_waits_for_its_own_volume_only():
    world = late(nodes=4)
    world.pod_group("g", 2)
    for rank in range(3):
        world.storage.put(claim(f"g-{rank}"))
    for rank in range(2):
        world.pod(f"g-{rank}", group="g", claims=(f"g-{rank}",))
    world.run()
    assert len(world.where()) == 2
    world.storage.held = True
    world.pod("g-2", group="g", claims=("g-2",))
    world.pod("g-3", group="g")
    world.run()
    assert set(world.where()) == {"g-0", "g-1", "g-3"}

    world.storage.bind("g-2")
    world.run()

    assert len(world.where()) == 4


def joining(world: World) -> None:
    """A gang of 1 whose bind is under way, and a second member that has been reserved a node meanwhile."""
    world.hold_binds = world.storage.held = True
    world.pod_group("g", 1)
    world.pod("g-0", group="g")
    world.run()
    world.storage.put(claim("g-1"))
    world.pod("g-1", group="g", claims=("g-1",))
    world.run()
    assert [one.name for one in world.storage.chosen] == ["g-1"]


def test_a_member_whose_volume_comes_as_its_gang_gets_whole_is_bound():
    world = late()
    joining(world)
    world.hold_binds = False
    world.answer(world.pending_binds[0])
    world.storage.bind("g-1")
    world.run()
    assert set(world.where()) == {"g-0", "g-1"}


def test_a_member_whose_volume_does_not_come_gives_its_node_back_though_its_gang_got_whole_meanwhile():
    world = late(volumeBindingTimeoutSeconds=30)
    joining(world)
    world.answer(world.pending_binds[0])
    world.run()
    assert world.engine.state.members["default", "g-1"].pod.assumed

    world.decide(advance=30.0)

    assert world.engine.state.members["default", "g-1"].pod.assumed == ""
    assert "default/g-1" in world.why("PodGroup", "g").message


def test_a_claim_for_one_pod_keeps_the_second_waiting_until_the_first_has_ended():
    world = late()
    world.storage.put(claim("once", volume="v", modes=("ReadWriteOncePod",)), volume("v"))
    world.pod("first", claims=("once",))
    world.run()
    world.pod("second", claims=("once",))
    world.run()
    assert set(world.where()) == {"first"}
    assert "ReadWriteOncePod access mode already in-use" in world.why("Pod", "second").message

    world.finish("first")
    world.run()

    assert "second" in world.where()


def test_a_claim_for_one_pod_is_free_for_the_next_when_the_node_of_the_first_is_gone():
    # Kubernetes 1.36, plugins/volumerestrictions: in use is what pods on nodes use
    world = World()
    world.storage.put(claim("once", volume="v", modes=("ReadWriteOncePod",)), volume("v"))
    world.node("n1")
    world.node("n2")
    world.pod("first", claims=("once",))
    world.run()
    world.pod("second", claims=("once",))
    world.run()
    assert set(world.where()) == {"first"}
    (other,) = {"n1", "n2"} - {world.where()["first"]}
    world.remove_node(world.where()["first"])
    world.run()
    assert world.where()["second"] == other


def test_a_gang_goes_by_how_many_volumes_nodes_take():
    world = World()
    world.storage.put(storage_class())
    for i in range(2):
        world.node(f"n{i}", gpus=8)
        world.storage.put(csi_node(f"n{i}", csi_example_com=2))
    gang(world, 5)
    world.run()
    assert world.where() == {}
    assert "room for only 4 of 5" in world.why("PodGroup", "g").message

    world.storage.put(csi_node("n1", csi_example_com=3))
    world.run()

    assert sorted(world.where().values()) == ["n0", "n0", "n1", "n1", "n1"]


def test_a_member_that_is_never_bound_keeps_its_gang_in_part_no_longer_because_it_has_a_volume():
    world = late()
    world.hold_binds = True
    gang(world)
    world.run()
    for _ in range(59):
        for bind in list(world.pending_binds):
            world.answer(bind, "Failed" if bind.name == "g-2" else "Bound")
        world.until(1.0)
    assert len(world.where()) == 2
    world.until(2.0)
    assert [event.reason for event in world.events("RolledBack")] == ["RolledBack"]
    assert replays(world)
