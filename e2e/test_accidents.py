"""Accidents of any day: a machine is replaced under its name, kubelets are restarted, and a definition is deleted."""

from __future__ import annotations

import pytest
from kubernetes import client

from e2e.harness.crds import install_crds
from e2e.harness.doorway import Doorway
from e2e.harness.power import SOON
from e2e.harness.story import GROUP, PLURALS, Story
from e2e.test_rivals import SIZE, slow_operator, used
from e2e.test_taken_away import go_on, grave, says, stop_midway


def is_whole(story: Story) -> bool:
    """Whether the gang says that it has started, and lacks nobody."""
    return says(story, "Scheduled")[0] == "True" and says(story, "Degraded")[0] != "True"


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed"])
def test_a_machine_that_is_replaced_under_its_name_costs_its_gang_nobody(
    story: Story, machines: tuple[str, ...], *, killed: bool
) -> None:
    """Pods name their node: those that nobody has collected yet are run by the new machine."""
    if not story.cluster.replica_sets:
        pytest.skip("nobody makes the pods of a controller anew")
    here = {"e2e/story": story.namespace}
    story.queue(story.namespace, 4)
    story.start_operator()
    story.crew("train", 4, queue=story.namespace, selector=here)
    story.wait(lambda: len(story.living("train")) == 4 and is_whole(story), "the gang to run")
    story.gang("next", 1, queue=story.namespace, selector=here)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")
    replaced = min(story.living("train").values())

    if killed:
        story.kill_operator()
    story.cluster.machines.remove(replaced)
    story.cluster.machines.add(replaced)
    story.label_nodes((replaced,), {"e2e/story": story.namespace})
    if killed:
        story.start_operator()

    story.wait(lambda: len(story.living("train")) == 4 and is_whole(story), "the gang to be whole", SOON)
    story.wait(lambda: used(story) == 4 * 10, "its queue to count each member once")
    assert says(story, "Evicted")[0] != "True"
    assert story.where("next") == {}
    assert grave(story) == []


def test_kubelets_that_are_restarted_while_a_gang_is_bound_start_all_of_it(
    story: Story, doorway: Doorway, machines: tuple[str, ...]
) -> None:
    if why := story.cluster.machines.can_die or story.cluster.machines.forgets:
        pytest.skip(why)
    slow_operator(story)
    story.gang("train", SIZE, gpus=0, queue=story.namespace, selector={"e2e/story": story.namespace})
    begun = stop_midway(story, doorway)
    for node in machines:
        story.cluster.machines.off(node)

    go_on(story)
    story.wait(lambda: len(story.living("train")) == SIZE, "it to be bound whole")
    for node in machines:
        story.cluster.machines.on(node)

    def runs() -> bool:
        return int(story.get("PodGroup", "train").get("status", {}).get("ready", 0)) == SIZE

    story.wait(runs, "all of it to be ready", SOON)
    assert begun.items() <= story.living("train").items()
    assert is_whole(story)
    assert grave(story) == []


def have_a_gang_run(story: Story) -> None:
    """Two pods run, in a cluster whose definitions are a story's to delete."""
    if story.cluster.server is None:
        pytest.skip("the definitions of this cluster are not a story's to delete")
    story.queue(story.namespace, 4)
    story.start_operator()
    story.gang("train", 2, queue=story.namespace)
    story.wait(lambda: is_whole(story), "the gang to run")


@pytest.mark.parametrize("kind", ["PodGroup", "LocalQueue"])
def test_a_definition_that_is_deleted_with_its_objects_stops_nobody_who_runs(story: Story, kind: str) -> None:
    """What waits goes on when the definition and the objects are made again."""
    have_a_gang_run(story)
    running = story.living("train")
    story.gang("next", 3, queue=story.namespace)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")

    extensions = client.ApiextensionsV1Api(story.api)
    name = f"{PLURALS[kind]}.{GROUP}"
    extensions.delete_custom_resource_definition(name)
    story.wait(lambda: not is_defined(extensions, name), "the definition to be gone", SOON)
    story.pod("alone", cpu="10m")  # who needs none of it is placed
    story.wait(lambda: story.where("alone"), "a pod to be bound meanwhile")
    assert story.living("train") == running

    install_crds(story.api)
    if kind == "LocalQueue":
        story.object("LocalQueue", story.namespace, {"clusterQueue": story.namespace})
    else:
        for gang, size in (("train", 2), ("next", 3)):
            spec = {"schedulingPolicy": {"gang": {"minCount": size}}, "queueName": story.namespace}
            story.object("PodGroup", gang, spec)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "the other to wait for quota again", SOON)
    assert story.living("train") == running
    story.wait(lambda: is_whole(story), "the first to say that it runs")
    story.finish("train")
    story.wait(lambda: len(story.living("next")) == 3, "the other to follow", SOON)


def test_a_definition_whose_objects_are_in_use_goes_when_nobody_uses_them_and_is_looked_after_when_it_is_back(
    story: Story,
) -> None:
    have_a_gang_run(story)
    story.wait(lambda: held(story), "its queue to be held")
    running = story.living("train")
    extensions = client.ApiextensionsV1Api(story.api)
    name = f"{PLURALS['ClusterQueue']}.{GROUP}"
    extensions.delete_custom_resource_definition(name)
    story.gang("next", 3, queue=story.namespace)
    story.wait(lambda: story.why("next"), "the next to be told what it waits for")
    assert is_defined(extensions, name)
    assert story.living("train") == running

    story.finish("train")
    story.wait(lambda: not is_defined(extensions, name), "the definition to be gone", SOON)
    story.wait(lambda: "ClusterQueue" in story.why("next").get("message", ""), "the next to miss its queue", SOON)
    install_crds(story.api)
    story.remove("ResourceFlavor", story.namespace)
    story.remove("LocalQueue", story.namespace)
    story.queue(story.namespace, 4)
    story.wait(lambda: len(story.living("next")) == 3, "the next to run", SOON)
    story.wait(lambda: held(story), "its queue to be held again", SOON)
    assert grave(story) == []


def held(story: Story) -> bool:
    """Whether the story's queue would not go while it is in use."""
    return bool(story.get("ClusterQueue", story.namespace)["metadata"].get("finalizers"))


def is_defined(extensions: client.ApiextensionsV1Api, name: str) -> bool:
    """Whether a definition is there, or on its way out."""
    return any(one.metadata.name == name for one in extensions.list_custom_resource_definition().items)
