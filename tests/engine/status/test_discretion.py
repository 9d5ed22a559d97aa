"""Nothing that a namespace is told names what lies in another: who reads it need not be allowed to see that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import World

OURS, THEIRS = "a", "b"
SECRET = "secret"
"""Whatever lies in the other namespace is called so."""


def world_of(gpus: int = 4, **queue: Any) -> World:
    """A node, and a queue that both namespaces have a LocalQueue of."""
    world = World(namespaces=(OURS, THEIRS))
    world.flavor()
    world.node("n", gpus=gpus)
    world.queue("cq", 4, local="", **queue)
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"}, OURS)
    world.object("LocalQueue", SECRET, {"clusterQueue": "cq"}, THEIRS)
    return world


def preempted(theirs_first: bool) -> World:
    world = world_of()
    pods = [("mine", OURS), (SECRET, THEIRS)]
    for (name, namespace), priority in zip(reversed(pods) if theirs_first else pods, (0, 5), strict=True):
        world.pod(name, namespace=namespace, gpus=4, priority=priority)
        world.run()
    return world


def reclaimed(theirs_first: bool) -> World:
    world = world_of(gpus=8, preemption={"withinClusterQueue": "LowerPriority"})
    gangs = [("mine", OURS, "queue"), (SECRET, THEIRS, SECRET)]
    for (name, namespace, queue), priority in zip(reversed(gangs) if theirs_first else gangs, (0, 5), strict=True):
        world.pod_group(name, 2, namespace, queueName=queue)
        for rank in range(2):
            world.pod(f"{name}-{rank}", namespace=namespace, group=name, gpus=2, priority=priority)
        world.run()
    return world


def in_line(*, strategy: str, **more: Any) -> World:
    """Who is first needs all that the queue has, a part of which is in use; others stand behind it."""
    world = world_of(gpus=8, queueingStrategy=strategy, **more)
    world.pod("mine-0", namespace=OURS, queue="queue", gpus=2)
    world.run()
    world.pod(SECRET, namespace=THEIRS, queue=SECRET, gpus=4, priority=1)
    world.pod("mine-1", namespace=OURS, queue="queue", gpus=2)
    world.run()
    return world


def held_back() -> World:
    """The owner of quota waits for what others have borrowed."""
    world = World(namespaces=(OURS, THEIRS))
    world.flavor()
    world.node("n", gpus=8)
    world.queue("owner", 4, cohort="c", local=SECRET, namespace=THEIRS)
    world.queue("cq", 2, cohort="c", local="queue", namespace=OURS)
    for rank in range(5):
        world.pod(f"mine-{rank}", namespace=OURS, queue="queue", gpus=1)
    world.run()
    world.pod_group(SECRET, 2, THEIRS, queueName=SECRET)
    for rank in range(2):
        world.pod(f"{SECRET}-{rank}", namespace=THEIRS, group=SECRET, gpus=2)
    world.pod("mine-5", namespace=OURS, queue="queue", gpus=1)
    world.run()
    return world


STORIES = {
    "it leaves for a pod": (
        lambda: preempted(theirs_first=False),
        "it makes room for a Pod of another namespace (uid ",
    ),
    "it takes a pod's place": (lambda: preempted(theirs_first=True), "to leave (a Pod of another namespace (uid "),
    "it leaves for a gang": (lambda: reclaimed(theirs_first=False), "room for a PodGroup of another namespace (uid "),
    "it takes a gang's place": (
        lambda: reclaimed(theirs_first=True),
        "to leave (a PodGroup of another namespace (uid ",
    ),
    "it stands behind a head": (lambda: in_line(strategy="StrictFIFO"), "and a Pod of another namespace (uid "),
    "it would delay a head": (
        lambda: in_line(strategy="BestEffortFIFO", backfill="Reserved"),
        "would delay a Pod of another namespace (uid ",
    ),
    "what it would borrow is held back": (held_back, "held back for a PodGroup of another namespace (uid "),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_a_namespace_is_told_names_nobody_of_another(name: str):
    make, expected = STORIES[name]
    world = make()
    told = [str(one) for one in world.log if getattr(one, "namespace", "") == OURS]
    told += [str(raw.get("status")) for key, raw in world.objects.items() if key[1] == OURS]
    assert any(expected in text for text in told), "\n".join(told)
    assert not [text for text in told if SECRET in text]


def test_a_namespace_is_told_of_its_own_by_name():
    world = world_of(gpus=8, queueingStrategy="StrictFIFO")
    world.pod("mine-0", namespace=OURS, queue="queue", gpus=2)
    world.run()
    world.pod("first", namespace=OURS, queue="queue", gpus=4, priority=1)
    world.pod("mine-1", namespace=OURS, queue="queue", gpus=2)
    world.run()
    assert "Pod/a/first is before it" in world.why("Pod", "mine-1", OURS).message
