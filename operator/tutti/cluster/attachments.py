"""How many volumes of each CSI driver are attached to each node, and how many may be, as columns.

A volume counts once per node however many pods use it there (kube-scheduler 1.36, plugins/nodevolumelimits/csi.go).
What is observed of nodes is kept by name, because an attachment may be seen before its node; a driver's columns are
brought up to date when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.volumes import VolumeName

UNLIMITED = np.iinfo(np.int64).max // 2
"""The limit of a node that has none."""


@dataclass(slots=True)
class _Driver:
    """One driver: counts and limits by node, and the columns made of them for one set of nodes."""

    counts: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    stale: dict[str, None] = field(default_factory=dict)
    stamp: tuple[int, int] = (-1, -1)
    used: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    most: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Attachments:
    """What is attached where."""

    def __init__(self) -> None:
        self._by_pods: dict[VolumeName, dict[str, int]] = {}
        self._observed: dict[VolumeName, dict[str, int]] = {}
        self._drivers: dict[str, _Driver] = {}
        self._limited: dict[str, Mapping[str, int]] = {}

    def use(self, node: str, volume: VolumeName, count: int = 1) -> None:
        """Note one more pod that uses a volume on a node; a negative count takes pods away."""
        self._note(self._by_pods, node, volume, count)

    def observe(self, node: str, volume: VolumeName, count: int = 1) -> None:
        """Note that a volume is attached to a node, whoever uses it; a negative count takes that back."""
        self._note(self._observed, node, volume, count)

    def _note(self, book: dict[VolumeName, dict[str, int]], node: str, volume: VolumeName, count: int) -> None:
        before = self._is_on(node, volume)
        nodes = book.setdefault(volume, {})
        nodes[node] = nodes.get(node, 0) + count
        if not nodes[node]:
            del nodes[node]
            if not nodes:
                del book[volume]
        self.add(node, volume[0], self._is_on(node, volume) - before)

    def _is_on(self, node: str, volume: VolumeName) -> bool:
        return node in self._by_pods.get(volume, ()) or node in self._observed.get(volume, ())

    def add(self, node: str, driver: str, count: int) -> None:
        """Count so many volumes more on a node, each of them used by one pod; a negative count takes them away."""
        if not count:
            return
        known = self._drivers.setdefault(driver, _Driver())
        known.counts[node] = known.counts.get(node, 0) + count
        if not known.counts[node]:
            del known.counts[node]
        known.stale[node] = None

    def limit(self, node: str, limits: Mapping[str, int]) -> None:
        """Take over how many volumes of which driver a node can have; it has no limit for other drivers."""
        for driver in {**self._limited.pop(node, {}), **limits}:
            known = self._drivers.setdefault(driver, _Driver())
            known.limits.pop(node, None)
            if driver in limits:
                known.limits[node] = limits[driver]
            known.stale[node] = None
        if limits:
            self._limited[node] = limits

    def limits(self, node: str) -> Mapping[str, int]:
        """Return how many volumes of which driver a node can have."""
        return self._limited.get(node, {})

    def where(self, volume: VolumeName) -> Mapping[str, int]:
        """Return the nodes where pods use a volume, and how many."""
        return self._by_pods.get(volume, {})

    def count(self, node: str, driver: str) -> int:
        """Return how many volumes of a driver are on a node."""
        known = self._drivers.get(driver)
        return known.counts.get(node, 0) if known else 0

    def columns(
        self, driver: str, rows: Mapping[str, int], stamp: tuple[int, int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return how many volumes of a driver each node has, and may have: int64[rows] each; None without any limit.

        Args:
            driver: The driver.
            rows: The row of each node.
            stamp: What changes whenever `rows` does, and how many rows there are.
        """
        known = self._drivers.get(driver)
        if known is None or not known.limits:
            return None
        if known.stamp != stamp:
            known.used = np.zeros(stamp[1], dtype=np.int64)
            known.most = np.full(stamp[1], UNLIMITED, dtype=np.int64)
            known.stamp = stamp
            known.stale = dict.fromkeys((*known.counts, *known.limits))
        for node in known.stale:
            row = rows.get(node)
            if row is not None:
                known.used[row] = known.counts.get(node, 0)
                known.most[row] = known.limits.get(node, UNLIMITED)
        known.stale = {}
        return known.used, known.most
