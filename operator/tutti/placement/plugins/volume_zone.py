"""Volumes that are labelled with zones are used in them only (kube-scheduler 1.36, plugins/volumezone).

A node without any zone or region label is taken to be in all of them: the cluster has one zone then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.volume_needs import BETA_ZONES, ZONE_LABELS
from tutti.placement import selection
from tutti.placement.framework import Mask, Rejection, Where

REASON = "node(s) had no available volume zone"


@dataclass(frozen=True, slots=True)
class ZoneTally:
    """Which nodes are out of the zones of a class's volumes."""

    outside: Mask
    moves: bool = False
    alone: bool = False

    def rejections(self) -> Sequence[Rejection]:
        """Rule them out."""
        return (Rejection(REASON, self.outside, final=True),)

    def add(self, row: int) -> None:
        """Nothing to count."""


@dataclass(frozen=True, slots=True)
class VolumeZone:
    """The filter."""

    def tally(self, klass: PodClass, nodes: NodeColumns, where: Where) -> ZoneTally | None:  # noqa: ARG002 - a filter's signature
        """Look where the zones of the volumes are; None where the volumes have none."""
        zones = [zone for reach in klass.volumes.bound for zone in reach.zones]
        if not zones:
            return None
        inside = nodes.present.copy()
        for key, values in zones:
            inside &= _is_in(nodes, key, values)
        constrained = np.zeros(len(nodes), dtype=np.bool_)
        for label in ZONE_LABELS:
            constrained |= _has(nodes, label)
        return ZoneTally(constrained & ~inside)


def _is_in(nodes: NodeColumns, key: str, values: Sequence[str]) -> Mask:
    """Return bool[rows]: which nodes are in a zone; one without the old label goes by the new one."""
    there = selection.has_one_of(nodes, key, values)
    if key not in BETA_ZONES:
        return there
    return np.where(_has(nodes, key), there, selection.has_one_of(nodes, BETA_ZONES[key], values))


def _has(nodes: NodeColumns, key: str) -> Mask:
    return nodes.label(key).codes[: len(nodes)] >= 0
