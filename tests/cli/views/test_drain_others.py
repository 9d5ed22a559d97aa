"""Pods of ours and pods of other schedulers leave a node together: what is left by the first, the others find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.views.loss import gang, nodes
from tests.cli.views.scene import RACK, Json, node, ours, pod, queue, told
from tests.cli.views.test_drain_devices import (
    claimed,
    drained,
    fates,
    machines,
    of_kind,
    template,
    templated,
    user,
)
from tutti.cli.views.drain.checking import check_drain

OTHERS = "default-scheduler"


def shared_pool(devices: int) -> Json:
    """Devices that every node can use."""
    listed = [{"name": f"g{number}"} for number in range(devices)]
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "allNodes": True, "pool": pool, "devices": listed}
    return of_kind("ResourceSlice", "net", spec=spec)


def asking_by_name(name: str, place: str, device: str = "", *, scheduler: str = "tutti") -> list[Json]:
    """A pod with an extended resource that a device of its node stands in for, and the claim made for it."""
    made = pod("d", name, 0, on=place, owner="Job", scheduler=scheduler)
    made["metadata"]["uid"] = f"uid-{name}"
    for said in ("requests", "limits"):
        made["spec"]["containers"][0]["resources"][said]["example.com/gpu"] = "1"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}"}
    claim = claimed(f"{name}-extended", place, [device], owner=owner, users=[name])
    claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    claim["spec"]["devices"]["requests"][0]["name"] = "container-0-request-0"
    claim["status"]["allocation"]["devices"]["results"][0]["request"] = "container-0-request-0"
    mapping = {"containerName": "main", "requestName": "container-0-request-0", "resourceName": "example.com/gpu"}
    made["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": f"{name}-extended",
        "requestMappings": [mapping],
    }
    return [made, claim]


def by_name(count: int, devices: int) -> list[Json]:
    made = machines(count, devices)
    made[0]["spec"]["extendedResourceName"] = "example.com/gpu"
    return made


@pytest.mark.parametrize(("devices", "theirs"), [(1, "Waits"), (2, "n1")])
def test_devices_that_ours_get_are_not_there_for_pods_of_others(devices: int, theirs: str):
    both = [
        *templated("mine", "n0", ["g0"]),
        *templated("other", "n0", ["g1"], scheduler=OTHERS),
    ]
    found = drained(*machines(1, 2), *machines(2, devices)[3:], template(1), *both)

    assert fates(found) == {"mine": "n1", "other": theirs}


@pytest.mark.parametrize(("devices", "theirs"), [(1, "Waits"), (2, "n1")])
def test_a_claim_of_a_name_that_ours_use_again_has_its_devices(devices: int, theirs: str):
    mine = [user("mine", "n0", {"resourceClaimName": "kept"}), claimed("kept", "n0", ["g0"], owner={}, users=["mine"])]
    other = templated("other", "n0", ["g1"], scheduler=OTHERS)
    found = drained(*machines(1, 2), *machines(2, devices)[3:], template(1), *mine, *other)

    assert fates(found) == {"mine": "n1", "other": theirs}


@pytest.mark.parametrize(("devices", "theirs"), [(1, "Waits"), (2, "n1")])
def test_devices_that_stand_in_for_extended_resources_of_ours_are_taken(devices: int, theirs: str):
    both = [*asking_by_name("mine", "n0", "g0"), *asking_by_name("other", "n0", "g1", scheduler=OTHERS)]
    found = drained(*by_name(1, 2), *by_name(2, devices)[3:], *both)

    assert fates(found) == {"mine": "n1", "other": theirs}


def test_of_a_claim_that_both_use_the_devices_are_where_ours_are():
    """The last of its users takes the devices along, and the first of those that come chooses where they are."""
    both = [
        user("mine", "n0", {"resourceClaimName": "shared"}),
        user("other", "n0", {"resourceClaimName": "shared"}, scheduler=OTHERS),
        claimed("shared", "n0", ["g0"], owner={}, users=["mine", "other"]),
    ]
    found = drained(*machines(3, 1), *both)

    assert fates(found)["mine"] in ("n1", "n2")
    assert fates(found)["other"] == fates(found)["mine"]


@pytest.mark.parametrize(("devices", "theirs"), [(1, "Waits"), (2, "n1")])
def test_ours_find_what_pods_of_others_leave_at_the_same_time(devices: int, theirs: str):
    """The evictions of a drain do not wait for one another."""
    other = templated("other", "net", [f"g{at}" for at in range(devices)], scheduler=OTHERS)
    other[0]["spec"]["nodeName"] = "n0"
    other[1]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1
    other[1]["status"]["allocation"].pop("nodeSelector")
    mine = templated("mine", "n0", ["g0"])
    found = drained(*machines(1, 1), *machines(2, 0)[3:], shared_pool(devices), template(1), *mine, *other)

    assert fates(found) == {"mine": "n1", "other": theirs}


@pytest.mark.parametrize(("spare", "again"), [((), 0), (("e",), 2)])
def test_a_gang_that_is_restarted_whole_finds_what_pods_of_others_have_left(spare: tuple[str, ...], again: int):
    """By the end of its window these have long been placed."""
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"} | dict.fromkeys(spare, "r2")
    rooms = nodes(*racks)
    for one in rooms:
        one["metadata"]["labels"][RACK] = racks[one["metadata"]["name"]]
    topology = {"schedulingConstraints": {"topology": [{"key": RACK, "mode": "Required"}]}}
    busy = [pod("d", f"busy-{on}", 4, on=on, owner="Job") for on in ("b", "c", "d")]
    other = pod("d", "other", 4, on="a", owner="Job", scheduler=OTHERS)
    asked = told([*rooms, *gang("a", "b", gpus=4, **topology), *busy, other])
    (found,) = check_drain(asked, asked.stock().state, "a").gangs

    assert sum(found.again.values()) == again


GROUPS = "scheduling.k8s.io/v1alpha2"


def native(name: str, least: int, entry: Json) -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": least}}, "resourceClaims": [{"name": "gpus", **entry}]}
    meta = {"name": name, "namespace": "d", "uid": f"uid-{name}"}
    return {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": meta, "spec": spec}


def claim_of_group(name: str, group: str, place: str, devices: list[str]) -> Json:
    owner = {"apiVersion": GROUPS, "kind": "PodGroup", "name": group, "uid": f"uid-{group}"}
    made = claimed(name, place, devices, owner=owner, users=[])
    made["status"]["reservedFor"] = [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": group, "uid": f"uid-{group}"}
    ]
    return made


def in_group(name: str, place: str, group: str, entry: Json, claim: str, **more: Any) -> Json:
    made = user(name, place, entry, claim=claim, **more)
    made["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


FROM_TEMPLATE, OF_A_NAME = {"resourceClaimTemplateName": "t"}, {"resourceClaimName": "g-gpus"}


@pytest.mark.parametrize("scheduler", ["tutti", OTHERS])
@pytest.mark.parametrize("entry", [FROM_TEMPLATE, OF_A_NAME], ids=["template", "name"])
@pytest.mark.parametrize(("place", "to"), [("net", "n1"), ("n0", "Waits")])
def test_the_claim_of_a_group_is_that_of_who_is_made_in_place_of_its_pods(
    place: str, to: str, entry: Json, scheduler: str
):
    """KEP-5729: the PodGroup goes on using it, so its devices stay where they are."""
    claim = claim_of_group("g-gpus", "g", place, ["g0"])
    if place == "net":
        claim["status"]["allocation"].pop("nodeSelector")
    claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1
    pods = [in_group(f"g-{at}", f"n{at}", "g", entry, "g-gpus", scheduler=scheduler) for at in range(2)]
    world = [*machines(2, 1), shared_pool(1), template(1), native("g", 2, entry), claim, *pods]
    found = drained(*world)

    assert fates(found) == {"g-0": to}
    assert "was not created for Pod" not in found.pods[0].why


def test_pods_of_others_wait_for_no_queue_of_ours():
    closed = queue("none", "", "f", 0)
    default = ours("LocalQueue", "default", {"clusterQueue": "none"}, "d")
    other = pod("d", "other", 1, on="n0", owner="Job", scheduler=OTHERS)
    made = [node("n0", "m", "r"), node("n1", "m", "r"), ours("ResourceFlavor", "f", {}), closed, default, other]
    assert fates(drained(*made)) == {"other": "n1"}
