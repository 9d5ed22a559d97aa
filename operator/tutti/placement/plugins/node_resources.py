"""Resources of nodes: whether enough is left, and how full and how evenly used a node should be.

Rules: kube-scheduler 1.36, plugins/noderesources (fit, least, most, requested to capacity ratio, balanced_allocation).
A container that does not say what it asks for counts a little in scores
(`requests.DEFAULT_REQUESTS`), or a node could be filled with such pods and still look empty. A wildcard such as
`nvidia.com/*` stands for each extended resource of that domain that a pod asks for, so that a profile need not name
every MIG profile that a cluster has or will have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.columns import UNKNOWN_RESOURCE
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Counts, FlavorConstraints, Mask, Rejection, Rows, Scores


@dataclass(frozen=True, slots=True)
class AllocatableColumn:
    """What nodes offer of one resource, as scores divide by it: worked out once until any node offers anything else.

    What is used changes with every pod, and what is offered hardly ever; most of a score's arithmetic is about that.

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
    column = nodes.resource_index.column_of.get(name)
    if column is None:
        return None
    stamp = (nodes.capacity_version, nodes.allocatable.shape)
    return nodes.keep(("offer", name), stamp, lambda: _allocatable(nodes, column))


def _allocatable(nodes: NodeColumns, column: int) -> AllocatableColumn:
    offered = nodes.allocatable[:, column]
    there = offered > 0
    return AllocatableColumn(column, np.maximum(offered, 1), there, bool(there.all()))


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
    concerns: int = field(default=Feature.ANY, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> FitState:  # noqa: ARG002 - a filter's signature
        """Return what answers from the columns as they are when asked."""
        return FitState(self, pod_class, nodes)

    def capacity(
        self, nodes: NodeColumns, pod_class: PodClass, mask: Mask, *, most: int | None = None
    ) -> NDArray[np.int64]:
        """Return int64[rows]: how many more pods of the class fit on each node by resources; 0 where masked out.

        A resource that the class does not ask for never limits it. With `most` it is no more than that.
        """
        asked = pod_class.keep(
            ("asked", self), len(nodes.resource_index.column_of), lambda: self._asked(pod_class, nodes)
        )
        requested, allocatable = nodes.requested, nodes.allocatable
        if pod_class.devices.extended:
            return self._beside_devices(nodes, pod_class, mask, most=most)
        if most == 1:
            fits_one = mask.copy()
            for column, amount in asked:
                fits_one &= requested[:, column] + amount <= allocatable[:, column]
            return fits_one.astype(np.int64)
        if _FEW_OF * np.count_nonzero(mask) < len(mask):
            rows, fits = np.flatnonzero(mask), np.zeros(len(mask), dtype=np.int64)
            fits[rows] = _times(allocatable[rows], requested[rows], asked, most)
            return fits
        fits = _times(allocatable, requested, asked, most)
        return np.multiply(fits, mask, out=fits)

    def _beside_devices(
        self, nodes: NodeColumns, pod_class: PodClass, mask: Mask, *, most: int | None
    ) -> NDArray[np.int64]:
        """Do the same for a class that asks for what devices can stand in for, on nodes that do not offer it."""
        requests, view = pod_class.requests, nodes.device_view(pod_class.devices)
        fits = np.full(len(mask), np.iinfo(np.int64).max if most is None else most, dtype=np.int64)
        for name, amount in requests.items():
            if amount <= 0 or self.is_ignored(name):
                continue
            column = nodes.resource_index.column(name)
            room = (nodes.allocatable[:, column] - nodes.requested[:, column]) // int(nodes.vector(requests)[column])
            stands_in = view.unoffered.get(name)
            fits = np.minimum(fits, room if stands_in is None else np.where(stands_in, fits, room))
        return np.maximum(fits, 0) * mask

    def _asked(self, pod_class: PodClass, nodes: NodeColumns) -> list[tuple[int, int]]:
        """Return the columns of what the class asks for and must have, with how much of it."""
        request, column_of = nodes.resource_index.vector(pod_class.requests), nodes.resource_index.column_of
        names = list(pod_class.requests)
        if self.ignored or self.ignored_groups:
            names = [name for name in names if not self.is_ignored(name)]
        columns = dict.fromkeys([column_of.get(name, UNKNOWN_RESOURCE) for name in names])
        return [(column, int(request[column])) for column in columns if request[column]]

    def is_ignored(self, name: str) -> bool:
        """Whether a resource is not looked at."""
        return name in self.ignored or ("/" in name and name.split("/", 1)[0] in self.ignored_groups)


_FEW_OF = 4
"""Where no more than one node in so many may be used, the others are left out."""


def _times(
    offered: NDArray[np.int64], taken: NDArray[np.int64], asked: Iterable[tuple[int, int]], most: int | None
) -> NDArray[np.int64]:
    """Return int64[k], a new array: how often what is asked fits into what is left, and no more often than `most`.

    Args:
        offered: int64[k, resources].
        taken: int64[k, resources].
        asked: Columns of these, and how much of each.
        most: The bound; None: none.
    """
    fits = np.full(len(offered), np.iinfo(np.int64).max if most is None else most, dtype=np.int64)
    for column, amount in asked:
        free = np.subtract(offered[:, column], taken[:, column])
        np.minimum(fits, free if amount == 1 else np.floor_divide(free, amount, out=free), out=fits)
    return np.maximum(fits, 0, out=fits)


@dataclass(frozen=True, slots=True)
class FitState:
    """What nodes lack for one more pod of a class; it needs no telling, since the columns change with each pod."""

    fit: NodeResourcesFit
    pod_class: PodClass
    nodes: NodeColumns
    changes_on_add: bool = False
    one_per_node: bool = False

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that lack a resource; final where they do not even offer enough of it."""
        nodes, requests = self.nodes, self.pod_class.requests
        request = nodes.vector(requests)
        unoffered = nodes.device_view(self.pod_class.devices).unoffered if self.pod_class.devices.extended else {}
        out: list[Rejection] = []
        for name in requests:
            column = nodes.resource_index.column(name)
            if not requests[name] or self.fit.is_ignored(name):
                continue
            stands_in = unoffered.get(name)
            if column == UNKNOWN_RESOURCE:
                if stands_in is not None:
                    continue
                out.append(Rejection(insufficient(name), nodes.present, True))
                continue
            offered = nodes.allocatable[:, column]
            short = nodes.requested[:, column] + request[column] > offered
            short = short if stands_in is None else short & ~stands_in
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

    @property
    def gathers(self) -> bool:
        """Whether a full node scores more than an empty one."""
        return self.shape[-1][1] > self.shape[0][1] if self.shape else self.most

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Score each node as it would be with the `nth` more pod of the class on it.

        Args:
            pod_class: The class.
            nodes: All nodes.
            rows: int64[k], the nodes to score.
            nth: int64[m], which pod, from 1.

        Returns:
            int64[m, k] in 0..MAX_SCORE: integer means over the weighted resources, as upstream computes them.
        """
        stamp = (nodes.capacity_version, nodes.allocatable.shape)
        counted = pod_class.keep(("fit score", self), stamp, lambda: self._counted(pod_class, nodes))
        total = np.zeros((len(nth), len(rows)), dtype=np.int64)
        if self.shape:
            return self._by_shape(counted, nodes, rows, nth, total)
        weights: NDArray[np.int64] | int = 0
        for one in counted:
            offered = one.offer.amounts if len(rows) == len(nodes.names) else one.offer.amounts[rows]
            level = _used(one, nodes, rows, nth)
            if self.most:
                np.minimum(level, offered, out=level)
            else:
                np.maximum(np.subtract(offered, level, out=level), 0, out=level)
            np.floor_divide(np.multiply(level, MAX_SCORE, out=level), offered, out=level)
            if one.offer.everywhere:
                total += level if one.weight == 1 else np.multiply(level, one.weight, out=level)
                weights = weights + one.weight
            else:
                counts = one.offer.there[rows] * np.int64(one.weight)
                total += np.multiply(level, counts, out=level)
                weights = weights + counts
        return np.floor_divide(total, np.maximum(weights, 1), out=total)

    def _by_shape(
        self, counted: list[_Counting], nodes: NodeColumns, rows: Rows, nth: Counts, total: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return int64[m, k]: the rounded means by the shape, of the resources that score anything."""
        weights = np.zeros_like(total)
        for one in counted:
            offered, used = one.offer.amounts[rows], _used(one, nodes, rows, nth)
            level = _on_shape(self.shape, np.where(used > offered, MAX_SCORE, used * MAX_SCORE // offered))
            counts = one.offer.there[rows] * np.int64(one.weight) * (level > 0)
            total += np.multiply(level, counts, out=level)
            weights += counts
        return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)

    def _counted(self, pod_class: PodClass, nodes: NodeColumns) -> list[_Counting]:
        """Return the resources that count for a class, of those that any node offers."""
        out = []
        for name, weight in expand(self.resources, pod_class.requests):
            asked, offer = pod_class.requests.get(name, 0), allocatable_column(nodes, name)
            if offer is None or not (asked > 0 or "/" not in name):
                continue
            if name in _SCORED:  # the pod to place may count otherwise than those placed
                at = _SCORED.index(name)
                out.append(_Counting(offer, weight, pod_class.scored[at], pod_class.weight[at], at))
            else:
                out.append(_Counting(offer, weight, asked, asked))
        return out


_SCORED = ("cpu", "memory")
"""The columns of `NodeColumns.scored`."""


class _Counting(NamedTuple):
    """A resource that counts in a score.

    Attributes:
        first: How much the next pod takes, and `more` each one after it.
        scored: Its column among those that scores count otherwise; -1 for none.
    """

    offer: AllocatableColumn
    weight: int
    first: int
    more: int
    scored: int = -1


def _used(one: _Counting, nodes: NodeColumns, rows: Rows, nth: Counts) -> NDArray[np.int64]:
    """Return int64[m, k], a new array: what would be used of a resource with the `nth` more pod."""
    now = nodes.in_use(one.offer.column) if one.scored < 0 else nodes.scored[:, one.scored]
    there = now if len(rows) == len(now) else now[rows]
    return there[None, :] + (one.first + (nth - 1) * one.more)[:, None]


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

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> Scores | None:
        """Return int64[m, k], or None where the class asks for none of the resources."""
        stamp = (nodes.capacity_version, nodes.allocatable.shape)
        counted = pod_class.keep(("balance", self), stamp, lambda: self._counted(pod_class, nodes))
        if not counted:
            return None
        evenness = _evenness(counted, nodes, rows, np.concatenate((nth[:1] - 1, nth)))
        change = evenness[1:] - evenness[:-1]
        change += _EVEN
        change >>= 1
        change += _EVEN
        return change

    def _counted(self, pod_class: PodClass, nodes: NodeColumns) -> list[tuple[AllocatableColumn, int]]:
        """Return the resources that count for a class, of those that any node offers, with how much a pod asks for."""
        weighted = expand(tuple((name, 1) for name in self.resources), pod_class.requests)
        asked = {name: pod_class.requests.get(name, 0) for name, _ in weighted}
        if not any(asked.values()):
            return []
        offers = [(allocatable_column(nodes, name), asked[name]) for name in asked if asked[name] or "/" not in name]
        return [(offer, amount) for offer, amount in offers if offer is not None]


def _evenness(
    counted: list[tuple[AllocatableColumn, int]], nodes: NodeColumns, rows: Rows, counts: NDArray[np.int64]
) -> Scores:
    """Return int64[m, k] in 0..MAX_SCORE with so many more pods: 100 less the deviation of the parts in use."""
    parts: list[Floats] = []
    every = len(rows) == len(nodes.names)
    for offer, asked in counted:
        now = nodes.in_use(offer.column)
        used = np.add((now if every else now[rows])[None, :], (counts * asked)[:, None])
        part = used / (offer.amounts if every else offer.amounts[rows])
        parts.append(np.minimum(part, 1.0, out=part))
    even = _deviation(parts, [offer for offer, _ in counted], rows)
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
            gap[:, ~(offers[0].there & offers[1].there)[rows]] = 0.0
        return gap
    stacked = np.stack(parts)
    has = np.stack([offer.there[rows] for offer in offers])[:, None, :]
    count = has.sum(axis=0)
    mean = np.where(has, stacked, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(has, (stacked - mean) ** 2, 0.0).sum(axis=0)
    spread: Floats = np.sqrt(squares / np.maximum(count, 1))
    of_two = np.where(has, stacked, -np.inf).max(axis=0) - np.where(has, stacked, np.inf).min(axis=0)
    return np.where(count > _PAIR, spread, np.where(count == _PAIR, of_two / 2, 0.0))
