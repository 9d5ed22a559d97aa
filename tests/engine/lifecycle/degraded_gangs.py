"""Gangs that run, and what has them lose members: nodes that die and come back, and successors that come."""

from __future__ import annotations

from tests.engine.world import GPU, World, replaced
from tutti.api.selectors import Taint
from tutti.engine.records.decisions import Evict

GONE_QUIET = [Taint("node.kubernetes.io/unreachable", effect="NoExecute")]
WINDOW = 300


def evicted(world: World) -> list[str]:
    return sorted(d.name for d in world.log if isinstance(d, Evict))


def die(world: World, node: str) -> None:
    """The kubelet of a node is gone: its pods are told to end, and nobody says that they have."""
    before = world.nodes[node]
    world.node(node, gpus=before.status.allocatable[GPU], labels=before.metadata.labels, taints=GONE_QUIET)
    world.begin_deleting(*(name for name, where in world.where().items() if where == node))


def come_back(world: World, node: str) -> None:
    before = world.nodes[node]
    world.node(node, gpus=before.status.allocatable[GPU], labels=before.metadata.labels)


def degraded(world: World, kind: str = "PodGroup", name: str = "g") -> str:
    return world.condition(kind, name, "Degraded")["status"]


def fail(world: World, name: str, reason: str) -> None:
    """Have a kubelet say of a member that it has ended, and why: it evicts it, or refuses it."""
    pod = world.pods["default", name]
    world.put(replaced(pod, status=replaced(pod.status, phase="Failed", reason=reason, conditions=[])))
    world.run()


def running(*, nodes: int = 2, gpus: int = 2, size: int = 4, quota: int = 4, **spec) -> World:
    """A gang that fills its queue, spread over all nodes, and a spare node of the same size."""
    world = World()
    world.flavor()
    world.queue("cq", quota)
    for index in range(nodes):
        world.node(f"n{index}", gpus=gpus)
    world.pod_group("g", size, queueName="queue", **spec)
    for rank in range(size):
        world.pod(f"g-{rank}", group="g")
    world.run()
    assert len(world.where("g")) == size
    return world


def successors(world: World, *ranks: int) -> None:
    for rank in ranks:
        world.pod(f"g-{rank}-again", group="g")
    world.run()
