"""Orders of queues and limits of users: a user who has enough waits, is told by what, and the operator begins anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from e2e.harness.story import Story
from e2e.test_views import ask

USER, SECONDS = "scheduling.tutti.dev/user", "scheduling.tutti.dev/expected-seconds"
SETTINGS: dict[str, Any] = {"users": {"by": "Annotation"}, "leaderElection": {"enabled": False}}


def test_a_user_with_his_share_of_a_queue_waits_also_after_a_restart_and_others_do_not(
    story: Story, tmp_path: Path
) -> None:
    name, file = story.namespace, tmp_path / "configuration.yaml"
    file.write_text(yaml.safe_dump(SETTINGS))
    limits = [{"users": ["*"], "resources": {"nvidia.com/gpu": 3}}]
    story.queue(name, 8, userLimits=limits, queueingStrategy="StrictFIFO")
    story.start_operator(**SETTINGS)
    story.gang("a", 2, queue=name, annotations={USER: "anna"})
    story.wait(lambda: len(story.where("a")) == 2, "the first gang of anna to run")
    story.gang("more", 2, queue=name, annotations={USER: "anna"})
    story.wait(lambda: story.why("more").get("gate") == "UserLimit", "her second one to wait for her limit")
    story.kill_operator()
    story.gang("b", 3, queue=name, annotations={USER: "bert"})
    story.start_operator(**SETTINGS)

    story.wait(lambda: len(story.where("b")) == 3, "the gang of bert to run, behind hers in a strict queue")

    assert story.where("more") == {}
    found = ask(story, "explain", "workload", f"{name}/more", "--config", str(file))
    (waits,) = [step for step in found["steps"] if step["verdict"] == "Waits"]
    told = f"user anna may have 3 nvidia.com/gpu in ClusterQueue {name} at once: 2 nvidia.com/gpu in use"
    assert (waits["gate"], waits["message"]) == ("UserLimit", f"{told}, and it needs 2 nvidia.com/gpu")
    had = ask(story, "queue", name, "--config", str(file))["users"]
    users = {one["name"]: one["used"]["nvidia.com/gpu"] for one in had}
    assert users == {"anna": 2, "bert": 3}
    story.wait(lambda: len(story.get("ClusterQueue", name)["status"].get("users", ())) == 2, "the status to say so")

    story.finish("a")

    story.wait(lambda: len(story.where("more")) == 2, "her second gang to run")


def test_the_shorter_one_goes_first_and_both_are_told_where_they_stand(story: Story) -> None:
    name = story.namespace
    story.queue(name, 2, queueingStrategy="StrictFIFO", ordering={"factors": [{"factor": "Shortest"}]})
    story.start_operator(leaderElection={"enabled": False})
    story.gang("first", 2, queue=name)
    story.wait(lambda: len(story.where("first")) == 2, "the first gang to run")
    for gang, seconds in (("long", 90_000), ("short", 60)):
        story.gang(gang, 2, queue=name, annotations={SECONDS: str(seconds)})
    story.wait(lambda: story.why("long").get("gate") == "Queue", "the long one to stand behind the short one")

    waiting = ask(story, "queue", name)["waiting"]
    assert [one["name"] for one in waiting] == ["short", "long"]
    assert "expected to run for 60s (as it says)" in waiting[0]["order"]

    story.finish("first")

    story.wait(lambda: len(story.where("short")) == 2, "the short one to run")
    assert story.where("long") == {}
