"""Spreading over a topology as far as it goes: the score.

A choice asks again and again about the same nodes, and between two times one pod is added. Where each node asked about
is in another domain, that changes one number, and the scores are kept (`_KeptScores`).
Rules: kube-scheduler 1.36, plugins/podtopologyspread/scoring.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Counts, Features, Mask, Rows, Scores
from tutti.placement.plugins.spread_constraints import (
    HOSTNAME,
    SOFT,
    SYSTEM_DEFAULTS,
    SpreadDefaults,
    TopologySpread,
    spread_constraints,
    with_all_keys,
)

Codes = NDArray[np.int32] | NDArray[np.int64]

_MAX = np.array(MAX_SCORE)  # numpy would make an array of a number in each step
_HALF = np.array(0.5)
_AGAIN = 2
"""Only what is asked about this often is likely to be asked about once more."""
_Amount = TypeVar("_Amount", float, NDArray[np.float64])


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

    def counts_as(self, other: _SoftCounts) -> bool:
        """Whether another has counted the same in each domain; of hostnames each counts for the rows that it has."""
        if self.per_row or other.per_row:
            return False
        return self.spread.is_as(other.spread) and np.array_equal(self.counts, other.counts)

    def size(self, rows: Rows, many: Counts | None) -> int:
        """Return how many domains there are to choose from; nodes without one count as one together."""
        if self.per_row:
            return len(rows) if many is None else int(many[rows].sum())
        seen = np.zeros(self.spread.domains.size + 1, dtype=np.bool_)
        seen[self.spread.domains.codes[rows]] = True
        return int(np.count_nonzero(seen))

    def points(self, rows: Rows, codes: Codes, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64[k]: more for more pods around rows int64[k] in domains int[k]; nothing without a domain."""
        whole = self.all_known if self.per_row else self.spread.domains.whole
        out: NDArray[np.float64] = self.weighed(self.counts[rows if self.per_row else codes], weight)
        return out if whole else np.where(codes >= 0, out, 0.0)

    def weighed(self, counts: _Amount, weight: _Amount) -> _Amount:
        """Return float64, or float64[k]: the points of so many pods (scoring.go, scoreForCount)."""
        skew = self.spread.constraint.max_skew
        return counts * weight + float(skew - 1) if skew > 1 else counts * weight


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
        times: How often they have been asked about.
        kept: Their scores, once they are asked about again; None where these cannot be kept.
    """

    rows: Rows
    keyed: Mask | None
    parts: list[tuple[Codes, NDArray[np.float64]]]
    times: int = 0
    kept: _KeptScores | None = None


@dataclass(slots=True)
class _KeptScores:
    """The scores of rows of which each is in another domain of one constraint: a pod changes one number of them.

    Attributes:
        counted: The constraint.
        weight: What a pod counts.
        places: Where the row of each domain is.
        raw: int64[k], the rounded points.
        low: The fewest of them.
        high: The most.
        scores: int64[k]; None once all of them have changed.
    """

    counted: _SoftCounts
    weight: float
    places: dict[int, int]
    raw: Scores
    low: int
    high: int
    scores: Scores | None = None

    @classmethod
    def of(cls, counted: _SoftCounts, codes: Codes, weight: NDArray[np.float64], raw: Scores) -> _KeptScores | None:
        """Keep what is said of rows in domains int[k]; None where two are in one."""
        places = {code: at for at, code in enumerate(codes.tolist())}
        if len(places) < len(codes):
            return None
        return cls(counted, float(weight), places, raw, *_range(raw))

    def all(self) -> Scores:
        """Return int64[k], to be read before the next pod is added."""
        if self.scores is None:
            self.scores = _normalized(self.raw, self.low, self.high)
        return self.scores

    def add(self, code: int) -> None:
        """Take note of one more pod in a domain, which has been counted."""
        at = self.places.get(code)
        if at is None:
            return
        before, now = int(self.raw[at]), int(self.counted.weighed(self.counted.counts[code], self.weight) + 0.5)
        self.raw[at] = now
        low, high = self.low, max(self.high, now)
        if before == low:
            low, _ = _range(self.raw)
        if low != self.low or high != self.high:
            self.low, self.high, self.scores = low, high, None
        elif self.scores is not None:
            self.scores[at] = MAX_SCORE * (high + low - now) // high if high else MAX_SCORE


def _range(raw: Scores) -> tuple[int, int]:
    """Return the least and the most of some points, int64[k]; `min` and `max` would take four times as long."""
    return int(raw[raw.argmin()]), int(raw[raw.argmax()])


def _normalized(raw: Scores, low: int, high: int) -> Scores:
    """Return int64[k]: of points int64[k] from `low` to `high`, the fewer the better (scoring.go, NormalizeScore)."""
    if high == 0:
        return np.full(len(raw), MAX_SCORE, dtype=np.int64)
    scores: Scores = _MAX * (high + low - raw) // high
    return scores


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

        Row i stands for `many[i]` rows, one each where nothing is said.
        """
        if not len(rows):
            return np.zeros(0, dtype=np.int64)
        asked = self._asked
        if asked is None or asked.rows is not rows:
            asked = self._asked = self._about(rows)
        elif asked.kept is not None:
            return asked.kept.all()
        if asked.keyed is None:
            return self._of_keyed(asked, rows, many)
        out = np.zeros(len(rows), dtype=np.int64)
        if asked.keyed.any():
            out[asked.keyed] = self._of_keyed(asked, rows[asked.keyed], many)
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
        asked.times += 1
        if asked.times == _AGAIN and asked.keyed is None and len(self._counted) == 1 and not self._counted[0].per_row:
            asked.kept = _KeptScores.of(self._counted[0], *asked.parts[0], raw)
        return _normalized(raw, *_range(raw))

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        for one in self._counted:
            one.add(row, around=False)
        self._take_note(row)

    def add_around(self, row: int) -> None:
        """Count one more pod of the class in the domains of a row, and not on its hostname."""
        for one in self._counted:
            one.add(row, around=True)
        self._take_note(row)

    def _take_note(self, row: int) -> None:
        if self._asked is not None and self._asked.kept is not None:
            self._asked.kept.add(int(self._counted[0].spread.domains.codes[row]))

    def counts_as(self, other: SoftSpreadState) -> bool:
        """Whether another has counted the same for each constraint."""
        mine, theirs = self._counted, other._counted
        return len(mine) == len(theirs) and all(one.counts_as(two) for one, two in zip(mine, theirs, strict=True))

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
    if spread.key == HOSTNAME:
        rows, counts, _ = nodes.label_index.where(spread.counted(nodes))
        per_row = np.zeros(len(nodes), dtype=np.float64)
        np.add.at(per_row, rows, counts)
        return _SoftCounts(
            spread, per_row, keyed, per_row=True, all_known=bool(spread.domains.known[nodes.present].all())
        )
    looked_at, pods = spread.by_domain(pod_class, nodes, keyed)
    per_domain = pods.astype(np.float64) if len(pods) else np.zeros(1)  # something to look up where there is no domain
    return _SoftCounts(spread, per_domain, looked_at, per_row=False, all_known=False)
