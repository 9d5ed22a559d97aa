"""Opcodes of devices, claims and volumes."""

from __future__ import annotations

import msgspec
import pytest

from tests.bench.opcodes import Watcher, file
from tutti_bench.session import WorkloadFailed


async def test_claims_that_others_made_in_its_namespaces_are_taken_away(bench):
    text = file("  - {opcode: createNodes, count: 1}\n  - {opcode: createPods, namespace: claims, count: 1}\n")
    await bench.run(text)  # the namespace stays
    path = "/apis/resource.k8s.io/v1/namespaces/claims/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    meta = {"name": "of-a-template", "finalizers": ["example.com/nobody-takes-it-off"]}
    claim = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
    await bench.client.request("POST", path, body=msgspec.json.encode(claim))
    await bench.run(text)
    assert await bench.items(path) == []


def device_class(bench) -> str:
    return bench.template("class.yaml", """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: c}
spec: {selectors: [{cel: {expression: 'device.driver == "d.example.com"'}}]}
""")  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v1beta2"])  # they look the same; servers have the second switched off
async def test_devices_and_claims_are_published(bench, version):
    claim = bench.template("claim.yaml", f"apiVersion: resource.k8s.io/{version}" + """
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 2}\n  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: createResourceDriver, driverName: d.example.com, nodes: 'node-0-*', maxClaimsPerNodeParam: $max}\n"
        f"  - {{opcode: createAny, templatePath: {device_class(bench)}}}\n"
        f"  - {{opcode: createResourceClaims, namespace: claims, count: 3, templatePath: {claim}}}\n"
        "  - {opcode: allocResourceClaims, namespace: claims}\n",
        "{max: 2}",
    )
    slices_path, claims_path = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/resourceclaims"
    async with Watcher(bench, slices_path) as slices, Watcher(bench, claims_path) as claims:
        await bench.run(text)
        published = await slices.until(lambda all_: len(slices.gone) == 2)
        claimed = await claims.until(lambda all_: len(claims.gone) == 3)
    assert sorted(one["spec"]["nodeName"] for one in published) == ["node-0-0", "node-0-1"]
    assert [one["name"] for one in published[0]["spec"]["devices"]] == ["instance-0", "instance-1"]
    given = {one["metadata"]["name"]: one["status"]["allocation"] for one in claimed}
    taken = [given[f"claim-{i}"]["devices"]["results"][0] for i in range(3)]
    assert [(one["request"], one["driver"]) for one in taken] == [("r", "d.example.com")] * 3
    assert len({(one["pool"], one["device"]) for one in taken}) == 3
    assert given["claim-0"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [taken[0]["pool"]]


async def test_claims_for_which_no_device_is_left_are_told(bench):
    claim = bench.template("claim.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 2}}]}}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: createResourceDriver, driverName: d.example.com, maxClaimsPerNode: 3}\n"
        f"  - {{opcode: createAny, templatePath: {device_class(bench)}}}\n"
        f"  - {{opcode: createResourceClaims, namespace: claims, count: 2, templatePath: {claim}}}\n"
        "  - {opcode: allocResourceClaims, namespace: claims}\n"
    )
    with pytest.raises(WorkloadFailed, match="allocResourceClaims: no node has the devices for claim claim-1"):
        await bench.run(text)


async def test_each_pod_gets_a_volume_that_is_bound_already(bench):
    volume = bench.template("pv.yaml", """
spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: d.example.com, volumeHandle: "h-{{.Index}}"}}
""")  # fmt: skip
    claim = bench.template("pvc.yaml", "spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n")
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, count: 2, persistentVolumeTemplatePath: {volume}, persistentVolumeClaimTemplatePath: {claim}}}\n"
    )
    async with (
        Watcher(bench, "/api/v1/pods") as pods,
        Watcher(bench, "/api/v1/persistentvolumes") as volumes,
        Watcher(bench, "/api/v1/persistentvolumeclaims") as claims,
    ):
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 2)
        await volumes.until(lambda all_: len(volumes.gone) == 2)
        await claims.until(lambda all_: len(claims.gone) == 2)
    assert {one["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] for one in made} == {"pvc-0", "pvc-1"}
    bound = {one["metadata"]["name"]: one for one in claims.all()}
    for one in volumes.all():
        of = one["spec"]["claimRef"]
        assert one["metadata"]["name"] == f"namespace-1-vol-{of['name'].removeprefix('pvc-')}"
        assert bound[of["name"]]["metadata"]["uid"] == of["uid"]
        assert bound[of["name"]]["spec"]["volumeName"] == one["metadata"]["name"]
        assert (one["status"]["phase"], bound[of["name"]]["status"]["phase"]) == ("Bound", "Bound")


@pytest.mark.parametrize(
    ("source", "field"),
    [("csi: {driver: d.example.com}", "volumeHandle"), ('awsElasticBlockStore: {volumeID: "<volume-id>"}', "volumeID")],
)
async def test_each_volume_is_one_of_its_own(bench, source, field):
    """The templates of scheduler_perf give no handle, or all the same; its own process puts one in."""
    volume = bench.template("pv.yaml", f"spec: {{accessModes: [ReadOnlyMany], capacity: {{storage: 1Gi}}, {source}}}\n")
    claim = bench.template("pvc.yaml", "spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n")
    async with Watcher(bench, "/api/v1/persistentvolumes") as volumes:
        await bench.run(file(
            "  - {opcode: createNodes, count: 1}\n"
            f"  - {{opcode: createPods, count: 2, persistentVolumeTemplatePath: {volume}, persistentVolumeClaimTemplatePath: {claim}}}\n"
        ))  # fmt: skip
        await volumes.until(lambda all_: len(volumes.gone) == 2)
    kind = source.partition(":")[0]
    assert {one["spec"][kind][field] for one in volumes.all()} == {"namespace-1-vol-0", "namespace-1-vol-1"}


async def test_claims_are_given_what_they_select_of_slices_that_the_file_makes_itself(bench):
    """As upstream's dra/partitionabledevices: slices by createAny, whose counters a claim that is allocated uses up."""
    slices = bench.template("slice.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: "parts-{{.Index}}"}
spec:
  driver: d.example.com
  allNodes: true
  pool: {name: "pool-{{.Index}}", generation: 1, resourceSliceCount: 2}
  devices:
  - {name: small, attributes: {first: {bool: false}}, consumesCounters: [{counterSet: s, counters: {c: {value: "1"}}}]}
  - {name: large, attributes: {first: {bool: true}}, consumesCounters: [{counterSet: s, counters: {c: {value: "2"}}}]}
""")  # fmt: skip
    counters = bench.template("counters.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: "counters-{{.Index}}"}
spec:
  driver: d.example.com
  allNodes: true
  pool: {name: "pool-{{.Index}}", generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: s, counters: {c: {value: "2"}}}]
""")  # fmt: skip
    claim = bench.template("claim.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: c
        selectors: [{cel: {expression: 'device.attributes["d.example.com"].first'}}]
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createAny, count: 2, templatePath: {counters}}}\n"
        f"  - {{opcode: createAny, count: 2, templatePath: {slices}}}\n"
        f"  - {{opcode: createAny, templatePath: {device_class(bench)}}}\n"
        f"  - {{opcode: createAny, namespace: claims, count: 2, templatePath: {claim}}}\n"
        "  - {opcode: allocResourceClaims, namespace: claims}\n"
    )
    async with Watcher(bench, "/apis/resource.k8s.io/v1/resourceclaims") as claims:
        await bench.run(text)
        claimed = await claims.until(lambda all_: len(claims.gone) == 2)
    taken = [one["status"]["allocation"]["devices"]["results"][0] for one in claimed]
    assert {(one["pool"], one["device"]) for one in taken} == {("pool-0", "large"), ("pool-1", "large")}
    assert all("nodeSelector" not in one["status"]["allocation"] for one in claimed)
