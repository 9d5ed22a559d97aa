"""What somebody takes away while a gang is being bound, or runs: it stays whole, or goes back whole, and says why."""

from __future__ import annotations

import signal
from http import HTTPStatus

import pytest
from kubernetes.client import ApiException

from e2e.harness.doorway import Doorway
from e2e.harness.power import SOON
from e2e.harness.story import Story
from e2e.test_rivals import SIZE, slow_operator, used


def stop_midway(story: Story, doorway: Doorway, of: Story | None = None) -> dict[str, str]:
    """Have the operator stand still when the first of a gang are bound; returns who is, and where."""
    gang = of or story
    story.wait(lambda: doorway.kept, "some to be bound")
    assert story.operator is not None
    story.operator.send_signal(signal.SIGSTOP)
    doorway.open()
    begun = gang.living("train")
    assert 0 < len(begun) < SIZE
    return begun


def go_on(story: Story) -> None:
    """Have the operator run again."""
    assert story.operator is not None
    story.operator.send_signal(signal.SIGCONT)


def says(story: Story, type_: str) -> tuple[str, str]:
    """Status and reason of a condition of the gang."""
    found = story.condition("PodGroup", "train", type_)
    return found.get("status", ""), found.get("reason", "")


def grave(story: Story) -> list[str]:
    """Lines of the operator's log that somebody would be woken for."""
    return [line for line in story.log.read_text().splitlines() if '"error"' in line or '"critical"' in line]


def counts(story: Story, **numbers: int) -> bool:
    """Whether the story's queue counts so many workloads of each kind."""
    return numbers.items() <= story.get("ClusterQueue", story.namespace).get("status", {}).items()


def test_the_namespace_of_a_gang_is_deleted_while_it_is_bound_and_its_quota_is_anothers(
    story: Story, doorway: Doorway
) -> None:
    if not story.cluster.replica_sets:
        pytest.skip("nobody empties a namespace here that is deleted")
    gone = Story(story.cluster, f"{story.namespace}-gone", story.folder)
    slow_operator(story)
    gone.object("LocalQueue", story.namespace, {"clusterQueue": story.namespace})
    gone.gang("train", SIZE, gpus=0, queue=story.namespace)
    stop_midway(story, doorway, gone)
    story.core.delete_namespace(gone.namespace)

    go_on(story)

    story.wait(lambda: not exists(story, gone.namespace), "the namespace to be gone", SOON)
    gone.api.close()
    story.wait(lambda: used(story) == 0, "nothing of its quota to be in use")
    story.wait(lambda: counts(story, reservingWorkloads=0, pendingWorkloads=0), "the queue to count nobody")
    story.gang("train", 2, queue="", gpus=0)
    story.wait(lambda: len(story.where("train")) == 2, "a gang of the same name elsewhere to be bound")
    assert grave(story) == []


def exists(story: Story, namespace: str) -> bool:
    """Whether a namespace is there, or is on its way out."""
    try:
        story.core.read_namespace(namespace)
    except ApiException as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def test_a_gang_that_is_being_bound_when_its_quota_is_taken_away_is_bound_whole_and_the_next_waits(
    story: Story, doorway: Doorway
) -> None:
    slow_operator(story)
    story.gang("train", SIZE, gpus=0, queue=story.namespace)
    begun = stop_midway(story, doorway)
    covered = ["cpu", "memory", "nvidia.com/gpu"]
    none = {"name": story.namespace, "resources": [{"name": name, "nominalQuota": 0} for name in covered]}
    groups = [{"coveredResources": covered, "flavors": [none]}]
    story.change("ClusterQueue", story.namespace, {"resourceGroups": groups})

    go_on(story)

    story.wait(lambda: says(story, "Scheduled")[0] == "True", "it to be bound whole")
    assert len(story.living("train")) == SIZE
    assert begun.items() <= story.living("train").items()
    story.wait(lambda: used(story) == SIZE * 10, "its queue to count each member once")
    story.gang("next", 1, gpus=0, queue=story.namespace)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")
    assert "of its own 0" in story.why("next")["message"]
    story.finish("train")
    story.wait(lambda: used(story) == 0, "nothing to be in use")


def test_a_gang_that_is_being_bound_when_its_queue_is_drained_goes_back_whole_and_starts_again_whole(
    story: Story, doorway: Doorway
) -> None:
    if not story.cluster.replica_sets:
        pytest.skip("nobody makes the pods of a controller anew")
    slow_operator(story)
    story.crew("train", SIZE, gpus=0, queue=story.namespace)
    stop_midway(story, doorway)
    story.change("ClusterQueue", story.namespace, {"stopPolicy": "HoldAndDrain"})

    go_on(story)

    story.wait(lambda: says(story, "Evicted") == ("True", "ClusterQueueStopped"), "it to say why it goes back")
    story.wait(lambda: not story.where("train") and len(story.pods("train")) == SIZE, "it to be back whole", SOON)
    story.wait(lambda: counts(story, reservingWorkloads=0, pendingWorkloads=1), "the queue to count it as waiting")
    assert says(story, "Scheduled")[0] == "False"
    story.change("ClusterQueue", story.namespace, {"stopPolicy": "None"})
    story.wait(lambda: len(story.living("train")) == SIZE, "it to start whole", SOON)
    story.wait(lambda: used(story) == SIZE * 10, "its queue to count each member once")


def test_members_that_were_to_be_bound_to_a_node_that_is_deleted_go_elsewhere(
    story: Story, doorway: Doorway, machines: tuple[str, ...]
) -> None:
    if not story.cluster.replica_sets:
        pytest.skip("nobody makes the pods of a controller anew")
    slow_operator(story)
    story.crew("train", SIZE, gpus=0, queue=story.namespace, selector={"e2e/story": story.namespace})
    begun = stop_midway(story, doorway)
    lost = machines[-1]
    story.cluster.machines.remove(lost)

    go_on(story)

    def whole() -> bool:
        return len(story.living("train")) == SIZE and lost not in story.living("train").values()

    story.wait(whole, "it to be whole without that node", SOON)
    assert {pod: node for pod, node in begun.items() if node != lost}.items() <= story.living("train").items()
    story.wait(lambda: used(story) == SIZE * 10, "its queue to count each member once")
    story.wait(lambda: says(story, "Scheduled")[0] == "True" and says(story, "Degraded")[0] != "True", "it to say so")


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed"])
def test_a_member_that_its_kubelet_ends_has_a_successor_and_the_gang_says_why_it_was_lost(
    story: Story, *, killed: bool
) -> None:
    """The queue is of the gang's size: who has failed uses nothing any more.

    A kubelet that is out of memory ends pods the same way, but these run out of nothing: it is their time that is over.
    """
    if not story.cluster.replica_sets:
        pytest.skip("nobody makes the pods of a controller anew")
    here = {"kubernetes.io/hostname": story.cluster.nodes[0]}
    story.queue(story.namespace, 2)
    story.start_operator()
    story.crew("train", 2, queue=story.namespace, selector=here)
    story.wait(lambda: len(story.living("train")) == 2, "the gang to be bound")
    story.wait(lambda: says(story, "Scheduled")[0] == "True", "it to say so")
    before = story.living("train")
    out = min(before)
    story.core.patch_node(
        story.cluster.nodes[0], {"spec": {"unschedulable": True}}
    )  # as the taint of a node under pressure has it
    try:
        story.end(out, phase="Failed")
        story.wait(lambda: says(story, "Degraded")[0] == "True", "it to say that it lacks a member")
        if killed:
            story.kill_operator()
            story.start_operator()
        story.wait(lambda: len(story.pods("train")) == 3, "the successor to be made")
        story.wait(lambda: "at the Placement gate" in told(story), "it to say what its successor waits for")
        assert told(story).startswith("1 of 2 required members has a node that works")
        assert f"failed: {out} (DeadlineExceeded)" in told(story)
    finally:
        story.core.patch_node(story.cluster.nodes[0], {"spec": {"unschedulable": None}})

    story.wait(lambda: len(story.living("train")) == 2, "the gang to be whole again", SOON)
    assert before.keys() - {out} <= story.living("train").keys()
    story.wait(lambda: says(story, "Degraded")[0] == "False", "it to say so")
    assert counts(story, reservingWorkloads=1, admittedWorkloads=1)
    story.gang("next", 1, queue=story.namespace)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")
    assert "0 free now (0 of its own 2" in story.why("next")["message"]


def told(story: Story) -> str:
    """How the gang says that it lacks members."""
    return str(story.condition("PodGroup", "train", "Degraded").get("message", ""))
