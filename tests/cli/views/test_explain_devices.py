"""What a workload that waits for devices lacks, and whose end would give it."""

from __future__ import annotations

import pytest

from tests.cli.views.explaining import helps, message, of, verdicts
from tests.cli.views.scene import Json, node, ours, pod


def with_claim_of_group(count: int, cpu: str) -> list[Json]:
    """Two nodes with two devices each, and a PodGroup of Kubernetes of three pods, with a claim that is the group's."""
    dra, made = "resource.k8s.io/v1", list[Json]()
    for name in ("n0", "n1"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": name, "devices": devices}
        meta = {"name": name, "uid": name}
        made += [
            node(name, "m", "r"),
            {"apiVersion": dra, "kind": "ResourceSlice", "metadata": meta, "spec": spec},
        ]
    made.append({"apiVersion": dra, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}})
    asked = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
    about = {"name": "ours", "namespace": "d", "uid": "ours"}
    claim = {"devices": {"requests": [asked]}}
    made.append({"apiVersion": dra, "kind": "ResourceClaim", "metadata": about, "spec": claim})
    listed = [{"name": "shared", "resourceClaimName": "ours"}]
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, "resourceClaims": listed}
    about = {"name": "g", "namespace": "d", "uid": "g"}
    made.append({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": about, "spec": spec})
    for rank in range(3):
        member = pod("d", f"g-{rank}", 0)
        member["spec"] |= {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": listed}
        member["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        made.append(member)
    return made


@pytest.mark.parametrize(
    ("count", "cpu", "said"),
    [
        (3, "1", "4 of 4 devices of class gpu match; 0 are taken; on 2 nodes 2 are free of 3 needed."),
        (2, "30", "of 2 nodes with such devices none has room for more than 2 of them."),
    ],
)
def test_what_the_claim_of_a_pod_group_lacks_is_told_in_numbers(count: int, cpu: str, said: str):
    found = of("d/g", with_claim_of_group(count, cpu), trying=False)
    assert message(found, "Placement").endswith(said)
    assert (
        message(of("d/g", with_claim_of_group(2, "1"), trying=False), "Placement") == "nodes have room for all 3 pods"
    )


def with_devices_taken() -> list[Json]:
    """The same with a claim of two devices for each pod, and two pods of somebody else who have all devices."""
    made = [one for one in with_claim_of_group(2, "1") if one["kind"] not in ("PodGroup", "ResourceClaim", "Pod")]
    asked = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}
    for place, name in enumerate(("has-0", "has-1", "g-0")):
        about = {"name": name, "namespace": "d", "uid": f"claim-{name}"}
        claim: Json = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": about}
        claim["spec"] = {"devices": {"requests": [asked]}}
        uses = pod("d", name, 0, gang=name[:-2], on=f"n{place}" if place < 2 else "")
        uses["metadata"]["uid"] = f"uid-{name}"
        uses["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": name}]
        if place < 2:
            at = {"request": "r", "driver": "gpu.example.com", "pool": f"n{place}"}
            results = [{**at, "device": f"gpu-{number}"} for number in range(2)]
            users = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
            claim["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
        made += [claim, uses]
    sizes = {"has": 2, "g": 1}
    groups = [ours("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": n}}}, "d") for name, n in sizes.items()]
    return [*made, *groups]


def test_whose_end_gives_devices_is_told():
    """With the pods of whoever ends the devices of their claims go, and the next is given them."""
    found = of("d/g", with_devices_taken())
    assert message(found, "Placement").endswith("4 are taken; on 2 nodes 0 are free of 2 needed.")
    assert "d/has (4 devices) ends" in helps(found)


def test_who_finds_devices_that_are_not_written_yet_is_not_told_to_wait_for_them():
    made = [one for one in with_devices_taken() if not one["metadata"]["name"].startswith("has")]
    found = of("d/g", made)
    assert verdicts(found)[-1] == "Placement: Passed"
    assert found.remedies == ()
