"""What people get wrong, where they are told, and that everything else goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes import client

from e2e.harness.processes import PATIENCE
from e2e.harness.story import GROUP, Story


def refused(make: Callable[[], object]) -> str:
    """The API server's reason for refusing."""
    with pytest.raises(client.ApiException) as caught:
        make()
    assert caught.value.status in (400, 422), caught.value
    return str(json.loads(caught.value.body)["message"])


def still_works(story: Story) -> None:
    story.gang("healthy", 2, gpus=0)
    story.wait(lambda: len(story.where("healthy")) == 2, "a healthy gang to be bound all the same")


def test_a_pod_group_with_min_count_0_is_refused(story: Story) -> None:
    said = refused(lambda: story.object("PodGroup", "none", {"schedulingPolicy": {"gang": {"minCount": 0}}}))
    assert "spec.schedulingPolicy.gang.minCount" in said
    assert "greater than or equal to 1" in said


def test_a_workload_whose_min_count_is_above_its_count_is_refused(story: Story) -> None:
    group = {"name": "workers", "count": 2, "minCount": 3}
    said = refused(lambda: story.object("Workload", "odd", {"podGroups": [group]}))
    assert "minCount cannot be above count" in said


def test_an_unparsable_quantity_is_refused(story: Story) -> None:
    assert "quantit" in refused(lambda: story.pod("odd", cpu="a lot"))


def test_a_workload_that_names_no_queue_of_its_namespace_is_told_which_there_are(story: Story) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    story.object("Workload", "lost", {"queueName": "nowhere", "podGroups": [{"name": "main", "count": 1}]})
    story.pod("lost-0", labels={f"{GROUP}/workload": "lost"})
    told = "LocalQueueNotFound"
    story.wait(lambda: story.condition("Workload", "lost", "Admitted").get("reason") == told, "it to be told")
    said = story.condition("Workload", "lost", "Admitted")
    assert said["status"] == "False"
    assert f"this namespace has: {story.namespace}" in said["message"]
    story.wait(lambda: "FailedScheduling" in dict(story.events("lost")), "an event")
    still_works(story)


def test_a_queue_without_its_flavor_is_inactive_until_the_flavor_is_made(story: Story) -> None:
    name = story.namespace
    quota = {"name": f"{name}-gpus", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 1}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [quota]}]
    story.object("ClusterQueue", name, {"resourceGroups": groups, "namespaceSelector": {}})
    story.start_operator()
    story.wait(lambda: story.condition("ClusterQueue", name, "Active").get("status") == "False", "it to be inactive")
    said = story.condition("ClusterQueue", name, "Active")
    assert said["reason"] == "FlavorNotFound"
    assert f"{name}-gpus" in said["message"]
    still_works(story)

    story.object("ResourceFlavor", f"{name}-gpus", {})

    story.wait(lambda: story.condition("ClusterQueue", name, "Active").get("status") == "True", "it to heal")


def test_a_ring_of_cohorts_is_spelled_out(story: Story) -> None:
    one, two = f"{story.namespace}-one", f"{story.namespace}-two"
    story.object("Cohort", one, {"parentName": two})
    story.object("Cohort", two, {"parentName": one})
    story.object("ClusterQueue", one, {"cohortName": one, "namespaceSelector": {}})
    story.start_operator()
    for kind in ("Cohort", "ClusterQueue"):
        story.wait(lambda: story.condition(kind, one, "Active").get("status") == "False", f"{kind} to be inactive")  # noqa: B023
        said = story.condition(kind, one, "Active")["message"]
        assert one in said
        assert two in said
    still_works(story)


def test_a_pod_that_no_node_could_ever_hold_is_told_the_largest_node(story: Story) -> None:
    story.start_operator()
    story.pod("giant", gpus=1000)
    story.wait(lambda: story.pod_condition("giant")[0] == "Unschedulable", "it to be told")
    assert "A pod asks for 1000 nvidia.com/gpu; the largest node offers" in story.pod_condition("giant")[1]
    assert "Insufficient nvidia.com/gpu" in story.pod_condition("giant")[1]
    still_works(story)


def test_a_gang_annotation_that_cannot_be_read_is_named(story: Story) -> None:
    story.start_operator()
    prefix = "gang-scheduling.preferred.jp/gang"
    story.pod("odd-0", annotations={f"{prefix}-name": "odd", f"{prefix}-size": "three"})
    story.wait(lambda: story.pod_condition("odd-0")[0] == "InvalidGang", "it to be told")
    said = story.pod_condition("odd-0")[1]
    assert f"{prefix}-size" in said
    assert "'three' is not a whole number" in said
    story.wait(lambda: "FailedScheduling" in dict(story.events("odd-0")), "an event")
    still_works(story)


def test_a_gang_whose_members_ask_for_different_queues_is_told_who_asks_for_what(story: Story) -> None:
    story.start_operator()
    story.object("PodGroup", "torn", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    for rank, queue in enumerate(("left", "right")):
        story.pod(f"torn-{rank}", labels={f"{GROUP}/pod-group": "torn", f"{GROUP}/queue-name": queue})
    story.wait(lambda: story.why("torn").get("reason") == "DifferentQueues", "it to be told")
    assert "left (torn-0), right (torn-1)" in story.why("torn")["message"]
    assert not story.where("torn")
    still_works(story)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tutti", "run", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)


def test_a_kubeconfig_that_does_not_exist_ends_the_start_with_2(tmp_path: Path) -> None:
    done = run("--kubeconfig", str(tmp_path / "nothing"))
    assert done.returncode == 2
    assert str(tmp_path / "nothing") in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_configuration_key_ends_the_start_with_2_and_names_its_neighbour(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("permitTimeoutSecond: 30\n")
    done = run("--config", str(file))
    assert done.returncode == 2
    assert "permitTimeoutSecond" in done.stderr
    assert "did you mean 'permitTimeoutSeconds'?" in done.stderr


def test_a_queue_that_cannot_be_read_is_told_so_and_heals_when_it_is_mended(story: Story) -> None:
    name = story.namespace
    quota = {"name": name, "resources": [{"name": "cpu", "nominalQuota": 10}]}
    twice = [{"coveredResources": ["cpu"], "flavors": [quota]}, {"coveredResources": ["memory"], "flavors": [
        {"name": name, "resources": [{"name": "memory", "nominalQuota": "1Gi"}]}]}]  # fmt: skip
    story.object("ResourceFlavor", name, {})
    story.object("ClusterQueue", name, {"resourceGroups": twice, "namespaceSelector": {}})
    story.object("LocalQueue", name, {"clusterQueue": name})
    story.start_operator()
    story.wait(lambda: story.condition("ClusterQueue", name, "Active").get("reason") == "Invalid", "it to be told")
    assert "one resource group only" in story.condition("ClusterQueue", name, "Active")["message"]

    both = {"name": name, "resources": [*quota["resources"], {"name": "memory", "nominalQuota": "1Gi"}]}
    story.change("ClusterQueue", name, {"resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [both]}]})

    story.wait(lambda: story.condition("ClusterQueue", name, "Active").get("status") == "True", "it to heal")
    story.pod("after", labels={f"{GROUP}/queue-name": name})
    story.wait(lambda: story.where("after"), "it to admit")
    story.wait(
        lambda: story.get("ClusterQueue", name)["status"].get("admittedWorkloads") == 1, "it to count what it admitted"
    )
    assert story.condition("ClusterQueue", name, "Active")["status"] == "True"
