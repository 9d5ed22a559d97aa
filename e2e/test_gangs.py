"""The user stories about gangs: what made somebody install Tutti."""

from __future__ import annotations

import collections
import subprocess
import sys

from e2e.harness.doorway import Doorway
from e2e.harness.story import Story


def test_two_gangs_that_each_need_more_than_half_run_one_after_the_other(story: Story) -> None:
    """The classic deadlock: two gangs of 3, two nodes with room for 2 each."""
    pair = story.cluster.nodes[:2]
    story.label_nodes(pair, {"e2e/pair": "yes"})
    story.start_operator()
    story.gang("red", 3, selector={"e2e/pair": "yes"})
    story.gang("blue", 3, selector={"e2e/pair": "yes"})
    story.wait(lambda: len(story.where("red")) + len(story.where("blue")) == 3, "one of the gangs to be bound")
    first, second = ("red", "blue") if story.where("red") else ("blue", "red")
    assert len(story.where(first)) == 3
    story.wait(lambda: story.why(second).get("gate") == "Placement", f"{second} to say why it waits")
    assert not story.where(second)
    assert "of 3 pods of the gang" in story.why(second)["message"]
    story.wait(lambda: story.pod_condition(f"{second}-0")[0] == "Unschedulable", "its pods to say so")

    story.finish(first)

    story.wait(lambda: len(story.where(second)) == 3, f"{second} to be bound after {first} has ended")
    story.wait(lambda: "Scheduled" in dict(story.events(second)), "an event that says so")
    story.label_nodes(pair, {"e2e/pair": None})


def test_a_gang_over_quota_waits_its_turn(story: Story) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    story.gang("first", 3, queue=story.namespace)
    story.wait(lambda: len(story.where("first")) == 3, "the first gang to be bound")
    story.gang("second", 2, queue=story.namespace)
    story.wait(lambda: story.why("second").get("gate") == "Quota", "the second gang to say that it waits for quota")
    assert "needs 2 nvidia.com/gpu" in story.why("second")["message"]
    assert "1 free now (1 of its own 4" in story.why("second")["message"]
    assert not story.where("second")
    story.wait(
        lambda: story.pod_condition("second-0")[0] == "WaitingForQuota", "its pods to say so: no nodes are missing"
    )
    story.wait(
        lambda: story.get("ClusterQueue", story.namespace).get("status", {}).get("pendingWorkloads") == 1,
        "the queue to count what waits",
    )

    story.finish("first")

    story.wait(lambda: len(story.where("second")) == 2, "the second gang to be bound")


def test_a_large_gang_waits_whole_while_small_work_goes_by(story: Story) -> None:
    story.start_operator()
    story.gang("running", 5)
    story.wait(lambda: len(story.where("running")) == 5, "five of eight GPUs to be in use")
    story.gang("large", 4)
    story.wait(lambda: story.why("large").get("gate") == "Placement", "the large gang to wait")
    story.pod("small", gpus=1)
    story.wait(lambda: story.where("small"), "the small pod to go by")
    assert not story.where("large")

    story.finish("running")

    story.wait(lambda: len(story.where("large")) == 4, "the large gang to be bound whole")


def test_the_operator_is_killed_in_the_middle_of_a_gang_and_the_next_one_completes_it(
    story: Story, doorway: Doorway
) -> None:
    size = 100
    story.start_operator()
    story.gang("many", size, gpus=0)
    story.wait(lambda: doorway.kept, "some to be bound")
    story.kill_operator()
    doorway.open()
    bound = story.where("many")
    assert 0 < len(bound) < size
    uids = {pod.metadata.name: pod.metadata.uid for pod in story.pods("many")}

    story.start_operator()

    story.wait(lambda: len(story.where("many")) == size, "the whole gang to be bound", seconds=180)
    after = story.where("many")
    assert {name: after[name] for name in bound} == bound  # nobody was moved
    assert {pod.metadata.name: pod.metadata.uid for pod in story.pods("many")} == uids  # nobody was evicted
    story.wait(lambda: story.condition("PodGroup", "many", "Scheduled").get("status") == "True", "it to say so")


def test_a_second_start_knows_what_the_first_admitted(story: Story) -> None:
    story.queue(story.namespace, 3)
    story.start_operator()
    story.gang("first", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("first")) == 2, "the first gang to be bound")
    assert story.stop_operator() == 0
    story.gang("second", 2, queue=story.namespace)
    story.start_operator()
    story.wait(lambda: story.why("second").get("gate") == "Quota", "the second gang to wait for the quota in use")
    assert "1 free now (1 of its own 3" in story.why("second")["message"]
    assert len(story.where("first")) == 2


def test_each_bind_is_decided_once_and_the_journal_replays(story: Story) -> None:
    story.start_operator()
    for name in ("a", "b", "c"):
        story.gang(name, 2)
    story.wait(lambda: all(len(story.where(name)) == 2 for name in ("a", "b", "c")), "all gangs to be bound")
    assert story.stop_operator() == 0
    decided = collections.Counter(uid for _, uid, _ in story.binds())
    assert set(decided.values()) == {1}
    replay = subprocess.run(
        [sys.executable, "-m", "tutti", "replay", str(story.folder / "journal")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert replay.returncode == 0, replay.stdout + replay.stderr
    assert replay.stdout.startswith("identical")
