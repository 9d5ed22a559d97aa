"""Volumes that pods cannot share, that are used in some zones only, and of which a node takes so many.

Rules: kube-scheduler 1.36, plugins/volumerestrictions, plugins/volumezone, plugins/nodevolumelimits/csi.go. A claim
that is ReadWriteOncePod is for one pod of the whole cluster. A disk that pods name themselves, without a claim, is
for one pod of a node, or for any number that only read it; an Amazon disk is for one in any case. A node without any
zone or region label is taken to be in all of them: the cluster has one zone then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.codes_by_disk import DiskName, by_name
from tutti.cluster.label_index import Codes
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import Disk
from tutti.cluster.storage import UNLIMITED
from tutti.cluster.volume_needs import BETA_ZONES, ZONE_LABELS
from tutti.placement.framework import FixedRejections, FlavorConstraints, Mask, Rejection
from tutti.placement.plugins import node_affinity

DISK_TAKEN = "node(s) had no available disk"
CLAIM_TAKEN = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@dataclass(slots=True)
class RestrictionState:
    """Where the disks of a class are in use, and whether a claim is that one pod may use.

    Attributes:
        taken: bool[rows], where a disk is in use.
        conflicting: bool[codes], the pods on nodes that use one.
        occupied: Whether a claim of the class is in use that one pod may use; None where it has no such claim.
        excludes_itself: Whether a node takes one pod of the class because of its disks.
    """

    taken: Mask
    conflicting: Codes
    occupied: bool | None
    excludes_itself: bool

    @property
    def changes_on_add(self) -> bool:
        """Whether one pod of the class keeps the next from every node."""
        return self.occupied is not None

    @property
    def one_per_node(self) -> bool:
        """Whether a node takes one pod of the class, and other nodes take more."""
        return self.excludes_itself and not self.changes_on_add

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes by disks, then all by claims."""
        everywhere = np.full(len(self.taken), bool(self.occupied))
        return Rejection(DISK_TAKEN, self.taken), Rejection(CLAIM_TAKEN, everywhere & ~self.taken)

    def in_the_way(self, nodes: NodeColumns) -> Codes:  # noqa: ARG002 - what every such state is asked
        """Return bool[codes]: those that use a disk."""
        return self.conflicting

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.taken[row] = self.taken[row] or self.excludes_itself
        if self.occupied is not None:
            self.occupied = True


@dataclass(frozen=True, slots=True)
class VolumeRestrictions:
    """The filter."""

    concerns: int = field(default=Feature.DISKS | Feature.CLAIMS, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> RestrictionState | None:  # noqa: ARG002 - a filter's signature
        """Find who is in the way; None where nobody can be."""
        disks, once = pod_class.inter_pod.disks, pod_class.volumes.once
        if not disks and not once:
            return None
        index = nodes.label_index
        conflicting = np.zeros(index.codes, dtype=np.bool_)
        conflicting[index.by_disk.in_conflict(disks)] = True
        taken = np.zeros(len(nodes), dtype=np.bool_)
        taken[index.where(conflicting)[0]] = True
        if disks and nodes.nominated is not None:
            taken |= nodes.nominated.count(len(nodes), partial(_conflict, by_name(disks))) > 0
        occupied = None
        if once:
            occupied = any(nodes.volumes.users.is_occupied(_key(claim)) for claim in once)
        return RestrictionState(taken, conflicting, occupied, any(one.conflicts(one) for one in disks))


def _conflict(wanted: Mapping[DiskName, Sequence[Disk]], other: PodClass) -> bool:
    """Whether pods that name some disks cannot be where another is."""
    return any(disk.conflicts(one) for disk in other.inter_pod.disks for one in wanted.get((disk.kind, disk.name), ()))


def _key(claim: str) -> tuple[str, str]:
    namespace, _, name = claim.partition("/")
    return namespace, name


OUT_OF_ZONE = "node(s) had no available volume zone"


@dataclass(frozen=True, slots=True)
class VolumeZone:
    """The filter."""

    concerns: int = field(default=Feature.CLAIMS, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> FixedRejections | None:  # noqa: ARG002 - a filter's signature
        """Look where the zones of the volumes are; None where the volumes have none."""
        zones = [zone for reach in pod_class.volumes.bound for zone in reach.zones]
        if not zones:
            return None
        inside = nodes.present.copy()
        for key, values in zones:
            inside &= _is_in(nodes, key, values)
        constrained = np.zeros(len(nodes), dtype=np.bool_)
        for label in ZONE_LABELS:
            constrained |= _has(nodes, label)
        return FixedRejections((Rejection(OUT_OF_ZONE, constrained & ~inside, final=True),))


def _is_in(nodes: NodeColumns, key: str, values: Sequence[str]) -> Mask:
    """Return bool[rows]: which nodes are in a zone; one without the old label goes by the new one."""
    there = node_affinity.has_label_among(nodes, key, values)
    if key not in BETA_ZONES:
        return there
    return np.where(_has(nodes, key), there, node_affinity.has_label_among(nodes, BETA_ZONES[key], values))


def _has(nodes: NodeColumns, key: str) -> Mask:
    return nodes.label(key).codes[: len(nodes)] >= 0


TOO_MANY_VOLUMES = "node(s) exceed max volume count"


@dataclass(slots=True)
class VolumeLimitState:
    """How many more pods of a class each node takes for its volumes; this is told beforehand, so nothing changes."""

    left: NDArray[np.int64]
    changes_on_add: bool = False
    one_per_node: bool = False

    def room(self, most: int) -> NDArray[np.int64]:  # noqa: ARG002 - it knows all at once
        """Return int64[rows]: how many more pods of the class each node takes."""
        return self.left

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that take none."""
        return (Rejection(TOO_MANY_VOLUMES, self.left < 1),)

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.left[row] -= 1


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits:
    """The filter."""

    concerns: int = field(default=Feature.CLAIMS, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> VolumeLimitState | None:  # noqa: ARG002 - a filter's signature
        """Count volumes and limits; None where no node limits the drivers of the class."""
        left: NDArray[np.int64] | None = None
        for driver in dict.fromkeys(one.driver for one in pod_class.volumes.attached):
            mine = _room_for_volumes(pod_class, nodes, driver)
            if mine is not None:
                left = mine if left is None else np.minimum(left, mine)
        return VolumeLimitState(left) if left is not None else None


def _room_for_volumes(pod_class: PodClass, nodes: NodeColumns, driver: str) -> NDArray[np.int64] | None:
    """Return int64[rows]: how many more pods of a class fit by one driver's limits; None without any.

    A volume that several pods use counts with the first pod on a node, and not where a pod has it already.
    """
    attachments = nodes.volumes.attachments
    columns = attachments.columns(driver, nodes.rows, (nodes.version, len(nodes)))
    if columns is None:
        return None
    used, most = columns
    own = sum(one.driver == driver and not one.handle for one in pod_class.volumes.attached)
    shared = np.zeros(len(nodes), dtype=np.int64)
    for one in pod_class.volumes.attached:
        if one.driver == driver and one.handle:
            shared += 1
            there = [nodes.rows[name] for name in attachments.where((driver, one.handle)) if name in nodes.rows]
            shared[there] -= 1
    free = most - used - shared
    if own:
        free //= own
        return free.clip(min=0)
    return np.where((free >= 0) | (shared == 0), np.int64(UNLIMITED), np.int64(0))
