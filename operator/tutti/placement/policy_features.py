"""What a policy is told of nodes: figures with a name, a unit and one meaning, as columns over nodes and pods.

A policy, learned or written by a user, is a function of these and of nothing else. Its answer for the nth pod of a
class on a node depends on that node and that class alone, never on what other nodes would get: so a gang is chosen at
once, exactly as one pod after another would be (`node_choice.py`). A name never changes its meaning within a version;
what is new is added under a new name, and what would change comes with another `FEATURES_VERSION`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Counts, Rows

Floats = NDArray[np.float64]

FEATURES_VERSION: Final = 1
"""Of the meaning of all names together."""

_MEASURED_SECONDS: Final = 180.0
_PERCENT: Final = 100.0
_MOST_LEFT: Final = 256.0


@dataclass(frozen=True, slots=True)
class PolicyFeature:
    """A figure that policies may ask for: float64[m, k], of the nth pod of a class on each of k nodes.

    Attributes:
        unit: `part`: from 0 to 1 of what the node (or, where it says so, the largest node) offers; `flag`: 0 or 1.
        meaning: What it says, with the nth pod of the class and those before it on the node.
        varies: Whether it tells nodes apart for one class where all nodes offer the same; what does not only matters
            together with others.
    """

    name: str
    unit: str
    meaning: str
    varies: bool = True
    dtype: str = "float64"


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The nodes that are asked about, and of how many pods of a class there.

    Attributes:
        rows: int64[k]; `many`, int64[m, 1], which pod of the class there, from 1.
    """

    pod_class: PodClass
    nodes: NodeColumns
    rows: Rows
    many: Counts

    def offered(self, resource: str) -> Floats:
        """Return float64[k]: what each node offers of a resource."""
        column = self.nodes.resource_index.column_of.get(resource)
        return np.zeros(len(self.rows)) if column is None else self._here(self.nodes.allocatable[:, column])

    def taken(self, resource: str) -> Floats:
        """Return float64[k]: what pods hold of it there now."""
        column = self.nodes.resource_index.column_of.get(resource)
        return np.zeros(len(self.rows)) if column is None else self._here(self.nodes.in_use(column))

    def asked(self, resource: str) -> float:
        """Return what one pod of the class asks for."""
        return float(self.pod_class.requests.get(resource, 0))

    def free_part(self, resource: str) -> Floats:
        """Return float64[m, k]: the part of what a node offers that the nth pod leaves; 0 where it offers none."""
        offered = self.offered(resource)
        left = offered - self.taken(resource) - self.asked(resource) * self.many
        return _part(left, offered)

    def devices(self) -> tuple[str, ...]:
        """Return which devices count: those that the class asks for most of, or all kinds where it asks for none."""
        asked = {name: units for name, units in self.pod_class.requests.items() if "/" in name and units > 0}
        known = self.nodes.resource_index.column_of
        if asked:
            most = max(asked, key=lambda name: (asked[name], name))
            return (most,) if most in known else ()
        return tuple(name for name in known if "/" in name)

    def devices_free(self) -> Floats:
        """Return float64[m, k]: how many of these are left with the nth pod."""
        left = np.zeros((len(self.many), len(self.rows)))
        for name in self.devices():
            left += np.maximum(self.offered(name) - self.taken(name) - self.asked(name) * self.many, 0.0)
        return left

    def devices_offered(self) -> Floats:
        """Return float64[k]: how many of these nodes offer."""
        offered: Floats = np.zeros(len(self.rows))
        for name in self.devices():
            offered += self.offered(name)
        return offered

    def _here(self, column: NDArray[np.int64]) -> Floats:
        found: Floats = column[self.rows].astype(np.float64)
        return found


def _part(of: Floats, whole: Floats) -> Floats:
    """Return a part of 1, within 0 and 1; 0 where there is no whole."""
    part: Floats = np.clip(of / np.maximum(whole, 1.0), 0.0, 1.0)
    return np.where(whole > 0, part, 0.0)


def _devices_free(at: _Candidates) -> Floats:
    return _part(at.devices_free(), at.devices_offered())


def _device_hole(at: _Candidates) -> Floats:
    most = 0.0
    for name in at.devices():
        column = at.nodes.resource_index.column_of[name]
        most += float(at.nodes.allocatable[:, column].max(initial=0))
    return np.clip(at.devices_free() / max(most, 1.0), 0.0, 1.0)


def _begun(at: _Candidates) -> Floats:
    """Whether devices of the node, or its cpu where it offers none, are asked for without the nth pod.

    Daemons ask for cpu on every node and for devices on none, so cpu says little of a node that has devices.
    """
    devices, there = at.devices(), at.devices_offered() > 0
    used = np.where(there, sum((at.taken(name) for name in devices), np.zeros(len(at.rows))), at.taken("cpu"))
    own = np.where(there, sum(map(at.asked, devices)), at.asked("cpu"))
    return (used + own * (at.many - 1) > 0).astype(np.float64)


def _imbalance(at: _Candidates) -> Floats:
    shape = (len(at.many), len(at.rows))
    least, most = np.ones(shape), np.zeros(shape)
    for name in ("cpu", "memory"):
        free = at.free_part(name)
        least, most = np.minimum(least, free), np.maximum(most, free)
    there = at.devices_offered() > 0
    free = _devices_free(at)
    least, most = np.where(there, np.minimum(least, free), least), np.where(there, np.maximum(most, free), most)
    return np.maximum(most - least, 0.0)


def _room_left(at: _Candidates) -> Floats:
    fits = np.full((len(at.many), len(at.rows)), _MOST_LEFT)
    for name, units in at.pod_class.requests.items():
        if units > 0:
            left = at.offered(name) - at.taken(name) - units * at.many
            fits = np.minimum(fits, np.maximum(np.floor(left / units), 0.0))
    scale: Floats = np.log2(1.0 + fits) / np.log2(1.0 + _MOST_LEFT)
    return scale


def _measured(metric: str) -> Callable[[_Candidates], Floats]:
    def read(at: _Candidates) -> Floats:
        load, many = at.nodes.load, len(at.nodes)
        values = load.values(metric) if load else None
        if values is None:
            return np.zeros(len(at.rows))
        known = load.ages()[:many] <= _MEASURED_SECONDS
        figures = np.where(known, np.nan_to_num(values[:many]) / _PERCENT, 0.0)
        return np.clip(figures, 0.0, 1.0)[at.rows]

    return read


_READERS: Final[Mapping[str, tuple[PolicyFeature, Callable[[_Candidates], Floats]]]] = {
    one.name: (one, read)
    for one, read in (
        (PolicyFeature("cpuFree", "part", "cpu that is left"), lambda at: at.free_part("cpu")),
        (PolicyFeature("memoryFree", "part", "memory that is left"), lambda at: at.free_part("memory")),
        (
            PolicyFeature(
                "devicesFree", "part",
                "devices that are left: of the extended resource that the pod asks for most of, or of all where it "
                "asks for none",
            ),
            _devices_free,
        ),
        (
            PolicyFeature("deviceHole", "part", "the same, of the most that any node offers of them"),
            _device_hole,
        ),
        (
            PolicyFeature("devicesOffered", "flag", "whether the node offers any of these devices"),
            lambda at: (at.devices_offered() > 0).astype(np.float64),
        ),
        (
            PolicyFeature(
                "begun", "flag", "whether these devices of the node, or its cpu where it offers none, were asked for "
                "before the pod came",
            ),
            _begun,
        ),
        (
            PolicyFeature(
                "imbalance", "part", "the largest less the smallest of cpuFree, memoryFree and, where any are offered, "
                "devicesFree",
            ),
            _imbalance,
        ),
        (
            PolicyFeature(
                "roomLeft", "part", "how many more pods of the class fit, up to 256: log2(1 + n) / log2(257)"
            ),
            _room_left,
        ),
        (
            PolicyFeature("cpuAsked", "part", "cpu that one pod asks for", varies=False),
            lambda at: _part(np.full(len(at.rows), at.asked("cpu")), at.offered("cpu")),
        ),
        (
            PolicyFeature("memoryAsked", "part", "memory that one pod asks for", varies=False),
            lambda at: _part(np.full(len(at.rows), at.asked("memory")), at.offered("memory")),
        ),
        (
            PolicyFeature("devicesAsked", "part", "devices that one pod asks for", varies=False),
            lambda at: _part(
                np.full(len(at.rows), sum(map(at.asked, at.devices()))), at.devices_offered()
            ),
        ),
        (
            PolicyFeature("cpuMeasured", "part", "cpu measured in use in the last 180 s; 0 where nobody measures"),
            _measured("cpu"),
        ),
        (
            PolicyFeature("memoryMeasured", "part", "memory measured in use in the last 180 s, as cpuMeasured"),
            _measured("memory"),
        ),
    )
}  # fmt: skip

POLICY_FEATURES: Final = tuple(feature for feature, _ in _READERS.values())
"""All that a policy may ask for, in this version."""


class UnknownFeatureError(ValueError):
    """A policy asks for figures that there are not; the message says which, and what there is."""


def check_features(version: int, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a policy asks for.

    Raises:
        UnknownFeatureError: There is one of them that this version does not have, or it is for another version.
    """
    found = tuple(names)
    if version != FEATURES_VERSION:
        raise UnknownFeatureError(
            f"it is for version {version} of the features, and there is version {FEATURES_VERSION}: train it anew"
        )
    unknown = [name for name in found if name not in _READERS]
    if unknown:
        raise UnknownFeatureError(
            f"there is no feature {str(unknown[0])[:80]!r}; version {version} has {', '.join(_READERS)}"
        )
    if not found or len(set(found)) != len(found):
        raise UnknownFeatureError("a policy must ask for at least one feature, and for each of them once")
    return found


def feature_columns(
    names: Iterable[str], pod_class: PodClass, nodes: NodeColumns, *, rows: Rows, nth: Counts
) -> dict[str, Floats]:
    """Return the figures that a policy asks for, each float64[m, k], within 0 and 1.

    Args:
        names: Of features that there are.
        pod_class: The class that is placed.
        nodes: All nodes.
        rows: int64[k], the nodes asked about.
        nth: int64[m], which pod of the class there, from 1.
    """
    at = _Candidates(pod_class, nodes, rows, nth[:, None])
    shape = (len(nth), len(rows))
    return {name: np.broadcast_to(_READERS[name][1](at), shape) for name in names}
