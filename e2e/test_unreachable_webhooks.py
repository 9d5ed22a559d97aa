"""The API server reaches the webhooks no longer, while the operator that serves them is binding a gang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.doorway import Doorway
from e2e.harness.hooks import webhooks_asked
from e2e.harness.passage import Passage
from e2e.harness.story import PAUSE, Story

NAMED_FOR = "scheduling.tutti.dev/scheduler-name"
QUEUE = "scheduling.tutti.dev/queue-name"
SIZE = 100


@pytest.fixture
def passage() -> Iterator[Passage]:
    with Passage() as made:
        yield made


@pytest.fixture
def asked(story: Story, doorway: Doorway, passage: Passage) -> Iterator[Story]:
    """A story that binds through a doorway and is asked through a passage, of objects of ours and for schedulers."""
    story.core.patch_namespace(story.namespace, {"metadata": {"labels": {NAMED_FOR: "tutti"}}})
    with webhooks_asked(story, is_named, "pod-webhook", through=passage):
        yield story


def unnamed(story: Story, name: str, **more: Any) -> str:
    """Make a pod of the queue of a story that names no scheduler; returns which one it has got."""
    spec = {"containers": [{"name": "c", "image": PAUSE}], "terminationGracePeriodSeconds": 0}
    body = {"metadata": {"name": name, "labels": {QUEUE: story.namespace}}, "spec": spec}
    return str(story.core.create_namespaced_pod(story.namespace, body, **more).spec.scheduler_name)


def is_named(story: Story) -> bool:
    """Whether a pod that names a queue gets its scheduler by now."""
    return unnamed(story, "tried", dry_run="All") == "tutti"


def nothing_of_ours_gets_in(story: Story) -> None:
    """See that an object of ours is refused because nobody answers for it."""
    with pytest.raises(client.ApiException) as caught:
        story.object("Cohort", "meanwhile", {})
    assert "failed calling webhook" in str(caught.value.body)


def described(story: Story, name: str, size: int) -> None:
    """Make a gang that only annotations describe, of which the operator makes the PodGroup."""
    marks = {"scheduling.k8s.io/group-name": name, "scheduling.volcano.sh/group-min-member": str(size)}
    for rank in range(size):
        story.pod(f"{name}-{rank}", annotations=marks)


def test_a_gang_becomes_whole_and_work_goes_on_where_nobody_is_asked(
    asked: Story, doorway: Doorway, passage: Passage
) -> None:
    asked.queue(asked.namespace, 1)
    asked.gang("many", SIZE, gpus=0, queue=asked.namespace)
    asked.wait(lambda: doorway.kept, "some to be bound")
    uids = {pod.metadata.name: pod.metadata.uid for pod in asked.pods("many")}
    bound = asked.where("many")
    assert 0 < len(bound) < SIZE

    passage.shut()
    nothing_of_ours_gets_in(asked)  # failurePolicy: Fail
    assert unnamed(asked, "meanwhile") == "default-scheduler"  # Ignore: pods are made as they are written
    asked.pod("single", labels={QUEUE: asked.namespace})
    described(asked, "described", 2)
    doorway.open()

    asked.wait(lambda: len(asked.where("many")) == SIZE, "the whole gang to be bound")
    after = asked.where("many")
    assert {name: after[name] for name in bound} == bound  # nobody was moved
    assert {pod.metadata.name: pod.metadata.uid for pod in asked.pods("many")} == uids  # nobody was evicted
    asked.wait(lambda: asked.condition("PodGroup", "many", "Scheduled").get("status") == "True", "it to say so")
    asked.wait(lambda: asked.where("single"), "what names its scheduler itself to be bound")
    nothing_of_ours_gets_in(asked)
    assert not asked.where("meanwhile")

    passage.open()
    asked.wait(lambda: is_named(asked), "the webhooks to be reached again")
    asked.object("Cohort", "afterwards", {})
    assert unnamed(asked, "afterwards") == "tutti"
    asked.wait(lambda: asked.where("afterwards"), "who gets a scheduler again to be bound")
    asked.wait(lambda: len(asked.where("described")) == 2, "the gang of annotations to be bound")
    asked.wait(lambda: "described" in {one["metadata"]["name"] for one in asked.all("PodGroup")}, "its PodGroup")
