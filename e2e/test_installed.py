"""The operator as the manifests install it, in its own pods: on kind only, where there is an image to run."""

from __future__ import annotations

import pytest
from kubernetes import client

from e2e.harness.pretended import GPUS, PRETENDED
from e2e.harness.story import Story

pytestmark = pytest.mark.kind

NAMESPACE = "tutti-system"


def test_the_installed_operator_runs_a_gang_from_its_queue(story: Story) -> None:
    story.queue(story.namespace, 4)
    story.gang("trio", 3, queue=story.namespace)
    story.wait(lambda: len(story.where("trio")) == 3, "the gang to be bound")
    story.gang("more", 2, queue=story.namespace)
    story.wait(lambda: story.why("more").get("gate") == "Quota", "another gang to wait for quota")

    story.finish("trio")

    story.wait(lambda: len(story.where("more")) == 2, "the other gang to follow")


def test_a_gang_as_large_as_all_pretended_nodes_is_bound_whole(story: Story) -> None:
    nodes = [one for one in story.core.list_node().items if PRETENDED in (one.metadata.annotations or {})]
    if not nodes:
        pytest.skip("there are no pretended nodes (KWOK_NODES=0)")
    tolerates = [{"key": PRETENDED, "operator": "Exists"}]
    story.gang("large", len(nodes), gpus=GPUS, selector={"type": "kwok"}, tolerations=tolerates)

    story.wait(lambda: len(story.where("large")) == len(nodes), "the whole gang to be bound")

    assert len(set(story.where("large").values())) == len(nodes)  # eight GPUs each: one on each node


def test_the_second_replica_takes_over_when_the_pod_of_the_first_is_deleted(story: Story) -> None:
    leases = client.CoordinationV1Api(story.api)

    def holder() -> str:
        return str(leases.read_namespaced_lease("tutti", NAMESPACE).spec.holder_identity or "")

    pods = [pod.metadata.name for pod in story.core.list_namespaced_pod(NAMESPACE).items]
    leader = next(name for name in pods if holder().startswith(name))
    story.core.delete_namespaced_pod(leader, NAMESPACE, grace_period_seconds=0)

    story.wait(lambda: holder() and not holder().startswith(leader), "another replica to lead")
    story.gang("after", 2)
    story.wait(lambda: len(story.where("after")) == 2, "a gang to be bound by it")
