"""The user stories about machines that are not alike: flavors by where work ends, pods that slow one another, data."""

from __future__ import annotations

from typing import Any

from e2e.harness.story import GROUP, Story

BEHAVIOUR, DATASET = f"{GROUP}/behaviour", f"{GROUP}/dataset"
SECONDS = f"{GROUP}/expected-seconds-by-flavor"


def test_pods_that_slow_one_another_down_are_kept_apart(story: Story) -> None:
    own = {"e2e.example.com/behaviour": story.namespace}
    nodes = story.cluster.nodes[:2]
    story.label_nodes(nodes, own)
    profile = {"schedulerName": "tutti", "interference": {"apart": [["serving", "loading"]]}}
    story.start_operator(profiles=[profile])
    story.pod("web", labels={BEHAVIOUR: "serving"}, selector={"kubernetes.io/hostname": nodes[0]})
    story.wait(lambda: story.where("web") == {"web": nodes[0]}, "the server to be bound")
    gang(story, "loads", 2, own, {BEHAVIOUR: "loading"})

    story.wait(lambda: set(story.where("loads").values()) == {nodes[1]}, "the others to be bound elsewhere")
    story.label_nodes(nodes, dict.fromkeys(own))


def test_a_gang_waits_for_its_data_and_then_goes_without_also_after_a_restart(story: Story) -> None:
    own = {"e2e.example.com/data": story.namespace}
    nodes = story.cluster.nodes[:2]
    holds: dict[str, str | None] = {f"fluid.io/s-{story.namespace}-images": "true"}
    story.label_nodes(nodes, own)
    story.label_nodes(nodes[:1], holds)
    story.start_operator(**waiting(3600))
    story.pod("there", gpus=2, selector={"kubernetes.io/hostname": nodes[0]})
    story.wait(lambda: story.where("there") == {"there": nodes[0]}, "the node with the data to be taken")
    gang(story, "reads", 2, own, {DATASET: "images"}, gpus=1)
    story.wait(lambda: story.why("reads").get("reason") == "WaitingForData", "the gang to wait for its data")
    since = story.why("reads")["details"]["passedUpSince"]
    story.kill_operator()
    story.start_operator(**waiting(7200))
    story.wait(lambda: "for 7200 s in all" in story.why("reads").get("message", ""), "the next operator to say so, too")
    assert story.why("reads")["details"]["passedUpSince"] == since
    story.kill_operator()
    story.start_operator(**waiting(4))

    story.wait(lambda: set(story.where("reads").values()) == {nodes[1]}, "the gang to go elsewhere in the end")
    story.label_nodes(nodes, dict.fromkeys([*own, *holds]))


def test_work_waits_for_the_flavor_in_which_it_ends_first(story: Story) -> None:
    nodes = story.cluster.nodes[:2]
    for node, kind in zip(nodes, ("fast", "slow"), strict=True):
        story.label_nodes((node,), {"e2e.example.com/kind": f"{story.namespace}-{kind}"})
        labels = {"nodeLabels": {"e2e.example.com/kind": f"{story.namespace}-{kind}"}}
        story.object("ResourceFlavor", f"{story.namespace}-{kind}", labels)
    quota = [{"name": name, "nominalQuota": "1000"} for name in ("cpu", "memory", "nvidia.com/gpu")]
    quota[1]["nominalQuota"] = "1Ti"
    group = {
        "coveredResources": [one["name"] for one in quota],
        "flavors": [{"name": f"{story.namespace}-{kind}", "resources": quota} for kind in ("slow", "fast")],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group], "flavorFungibility": {"preference": "EarliestFinish"}}
    story.object("ClusterQueue", story.namespace, spec)
    story.object("LocalQueue", "queue", {"clusterQueue": story.namespace})
    story.start_operator()
    seconds = f"{story.namespace}-fast=600,{story.namespace}-slow=9000"
    story.gang("first", 2, gpus=1, queue="queue", annotations={SECONDS: seconds})
    story.wait(lambda: set(story.where("first").values()) == {nodes[0]}, "the first to take the fast one")
    story.gang("second", 2, gpus=1, queue="queue", annotations={SECONDS: seconds})
    story.wait(lambda: story.why("second").get("reason") == "WaitingForFlavor", "the second to wait for it, too")

    story.finish("first")

    story.wait(lambda: set(story.where("second").values()) == {nodes[0]}, "the second to take the fast one")
    story.label_nodes(nodes, {"e2e.example.com/kind": None})


def waiting(seconds: int) -> dict[str, Any]:
    """A configuration with which work waits so long for its data."""
    return {"profiles": [{"schedulerName": "tutti", "dataLocality": {"waitSeconds": seconds}}]}


def gang(
    story: Story, name: str, size: int, selector: dict[str, str], labels: dict[str, str], *, gpus: int = 0
) -> None:
    """A gang whose members have labels beside that of their gang."""
    story.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": size}}})
    for rank in range(size):
        own = {f"{GROUP}/pod-group": name, **labels}
        story.pod(f"{name}-{rank}", gpus=gpus, labels=own, selector=selector)
