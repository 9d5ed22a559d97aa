"""Turns a recorded case of kube-scheduler into a world, and a world into what an engine decides about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tests.placement.naive_preemption import World, ours
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Namespace, Node, Pod, PriorityClass
from tutti.api.limits import PodDisruptionBudget
from tutti.api.owners import REPLICATION_CONTROLLER, SERVICE
from tutti.api.selectors import LabelSelector
from tutti.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tutti.cluster.label_index import PodSelecting
from tutti.engine.cycle.engine import Engine
from tutti.engine.records import observations as seen
from tutti.engine.records.decisions import Decision

Case = dict[str, Any]


STORAGE = {
    PersistentVolume: seen.VolumeSeen,
    PersistentVolumeClaim: seen.ClaimSeen,
    StorageClass: seen.StorageClassSeen,
    CSINode: seen.CSINodeSeen,
    CSIDriver: seen.CSIDriverSeen,
    CSIStorageCapacity: seen.CapacitySeen,
    VolumeAttachment: seen.AttachmentSeen,
}


STORED = {
    "persistentVolumes": PersistentVolume,
    "persistentVolumeClaims": PersistentVolumeClaim,
    "storageClasses": StorageClass,
    "csiNodes": CSINode,
    "csiDrivers": CSIDriver,
    "csiStorageCapacities": CSIStorageCapacity,
    "volumeAttachments": VolumeAttachment,
}
"""What cases about volumes hold besides."""


OWNERS = {"replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "controllers": REPLICATION_CONTROLLER}
"""What cases about pods of controllers hold besides."""


class Decided(NamedTuple):
    """What an engine decides about the pod: where it is to go, "" where it waits, and all that was decided at once."""

    node: str
    decisions: list[Decision]


def world_of(case: Case) -> World:
    """Everything that existed when the pod in question was decided on."""
    return World(
        nodes=[msgspec.convert(one, Node) for one in case["nodes"]],
        pods=[msgspec.convert(one, Pod) for one in case["pods"]],
        probe=msgspec.convert(case["probe"], Pod),
        budgets=[msgspec.convert(one, PodDisruptionBudget) for one in case["pdbs"]],
        namespaces=[msgspec.convert(one, Namespace) for one in case["namespaces"]],
        classes=[msgspec.convert(one, PriorityClass) for one in case["priorityClasses"]],
        selecting=[_selecting(SERVICE, one) for one in case["services"]]
        + [_selecting(kind, one) for key, kind in OWNERS.items() for one in case.get(key, ())],
        storage=[msgspec.convert(one, kind) for key, kind in STORED.items() for one in case.get(key, ())],
    )


def decided(world: World) -> Decided:
    """What a new engine decides that is told of everything there is, and then of the pod, when this was made.

    Later, what was leaving then is overdue, and is not waited for.
    """
    engine = Engine(TuttiConfiguration())
    for one in _existing(world):
        engine.observe(one)
    engine.observe(seen.PodSeen(ours(world.probe)))
    engine.observe(seen.Synced())
    decisions = list(engine.decide(world.probe.metadata.created))
    place = engine.state.cluster.pods[world.probe.metadata.namespace, world.probe.metadata.name].place
    return Decided(place or "", decisions)


def _existing(world: World) -> Iterator[seen.Observation]:
    yield from map(seen.NamespaceSeen, world.namespaces)
    yield from map(seen.SelectingSeen, world.selecting)
    yield from map(seen.PriorityClassSeen, world.classes)
    yield from map(seen.BudgetSeen, world.budgets)
    yield from (STORAGE[type(one)](one) for one in world.storage)
    yield from map(seen.NodeSeen, world.nodes)
    yield from map(seen.PodSeen, world.pods)


def _selecting(kind: str, one: Case) -> PodSelecting:
    meta, selector = one["metadata"], one["spec"].get("selector", {})
    by_labels = kind in (SERVICE, REPLICATION_CONTROLLER)
    read = LabelSelector(match_labels=selector) if by_labels else msgspec.convert(selector, LabelSelector)
    return PodSelecting(kind, meta["namespace"], meta["name"], read)
