"""What the API server refuses, warns of and fills in, by asking an operator with a certificate of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.hooks import webhooks_asked
from e2e.harness.story import GROUP, VERSION, Story


@pytest.fixture
def asked(story: Story) -> Iterator[Story]:
    """A story whose writes are reviewed, by the configurations of the manifests at an address of this machine."""
    with webhooks_asked(story, is_reviewed):
        yield story


def is_reviewed(story: Story) -> bool:
    """Whether a write gets an answer by now."""
    try:
        warnings(story, "cohorts", {"metadata": {"name": "tried"}, "kind": "Cohort", "spec": {}})
    except client.ApiException as error:
        if "failed calling webhook" not in str(error.body):
            raise
        return False
    return True


def warnings(story: Story, plural: str, body: dict[str, Any]) -> str:
    """Try a write, and return what the API server warns of."""
    document = {"apiVersion": f"{GROUP}/{VERSION}", **body}
    write = story.custom.create_cluster_custom_object_with_http_info
    _, _, headers = write(GROUP, VERSION, plural, document, dry_run="All")
    return str(headers.get("Warning", ""))


def test_a_ring_of_cohorts_is_refused_with_its_field(asked: Story) -> None:
    asked.object("Cohort", "ring-b", {"parentName": "ring-a"})

    def refused() -> str:
        try:
            asked.object("Cohort", "ring-a", {"parentName": "ring-b"})
        except client.ApiException as error:
            return str(json.loads(error.body)["message"])
        asked.remove("Cohort", "ring-a")  # the operator had not seen the other yet
        return ""

    asked.wait(refused, "the ring to be refused")
    assert "spec.parentName" in refused()
    assert "ring-a -> ring-b -> ring-a" in refused()


def test_a_name_that_is_missing_is_a_warning_and_the_default_queue_is_filled_in(asked: Story) -> None:
    queue = {"metadata": {"name": "warned"}, "kind": "ClusterQueue", "spec": _quota("nowhere")}
    said = warnings(asked, "clusterqueues", queue)
    assert "spec.resourceGroups[0].flavors[0].name: ResourceFlavor nowhere does not exist" in said

    asked.queue("default", 4)

    def filled() -> bool:
        made = asked.object("Workload", "unqueued", {"podGroups": [{"name": "main", "count": 1}]})
        asked.remove("Workload", "unqueued")
        return bool(made["spec"].get("queueName") == "default")

    asked.wait(filled, "the default queue to be filled in")


def test_while_the_operator_is_away_nothing_of_ours_gets_in_and_all_else_does(asked: Story) -> None:
    asked.object("Cohort", "before", {})
    asked.kill_operator()

    with pytest.raises(client.ApiException) as caught:
        asked.object("Cohort", "meanwhile", {})
    assert "failed calling webhook" in str(caught.value.body)
    asked.core.create_namespaced_config_map(asked.namespace, {"metadata": {"name": "anything"}})


def _quota(flavor: str) -> dict[str, Any]:
    quotas = [{"name": "cpu", "nominalQuota": 1}]
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": quotas}]}]}
