"""What is told of resources that are asked for, covered by quota or counted otherwise, and of Kueue's own settings."""

from __future__ import annotations

import yaml

from tests.api.frameworks import shapes
from tests.cli.migrate.manifests import kueue, said, submitted
from tutti.api.configuration import load_configuration
from tutti.cli.migrate.report import losses

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  resourceGroups:
  - coveredResources: [cpu, example.com/total-share, gpu.memory, hugepages-2Mi]
    flavors:
    - name: any
      resources:
      - {name: cpu, nominalQuota: 1}
      - {name: example.com/total-share, nominalQuota: 1}
      - {name: gpu.memory, nominalQuota: 1}
      - {name: hugepages-2Mi, nominalQuota: 1}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: cq}
---
"""


def asking(**requests: str) -> str:
    raw = yaml.safe_load(submitted(shapes.JOB))
    raw["spec"]["template"]["spec"]["containers"] = [{"name": "main", "resources": {"limits": requests}}]
    return yaml.safe_dump(raw)


def test_a_job_that_requests_what_its_queue_does_not_cover_is_told_whatever_comes_first():
    """HAMi's example in Kueue's documentation: transformations make one resource of another there."""
    job = asking(**{"cpu": "1", "example.com/share": "30"})
    for text in (QUEUES + job, job + "---" + QUEUES.rstrip("-\n")):
        notes = [one.note for one in kueue(text).entries if one.kind == "Job"]
        assert [(one.level.value, one.path) for one in notes] == [("lost", "spec.template.spec.containers")]
        assert "they request example.com/share, of which ClusterQueue cq gives no quota" in notes[0].happens


def test_a_job_that_requests_what_its_queue_covers_or_whose_queue_is_elsewhere_is_not():
    assert [one.kind for one in kueue(QUEUES + asking(cpu="1")).entries] == ["ClusterQueue"]
    assert kueue(asking(**{"example.com/share": "30"})).entries == []


def test_a_queue_that_is_not_among_those_of_its_namespace_is_told_with_one_that_is():
    raw = yaml.safe_load(asking(cpu="1"))
    raw["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "taem"
    [note] = [one.note for one in kueue(QUEUES + yaml.safe_dump(raw)).entries if one.kind == "Job"]
    assert (note.level.value, note.path) == ("note", "metadata.labels")
    assert "LocalQueue taem is not among those that are migrated here" in note.happens
    assert "name one that is there (team)" in note.do
    raw["metadata"]["namespace"] = "elsewhere"
    assert not [one for one in kueue(QUEUES + yaml.safe_dump(raw)).entries if one.kind == "Job"]


def test_a_quota_that_nothing_can_ever_use_is_told():
    """Kubernetes 1.36, validateContainerResourceName: no container can request gpu.memory."""
    assert said(kueue(QUEUES.rstrip("-\n"))) == [("lost", "spec.resourceGroups[0].coveredResources[2]")]


def test_pods_with_resource_claims_are_told():
    raw = yaml.safe_load(submitted(shapes.JOB))
    raw["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu"}]

    assert said(kueue(yaml.safe_dump(raw))) == [("note", "spec.template.spec.resourceClaims")]


MAPPED = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
resources:
  deviceClassMappings:
  - name: gpu.memory
    deviceClassNames: [mig.nvidia.com]
    sources:
    - counter:
        name: memory
        driver: gpu.nvidia.com
        deviceSelector: {cel: {expression: "device.driver == 'gpu.nvidia.com'"}}
"""


def test_device_class_mappings_are_carried_over():
    """Kueue's KEP-2941 has this example."""
    found = kueue(MAPPED)

    [mapping] = load_configuration(found.text).resources.device_class_mappings
    assert (mapping.name, mapping.device_class_names) == ("gpu.memory", ["mig.nvidia.com"])
    assert mapping.sources[0].counter.driver == "gpu.nvidia.com"
    assert said(found) == [("lost", ""), ("note", "resources.deviceClassMappings")]


def test_device_class_mappings_that_contradict_are_told_and_left_out():
    found = kueue(MAPPED.replace("[mig.nvidia.com]", "[]"))

    assert found.text == ""
    assert ("invalid", "resources.deviceClassMappings") in said(found)


def test_quota_of_a_name_that_devices_are_counted_as_is_used():
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"c.yaml": MAPPED}}
    for configuration in (MAPPED, yaml.safe_dump(config_map)):
        for text in (QUEUES + configuration, f"{configuration}---\n" + QUEUES.rstrip("-\n")):
            assert [one for one in kueue(text).entries if one.kind == "ClusterQueue"] == []


def test_parts_of_devices_that_another_scheduler_hands_out_are_told():
    assert said(kueue(asking(**{"nvidia.com/gpumem": "1024"}))) == [("lost", "spec.template.spec.containers")]


SETTINGS = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: 5m}
resources:
  excludeResourcePrefixes: [ephemeral]
  transformations: [{input: cpu, strategy: Retain, outputs: {credits: 1}}]
  deviceClassMappings: [{name: gpu, deviceClassNames: [gpu.example.com]}]
"""


def test_each_setting_of_kueues_without_a_counterpart_is_named():
    paths = [
        "waitForPodsReady",
        *(f"resources.{one}" for one in ("excludeResourcePrefixes", "transformations", "deviceClassMappings")),
    ]
    found = kueue(SETTINGS)

    assert "deviceClassMappings" in found.text
    assert {path for _, path in said(found)} == {"", *paths}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"c.yaml": SETTINGS}}
    inside = kueue(yaml.safe_dump(config_map))
    assert {path for _, path in said(inside)} == {"data[c.yaml]"}
    assert sorted(one.note.happens.partition(":")[0] for one in inside.entries) == sorted(paths)
    assert losses(inside.entries) == 3
