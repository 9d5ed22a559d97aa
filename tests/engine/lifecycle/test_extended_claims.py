"""Pods that ask for extended resources get what drivers publish, by claims that are made for them, where nodes lack them."""

from __future__ import annotations

import pytest

from tests.engine.devices import asks_for, device_class, replaced, resource_slice
from tests.engine.devices import made as claim_of
from tests.engine.world import World
from tutti.api.devices import DELETE_PROTECTION
from tutti.engine.records.decisions import WriteExtendedClaim

RESOURCE = "example.com/gpu"
ASKED = {RESOURCE: "2"}


def world_of(*, nodes: int = 2, count: int = 4, **world) -> World:
    """Nodes with some devices each, of a class that an extended resource stands for."""
    out = World(**world)
    out.devices.put(device_class(extendedResourceName=RESOURCE))
    for i in range(nodes):
        out.node(f"n{i}", gpus=0)
        out.devices.put(resource_slice(f"n{i}", count))
    return out


def gang(world: World, size: int = 4, *, name: str = "g", **pod) -> None:
    world.pod_group(name, size)
    for rank in range(size):
        world.pod(f"{name}-{rank}", group=name, gpus=0, extended=ASKED, **pod)


def claims(world: World) -> dict[str, list[str]]:
    """The devices of every claim that was made, by pod."""
    names = [name for kind, name in world.devices.objects if kind == "ResourceClaim"]
    return {world.devices.claim(name).metadata.owner_references[0].name: world.devices.results(name) for name in names}


def changes(world: World) -> list[str]:
    return [one.change for one in world.devices.written]


def test_a_gang_gets_claims_with_devices_where_its_members_will_be():
    world = world_of()
    gang(world)
    world.run()

    where = world.where()
    assert len(where) == 4
    assert len(set(world.devices.taken())) == 8
    for pod, devices in claims(world).items():
        assert [one.split("/")[0] for one in devices] == [where[pod]] * 2
        name = world.devices.told[pod].name
        claim = world.devices.claim(name)
        assert claim.is_extended
        assert claim.metadata.finalizers == [DELETE_PROTECTION]
        assert [one.name for one in claim.status.reserved_for] == [pod]
        assert name.startswith(f"{pod}-extended-resources-")
        assert world.devices.told[pod].mappings == [(0, RESOURCE, "container-0-request-1")]
        assert world.devices.told[pod].containers == ("c",)
    assert not world.replay().differences


def test_a_class_that_cannot_be_evaluated_on_one_node_keeps_its_pods_off_all():
    # kube-scheduler 1.36.2, recorded: a selector that fails on any node fails the attempt, as it does for claims.
    world = World()
    expression = 'device.attributes["gpu.example.com"].memory == 40'
    world.devices.put(device_class(expression=expression, extendedResourceName=RESOURCE))
    for i in range(2):
        world.node(f"n{i}", gpus=0)
    world.devices.put(resource_slice("n0", 4, attributes={"memory": {"int": 40}}), resource_slice("n1", 4))
    world.pod("p", gpus=0, extended=ASKED)
    world.run()

    assert world.where() == {}
    assert "class gpu: selector #0: CEL runtime error: no such key: memory" in world.why("Pod", "p").message


def test_nothing_is_bound_before_each_pod_was_told_of_its_claim():
    world = world_of()
    gang(world)
    for _ in range(30):
        world.devices.held = True
        world.run()
        if not world.devices._waiting:
            break
        assert world.where() == {}
        assert world.why("PodGroup", "g").reason == "WaitingForDevices"
        world.devices.held = False
        world.devices.write()
    assert len(world.where()) == 4
    assert changes(world) == ["make"] * 4 + ["allocate"] * 4 + ["tell"] * 4


def test_a_pod_is_told_of_its_claim_while_its_devices_are_getting_ready():
    """kube-scheduler 1.36, dynamicresources.go, PreBind: the status of the pod is patched, and then it waits."""
    world = world_of(nodes=0)
    world.node("n0", gpus=0)
    world.devices.put(resource_slice("n0", 2, bindingConditions=["ready"]))
    world.pod("p", gpus=0, extended=ASKED)
    world.run()

    assert changes(world) == ["make", "allocate", "tell"]
    assert world.where() == {}


def test_the_class_by_its_own_name_stands_for_it_too():
    world = world_of()
    world.pod("p", gpus=0, extended={"deviceclass.resource.kubernetes.io/gpu": "3"})
    world.run()

    assert set(world.where()) == {"p"}
    assert len(world.devices.taken()) == 3


def test_a_node_that_offers_the_resource_itself_gives_no_device():
    world = world_of(nodes=0)
    world.node("plugin", gpus=0, extra={RESOURCE: "4"})
    world.run()
    gang(world, 2)
    world.run()

    assert set(world.where().values()) == {"plugin"}
    assert claims(world) == {}
    assert world.devices.written == []


def test_a_node_that_comes_to_offer_the_resource_itself_gives_no_device_from_then_on():
    world = world_of(nodes=1)
    world.pod("first", gpus=0, extended=ASKED)
    world.run()
    assert set(claims(world)) == {"first"}

    world.node("n0", gpus=0, extra={RESOURCE: "4"})
    world.pod("next", gpus=0, extended=ASKED)
    world.run()

    assert set(world.where()) == {"first", "next"}
    assert set(claims(world)) == {"first"}


def test_a_gang_spreads_over_nodes_of_both_kinds():
    world = world_of(nodes=1)
    world.node("plugin", gpus=0, extra={RESOURCE: "4"})
    gang(world, 4)
    world.run()

    where = world.where()
    assert sorted(where.values()) == ["n0", "n0", "plugin", "plugin"]
    assert set(claims(world)) == {pod for pod, node in where.items() if node == "n0"}
    assert not world.replay().differences


def test_a_gang_that_lacks_devices_makes_no_claim():
    world = world_of(nodes=1)
    gang(world, 4)
    world.run()

    assert world.where() == {}
    assert world.devices.written == []


@pytest.mark.parametrize("step", ["make", "tell"])
def test_what_cannot_be_written_is_given_back_and_tried_again(step):
    world = world_of()
    world.devices.conflicts = {step}
    gang(world)
    world.run()

    assert world.where() == {}
    assert world.why("PodGroup", "g").reason in ("DeviceAllocationFailed", "DevicesNotReady", "BackingOff")
    assert claims(world) == {}

    world.devices.conflicts = set()
    world.until(120)
    assert len(world.where()) == 4
    assert len(set(world.devices.taken())) == len(world.devices.taken()) == 8
    assert not world.replay().differences


@pytest.mark.parametrize("whose", ["nobody's", "another's", "what it would not ask for"])
def test_a_claim_of_the_name_that_is_another_is_left_alone_and_told_of(whose):
    """Who may make claims may make one of the name that scheduling would give to its own."""
    world = world_of(nodes=1)
    world.devices.held = True
    world.pod("p", gpus=0, extended=ASKED)
    world.run()
    (made,) = world.devices._waiting
    if whose == "nobody's":
        world.devices.make_claim(made.name, asks_for(2))
    else:
        theirs = replaced(made, pod=("p", "another")) if whose == "another's" else asking_for_one(made)
        world.devices.put(claim_of(theirs))
    before = world.devices.claim(made.name)
    world.devices.conflicts = {"make"}
    world.devices.held = False
    world.devices.write()
    world.run()

    assert world.where() == {}
    why = world.why("Pod", "p")
    assert why.reason == "DeviceAllocationFailed"
    assert f"claim default/{made.name} is there already, and is another's" in why.message
    assert not any(one.change in ("allocate", "reserve", "tell") for one in world.devices.written)
    if whose != "what it would not ask for":  # which was made for the pod itself, and is taken away
        world.until(600)
        assert world.devices.claim(made.name) == before


def asking_for_one(decision: WriteExtendedClaim) -> WriteExtendedClaim:
    return replaced(decision, requests=[(name, of_class, 1) for name, of_class, _ in decision.requests])


def test_a_claim_that_cannot_be_removed_is_removed_later():
    world = world_of(nodes=1)
    world.devices.conflicts = {"tell", "remove"}
    world.pod("p", gpus=0, extended=ASKED)
    world.run()
    assert world.where() == {}
    assert set(claims(world)) == {"p"}
    tries = changes(world).count("remove")
    world.until(20)
    assert changes(world).count("remove") == tries == 1  # not again and again
    assert "one of an earlier attempt is there still" in world.why("Pod", "p").message

    world.devices.conflicts = set()
    world.until(120)
    assert set(world.where()) == {"p"}
    assert len(world.devices.taken()) == 2


@pytest.mark.parametrize("writes", range(13))
def test_an_operator_that_died_after_any_write_ends_alike(writes):
    world = world_of()
    world.hold_binds = True
    gang(world)
    world.devices.held = True
    done = 0
    for _ in range(40):
        world.run()
        if done == writes or not world.devices._waiting:
            break
        first, *rest = world.devices._waiting
        world.devices._waiting = [first]
        world.devices.write()
        world.devices._waiting = rest + world.devices._waiting
        done += 1
    assert world.where() == {}
    assert done == min(writes, 12)

    world.devices._waiting = []
    world.devices.held = world.hold_binds = False
    world.restart(backwards=bool(writes % 2))
    world.until(120)

    where = world.where()
    assert len(where) == 4
    assert sorted(claims(world)) == sorted(where)
    assert len(set(world.devices.taken())) == len(world.devices.taken()) == 8
    for pod, devices in claims(world).items():
        assert {one.split("/")[0] for one in devices} == {where[pod]}
        assert world.devices.told[pod].name in [name for _, name in world.devices.objects]


def test_a_claim_that_comes_to_be_seen_when_nobody_wants_it_any_more_is_removed():
    world = world_of(nodes=1)
    world.devices.held = True
    world.pod("p", gpus=0, extended=ASKED)
    world.run()
    late = world.devices._waiting.pop()
    world.begin_deleting("p")
    world.delete("p")
    world.pod("p", gpus=0, extended=ASKED)
    world.devices.held = False
    world.devices.choose(late)
    world.run()

    assert set(world.where()) == {"p"}
    assert world.devices.told["p"].pod[1] == world.pods["default", "p"].metadata.uid


def test_a_class_that_gets_another_name_lets_pods_go():
    world = World()
    world.node("n0", gpus=0)
    world.devices.put(device_class(), resource_slice("n0"))
    world.pod("p", gpus=0, extended=ASKED)
    world.run()
    assert world.where() == {}

    world.devices.put(device_class(extendedResourceName=RESOURCE))
    world.run()
    assert set(world.where()) == {"p"}


def test_devices_are_held_for_members_that_are_yet_to_be_made():
    world = world_of(nodes=1)
    requests = {"cpu": "1", "memory": "1Gi", **ASKED}
    template = {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": {"requests": requests}}]}}
    world.workload("w", {"count": 2, "template": template}, scheduleTimeoutSeconds=60)
    world.run()
    assert world.why("Workload", "w").reason == "WaitingForMembers"
    assert world.devices.written == []

    world.pod("other", gpus=0, extended=ASKED)
    world.run()
    assert world.where() == {}  # all four devices are held

    for rank in range(2):
        world.pod(f"w-{rank}", workload="w", gpus=0, extended=ASKED)
        world.run()
    assert set(world.where()) == {"w-0", "w-1"}
    assert len(set(world.devices.taken())) == 4
    assert not world.replay().differences


def test_devices_that_were_held_for_members_who_do_not_come_are_free_again():
    world = world_of(nodes=1)
    requests = {"cpu": "1", "memory": "1Gi", **ASKED}
    template = {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": {"requests": requests}}]}}
    world.workload("w", {"count": 2, "template": template}, scheduleTimeoutSeconds=30)
    world.run()
    world.pod("other", gpus=0, extended=ASKED)
    world.run()
    world.remove_object("Workload", "w")
    world.run()

    assert set(world.where()) == {"other"}


def test_quota_counts_the_resource_once():
    world = world_of()
    world.flavor()
    world.queue("q", 0, more={RESOURCE: 4})
    gang(world, 2, queue="queue")
    world.run()

    assert len(world.where()) == 2
    assert world.used("q", resource=RESOURCE) == 4
    world.restart()
    world.run()
    assert world.used("q", resource=RESOURCE) == 4
    world.pod("more", gpus=0, extended=ASKED, queue="queue")
    world.run()
    assert world.why("Pod", "more").gate == "Quota"
