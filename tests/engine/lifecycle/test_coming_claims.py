"""A pod whose claims are being made from templates stands in nobody's way, and is told nothing while that is quick."""

from __future__ import annotations

import pytest

from tests.engine.devices import asks_for, decoded, device_class, replaced, resource_slice
from tests.engine.world import World
from tutti.api.core import Pod, PodClaimStatus, PodResourceClaim
from tutti.api.devices import ResourceClaimTemplate
from tutti.engine.records.decisions import EmitEvent, SetPodCondition


def with_template(**world) -> World:
    """A node with two devices, and a template of claims on one."""
    out = World(**world)
    out.devices.put(device_class(), resource_slice("n0", 2))
    out.node("n0", gpus=0)
    raw = {"metadata": {"name": "one", "namespace": "default"}, "spec": {"spec": asks_for(1)}}
    out.devices.put(decoded(raw, ResourceClaimTemplate))
    return out


def pod_of_template(world: World, name: str, *, template: str = "one", **more) -> Pod:
    """A pod whose claim is yet to be made."""
    pod = world.pod(name, gpus=0, **more)
    spec = replaced(pod.spec, resource_claims=[PodResourceClaim("device", None, template)])
    made = replaced(pod, spec=spec)
    world.put(made)
    return made


def make_claim(world: World, pod: Pod) -> None:
    """Do as the claim controller: make the claim, and have the status of the pod name it."""
    name = f"{pod.metadata.name}-made"
    world.devices.make_claim(name, asks_for(1), owner=pod)
    now = world.pods["default", pod.metadata.name]
    world.put(replaced(now, status=replaced(now.status, resource_claim_statuses=[PodClaimStatus("device", name)])))


def told(decisions) -> list[object]:
    return [one for one in decisions if isinstance(one, SetPodCondition | EmitEvent)]


def test_a_pod_is_told_nothing_while_its_claim_is_made_quickly_and_goes_when_it_is_there():
    world = with_template()
    pod = pod_of_template(world, "p")

    assert not told(world.until(2))
    why = world.why("Pod", "p")
    assert (why.gate, why.reason) == ("Gather", "WaitingForClaims")
    assert why.message == 'pod "default/p": ResourceClaim not created yet'

    make_claim(world, pod)
    world.run()
    assert world.where() == {"p": "n0"}
    assert not [one for one in world.log if isinstance(one, SetPodCondition)]
    assert not world.replay().differences


def test_a_pod_whose_claim_is_not_made_is_told_so_once_that_has_lasted():
    world = with_template()
    pod_of_template(world, "p")
    assert not told(world.until(9))

    found = told(world.until(2))
    assert [(type(one), one.reason) for one in found] == [
        (EmitEvent, "FailedScheduling"),
        (SetPodCondition, "WaitingForClaims"),
    ]
    assert not told(world.until(60))
    assert not world.replay().differences


def test_a_pod_whose_template_is_not_there_is_told_so_at_once():
    world = with_template()
    pod_of_template(world, "p", template="none")
    world.run()

    assert (world.why("Pod", "p").reason, world.pod_condition("p").reason) == ("DevicesNotReady", "DevicesNotReady")


def test_a_pod_whose_claim_is_being_made_lets_others_pass_in_a_strict_queue():
    world = with_template()
    world.flavor("default")
    world.queue("queue", 8, queueingStrategy="StrictFIFO")
    first = pod_of_template(world, "first", queue="queue")
    world.run()
    world.pod("second", gpus=0, queue="queue")
    world.run()
    assert world.where() == {"second": "n0"}

    make_claim(world, first)
    world.run()
    assert set(world.where()) == {"first", "second"}


@pytest.mark.parametrize(("size", "least", "starts"), [(2, 2, False), (3, 2, True)])
def test_a_gang_starts_without_claims_that_are_being_made_where_it_can_do_without_them(size, least, starts):
    world = with_template()
    world.pod_group("g", least)
    pods = [pod_of_template(world, f"g-{rank}", group="g") for rank in range(size)]
    for pod in pods[:-1]:
        make_claim(world, pod)
    world.run()

    assert len(world.where()) == (2 if starts else 0)
    if not starts:
        assert world.reason("PodGroup", "g") == "WaitingForClaims"
        make_claim(world, pods[-1])
        world.run()
        assert len(world.where()) == least
    assert not world.replay().differences


def test_a_pod_whose_devices_are_being_written_is_told_so_once_that_has_lasted():
    world = with_template()
    world.devices.held = True
    make_claim(world, pod_of_template(world, "p"))
    assert not told(world.until(9))
    assert world.why("Pod", "p").reason == "WaitingForDevices"

    found = told(world.until(2))
    assert [(type(one), one.reason, one.nominated_node) for one in found] == [
        (SetPodCondition, "WaitingForDevices", "n0"),
    ]
    assert not world.replay().differences


def test_a_pod_that_was_told_to_lack_a_node_is_told_at_once_that_one_is_held_for_it():
    world = with_template()
    world.devices.drop("ResourceSlice", "n0-gpu.example.com")
    make_claim(world, pod_of_template(world, "p"))
    world.until(1)
    assert world.pod_condition("p").reason == "Unschedulable"

    world.devices.held = True
    world.devices.put(resource_slice("n0", 2))
    world.until(1)
    assert (world.pod_condition("p").reason, world.pods["default", "p"].status.nominated_node_name) == (
        "WaitingForDevices",
        "n0",
    )


@pytest.mark.parametrize("was_shared", [False, True])
def test_who_names_a_claim_that_a_pod_was_given_whose_status_has_lost_it_has_what_that_one_was_promised(was_shared):
    world = with_template()
    world.devices.held = True
    make_claim(world, pod_of_template(world, "p"))
    world.run()
    if was_shared:
        world.pod("r", gpus=0, device_claims=("p-made",))
        world.run()
        world.delete("r")
    now = world.pods["default", "p"]
    world.put(replaced(now, status=replaced(now.status, resource_claim_statuses=[])))
    world.pod("q", gpus=0, device_claims=("p-made",))
    world.run()

    world.devices.held = False
    world.devices.write()
    world.run()
    assert world.where()["q"] == "n0"
    assert world.devices.taken() == ["n0/gpu-0"]

    for name in ("p", "q"):
        world.delete(name)
    world.devices.drop("ResourceClaim", "p-made")
    world.run()
    assert not world.engine.state.cluster.nodes.devices.ledger.pools()
    assert not world.replay().differences


def with_claim_that_its_pod_no_longer_names(**more) -> World:
    """A pod that was promised a device of n0 and whose status has lost its claim since; and another node, n1."""
    world = with_template()
    world.devices.held = True
    make_claim(world, pod_of_template(world, "p", **more))
    world.run()
    world.node("n1", gpus=0)
    world.devices.put(resource_slice("n1", 2))
    now = world.pods["default", "p"]
    world.put(replaced(now, status=replaced(now.status, resource_claim_statuses=[])))
    return world


def test_who_names_a_claim_that_is_promised_to_a_pod_which_has_lost_it_goes_to_its_node():
    world = with_claim_that_its_pod_no_longer_names()
    world.pod("q", gpus=0, device_claims=("p-made",))
    world.run()
    assert not world.where()

    world.devices.held = False
    world.devices.write()
    world.run()
    assert world.where() == {"p": "n0", "q": "n0"}
    assert world.devices.results("p-made") == ["n0/gpu-0"]
    assert [one.name for one in world.devices.claim("p-made").status.reserved_for] == ["p", "q"]
    assert not world.replay().differences


def test_who_names_a_claim_that_is_promised_on_another_node_than_it_can_have_waits_until_that_is_broken():
    world = with_claim_that_its_pod_no_longer_names()
    world.pod("q", gpus=0, device_claims=("p-made",), selector={"kubernetes.io/hostname": "n1"})
    world.run()
    assert not world.where()
    assert world.why("Pod", "q").reason == "Unschedulable"

    world.devices.conflicts.add("p-made")
    world.devices.write()
    world.devices.held = False
    world.devices.conflicts.clear()
    world.run()
    assert world.where() == {"q": "n1"}
    assert world.devices.taken() == ["n1/gpu-0"]
    assert not world.replay().differences


def test_a_bound_pod_uses_what_its_status_names_so_that_a_restart_changes_nothing():
    world = with_claim_that_its_pod_no_longer_names()
    world.devices.held = False
    world.devices.write()
    world.run()
    assert world.where() == {"p": "n0"}
    before = world.engine.state.cluster.pods["default", "p"].device_uses
    world.restart()
    world.run()
    assert world.engine.state.cluster.pods["default", "p"].device_uses == before
    assert world.devices.taken() == ["n0/gpu-0"]
