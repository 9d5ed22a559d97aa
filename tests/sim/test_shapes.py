"""Fleets from a file: what they make, and what is said of mistakes in them."""

import pytest

from tutti.api.problems import ConfigurationError
from tutti_sim.hollow.machines import picked
from tutti_sim.hollow.shapes import Deed, Shapes
from tutti_sim.meta import yamlfile

FLEET = """
seed: 7
nodes:
  - name: gpu
    count: 10
    resources: {cpu: 96, memory: 1024Gi, nvidia.com/gpu: 8}
    allocatable: {cpu: 95500m}
    gpuModel: NVIDIA-H100-80GB-HBM3
    labels: {pool: train}
    layout: {nodesPerRack: 4, racksPerZone: 2}
    taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
    images: [{names: ["registry/small:1"], size: 1Gi}, {names: ["registry/train:1"], size: 8Gi}]
  - {name: cpu, count: 2, resources: {cpu: 8, memory: 32Gi, pods: 30}}
pods: {runSeconds: 10-20, failProbability: 0.1}
schedule: [{at: 5, do: kill, nodes: gpu-*, pick: 2, every: 60}]
"""


def read(text):
    return yamlfile.read_yaml(text, Shapes, "fleet.yaml")


def test_a_shape_makes_nodes_that_are_alike():
    node = read(FLEET).manifests()[0]

    assert node["metadata"]["name"] == "gpu-0000"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert node["metadata"]["labels"]["pool"] == "train"
    assert node["status"]["capacity"] == {"pods": "110", "cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}
    assert node["status"]["allocatable"]["cpu"] == "95500m"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert node["status"]["images"][0] == {"names": ["registry/train:1"], "sizeBytes": 8 << 30}


def test_racks_and_zones_are_numbered_on_from_shape_to_shape():
    places = [
        (labels["topology.tutti.dev/rack"], labels["topology.kubernetes.io/zone"])
        for node in read(FLEET).manifests()
        if (labels := node["metadata"]["labels"])
    ]

    assert places[:4] == [("rack-000", "zone-0")] * 4
    assert places[8:10] == [("rack-002", "zone-1")] * 2
    assert places[10:] == [("rack-003", "zone-2")] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("nodes:", "nodez:"), "nodez: there is no such field; did you mean 'nodes'"),
        (("gpuModel", "gpuModle"), r"nodes\[0\].gpuModle: there is no such field; did you mean 'gpuModel'"),
        (("1024Gi", "lots"), r"nodes\[0\].resources.memory: must be a quantity such as 64, 1500m or 512Gi, not 'lots'"),
        (("95500m", "97"), "allocatable cpu is 97, more than the 96"),
        (("{cpu: 95500m}", "{tpu: 1}"), "allocatable names tpu, which is not among the resources"),
        (("name: cpu", "name: gpu"), "two shapes are called 'gpu'"),
        (("NoSchedule", "NoWay"), "must be 'NoSchedule', 'PreferNoSchedule' or 'NoExecute', not 'NoWay'"),
        (("10-20", "20-10"), "pods.runSeconds: must be seconds such as 2.5"),
        (("do: kill", "do: smash"), r"schedule\[0\].do: must be 'drain', .* not 'smash'"),
        (("pool: train", "pool: a b"), r"nodes\[0\].labels.pool: a valid label must be"),
        (("seed: 7", "seed: {"), "this is not YAML"),
    ],
)
def test_a_mistake_is_named_by_its_place_and_with_what_would_be_right(change, message):
    with pytest.raises(ConfigurationError, match=message):
        read(FLEET.replace(*change))


def test_a_file_that_is_no_mapping_is_told_what_it_should_be():
    with pytest.raises(ConfigurationError, match="must be a mapping with keys out of: nodes, pods"):
        read("- gpu")


def test_the_seed_picks_the_same_nodes_again_and_others_the_next_time():
    deed = Deed(at=1, do="kill", nodes="gpu-*", pick=3)
    names = [f"gpu-{n}" for n in range(50)] + ["cpu-0"]

    first = picked(deed, names, seed=1, turn=0)

    assert first == picked(deed, list(reversed(names)), seed=1, turn=0)
    assert first != picked(deed, names, seed=1, turn=1)
    assert len(first) == 3
    assert "cpu-0" not in picked(Deed(at=1, do="kill", nodes="gpu-*"), names, seed=1, turn=0)
