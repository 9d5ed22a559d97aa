"""Spreading over a topology, strictly and as far as it goes.

Rules: kube-scheduler 1.36, plugins/podtopologyspread/filtering.go and scoring.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Counts, Features, FlavorConstraints, Mask, Rejection, Rows, Scores
from tutti.placement.plugins.spread_constraints import (
    HARD,
    HOSTNAME,
    SOFT,
    SYSTEM_DEFAULTS,
    SpreadDefaults,
    TopologySpread,
    spread_constraints,
    with_all_keys,
)

Codes = NDArray[np.int32] | NDArray[np.int64]

SKEWED = "node(s) didn't match pod topology spread constraints"
NO_KEY = f"{SKEWED} (missing required label)"

_MAX = np.array(MAX_SCORE)  # numpy would make an array of a number in each step
_HALF = np.array(0.5)


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

    def _find_least(self) -> None:
        mine = self.counts[self.looked_at]
        self.least = int(mine.min())
        self._emptiest = int(np.count_nonzero(mine == self.least))


@dataclass(slots=True)
class _StrictCounts:
    """The pods of one constraint: how many in each domain, over the nodes that are looked at."""

    spread: TopologySpread
    filling: _Filling
    looked_at: Mask

    def at(self, rows: Rows) -> _StrictCounts:
        """Return the same of these rows only."""
        return _StrictCounts(self.spread.at(rows), self.filling, self.looked_at[rows])

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        if self.spread.counts_itself and self.looked_at[row]:
            self.filling.add(self.spread.domains.codes[row])

    def too_many(self) -> Mask:
        """bool[rows]: nodes where one more pod would make the skew too large."""
        spread, filling = self.spread, self.filling
        over: Mask = spread.domains.spread(filling.counts) > filling.least + spread.most_beside
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
        return cls([_count_strictly(pod_class, nodes, one, keyed) for one in spreads], len(nodes))

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

    def features(self) -> Sequence[Features]:
        """Return each row's domains, and whether it is looked at."""
        return [column for one in self._counted for column in (one.spread.domains.codes + 1, one.looked_at)]

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


def _count_strictly(pod_class: PodClass, nodes: NodeColumns, spread: TopologySpread, keyed: Mask) -> _StrictCounts:
    included = spread.includes(pod_class, nodes)
    looked_at = keyed if included is None else keyed & included
    rows, counts, _ = nodes.label_index.where(spread.counted(nodes))
    inside = looked_at[rows]
    per_domain = spread.domains.sum(rows[inside], counts[inside])
    domains = np.flatnonzero(np.bincount(spread.domains.codes[looked_at]))
    return _StrictCounts(spread, _Filling.of(per_domain, domains, spread.constraint.min_domains or 1), looked_at)


@dataclass(slots=True)
class _SoftCounts:
    """The pods of one constraint.

    Attributes:
        counts: float64[domains], how many are in each, one at least, or for hostnames float64[rows]; weighed in each
            step.
    """

    spread: TopologySpread
    counts: NDArray[np.float64]
    looked_at: Mask
    per_row: bool
    all_known: bool

    def at(self, rows: Rows) -> _SoftCounts:
        """Return the same of these rows only."""
        counts = self.counts[rows] if self.per_row else self.counts
        return _SoftCounts(self.spread.at(rows), counts, self.looked_at[rows], self.per_row, self.all_known)

    @property
    def features(self) -> Sequence[Features]:
        """Numbers from 0 on for each row, by which rows are alike."""
        if self.per_row:
            return self.counts.astype(np.int64), self.spread.domains.known
        return self.spread.domains.codes + 1, self.looked_at

    def add(self, row: int, *, around: bool) -> None:
        """Count one more pod of the class on a row, or only around it."""
        if not self.spread.counts_itself:
            return
        if self.per_row:
            self.counts[row] += not around
        elif self.looked_at[row]:
            code = self.spread.domains.codes[row]
            if code >= 0:
                self.counts[code] += 1

    def size(self, rows: Rows, many: Counts | None) -> int:
        """Return how many domains there are to choose from; nodes without one count as one together."""
        if self.per_row:
            return len(rows) if many is None else int(many.sum())
        seen = np.zeros(self.spread.domains.size + 1, dtype=np.bool_)
        seen[self.spread.domains.codes[rows]] = True
        return int(np.count_nonzero(seen))

    def points(self, rows: Rows, codes: Codes, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64[k]: more for more pods around rows int64[k] in domains int[k]; nothing without a domain."""
        whole = self.all_known if self.per_row else self.spread.domains.whole
        out: NDArray[np.float64] = self.counts[rows if self.per_row else codes] * weight
        if self.spread.constraint.max_skew > 1:
            out += float(self.spread.constraint.max_skew - 1)
        return out if whole else np.where(codes >= 0, out, 0.0)


def _weight(size: int) -> NDArray[np.float64]:
    """Return float64[], what a pod counts among so many domains (scoring.go, topologyNormalizingWeight)."""
    return np.asarray(np.log(float(size + 2)))


@dataclass(slots=True)
class _Asked:
    """What follows from which rows are asked about, kept while these are the same.

    Attributes:
        rows: int64[k].
        keyed: bool[k], which of them have all keys; None where all have.
        parts: Of each constraint int[m], the domains of those that have, and float64[], what a pod counts.
    """

    rows: Rows
    keyed: Mask | None
    parts: list[tuple[Codes, NDArray[np.float64]]]


class SoftSpreadState:
    """How a class's softly spread pods are distributed.

    Own constraints score only nodes that have all their keys; the system's defaults take a node as it is.
    """

    def __init__(self, counted: list[_SoftCounts], keyed: Mask) -> None:
        self._counted = counted
        self._keyed = keyed
        self._asked: _Asked | None = None
        self.own = any(one.per_row and one.spread.counts_itself for one in counted)

    @classmethod
    def of(
        cls, pod_class: PodClass, nodes: NodeColumns, spreads: list[TopologySpread], *, system: bool
    ) -> SoftSpreadState:
        """Count who is where."""
        keyed = np.ones(len(nodes), dtype=np.bool_) if system else with_all_keys(spreads, len(nodes))
        return cls([_count_softly(pod_class, nodes, one, keyed) for one in spreads], keyed)

    def scores(self, rows: Rows, many: Counts | None = None) -> Scores:
        """Return int64[len(rows)]: the emptier the domains, the better; 0 where a key is missing.

        Each row stands for `many` rows: int64[len(rows)], one each where nothing is said.
        """
        if not len(rows):
            return np.zeros(0, dtype=np.int64)
        asked = self._asked
        if asked is None or asked.rows is not rows:
            asked = self._asked = self._about(rows)
        if asked.keyed is None:
            return self._of_keyed(asked, rows, many)
        out = np.zeros(len(rows), dtype=np.int64)
        if asked.keyed.any():
            out[asked.keyed] = self._of_keyed(asked, rows[asked.keyed], None if many is None else many[asked.keyed])
        return out

    def _about(self, rows: Rows) -> _Asked:
        keyed = self._keyed[rows]
        mine = rows if keyed.all() else rows[keyed]
        parts = [(one.spread.domains.codes[mine], _weight(one.size(mine, None))) for one in self._counted]
        return _Asked(rows, None if mine is rows else keyed, parts)

    def _of_keyed(self, asked: _Asked, rows: Rows, many: Counts | None) -> Scores:
        points = [
            one.points(rows, codes, _weight(one.size(rows, many)) if one.per_row else weight)
            for one, (codes, weight) in zip(self._counted, asked.parts, strict=True)
        ]
        total = points[0]
        for more in points[1:]:
            total = total + more
        raw = (total + _HALF).astype(np.int64)  # none is below 0
        low, high = int(raw[raw.argmin()]), int(raw[raw.argmax()])
        if high == 0:
            return np.full(len(rows), MAX_SCORE, dtype=np.int64)
        scores: Scores = _MAX * (high + low - raw) // high
        return scores

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        for one in self._counted:
            one.add(row, around=False)

    def add_around(self, row: int) -> None:
        """Count one more pod of the class in the domains of a row, and not on its hostname."""
        for one in self._counted:
            one.add(row, around=True)

    def features(self) -> Sequence[Features]:
        """Return each row's domains, how many pods it has itself, and whether it is looked at."""
        return [self._keyed, *(column for one in self._counted for column in one.features)]

    def at(self, rows: Rows) -> SoftSpreadState:
        """Return the state of these rows only."""
        return SoftSpreadState([one.at(rows) for one in self._counted], self._keyed[rows])


@dataclass(frozen=True, slots=True)
class PreferredSpread:
    """The score; `defaults` are for pods that have no constraints of their own."""

    concerns: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "concerns", self.defaults.concerns(SOFT))

    defaults: SpreadDefaults = SYSTEM_DEFAULTS
    name: str = "PodTopologySpread"
    weight: int = 2

    def pre_score(self, pod_class: PodClass, nodes: NodeColumns) -> SoftSpreadState | None:
        """Count for one choice; None where the class need not be spread."""
        spreads, system = spread_constraints(pod_class, nodes, SOFT, self.defaults)
        return SoftSpreadState.of(pod_class, nodes, spreads, system=system) if spreads else None


def _count_softly(pod_class: PodClass, nodes: NodeColumns, spread: TopologySpread, keyed: Mask) -> _SoftCounts:
    rows, counts, _ = nodes.label_index.where(spread.counted(nodes))
    if spread.key == HOSTNAME:
        per_row = np.zeros(len(nodes), dtype=np.float64)
        np.add.at(per_row, rows, counts)
        return _SoftCounts(
            spread, per_row, keyed, per_row=True, all_known=bool(spread.domains.known[nodes.present].all())
        )
    included = spread.includes(pod_class, nodes)
    looked_at = keyed if included is None else keyed & included
    inside = looked_at[rows]
    per_domain = spread.domains.sum(rows[inside], counts[inside]).astype(np.float64)
    if not len(per_domain):  # no node has ever had one: there is something to look up still
        per_domain = np.zeros(1, dtype=np.float64)
    return _SoftCounts(spread, per_domain, looked_at, per_row=False, all_known=False)
