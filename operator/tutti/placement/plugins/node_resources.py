"""Resources of nodes: whether enough is left, and how full and how evenly used a node should be.

Rules: kube-scheduler 1.36, plugins/noderesources (fit, least, most, requested to capacity ratio, balanced_allocation)
and plugins/dynamicresources. A container that does not say what it asks for counts a little in scores
(`requests.UNSAID`), or a node could be filled with such pods and still look empty. A wildcard such as `nvidia.com/*`
stands for each extended resource of that domain that a pod asks for, so that a profile need not name every MIG
profile that a cluster has or will have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.columns import UNKNOWN_RESOURCE
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, FlavorConstraints, Mask, Rejection, Rows, Scores, at_rows


@dataclass(frozen=True, slots=True)
class AllocatableColumn:
    """One resource on all nodes.

    Attributes:
        column: Where it stands in the columns.
        amounts: int64[rows], what there is, in scheduling units; at least 1, so that one can divide by it.
        there: bool[rows], which nodes offer any.
        everywhere: Whether all of them do.
    """

    column: int
    amounts: NDArray[np.int64]
    there: NDArray[np.bool_]
    everywhere: bool


def allocatable_column(nodes: NodeColumns, name: str) -> AllocatableColumn | None:
    """Return what nodes offer of a resource; None where no node has ever said anything of it."""
    if name not in nodes.axis:
        return None
    width = nodes.allocatable.shape[1]
    key, stamp = ("offer", name), (nodes.supply, len(nodes), width)
    kept = nodes.derived.get(key)
    if isinstance(kept, tuple) and kept[0] == stamp:
        known: AllocatableColumn | None = kept[1]
        return known
    column = nodes.axis.column(name)
    found = None
    if column < width:
        offered = nodes.allocatable[:, column]
        there = offered > 0
        found = AllocatableColumn(column, np.maximum(offered, 1), there, bool(there.all()))
    nodes.derived[key] = (stamp, found)
    return found


STAR = "*"

WeightedResources = tuple[tuple[str, int], ...]


def expand(resources: WeightedResources, requests: Mapping[str, int]) -> WeightedResources:
    """Return names and weights with each wildcard replaced by what it stands for among the requests.

    A resource that has an entry of its own keeps that; of several wildcards the longest counts. Only what is asked
    for can matter: an extended resource is scored for pods that ask for it only.
    """
    if not any(name.endswith(STAR) for name, _ in resources):
        return resources
    own = dict(resources)
    out = [(name, weight) for name, weight in resources if not name.endswith(STAR)]
    for name, amount in requests.items():
        if amount <= 0 or name in own:
            continue
        found = longest_match(name, own)
        if found:
            out.append((name, own[found]))
    return tuple(out)


def longest_match(name: str, patterns: Iterable[str]) -> str:
    """Return the longest wildcard that stands for an extended resource; "" where none does."""
    if "/" not in name:
        return ""
    matching = [one for one in patterns if one.endswith(STAR) and name.startswith(one[:-1])]
    return max(matching, key=len, default="")


TOO_MANY_PODS = "Too many pods"


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    """The filter; a node counts once for each resource that it lacks.

    Attributes:
        ignored: Extended resources that are not looked at, and groups of them ("example.com" stands for all of it).
    """

    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()

    def tally(self, klass: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> FitState:  # noqa: ARG002 - a filter's signature
        """Return what answers from the columns as they are when asked."""
        return FitState(self, klass, nodes)

    def capacity(
        self, nodes: NodeColumns, klass: PodClass, mask: Mask, *, most: int | None = None
    ) -> NDArray[np.int64]:
        """Return int64[rows]: how many more pods of the class fit on each node by resources; 0 where masked out.

        A resource that the class does not ask for never limits it. With `most` it is no more than that.
        """
        asked = self._asked(klass, nodes)
        if most == 1:
            fits_one = mask.copy()
            for column, amount in asked:
                fits_one &= nodes.requested[:, column] + amount <= nodes.allocatable[:, column]
            return fits_one.astype(np.int64)
        fits = np.full(len(mask), np.iinfo(np.int64).max if most is None else most, dtype=np.int64)
        for column, amount in asked:
            free = np.subtract(nodes.allocatable[:, column], nodes.requested[:, column])
            np.minimum(fits, np.floor_divide(free, amount, out=free), out=fits)
        np.maximum(fits, 0, out=fits)
        return np.multiply(fits, mask, out=fits)

    def _asked(self, klass: PodClass, nodes: NodeColumns) -> list[tuple[int, int]]:
        """Return the columns of what the class asks for and must have, with how much of it."""
        return klass.keep(("asked", self), len(nodes.axis), lambda: self._looked_at(klass, nodes))

    def _looked_at(self, klass: PodClass, nodes: NodeColumns) -> list[tuple[int, int]]:
        request = nodes.vector(klass.requests)
        columns = nodes.axis.columns(name for name in klass.requests if not self.is_ignored(name))
        return [(column, int(request[column])) for column in columns if request[column]]

    def is_ignored(self, name: str) -> bool:
        """Whether a resource is not looked at."""
        return name in self.ignored or ("/" in name and name.split("/", 1)[0] in self.ignored_groups)


@dataclass(frozen=True, slots=True)
class FitState:
    """What nodes lack for one more pod of a class; it needs no telling, since the columns change with each pod."""

    fit: NodeResourcesFit
    klass: PodClass
    nodes: NodeColumns
    moves: bool = False
    alone: bool = False

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that lack a resource; final where they do not even offer enough of it."""
        nodes, requests = self.nodes, self.klass.requests
        request = nodes.vector(requests)
        out: list[Rejection] = []
        for name in requests:
            column = nodes.axis.column(name)
            if not requests[name] or self.fit.is_ignored(name):
                continue
            if column == UNKNOWN_RESOURCE:
                out.append(Rejection(insufficient(name), nodes.present, True))
                continue
            offered = nodes.allocatable[:, column]
            short = nodes.requested[:, column] + request[column] > offered
            out.append(Rejection(insufficient(name), short, name != "pods" and request[column] > offered))
        return out

    def add(self, row: int) -> None:
        """Nothing to count."""


def insufficient(name: str) -> str:
    """Return how kube-scheduler says that a node has too little of a resource left."""
    return TOO_MANY_PODS if name == "pods" else f"Insufficient {name}"


Point = tuple[int, int]
"""Utilization in percent and the score it has, 0 to 10."""

_SHAPE_SCALE = 10


@dataclass(frozen=True, slots=True)
class AllocationScore:
    """The score: LeastAllocated spreads load, MostAllocated keeps whole nodes free, a shape says which use is best.

    Attributes:
        resources: Names, or wildcards, and weights that count; one that a node does not offer is left out for that
            node, and an extended resource counts only for pods that ask for it.
        most: Whether fuller is better.
        shape: If given, what each utilization scores instead, rising in utilization; straight lines between.
    """

    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    most: bool = False
    shape: tuple[Point, ...] = ()
    weight: int = 1
    name: str = "NodeResourcesFit"

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Score each node as it would be with the `nth` more pod of the class on it.

        Args:
            klass: The class.
            nodes: All nodes.
            rows: int64[k], the nodes to score.
            nth: int64[m], which pod, from 1.

        Returns:
            int64[m, k] in 0..MAX_SCORE: integer means over the weighted resources, as upstream computes them.
        """
        total = np.zeros((len(nth), len(rows)), dtype=np.int64)
        if self.shape:
            return self._by_shape(klass, nodes, rows, nth, total)
        weights: NDArray[np.int64] | int = 0
        for name, weight in self._that_count(klass):
            offer = allocatable_column(nodes, name)
            if offer is None:
                continue
            level = self._level(_used(klass, nodes, rows, nth, name=name, offer=offer), at_rows(offer.amounts, rows))
            if offer.everywhere:
                total += level if weight == 1 else np.multiply(level, weight, out=level)
                weights = weights + weight
            else:
                counts = at_rows(offer.there, rows) * np.int64(weight)
                total += np.multiply(level, counts, out=level)
                weights = weights + counts
        return np.floor_divide(total, np.maximum(weights, 1), out=total)

    def _by_shape(
        self, klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64], total: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return int64[m, k]: the rounded means by the shape, of the resources that score anything."""
        weights = np.zeros_like(total)
        for name, weight in self._that_count(klass):
            offer = allocatable_column(nodes, name)
            if offer is None:
                continue
            offered, used = at_rows(offer.amounts, rows), _used(klass, nodes, rows, nth, name=name, offer=offer)
            level = _on_shape(self.shape, np.where(used > offered, MAX_SCORE, used * MAX_SCORE // offered))
            counts = at_rows(offer.there, rows) * np.int64(weight) * (level > 0)
            total += np.multiply(level, counts, out=level)
            weights += counts
        return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)

    def _that_count(self, klass: PodClass) -> list[tuple[str, int]]:
        return klass.keep(("count", self), None, lambda: self._counted(klass))

    def _counted(self, klass: PodClass) -> list[tuple[str, int]]:
        return [
            (name, weight)
            for name, weight in expand(self.resources, klass.requests)
            if name in ("cpu", "memory") or klass.requests.get(name, 0) > 0 or "/" not in name
        ]

    def _level(self, used: NDArray[np.int64], offered: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.most:
            np.minimum(used, offered, out=used)
        else:
            np.maximum(np.subtract(offered, used, out=used), 0, out=used)
        part: NDArray[np.int64] = np.multiply(used, MAX_SCORE, out=used)
        return np.floor_divide(part, offered, out=part)


def _used(
    klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64], *, name: str, offer: AllocatableColumn
) -> NDArray[np.int64]:
    """Return int64[m, k]: what would be used of a resource; the pod to place may count otherwise than those placed."""
    if name in ("cpu", "memory"):
        which = ("cpu", "memory").index(name)
        more = (nth - 1) * klass.weight[which] + klass.scored[which]
        now = at_rows(nodes.scored[:, which], rows)
    else:
        more = nth * klass.requests.get(name, 0)
        now = at_rows(nodes.requested[:, offer.column], rows)
    return np.add(now[None, :], more[:, None])


def _on_shape(shape: Sequence[Point], utilization: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the score at each utilization in percent: integers, with the division truncated toward zero."""
    points = [(at, score * (MAX_SCORE // _SHAPE_SCALE)) for at, score in shape]
    out = np.full_like(utilization, points[-1][1])
    for (left, low), (right, high) in reversed(list(pairwise(points))):
        rise = (high - low) * (utilization - left)
        between = low + np.sign(rise) * (np.abs(rise) // (right - left))
        out = np.where(utilization <= right, between, out)
    return np.where(utilization <= points[0][0], points[0][1], out)


_EVEN = MAX_SCORE // 2
_PAIR = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BalancedAllocation:
    """The score: how much more even the node would be with the pod than it is without; the same is 75.

    Attributes:
        resources: Names, or wildcards.
    """

    resources: tuple[str, ...] = ("cpu", "memory")
    name: str = "NodeResourcesBalancedAllocation"
    weight: int = 1

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> Scores | None:
        """Return int64[m, k], or None where the class asks for none of the resources."""
        names = tuple(name for name, _ in expand(tuple((one, 1) for one in self.resources), klass.requests))
        if not any(klass.requests.get(name, 0) for name in names):
            return None
        evenness = _evenness(klass, nodes, rows, np.concatenate((nth[:1] - 1, nth)), names=names)
        change = evenness[1:] - evenness[:-1]
        change += _EVEN
        change >>= 1
        change += _EVEN
        return change


def _evenness(
    klass: PodClass, nodes: NodeColumns, rows: Rows, counts: NDArray[np.int64], *, names: tuple[str, ...]
) -> Scores:
    """Return int64[m, k] in 0..MAX_SCORE with so many more pods: 100 less the deviation of the parts in use."""
    parts: list[Floats] = []
    offers: list[AllocatableColumn] = []
    for name in names:
        asked, offer = klass.requests.get(name, 0), allocatable_column(nodes, name)
        if offer is None or ("/" in name and not asked):
            continue
        now = at_rows(nodes.requested[:, offer.column], rows)
        part = np.add(now[None, :], (counts * asked)[:, None]) / at_rows(offer.amounts, rows)
        parts.append(np.minimum(part, 1.0, out=part))
        offers.append(offer)
    even = _deviation(parts, offers, rows)
    np.subtract(1.0, even, out=even)
    even *= float(MAX_SCORE)
    scores: Scores = even.astype(np.int64)
    return scores


def _deviation(parts: list[Floats], offers: list[AllocatableColumn], rows: Rows) -> Floats:
    """Return float64[m, k], a new array: how far the parts in use are from their mean, over what a node offers."""
    if len(parts) == _PAIR:
        gap: Floats = np.subtract(parts[0], parts[1], out=parts[0])
        np.abs(gap, out=gap)
        gap /= 2
        if not (offers[0].everywhere and offers[1].everywhere):
            gap[:, ~at_rows(offers[0].there & offers[1].there, rows)] = 0.0
        return gap
    stacked = np.stack(parts)
    has = np.stack([at_rows(offer.there, rows) for offer in offers])[:, None, :]
    count = has.sum(axis=0)
    mean = np.where(has, stacked, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(has, (stacked - mean) ** 2, 0.0).sum(axis=0)
    spread: Floats = np.sqrt(squares / np.maximum(count, 1))
    of_two = np.where(has, stacked, -np.inf).max(axis=0) - np.where(has, stacked, np.inf).min(axis=0)
    return np.where(count > _PAIR, spread, np.where(count == _PAIR, of_two / 2, 0.0))


@dataclass(frozen=True, slots=True)
class DynamicResources:
    """The score of pods without claims (kube-scheduler 1.36, plugins/dynamicresources)."""

    name: str = "DynamicResources"
    weight: int = 2
    scaled: bool = True
    reverse: bool = False

    def points(self, klass: PodClass, nodes: NodeColumns) -> Scores:  # noqa: ARG002 - a preference's signature
        """Return int64[rows] of 0."""
        return np.zeros(len(nodes), dtype=np.int64)
