"""Work of higher priority takes the place of lower: as a whole or not at all, and only what it needs."""

from __future__ import annotations

from typing import Any

from e2e.harness.story import Story


def leaving(story: Story, prefix: str) -> list[Any]:
    """The pods that have been told to end for the sake of others, as their condition says."""
    return [
        pod
        for pod in story.pods(prefix)
        if any(
            one.type == "DisruptionTarget" and one.reason == "PreemptionByScheduler" for one in pod.status.conditions
        )
    ]


GRACE = 3600
"""For how many seconds who is told to leave may take its time: it is there until the story lets it go."""


def test_a_gang_of_higher_priority_takes_the_place_of_as_few_as_it_needs(story: Story) -> None:
    high = story.priority_class("high", 1000)
    story.start_operator()
    for number in range(8):
        story.pod(f"low-{number}", gpus=1, grace=GRACE)
    story.wait(lambda: len(story.where("low")) == 8, "every GPU to be in use")

    story.gang("urgent", 2, gpus=2, priority_class=high)

    story.wait(lambda: len(leaving(story, "low")) == 4, "four pods to be told to leave")
    story.wait(lambda: story.why("urgent").get("gate") == "Victims", "the gang to say for whom it waits")
    assert "waits for 4 pods of lower priority to leave" in story.why("urgent")["message"]
    victim, *_ = leaving(story, "low")
    nodes = {pod.spec.node_name for pod in leaving(story, "low")}
    story.wait(
        lambda: {pod.status.nominated_node_name for pod in story.pods("urgent")} == nodes,
        "its pods to name their nodes",
    )
    story.wait(
        lambda: "PodGroup/" in dict(story.events(victim.metadata.name)).get("Preempted", ""), "an event that says so"
    )
    story.make_leave("low")
    story.wait(lambda: len(story.where("urgent")) == 2, "the gang to be bound")
    assert len(story.where("low")) == 4


def test_an_operator_that_is_killed_while_victims_leave_takes_out_nobody_else(story: Story) -> None:
    high = story.priority_class("high", 1000)
    story.start_operator()
    for number in range(8):
        story.pod(f"low-{number}", gpus=1, grace=GRACE)
    story.wait(lambda: len(story.where("low")) == 8, "every GPU to be in use")
    story.gang("urgent", 2, gpus=2, priority_class=high)
    story.wait(lambda: story.why("urgent").get("gate") == "Victims", "the gang to wait for its victims")
    story.wait(lambda: len(leaving(story, "low")) == 4, "all four to be told to leave")

    story.kill_operator()
    story.start_operator()
    story.pod("small", gpus=1)
    story.wait(lambda: story.pod_condition("small")[0], "another to be told by the next operator that it waits")
    assert len(leaving(story, "low")) == 4
    story.make_leave("low")

    story.wait(lambda: len(story.where("urgent")) == 2, "the gang to be bound")
    assert len(story.where("low")) == 4
    assert not story.where("small")


def test_nobody_leaves_for_a_gang_that_would_not_fit_anyway(story: Story) -> None:
    high = story.priority_class("high", 1000)
    story.start_operator()
    for number in range(8):
        story.pod(f"low-{number}", gpus=1)
    story.wait(lambda: len(story.where("low")) == 8, "every GPU to be in use")

    story.gang("huge", 5, gpus=2, priority_class=high)

    story.wait(lambda: story.why("huge").get("gate") == "Placement", "the gang to say that it does not fit")
    assert len(story.where("low")) == 8
    assert not leaving(story, "low")
