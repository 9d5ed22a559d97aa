"""What a drain would do to pods with claims on devices: who is made in their place is given claims as well."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.views.scene import Json, node, ours, pod, told
from tutti.cli.views.drain.checking import check_drain
from tutti.cli.views.drain.trial import Drain

DRIVER = "gpu.example.com"
_VERSION = "resource.k8s.io/v1"


def drained(*made: Json) -> Drain:
    asked = told(list(made))
    return check_drain(asked, asked.stock().state, "n0")


def fates(found: Drain) -> dict[str, str]:
    return {one.name: one.to or one.fate.value for one in found.pods}


def of_kind(kind: str, name: str, namespace: str = "", **said: Any) -> Json:
    meta = {"name": name, "uid": f"uid-{name}"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": _VERSION, "kind": kind, "metadata": meta, **said}


def machines(count: int, devices: int) -> list[Json]:
    """Nodes n0, n1, ... with so many devices each."""
    made = [
        of_kind("DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]})
    ]
    for at in range(count):
        listed = [{"name": f"g{number}"} for number in range(devices)]
        pool = {"name": f"n{at}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": f"n{at}", "pool": pool, "devices": listed}
        made += [node(f"n{at}", "m", "r"), of_kind("ResourceSlice", f"n{at}", spec=spec)]
    return made


def asking(devices: int) -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def template(devices: int) -> Json:
    return of_kind("ResourceClaimTemplate", "t", "d", spec={"spec": asking(devices)})


def claimed(name: str, place: str, devices: list[str], *, owner: Json, users: list[str]) -> Json:
    """A claim with devices of a node, that these pods use."""
    results = [{"request": "r", "driver": DRIVER, "pool": place, "device": one} for one in devices]
    here = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [place]}]}]}
    status = {
        "allocation": {"devices": {"results": results}, "nodeSelector": here},
        "reservedFor": [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users],
    }
    made = of_kind("ResourceClaim", name, "d", spec=asking(len(devices)), status=status)
    if owner:
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


def user(name: str, place: str, entry: Json, *, claim: str = "", scheduler: str = "tutti", gang: str = "") -> Json:
    """A pod that runs with a claim."""
    made = pod("d", name, 0, on=place, owner="Job", scheduler=scheduler, gang=gang)
    made["metadata"]["uid"] = f"uid-{name}"
    made["spec"]["resourceClaims"] = [{"name": "gpus", **entry}]
    if claim:
        made["status"] = {**made.get("status", {}), "phase": "Running"}
        made["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": claim}]
    return made


def templated(name: str, place: str, devices: list[str], **more: Any) -> list[Json]:
    """A pod that runs, with a claim that was made for it alone."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}"}
    claim = claimed(f"{name}-x", place, devices, owner=owner, users=[name])
    return [user(name, place, {"resourceClaimTemplateName": "t"}, claim=f"{name}-x", **more), claim]


@pytest.mark.parametrize("scheduler", ["tutti", "default-scheduler"])
@pytest.mark.parametrize(("free", "to"), [(2, "n1"), (1, "Waits")])
def test_who_is_made_in_place_of_a_pod_gets_claims_from_its_templates(free: int, to: str, scheduler: str):
    used = [f"g{at}" for at in range(2 - free)]
    beside = templated("q", "n1", used) if used else []
    found = drained(*machines(2, 2), template(2), *templated("p", "n0", ["g0", "g1"], scheduler=scheduler), *beside)

    assert fates(found) == {"p": to}
    if to == "Waits":
        assert "1 of 2 devices" not in found.pods[0].why
        assert "device" in found.pods[0].why


def test_a_template_that_is_gone_leaves_what_was_made_of_it():
    found = drained(*machines(2, 2), *templated("p", "n0", ["g0", "g1"]))
    assert fates(found) == {"p": "n1"}


def test_a_claim_of_a_name_is_free_again_when_the_last_of_its_users_is_gone():
    """With it go its devices: pkg/controller/resourceclaim, 1.36."""
    both = [user(name, "n0", {"resourceClaimName": "shared"}) for name in ("p", "q")]
    shared = claimed("shared", "n0", ["g0"], owner={}, users=["p", "q"])
    assert fates(drained(*machines(2, 1), shared, *both)) == {"p": "n1", "q": "n1"}


def test_a_claim_of_a_name_that_others_go_on_using_keeps_its_devices():
    there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    shared = claimed("shared", "n0", ["g0"], owner={}, users=["p", "other"])
    assert there in shared["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    found = drained(*machines(2, 1), shared, user("p", "n0", {"resourceClaimName": "shared"}))
    assert fates(found) == {"p": "Waits"}


def test_of_a_gang_it_is_told_whether_all_find_devices():
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    pods = [one for at in range(2) for one in templated(f"g-{at}", f"n{at}", ["g0"], gang="g")]
    group = ours("PodGroup", "g", spec, "d")
    assert fates(drained(*machines(3, 1), template(1), group, *pods)) == {"g-0": "n2"}
    found = drained(*machines(2, 1), template(1), group, *pods)
    assert fates(found) == {"g-0": "Waits"}
    assert not found.gangs[0].whole
