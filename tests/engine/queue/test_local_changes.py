"""What is written of one namespace has its own workloads looked at again, and nobody else's."""

from __future__ import annotations

from tests.engine.world import World
from tutti.api.core import Namespace, ObjectMeta
from tutti.engine.records.observations import NamespaceGone, NamespaceSeen

WAITING = 4
"""How many unlike pods of the other namespace wait for nodes."""


def busy(**queue) -> World:
    """One node that is full; unlike pods of `other` wait for it, and of `default` a larger one."""
    world = World(namespaces=("default", "other"))
    world.flavor()
    world.queue("cq", 100, **queue)
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"}, "other")
    world.node("n1", gpus=8)
    world.pod("runs", gpus=8, node="n1", queue="queue")
    for gpus in range(1, 1 + WAITING):
        world.pod(f"waits-{gpus}", gpus=gpus, queue="queue", namespace="other")
    world.pod("mine", gpus=8, queue="queue")
    world.run()
    return world


def label(world: World, name: str, **labels: str) -> None:
    world.tell(NamespaceSeen(Namespace(ObjectMeta(name=name, labels=labels))))


def tried(world: World) -> int:
    before = world.engine.evaluated
    world.run()
    return world.engine.evaluated - before


def test_local_queues_of_one_namespace_wake_nobody_of_another():
    world = busy()
    world.object("LocalQueue", "second", {"clusterQueue": "cq"})
    assert tried(world) == 0

    world.object("LocalQueue", "queue", {"clusterQueue": "cq", "stopPolicy": "Hold"})
    assert tried(world) == 1, "the one that is held now"
    assert world.reason("Pod", "mine") == "OnHold"

    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    assert tried(world) == 1
    assert world.reason("Pod", "mine") == "Unschedulable"

    world.remove_object("LocalQueue", "queue")
    assert tried(world) == 1
    assert world.reason("Pod", "mine") == "LocalQueueNotFound"


def test_who_waits_for_his_local_queue_goes_on_once_it_is_there():
    world = busy()
    world.node("n2", gpus=20)  # 18 of which others have
    world.pod("early", gpus=2, queue="second")
    world.pod("elsewhere", gpus=2, queue="second", namespace="other")
    world.run()
    assert world.reason("Pod", "early") == "LocalQueueNotFound"

    world.object("LocalQueue", "second", {"clusterQueue": "cq"})
    world.run()

    assert world.where("early") == {"early": "n2"}
    assert world.why("Pod", "elsewhere", "other").reason == "LocalQueueNotFound"


def test_a_namespace_wakes_its_own():
    world = busy(namespaceSelector={"matchLabels": {"team": "a"}})
    assert world.reason("Pod", "mine") == "NamespaceNotAllowed"

    label(world, "third", team="a")
    assert tried(world) == 0
    label(world, "default", team="a")
    assert tried(world) == 1
    assert world.reason("Pod", "mine") == "Unschedulable"
    label(world, "default", team="b")
    assert tried(world) == 1
    assert world.reason("Pod", "mine") == "NamespaceNotAllowed"


def test_a_namespace_made_anew_under_its_name_counts_with_its_new_labels():
    world = busy(namespaceSelector={"matchLabels": {"team": "a"}})
    label(world, "default", team="a")
    world.run()
    world.tell(NamespaceGone("default"))
    world.run()
    label(world, "default", team="a")
    world.run()
    assert world.reason("Pod", "mine") == "Unschedulable"


def test_where_past_use_counts_a_weight_is_everybodys():
    """LocalQueues of one ClusterQueue stand among one another, whatever their namespaces."""
    world = busy(admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq", "fairSharing": {"weight": "3"}})
    assert tried(world) >= WAITING


def test_a_namespace_that_is_made_wakes_nobody_who_lacks_nodes():
    world = busy()
    label(world, "new", team="a")
    assert tried(world) == 0


def planned() -> World:
    """A head that is promised the node when what runs in `other` ends, which nobody but its LocalQueue tells."""
    world = World(namespaces=("default", "other"))
    world.flavor()
    world.queue("cq", 100, backfill="Reserved")
    most(world, "queue", 10_000, "other")
    most(world, "slow", 5000, "default")
    world.node("n0", gpus=8)
    world.pod("runs", gpus=4, queue="queue", namespace="other")
    world.run()
    world.pod("head", gpus=8, queue="queue")
    world.run()
    return world


def replanned() -> World:
    """The same; what runs turns out to end soon, and somebody comes who would run for longer."""
    world = planned()
    most(world, "queue", 1000, "other")
    world.run()
    world.now += 1
    world.pod("later", gpus=2, queue="slow")
    world.run()
    return world


def most(world: World, name: str, seconds: int, namespace: str) -> None:
    world.object("LocalQueue", name, {"clusterQueue": "cq", "defaultMaximumExecutionTimeSeconds": seconds}, namespace)


def test_a_head_is_not_delayed_by_a_plan_from_before_a_local_queue_changed():
    world = replanned()
    assert world.where("later") == {}


def test_who_would_have_delayed_a_head_starts_once_it_would_start_later_anyway():
    world = replanned()
    most(world, "queue", 10_000, "other")
    world.run()
    assert world.where("later") == {"later": "n0"}
