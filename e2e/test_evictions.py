"""What is admitted and has to leave again: drained queues, work that never gets ready, work that takes too long."""

from __future__ import annotations

from typing import Any

from e2e.harness.story import GROUP, Story


def workload(story: Story, name: str, size: int = 2, **spec: Any) -> None:
    """A workload in the story's queue, without its pods."""
    groups = [{"name": "main", "count": size}]
    story.object("Workload", name, {"queueName": story.namespace, "podGroups": groups, **spec})


def pods(story: Story, name: str, size: int = 2, **pod: Any) -> None:
    """Its pods, as a controller makes them, and makes them again."""
    for rank in range(size):
        story.pod(f"{name}-{rank}", gpus=1, labels={f"{GROUP}/workload": name}, **pod)


def says(story: Story, name: str, type_: str) -> tuple[str, str]:
    """Status and reason of a condition of a workload."""
    found = story.condition("Workload", name, type_)
    return found.get("status", ""), found.get("reason", "")


def gone(story: Story, name: str) -> bool:
    """Whether no pod of a workload is left, and its quota is free."""
    if story.pods(name):
        return False
    usage = story.get("ClusterQueue", story.namespace).get("status", {}).get("flavorsReservation", [])
    return bool(usage) and all(one["total"] == "0" for one in usage[0]["resources"])


def test_a_queue_is_drained_and_opened_again(story: Story) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    workload(story, "w")
    pods(story, "w")
    story.wait(lambda: len(story.where("w")) == 2, "the workload to run")

    story.change("ClusterQueue", story.namespace, {"stopPolicy": "HoldAndDrain"})

    story.wait(lambda: gone(story, "w"), "its pods and its quota to be gone")
    story.wait(lambda: says(story, "w", "Evicted") == ("True", "ClusterQueueStopped"), "it to say why")
    story.wait(lambda: says(story, "w", "QuotaReserved")[0] == "False", "it to hold no quota")
    story.wait(lambda: says(story, "w", "Requeued") == ("False", "ClusterQueueStopped"), "it to say what for")
    story.wait(lambda: "EvictedDueToClusterQueueStopped" in dict(story.events("w")), "an event that says so")
    pods(story, "w")
    story.wait(lambda: says(story, "w", "Admitted") == ("False", "OnHold"), "it to wait for the queue")
    assert not story.where("w")

    story.change("ClusterQueue", story.namespace, {"stopPolicy": "None"})

    story.wait(lambda: len(story.where("w")) == 2, "the workload to run again")
    story.wait(lambda: says(story, "w", "Evicted") == ("False", "QuotaReserved"), "the eviction to be over")


def test_a_workload_that_never_gets_ready_is_given_up_in_the_end(story: Story) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    requeue = {"backoffBaseSeconds": 1, "backoffMaxSeconds": 1, "limit": 1}
    workload(story, "w", readyTimeoutSeconds=2, requeue=requeue)
    pods(story, "w", readiness_gate="e2e.tutti.dev/never")
    story.wait(lambda: says(story, "w", "Evicted") == ("True", "PodsReadyTimeout"), "it to be taken out")
    story.wait(lambda: gone(story, "w"), "its pods and its quota to be gone")
    story.wait(lambda: story.get("Workload", "w")["status"].get("requeue", {}).get("count") == 1, "it to be counted")

    pods(story, "w", readiness_gate="e2e.tutti.dev/never")

    story.wait(lambda: story.get("Workload", "w")["spec"].get("active") is False, "it to be set inactive")
    story.wait(lambda: gone(story, "w"), "its pods and its quota to be gone")
    given_up = ("True", "DeactivatedDueToRequeuingLimitExceeded")
    story.wait(lambda: says(story, "w", "Evicted") == given_up, "it to say why")
    assert "0 of 2 required members are ready" in story.condition("Workload", "w", "Evicted")["message"]
    pods(story, "w")
    story.wait(lambda: says(story, "w", "Admitted") == ("False", "Deactivated"), "it to wait to be set active")
    assert not story.where("w")

    story.change("Workload", "w", {"active": True, "readyTimeoutSeconds": 600})

    story.wait(lambda: len(story.where("w")) == 2, "it to run once it is active again")


def test_a_workload_that_runs_too_long_is_stopped_though_the_operator_was_killed_meanwhile(story: Story) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    workload(story, "w", maximumExecutionTimeSeconds=8)
    pods(story, "w")
    story.wait(lambda: says(story, "w", "Scheduled")[0] == "True", "the workload to run, and to say so")
    story.kill_operator()
    story.start_operator()

    story.wait(lambda: story.get("Workload", "w")["spec"].get("active") is False, "it to be set inactive")

    story.wait(lambda: gone(story, "w"), "its pods and its quota to be gone")
    too_long = ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    story.wait(lambda: says(story, "w", "Evicted") == too_long, "it to say why")
    ran = "accumulatedPastExecutionTimeSeconds"
    story.wait(lambda: story.get("Workload", "w")["status"].get(ran, 0) >= 8, "it to say how long it has run")
