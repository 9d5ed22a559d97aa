"""Strict spreading over a topology (kube-scheduler 1.36, plugins/podtopologyspread/filtering.go)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Counts, Features, Mask, Rejection, Rows, Where
from tutti.placement.spreading import HARD, SYSTEM_DEFAULTS, SpreadDefaults, Spreading, spreadings, with_all_keys

SKEWED = "node(s) didn't match pod topology spread constraints"
NO_KEY = f"{SKEWED} (missing required label)"


@dataclass(slots=True)
class _Counted:
    """The pods of one constraint: how many in each domain, over the nodes that are looked at."""

    spread: Spreading
    counts: Counts
    looked_at: Mask
    domains: np.typing.NDArray[np.int64]

    def at(self, rows: Rows) -> _Counted:
        """Return the same of these rows only."""
        return _Counted(self.spread.at(rows), self.counts, self.looked_at[rows], self.domains)

    def least(self) -> int:
        """Return the count of the emptiest domain; 0 where there are fewer domains than asked for."""
        if len(self.domains) < (self.spread.constraint.min_domains or 1):
            return 0
        return int(self.counts[self.domains].min())

    def too_many(self) -> Mask:
        """bool[rows]: nodes where one more pod would make the skew too large."""
        room = self.least() + self.spread.constraint.max_skew - int(self.spread.matches_itself)
        over: Mask = self.spread.domains.spread(self.counts) > room
        return over


class SpreadTally:
    """How a class's strictly spread pods are distributed."""

    def __init__(self, counted: list[_Counted], rows: int) -> None:
        self._counted = counted
        self._rows = rows
        self.moves = any(one.spread.counts_itself for one in counted)
        self.alone = self.own = False

    @classmethod
    def of(cls, klass: PodClass, nodes: NodeColumns, spreads: list[Spreading]) -> SpreadTally:
        """Count who is where."""
        keyed = with_all_keys(spreads, len(nodes)) & nodes.present
        return cls([_count(klass, nodes, one, keyed) for one in spreads], len(nodes))

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

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        for one in self._counted:
            if one.spread.counts_itself and one.looked_at[row]:
                one.counts[one.spread.domains.codes[row]] += 1

    def add_around(self, row: int) -> None:
        """Count one more pod of the class near a row; its own is not special."""
        self.add(row)

    def features(self) -> Sequence[Features]:
        """Return each row's domains, and whether it is looked at."""
        return [column for one in self._counted for column in (one.spread.domains.codes + 1, one.looked_at)]

    def at(self, rows: Rows) -> SpreadTally:
        """Return the tally of these rows only."""
        return SpreadTally([one.at(rows) for one in self._counted], len(rows))


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """The filter; `defaults` are for pods that have no constraints of their own."""

    defaults: SpreadDefaults = SYSTEM_DEFAULTS

    def tally(self, klass: PodClass, nodes: NodeColumns, where: Where) -> SpreadTally | None:  # noqa: ARG002 - a filter's signature
        """Count who is where; None where the class need not be spread."""
        spreads, _ = spreadings(klass, nodes, HARD, self.defaults)
        return SpreadTally.of(klass, nodes, spreads) if spreads else None


def _count(klass: PodClass, nodes: NodeColumns, spread: Spreading, keyed: Mask) -> _Counted:
    included = spread.includes(klass, nodes)
    looked_at = keyed if included is None else keyed & included
    rows, counts, _ = nodes.residents.where(spread.counted(nodes))
    inside = looked_at[rows]
    per_domain = spread.domains.sum(rows[inside], counts[inside])
    return _Counted(spread, per_domain, looked_at, np.unique(spread.domains.codes[looked_at]).astype(np.int64))
