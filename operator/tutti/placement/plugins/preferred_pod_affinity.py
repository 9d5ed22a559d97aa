"""Preferred affinity and anti-affinity between pods (kube-scheduler 1.36, plugins/interpodaffinity/scoring.go).

What pods on the nodes prefer, or require, about the incoming pod counts as well as what it prefers about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.kin import Company, Kin, Term
from tutti.cluster.nodes import NodeColumns
from tutti.placement.domains import Domains
from tutti.placement.framework import MAX_SCORE, Counts, Features, Rows, Scores
from tutti.placement.plugins.inter_pod_affinity import Weights, means, weigh_terms

Weighted = Callable[[Kin], Iterator[tuple[Term, int]]]


@dataclass(slots=True)
class _Sum:
    """Points per domain of one topology key; `touched` once any pod has counted, if only to cancel another out."""

    domains: Domains
    points: Counts
    touched: bool = False
    step: int = 0
    steps: bool = False


class PreferenceTally:
    """Points per domain, from what either side wants of the other."""

    def __init__(self, nodes: NodeColumns, sums: dict[str, _Sum]) -> None:
        self._nodes = nodes
        self._sums = sums
        self.own = False

    @classmethod
    def of(cls, klass: PodClass, nodes: NodeColumns, weighted: Weighted) -> PreferenceTally:
        """Sum up what either side wants."""
        out = cls(nodes, {})
        wanted: dict[str, Weights] = {}
        for term in klass.company.preferred:
            key = term.topology_key
            if not nodes.label(key).values:
                continue  # no node is in any such domain
            chosen = nodes.residents.matching(term.query, nodes.around)
            sums = wanted.get(key) or wanted.setdefault(key, Weights.none(nodes))
            sums.of_codes += chosen * np.int64(term.weight)
            sums.meant |= chosen
            if means(term.query, klass, nodes):
                out._will_add(key, term.weight)
        for weights in (wanted, weigh_terms(klass, nodes, weighted)):
            for key, found in weights.items():
                out._add(key, found.of_codes, found.meant)
        for term, weight in weighted(klass.kin):
            if means(term.query, klass, nodes):
                out._will_add(term.topology_key, weight)
        return out

    def scores(self, rows: Rows, many: Counts | None = None) -> Scores | None:  # noqa: ARG002 - only the range counts
        """Return int64[len(rows)]: 0 for the least of the feasible, MAX_SCORE for the best; None where nobody cares."""
        if not any(one.touched for one in self._sums.values()):
            return None
        raw = np.zeros(len(rows), dtype=np.int64)
        for one in self._sums.values():
            raw += np.append(one.points, 0)[one.domains.codes[rows]]
        if not len(raw):
            return raw
        low, high = int(raw.min()), int(raw.max())
        if high == low:
            return np.zeros_like(raw)
        return (float(MAX_SCORE) * ((raw - low) / float(high - low))).astype(np.int64)

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        for one in self._sums.values():
            code = one.domains.codes[row]
            if one.steps and code >= 0:
                one.points[code] += one.step
                one.touched = True

    def add_around(self, row: int) -> None:
        """Count one more pod of the class near a row; its own is not special."""
        self.add(row)

    def features(self) -> Sequence[Features]:
        """Return each row's domains."""
        return [one.domains.codes + 1 for one in self._sums.values()]

    def at(self, rows: Rows) -> PreferenceTally:
        """Return the tally of these rows only."""
        sums = {key: replace(one, domains=one.domains.at(rows)) for key, one in self._sums.items()}
        return PreferenceTally(self._nodes, sums)

    def _sum(self, key: str) -> _Sum:
        one = self._sums.get(key)
        if one is None:
            domains = Domains.of(self._nodes, key)
            one = self._sums[key] = _Sum(domains, np.zeros(domains.size, dtype=np.int64))
        return one

    def _add(self, key: str, of_codes: Counts, meant: np.typing.NDArray[np.bool_]) -> None:
        one = self._sum(key)
        rows, counts, codes = self._nodes.residents.where(meant)
        one.points += one.domains.sum(rows, counts * of_codes[codes])
        one.touched = one.touched or bool((one.domains.codes[rows] >= 0).any())

    def _will_add(self, key: str, weight: int) -> None:
        one = self._sum(key)
        one.step += weight
        one.steps = True


@dataclass(frozen=True, slots=True)
class PreferredPodAffinity:
    """The score.

    Attributes:
        hard_weight: What a required affinity term of a pod on a node counts (args.hardPodAffinityWeight).
        ignore_existing: Whether preferences of pods on nodes count only for pods that have preferences themselves.
    """

    hard_weight: int = 1
    ignore_existing: bool = False
    name: str = "InterPodAffinity"
    weight: int = 2

    def tally(self, klass: PodClass, nodes: NodeColumns) -> PreferenceTally | None:
        """Count for one choice; None where nobody has terms."""
        mine = klass.company
        if not mine.preferred and (self.ignore_existing or not (mine.affinity or nodes.residents.has_terms)):
            return None
        return PreferenceTally.of(klass, nodes, self._weighted)

    def _weighted(self, kin: Kin) -> Iterator[tuple[Term, int]]:
        company: Company = kin.company
        if self.hard_weight:
            yield from ((term, self.hard_weight) for term in company.affinity)
        yield from ((term, term.weight) for term in company.preferred)
