"""Jobs and JobSets that wait suspended, whose pods ask for devices: room is held for claims that are yet to be made."""

from __future__ import annotations

from tests.engine.devices import asks_for, decoded, device_class, resource_slice
from tests.engine.held_owners import template
from tests.engine.suspended_jobs import LABELS, a_world, only
from tests.engine.world import replaced
from tutti.api.core import PodClaimStatus
from tutti.api.devices import ResourceClaimTemplate
from tutti.engine.records.workloads import Phase


def test_room_is_held_for_pods_whose_extended_resource_is_served_by_devices():
    world = a_world(0, more={"example.com/gpu": 100})
    world.devices.put(device_class(extendedResourceName="example.com/gpu"))
    for name in ("n0", "n1"):
        world.node(name, gpus=0, labels=LABELS)
        world.devices.put(resource_slice(name, 4))
    asked = template(0)
    asked["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "example.com/gpu": "2"}}
    world.makes_pods = False
    uid = world.job("train", 4, template=asked)
    world.run()
    assert not world.spec(uid)["suspend"]
    assert only(world).phase is Phase.RESERVED

    world.makes_pods = True
    world.make_pods(uid)
    world.run()
    assert len(world.placed(uid)) == 4
    assert sum(world.engine.state.tries.values()) == 1  # they went where room was held, and did not compete again
    assert len(set(world.devices.taken())) == 8
    assert not world.replay().differences


def claim_template(name, count):
    raw = {"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": asks_for(count)}}
    return decoded(raw, ResourceClaimTemplate)


def made_claims(world, pods):
    """Do as the claim controller for pods that name a template."""
    for name in pods:
        pod = world.pods["default", name]
        world.devices.make_claim(f"{name}-gpu", asks_for(2), owner=pod)
        said = [PodClaimStatus("gpu", f"{name}-gpu")]
        world.put(replaced(pod, status=replaced(pod.status, resource_claim_statuses=said)))


def a_world_of_claims(nodes=2):
    """Nodes with four devices each, a template of claims for two, and a template of pods that name it."""
    world = a_world(0)
    world.devices.put(device_class())
    for index in range(nodes):
        world.node(f"n{index}", gpus=0, labels=LABELS)
        world.devices.put(resource_slice(f"n{index}", 4))
    world.makes_pods = False
    asked = template(0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "two"}])
    return world, asked


def test_room_and_devices_are_held_for_pods_whose_claims_are_made_from_templates():
    world, asked = a_world_of_claims()
    world.devices.put(claim_template("two", 2))
    uid = world.job("train", 4, template=asked)
    world.run()
    assert not world.spec(uid)["suspend"]
    assert only(world).phase is Phase.RESERVED

    world.devices.make_claim("rival", asks_for(1))
    world.pod("rival", gpus=0, device_claims=("rival",), queue="queue")
    world.run()
    assert "rival" not in world.where()  # all are kept for who is to come

    world.makes_pods = True
    world.make_pods(uid)
    world.run()
    names = sorted(name for _, name in world.pods if name != "rival")
    assert len(names) == 4
    assert not world.placed(uid)
    made_claims(world, names[:2])
    world.run()
    assert "rival" not in world.where()
    made_claims(world, names[2:])
    world.run()

    assert len(world.placed(uid)) == 4
    assert len(set(world.devices.taken())) == 8
    assert "rival" not in world.where()
    assert not world.replay().differences


def test_members_to_come_are_counted_on_once_the_template_of_their_claims_is_there():
    world, asked = a_world_of_claims()
    world.workload("late", {"name": "workers", "count": 4, "template": asked}, queueName="queue")
    world.run()
    group = only(world).groups["workers"]
    assert group.promised is None

    world.devices.put(claim_template("two", 2))
    world.run()
    assert [one.requests[0].ways[0].count for one in group.promised.devices.claims] == [2]
    world.devices.drop("ResourceClaimTemplate", "two")
    world.run()
    assert group.promised is None


def test_a_job_whose_pods_would_lack_devices_is_not_started():
    world, asked = a_world_of_claims(1)
    world.devices.put(claim_template("two", 2))
    uid = world.job("train", 3, template=asked)
    world.run()
    assert world.spec(uid)["suspend"]
    assert (
        "devices of class gpu" in only(world).explanation.message
        or "cannot allocate" in only(world).explanation.message
    )

    world.node("n9", gpus=0, labels=LABELS)
    world.devices.put(resource_slice("n9", 4))
    world.run()
    assert not world.spec(uid)["suspend"]


def test_devices_that_were_held_for_pods_that_never_come_are_free_again():
    world, asked = a_world_of_claims(1)
    world.devices.put(claim_template("two", 2))
    uid = world.job("train", 2, template=asked)
    world.run()
    assert not world.spec(uid)["suspend"]
    world.devices.make_claim("rival", asks_for(4))
    world.pod("rival", gpus=0, device_claims=("rival",), queue="queue")
    world.until(400)

    assert world.where() == {"rival": "n0"}
