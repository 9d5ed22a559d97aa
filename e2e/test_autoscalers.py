"""Stories with an autoscaler that looks at pods: what it would make of them, by the rules in the engine's tests."""

from __future__ import annotations

from typing import Any

from e2e.harness.story import GROUP, Story

GATE = "scheduling.tutti.dev/admission-gate"
EVICT, DISRUPT = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"


def nominated(story: Story, prefix: str) -> dict[str, str]:
    return {pod.metadata.name: pod.status.nominated_node_name or "" for pod in story.pods(prefix)}


def patched(story: Story, pod: str, annotations: dict[str, Any]) -> None:
    story.core.patch_namespaced_pod(pod, story.namespace, {"metadata": {"annotations": annotations}})


def test_a_gang_that_is_held_names_its_nodes_and_is_bound_there(story: Story) -> None:
    story.start_operator()
    story.gang("held", 2, annotations={GATE: "budget"})
    story.wait(lambda: all(nominated(story, "held").values()), "both members to name the nodes that are held")
    assert {story.pod_condition(f"held-{rank}")[0] for rank in range(2)} == {"WaitingForApproval"}
    held = nominated(story, "held")

    for rank in range(2):
        patched(story, f"held-{rank}", {GATE: None})

    story.wait(lambda: len(story.where("held")) == 2, "the gang to be bound")
    assert story.where("held") == held


def test_the_next_operator_takes_back_what_a_killed_one_has_nominated(story: Story) -> None:
    story.start_operator()
    story.gang("held", 2, annotations={GATE: "budget"})
    story.wait(lambda: all(nominated(story, "held").values()), "both members to name the nodes that are held")
    story.kill_operator()
    story.core.delete_namespaced_pod("held-1", story.namespace, grace_period_seconds=0)
    story.start_operator()
    story.wait(lambda: not any(nominated(story, "held").values()), "the member that is left to name no node")


def test_for_karpenter_a_gang_that_is_held_wants_its_nodes_all_the_time(story: Story) -> None:
    story.start_operator(autoscaler="Karpenter")
    story.gang("held", 2, annotations={GATE: "budget"})
    story.wait(
        lambda: [story.pod_condition(f"held-{rank}")[0] for rank in range(2)] == ["Unschedulable"] * 2,
        "both members to say that they want a node",
    )
    story.wait(lambda: story.why("held").get("reason") == "WaitingForApproval", "the gang to say what it waits for")
    assert not any(nominated(story, "held").values())


def test_a_gathering_gang_says_so_after_a_while_and_asks_for_no_node(story: Story) -> None:
    story.start_operator()
    story.object("PodGroup", "late", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    story.pod("late-0", labels={f"{GROUP}/pod-group": "late"})
    story.wait(lambda: story.pod_condition("late-0")[0] == "WaitingForMembers", "the member to say what it waits for")
    assert nominated(story, "late") == {"late-0": ""}


def test_members_that_a_gang_needs_are_kept_from_scale_down_until_nobody_asks_for_it(story: Story) -> None:
    story.queue(story.namespace, 4, scaleDownProtection="WhileNeeded")
    story.start_operator()
    story.gang("kept", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("kept")) == 2, "the gang to be bound")

    def protected() -> list[bool]:
        said = [pod.metadata.annotations or {} for pod in story.pods("kept")]
        return [(one.get(EVICT), one.get(DISRUPT)) == ("false", "true") for one in said]

    story.wait(lambda: protected() == [True, True], "both members to be annotated")
    story.change("ClusterQueue", story.namespace, {"scaleDownProtection": "Never"})
    story.wait(lambda: protected() == [False, False], "the annotations to be taken off")
