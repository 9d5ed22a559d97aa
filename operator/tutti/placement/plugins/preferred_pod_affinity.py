"""Preferred affinity and anti-affinity between pods, as a score (kube-scheduler 1.36, plugins/interpodaffinity).

What pods on the nodes prefer, or require, about the incoming pod counts as well as what it prefers about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import PodTerm, TermKind
from tutti.placement.domains import Domains, means
from tutti.placement.framework import MAX_SCORE, Counts, Features, Rows, Scores
from tutti.placement.plugins.inter_pod_affinity import TermWeigher, TermWeights, weigh_terms


@dataclass(slots=True)
class _Sum:
    """Points per domain of one topology key; `touched` once any pod has counted, if only to cancel another out."""

    domains: Domains
    points: Counts
    touched: bool = False
    step: int = 0
    steps: bool = False

    def counts_as(self, other: _Sum) -> bool:
        """Whether another, of the same topology key, has summed up the same."""
        mine, theirs = (self.touched, self.step, self.steps), (other.touched, other.step, other.steps)
        return mine == theirs and np.array_equal(self.points, other.points)


class PreferredAffinityState:
    """Points per domain, from what either side wants of the other."""

    def __init__(self, nodes: NodeColumns, sums: dict[str, _Sum]) -> None:
        self._nodes = nodes
        self._sums = sums
        self.own = False

    @classmethod
    def of(cls, pod_class: PodClass, nodes: NodeColumns, weigh: TermWeigher) -> PreferredAffinityState:
        """Sum up what either side wants."""
        out = cls(nodes, {})
        wanted: dict[str, TermWeights] = {}
        for term in pod_class.inter_pod.preferred:
            key = term.topology_key
            if not nodes.label(key).values:
                continue  # no node is in any such domain
            chosen = nodes.label_index.matching(term.query, nodes.namespaces)
            sums = wanted.get(key) or wanted.setdefault(key, TermWeights.none(nodes))
            sums.of_codes += chosen * np.int64(term.weight)
            sums.meant |= chosen
            if means(term.query, pod_class, nodes):
                out._will_add(key, term.weight)
        for weights in (wanted, weigh_terms(pod_class, nodes, weigh)):
            for key, found in weights.items():
                out._add(key, found.of_codes, found.meant)
        for kind, term in pod_class.inter_pod.by_kind:
            weight = weigh(kind, term)
            if weight is not None and means(term.query, pod_class, nodes):
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

    def counts_as(self, other: PreferredAffinityState) -> bool:
        """Whether another has summed up the same for each topology key."""
        return self._sums.keys() == other._sums.keys() and all(
            one.counts_as(other._sums[key]) for key, one in self._sums.items()
        )

    def features(self) -> Sequence[Features]:
        """Return each row's domains."""
        return [one.domains.codes + 1 for one in self._sums.values()]

    def at(self, rows: Rows) -> PreferredAffinityState:
        """Return the state of these rows only."""
        sums = {key: replace(one, domains=one.domains.at(rows)) for key, one in self._sums.items()}
        return PreferredAffinityState(self._nodes, sums)

    def _sum(self, key: str) -> _Sum:
        one = self._sums.get(key)
        if one is None:
            domains = Domains.of(self._nodes, key)
            one = self._sums[key] = _Sum(domains, np.zeros(domains.size, dtype=np.int64))
        return one

    def _add(self, key: str, of_codes: Counts, meant: np.typing.NDArray[np.bool_]) -> None:
        one = self._sum(key)
        rows, counts, codes = self._nodes.label_index.where(meant)
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
    concerns: int = field(init=False)

    def __post_init__(self) -> None:
        existing = 0 if self.ignore_existing else Feature.POD_AFFINITY | Feature.PLACED_TERMS
        object.__setattr__(self, "concerns", Feature.PREFERRED_POD_AFFINITY | existing)

    def pre_score(self, pod_class: PodClass, nodes: NodeColumns) -> PreferredAffinityState | None:
        """Count for one choice; None where nobody has terms."""
        mine = pod_class.inter_pod
        if not mine.preferred and (self.ignore_existing or not (mine.affinity or nodes.label_index.with_terms)):
            return None
        return PreferredAffinityState.of(pod_class, nodes, self._weigh)

    def _weigh(self, kind: TermKind, term: PodTerm) -> int | None:
        if kind == "preferred":
            return term.weight
        return self.hard_weight or None if kind == "affinity" else None
