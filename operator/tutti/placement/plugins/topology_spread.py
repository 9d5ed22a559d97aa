"""Spreading over a topology, strictly; `soft_spread.py` has what is spread as far as it goes.

Rules: kube-scheduler 1.36, plugins/podtopologyspread/filtering.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Counts, Features, FlavorConstraints, Mask, Rejection, Rows
from tutti.placement.plugins.spread_constraints import (
    HARD,
    SYSTEM_DEFAULTS,
    SpreadDefaults,
    TopologySpread,
    spread_constraints,
    with_all_keys,
)

SKEWED = "node(s) didn't match pod topology spread constraints"
NO_KEY = f"{SKEWED} (missing required label)"


@dataclass(slots=True)
class _Filling:
    """How many pods of one constraint are in each domain, and how many in the emptiest of those looked at.

    Attributes:
        counts: int64[domains].
        looked_at: int64[k], the domains whose emptiest counts.
        least: What the emptiest has; 0 where there are fewer domains than asked for.
    """

    counts: Counts
    looked_at: Counts
    least: int = 0
    _emptiest: int = 0

    @classmethod
    def of(cls, counts: Counts, looked_at: Counts, min_domains: int) -> _Filling:
        """Begin with so many pods in each domain."""
        out = cls(counts, looked_at)
        if len(looked_at) >= min_domains:
            out._find_least()
        return out

    def add(self, code: int) -> None:
        """Count one more pod in one of the domains that are looked at."""
        before = self.counts[code]
        self.counts[code] = before + 1
        if self._emptiest and before == self.least:
            self._emptiest -= 1
            if not self._emptiest:
                self._find_least()

    def least_with(self, codes: NDArray[np.signedinteger], more: Counts) -> Counts:
        """Return int64[k]: what the emptiest would have with more pods in one domain that is looked at.

        Args:
            codes: [k], which domain.
            more: int64[k], how many more pods there, each for itself.
        """
        if self._emptiest != 1:
            return np.full(len(codes), self.least, dtype=np.int64)
        others = np.sort(self.counts[self.looked_at])[1:2]
        filled = self.counts[codes] + more
        alone = np.minimum(filled, others[0]) if len(others) else filled
        return np.where(self.counts[codes] == self.least, alone, self.least)

    def _find_least(self) -> None:
        mine = self.counts[self.looked_at]
        self.least = int(mine.min())
        self._emptiest = int(np.count_nonzero(mine == self.least))


@dataclass(slots=True)
class _StrictCounts:
    """The pods of one constraint: how many in each domain, over the nodes that are looked at.

    Attributes:
        nominated: int64[rows], how many more are nominated there that count for their own node alone; None for none.
    """

    spread: TopologySpread
    filling: _Filling
    looked_at: Mask
    nominated: Counts | None = None

    def at(self, rows: Rows) -> _StrictCounts:
        """Return the same of these rows only."""
        nominated = None if self.nominated is None else self.nominated[rows]
        return _StrictCounts(self.spread.at(rows), self.filling, self.looked_at[rows], nominated)

    def counts_as(self, other: _StrictCounts) -> bool:
        """Whether it is known that another has counted the same."""
        if self.nominated is not None or other.nominated is not None:
            return False
        return self.spread.is_as(other.spread) and np.array_equal(self.filling.counts, other.filling.counts)

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        if self.spread.counts_itself and self.looked_at[row]:
            self.filling.add(self.spread.domains.codes[row])

    def too_many(self) -> Mask:
        """bool[rows]: nodes where one more pod would make the skew too large."""
        spread, filling = self.spread, self.filling
        over: Mask = spread.domains.spread(filling.counts) > filling.least + spread.most_beside
        if self.nominated is not None:
            rows = np.flatnonzero(self.nominated)
            codes, more = spread.domains.codes[rows], self.nominated[rows]
            over[rows] |= filling.counts[codes] + more > filling.least_with(codes, more) + spread.most_beside
        return over


class SpreadState:
    """How a class's strictly spread pods are distributed."""

    def __init__(self, counted: list[_StrictCounts], rows: int) -> None:
        self._counted = counted
        self._rows = rows
        self.changes_on_add = any(one.spread.counts_itself for one in counted)
        self.one_per_node = self.own = False

    @classmethod
    def of(cls, pod_class: PodClass, nodes: NodeColumns, spreads: list[TopologySpread]) -> SpreadState:
        """Count who is where."""
        keyed = with_all_keys(spreads, len(nodes)) & nodes.present
        return cls([found for one in spreads for found in _count_strictly(pod_class, nodes, one, keyed)], len(nodes))

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes by the first constraint that they do not meet."""
        left = np.ones(self._rows, dtype=np.bool_)
        lacking, skewed = np.zeros(self._rows, dtype=np.bool_), np.zeros(self._rows, dtype=np.bool_)
        for one in self._counted:
            known = one.spread.domains.known
            lacking |= left & ~known
            left &= known
            over = one.too_many()
            skewed |= left & over
            left &= ~over
        return Rejection(NO_KEY, lacking, final=True), Rejection(SKEWED, skewed)

    def refused(self) -> Mask:
        """Return bool[rows]: all nodes that are ruled out."""
        out: Mask | None = None
        for one in self._counted:
            over = one.too_many()
            if not one.spread.domains.whole:
                over = over | ~one.spread.domains.known
            out = over if out is None else out | over
        return np.zeros(self._rows, dtype=np.bool_) if out is None else out

    @property
    def settled(self) -> bool:
        """Whether pods of the class are not counted."""
        return not self.changes_on_add

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        for one in self._counted:
            one.add(row)

    def add_around(self, row: int) -> None:
        """Count one more pod of the class near a row; its own is not special."""
        self.add(row)

    def counts_as(self, other: SpreadState) -> bool:
        """Whether another has counted the same for each constraint."""
        mine, theirs = self._counted, other._counted
        return len(mine) == len(theirs) and all(one.counts_as(two) for one, two in zip(mine, theirs, strict=True))

    def features(self) -> Sequence[Features]:
        """Return each row's domains, whether it is looked at, and who is nominated there."""
        columns: list[Features] = []
        for one in self._counted:
            columns += (one.spread.domains.codes + 1, one.looked_at)
            if one.nominated is not None:
                columns.append(one.nominated)
        return columns

    def at(self, rows: Rows) -> SpreadState:
        """Return the state of these rows only."""
        return SpreadState([one.at(rows) for one in self._counted], len(rows))


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """The filter; `defaults` are for pods that have no constraints of their own."""

    concerns: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "concerns", self.defaults.concerns(HARD))

    defaults: SpreadDefaults = SYSTEM_DEFAULTS

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> SpreadState | None:  # noqa: ARG002 - a filter's signature
        """Count who is where; None where the class need not be spread."""
        spreads, _ = spread_constraints(pod_class, nodes, HARD, self.defaults)
        return SpreadState.of(pod_class, nodes, spreads) if spreads else None


def _count_strictly(
    pod_class: PodClass, nodes: NodeColumns, spread: TopologySpread, keyed: Mask
) -> list[_StrictCounts]:
    """Count who is where; once more with those who are nominated, where these count in all of their domains.

    It is to be met both with them and without them (kube-scheduler 1.36, framework/runtime,
    RunFilterPluginsWithNominatedPods).
    """
    looked_at, per_domain = spread.by_domain(pod_class, nodes, keyed)
    domains = np.flatnonzero(np.bincount(spread.domains.codes[looked_at]))
    most = spread.constraint.min_domains or 1
    counted = _StrictCounts(spread, _Filling.of(per_domain, domains, most), looked_at)
    if nodes.nominated is None:
        return [counted]
    nominated = nodes.nominated.count(len(nodes), lambda other: spread.counts(other, nodes)) * looked_at
    if not nominated.any():
        return [counted]
    counted.nominated = nominated
    if not nodes.nominated.in_domains:
        return [counted]
    together = per_domain + spread.domains.sum_all(nominated)
    return [counted, _StrictCounts(spread, _Filling.of(together, domains, most), looked_at)]
