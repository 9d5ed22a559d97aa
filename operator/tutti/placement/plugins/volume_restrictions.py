"""Volumes that pods cannot share (kube-scheduler 1.36, plugins/volumerestrictions).

A claim that is ReadWriteOncePod is for one pod of the whole cluster. A disk that pods name themselves, without a claim,
is for one pod of a node, or for any number that only read it; an Amazon disk is for one in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.residents import Codes
from tutti.placement.framework import Mask, Rejection, Where

DISK = "node(s) had no available disk"
ONCE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@dataclass(slots=True)
class RestrictionTally:
    """Where the disks of a class are in use, and whether a claim is that one pod may use.

    Attributes:
        taken: bool[rows], where a disk is in use.
        conflicting: bool[codes], the residents that use one.
        occupied: Whether a claim of the class is in use that one pod may use; None where it has no such claim.
        excludes_itself: Whether a node takes one pod of the class because of its disks.
    """

    taken: Mask
    conflicting: Codes
    occupied: bool | None
    excludes_itself: bool

    @property
    def moves(self) -> bool:
        """Whether one pod of the class keeps the next from every node."""
        return self.occupied is not None

    @property
    def alone(self) -> bool:
        """Whether a node takes one pod of the class, and other nodes take more."""
        return self.excludes_itself and not self.moves

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes by disks, then all by claims."""
        everywhere = np.full(len(self.taken), bool(self.occupied))
        return Rejection(DISK, self.taken), Rejection(ONCE, everywhere & ~self.taken)

    def in_the_way(self, nodes: NodeColumns) -> Codes:  # noqa: ARG002 - what every such tally is asked
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

    def tally(self, klass: PodClass, nodes: NodeColumns, where: Where) -> RestrictionTally | None:  # noqa: ARG002 - a filter's signature
        """Find who is in the way; None where nobody can be."""
        disks, once = klass.company.disks, klass.volumes.once
        if not disks and not once:
            return None
        residents = nodes.residents
        conflicting = np.zeros(residents.codes, dtype=np.bool_)
        for code, kin in residents.with_disks() if disks else ():
            conflicting[code] = any(disk.conflicts(one) for disk in kin.company.disks for one in disks)
        taken = np.zeros(len(nodes), dtype=np.bool_)
        taken[residents.where(conflicting)[0]] = True
        occupied = None
        if once:
            occupied = any(nodes.volumes.users.is_occupied(_key(claim)) for claim in once)
        return RestrictionTally(taken, conflicting, occupied, any(one.conflicts(one) for one in disks))


def _key(claim: str) -> tuple[str, str]:
    namespace, _, name = claim.partition("/")
    return namespace, name
