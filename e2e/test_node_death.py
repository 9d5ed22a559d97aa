"""A node goes with a member of a running gang: who takes its place goes to another node, and the others stay."""

from __future__ import annotations

from e2e.harness.story import GROUP, Story


def lose(story: Story, node: str) -> None:
    """The machine is gone: its node is deleted, and then the pods on it, as a control plane does in the end."""
    story.cluster.machines.remove(node)
    for pod in story.pods(""):
        if pod.spec.node_name == node:
            story.core.delete_namespaced_pod(pod.metadata.name, story.namespace, grace_period_seconds=0)


def test_a_gang_recovers_from_the_death_of_a_node(story: Story, machines: tuple[str, ...]) -> None:
    here = {"e2e/story": story.namespace}
    story.queue(story.namespace, 4)
    story.start_operator()
    story.gang("train", 2, gpus=2, queue=story.namespace, selector=here)
    story.wait(lambda: len(set(story.where("train").values())) == 2, "the gang to be on two nodes")
    before = story.where("train")
    lost = story.node_of("train-1")

    lose(story, lost)
    story.pod("train-2", gpus=2, labels={f"{GROUP}/pod-group": "train"}, selector=here)  # as its Job would

    story.wait(lambda: story.where("train-2"), "the new member to be bound")
    assert story.node_of("train-2") not in (lost, before["train-0"])
    assert story.node_of("train-0") == before["train-0"]
    # What the lost member used was given back, and its successor's is counted: four of four, by one workload.
    story.gang("next", 1, gpus=2, queue=story.namespace, selector=here)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")
    assert "0 free now (0 of its own 4" in story.why("next")["message"]
    assert story.get("ClusterQueue", story.namespace)["status"]["admittedWorkloads"] == 1

    story.finish("train")
    story.wait(lambda: story.where("next"), "the other gang to follow")
