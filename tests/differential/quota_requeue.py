"""The topic of the quota corpus that asks where a workload goes that was not admitted, asked of the engine.

Kueue puts it back into the queue, or aside until something happens that can help. The engine polls nothing, so what is
compared is what users see: somebody goes aside who is not looked at again as long as nothing happens, and lets those
behind it by; somebody does not who gets what it needs in the end with nothing observed, or keeps its place in front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.quota_reading import Record
from tests.differential.quota_rules import Answer
from tests.engine.world import World
from tutti.engine.records.decisions import Evict

HEAD, BEHIND = "head", "later"


def requeue(case: Record, expect: Record) -> tuple[Answer, Answer]:
    """Whether the head goes aside, and whether it goes before all others of its queue once its victims have left."""
    strict = case["queueingStrategy"] == "StrictFIFO"
    unfinished = any(index != -1 for one in case.get("lastTriedFlavorIdx", ()) for index in one.values())
    scene = SCENES["FlavorsLeft" if unfinished and case["reason"] in ("Generic", "NoFit") else case["reason"]]
    answer: Answer = {
        "inadmissible": _goes_aside(scene(case["queueingStrategy"])),
        "sticky": not strict and _stays_in_front(scene(case["queueingStrategy"])),
    }
    return {key: answer[key] for key in expect}, expect


def _goes_aside(world: World) -> bool:
    """Let the engine decide, then for an hour whenever it wants to: does it do anything for its head?"""
    world.run()
    if HEAD in world.where() or BEHIND not in world.where():
        return False
    asked = len([one for one in world.log if isinstance(one, Evict)])
    tried = world.engine.evaluated
    world.until(3600)
    return world.engine.evaluated == tried and asked == len([one for one in world.log if isinstance(one, Evict)])


def _stays_in_front(world: World) -> bool:
    """Whether the head waits for others to leave, so that what they leave is not given to one that came later."""
    world.hold_evictions = True
    world.run()
    leaving = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp is not None]
    world.pod("rival", queue="queue", priority=1)
    world.run()
    world.delete(*leaving)
    world.run()
    return bool(leaving) and HEAD in world.where()


def _world(strategy: str, quota: int, **spec: Any) -> World:
    world = World()
    world.node("node", gpus=8)
    world.flavor()
    world.queue("queue", quota, queueingStrategy=strategy, **spec)
    return world


def _no_fit(strategy: str) -> World:
    """More is asked for than is free, and nobody may be preempted."""
    world = _world(strategy, 3)
    world.pod("running", queue="queue")
    world.run()
    _wait(world, gpus=3)
    return world


def _never(strategy: str) -> World:
    """More is asked for than there is."""
    world = _world(strategy, 3)
    _wait(world, gpus=4)
    return world


def _kept_out(strategy: str) -> World:
    """The namespace of the head may not use the queue."""
    world = World(namespaces=("default", "other"))
    world.node("node", gpus=8)
    world.flavor()
    only = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    world.queue("queue", 3, queueingStrategy=strategy, namespaceSelector=only)
    world.object("LocalQueue", "queue", {"clusterQueue": "queue"}, "other")
    world.pod(HEAD, namespace="other", queue="queue")
    world.now += 1
    world.pod(BEHIND, queue="queue")
    return world


def _overtaken(strategy: str) -> World:
    """What the head would borrow is taken by one of another queue that goes before it."""
    world = World()
    world.node("node", gpus=8)
    world.flavor()
    world.queue("queue", 1, cohort="all", queueingStrategy=strategy)
    world.queue("other", 2, cohort="all", local="other")
    world.pod("first", queue="other", gpus=2, priority=9)
    _wait(world, gpus=3)
    return world


def _preempting(strategy: str, *, refused: bool) -> World:
    """Somebody is to make room for the head; where it is `refused`, the server does not let it leave at first."""
    world = _world(strategy, 3, preemption={"withinClusterQueue": "LowerPriority"})
    world.pod("victim", queue="queue", gpus=2)
    world.run()
    world.refuse_evictions = refused
    world.hold_evictions = True
    world.pod(HEAD, queue="queue", gpus=3, priority=9)
    world.now += 1
    world.pod(BEHIND, queue="queue", priority=1)
    return world


def _flavors_left(strategy: str) -> World:
    """The first flavor has quota but no room; another one has both."""
    world = World()
    world.node("old", gpus=0, labels={"kind": "old"})
    world.node("new", gpus=8, labels={"kind": "new"})
    world.flavor("old", nodeLabels={"kind": "old"})
    world.flavor("new", nodeLabels={"kind": "new"})
    world.queue("queue", 3, flavors=("old", "new"), queueingStrategy=strategy)
    _wait(world, gpus=3)
    return world


def _wait(world: World, gpus: int) -> None:
    world.pod(HEAD, queue="queue", gpus=gpus, priority=1)
    world.now += 1
    world.pod(BEHIND, queue="queue")


SCENES: dict[str, Callable[[str], World]] = {
    "Generic": _no_fit,
    "": _no_fit,
    "NoFit": _never,
    "PreemptionNoCandidates": _no_fit,
    "NamespaceMismatch": _kept_out,
    "FailedAfterNomination": _overtaken,
    "PendingPreemption": lambda strategy: _preempting(strategy, refused=False),
    "PreemptionFailed": lambda strategy: _preempting(strategy, refused=True),
    "FlavorsLeft": _flavors_left,
}
"""Kueue's reasons -> a cluster in which the head of a queue is in that position."""
