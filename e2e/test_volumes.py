"""The user stories about volumes: a gang and its claims."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from e2e.harness.story import Story

SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def storage(story: Story) -> Any:
    """A story where there are a binder and a provisioner of volumes; classes and volumes go with it."""
    if not story.cluster.provisioner:
        pytest.skip("needs a binder and a provisioner of volumes: make e2e, make e2e-kubelets")
    made: list[tuple[Any, str]] = []
    yield lambda delete, name: made.append((delete, name))
    for delete, name in reversed(made):
        delete(name)


def storage_class(story: Story, storage: Any, provisioner: str = "", **fields: Any) -> str:
    name = story.namespace
    api = client.StorageV1Api(story.api)
    provisioner = provisioner or story.cluster.provisioner
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    api.create_storage_class({**body, **fields})
    storage(api.delete_storage_class, name)
    return name


def claim_spec(storage_class: str, mode: str = "ReadWriteOnce") -> dict[str, Any]:
    return {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }


def claim(story: Story, name: str, storage_class: str, mode: str = "ReadWriteOnce") -> None:
    body = {"metadata": {"name": name}, "spec": claim_spec(storage_class, mode)}
    story.core.create_namespaced_persistent_volume_claim(story.namespace, body)


def uses(name: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def read_claim(story: Story, name: str) -> Any:
    return story.core.read_namespaced_persistent_volume_claim(name, story.namespace)


def test_a_gang_gets_its_volumes_made_where_its_members_will_be(story: Story, storage: Any) -> None:
    late = storage_class(story, storage)
    story.start_operator()
    story.object("PodGroup", "train", {"schedulingPolicy": {"gang": {"minCount": 3}}})
    member = {"labels": {"scheduling.tutti.dev/pod-group": "train"}}
    for rank in range(2):
        claim(story, f"data-{rank}", late)
        story.pod(f"train-{rank}", volumes=uses(f"data-{rank}"), **member)
    story.wait(lambda: story.why("train").get("gate") == "Gather", "the gang to wait for its last member")
    assert SELECTED not in (read_claim(story, "data-0").metadata.annotations or {})

    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(late)}}}]
    story.pod("train-2", volumes=scratch, **member)

    story.wait(lambda: len(story.where("train")) == 3, "the whole gang to be bound")
    where = story.where("train")
    for name, pod in (("data-0", "train-0"), ("data-1", "train-1"), ("train-2-scratch", "train-2")):
        found = read_claim(story, name)
        assert found.status.phase == "Bound"
        assert found.metadata.annotations[SELECTED] == where[pod]


def test_a_provisioner_that_never_answers_binds_nobody(story: Story, storage: Any) -> None:
    """One claim cannot be served: its class allows a zone that no node is in, so no member may start."""
    late = storage_class(
        story,
        storage,
        allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["nowhere"]}]}],
    )
    story.start_operator()
    story.object("PodGroup", "train", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    member = {"labels": {"scheduling.tutti.dev/pod-group": "train"}}
    claim(story, "data", late)
    story.pod("train-0", **member)
    story.pod("train-1", volumes=uses("data"), **member)

    story.wait(lambda: story.why("train").get("gate") == "Placement", "the gang to say why it waits")
    assert "nodes didn't find available persistent volumes to bind" in story.why("train")["message"]
    assert not story.where("train")


def test_a_claim_for_one_pod_is_used_by_one_pod_at_a_time(story: Story, storage: Any) -> None:
    late = storage_class(story, storage)
    claim(story, "once", late, "ReadWriteOncePod")
    story.start_operator()
    story.pod("first", volumes=uses("once"))
    story.wait(lambda: story.where("first"), "the first pod to be bound")
    story.pod("second", volumes=uses("once"))
    why = "ReadWriteOncePod access mode already in-use by another pod"
    story.wait(lambda: why in story.pod_condition("second")[1], "the second to say why it waits")
    assert story.pod_condition("second")[0] == "Unschedulable"

    story.finish("first")

    story.wait(lambda: story.where("second"), "the second to be bound after the first has ended")


def test_a_gang_goes_where_its_volume_is(story: Story, storage: Any) -> None:
    """A volume that was bound before, in one zone: the whole gang has to go there."""
    late = storage_class(story, storage, provisioner="kubernetes.io/no-provisioner")
    node = story.cluster.nodes[0]
    zone = story.core.read_node(node).metadata.labels[ZONE]
    inside = {one.metadata.name for one in story.core.list_node(label_selector=f"{ZONE}={zone}").items}
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    body = {
        "metadata": {"name": story.namespace, "labels": {ZONE: zone}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": late,
            "hostPath": {"path": "/"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }
    story.core.create_persistent_volume(body)
    storage(story.core.delete_persistent_volume, story.namespace)
    claim(story, "dataset", late, "ReadWriteMany")
    story.start_operator()

    story.gang("train", 2, volumes=uses("dataset"))

    story.wait(lambda: len(story.where("train")) == 2, "the gang to be bound")
    assert set(story.where("train").values()) <= inside
    assert read_claim(story, "dataset").spec.volume_name == story.namespace
