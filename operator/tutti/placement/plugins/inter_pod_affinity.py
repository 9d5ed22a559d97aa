"""Required affinity and anti-affinity between pods, in both directions (kube-scheduler 1.36, plugins/interpodaffinity).

A namespaceSelector means what the API documents: one with NotIn or DoesNotExist does not match namespaces that it
excludes (kube-scheduler 1.34 to 1.36 does, kubernetes issue 141526). What pods prefer of one another is a score of its
own (`preferred_pod_affinity.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.label_index import Codes
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import PodQuery, PodTerm, TermKind
from tutti.placement.domains import Domains, count_by_domain, means
from tutti.placement.framework import Counts, Features, FlavorConstraints, Mask, Rejection, Rows
from tutti.placement.plugins.nominated_neighbours import NOBODY_NOMINATED, NominatedConflicts, kept_off_by_nominated

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(slots=True)
class DomainCounts:
    """The pods that matter for one topology key: how many in each domain, and how many more for each pod placed.

    Attributes:
        signatures: bool[codes], which pods on nodes those are; None where that is not asked.
    """

    domains: Domains
    counts: Counts
    step: int = 0
    signatures: Codes | None = None

    def any_there(self) -> Mask:
        """bool[rows]: whether a node's domain has any."""
        there: Mask = self.domains.spread(self.counts) > 0
        return there

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        code = self.domains.codes[row]
        if code >= 0:
            self.counts[code] += self.step

    def at(self, rows: Rows) -> DomainCounts:
        """Return the same of these rows only."""
        return DomainCounts(self.domains.at(rows), self.counts, self.step)

    def counts_as(self, other: DomainCounts) -> bool:
        """Whether another has counted the same for the same topology key."""
        mine, theirs = (self.domains.key, self.step), (other.domains.key, other.step)
        return mine == theirs and np.array_equal(self.counts, other.counts)

    def is_single(self, nodes: NodeColumns) -> bool:
        """Whether every node is a domain of its own."""
        codes = self.domains.codes[nodes.present]
        if not len(codes):
            return True
        return len(codes) <= self.domains.size and int(codes.min()) >= 0 and int(np.bincount(codes).max()) == 1


ManyCounts = list[DomainCounts]


class AffinityState:
    """Who is where, as far as a class's terms and the terms of others about it ask."""

    def __init__(
        self,
        rows: int,
        *,
        matches_itself: bool,
        near: ManyCounts,
        apart: ManyCounts,
        existing: ManyCounts,
        nominated: NominatedConflicts = NOBODY_NOMINATED,
    ) -> None:
        self._rows = rows
        self._matches_itself = matches_itself
        self._near, self._apart, self._existing = near, apart, existing
        self._nominated = nominated
        self.one_per_node = self.changes_on_add = self.own = False

    @classmethod
    def of(cls, pod_class: PodClass, nodes: NodeColumns) -> AffinityState:
        """Count who is where."""
        constraints = pod_class.inter_pod
        own = means_itself(nodes, pod_class)
        near = _count_near(nodes, constraints.affinity, step=int(own))
        apart = _count_apart(nodes, pod_class)
        existing = _count_existing(nodes, pod_class)
        nominated = kept_off_by_nominated(pod_class, nodes)
        out = cls(len(nodes), matches_itself=own, near=near, apart=apart, existing=existing, nominated=nominated)
        drawn = any(one.step for one in near)
        repelled = [one for one in (*apart, *existing) if one.step]
        out.one_per_node = bool(repelled) and not drawn and all(one.is_single(nodes) for one in repelled)
        out.changes_on_add = drawn or (bool(repelled) and not out.one_per_node)
        return out

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes by the class's affinity, then its anti-affinity, then that of others."""
        out: list[Rejection] = []
        left = np.ones(self._rows, dtype=np.bool_)
        for reason, refused, final in (
            (AFFINITY, self._lonely(), True),
            (ANTI_AFFINITY, self._any(self._apart, self._nominated.apart), False),
            (EXISTING, self._any(self._existing, self._nominated.existing), False),
        ):
            if refused is not None:
                out.append(Rejection(reason, refused & left, final=final))
                left &= ~refused
        return out

    def refused(self) -> Mask:
        """Return bool[rows]: all nodes that are ruled out."""
        out = np.zeros(self._rows, dtype=np.bool_)
        kept_off = self._any(self._apart, self._nominated.apart), self._any(self._existing, self._nominated.existing)
        for refused in (self._lonely(), *kept_off):
            if refused is not None:
                out |= refused
        return out

    @property
    def settled(self) -> bool:
        """Whether nobody is repelled by pods of the class, and those that these must be near are somewhere."""
        repelled = any(one.step for one in (*self._apart, *self._existing))
        return not repelled and not (self._near and self._is_first)

    def in_the_way(self, nodes: NodeColumns) -> Codes:
        """Return bool[codes]: those that the class keeps off, or that keep it off, where each node is a domain."""
        out = np.zeros(nodes.label_index.codes, dtype=np.bool_)
        for one in (*self._apart, *self._existing):
            if one.signatures is not None and one.is_single(nodes):
                out |= one.signatures
        return out

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        for one in (*self._near, *self._apart, *self._existing):
            one.add(row)

    def add_around(self, row: int) -> None:
        """Count one more pod of the class near a row; its own is not special."""
        self.add(row)

    def counts_as(self, other: AffinityState) -> bool:
        """Whether another has counted the same for each topology key."""
        if not (self._nominated.none and other._nominated.none):
            return False
        return self._matches_itself == other._matches_itself and all(
            len(mine) == len(theirs) and all(one.counts_as(two) for one, two in zip(mine, theirs, strict=True))
            for mine, theirs in (
                (self._near, other._near),
                (self._apart, other._apart),
                (self._existing, other._existing),
            )
        )

    def features(self) -> Sequence[Features]:
        """Return each row's domains, and whether those who are nominated keep off pods of the class."""
        domains = [one.domains.codes + 1 for one in (*self._near, *self._apart, *self._existing)]
        return [*domains, *(refused for refused in self._nominated if refused is not None)]

    def at(self, rows: Rows) -> AffinityState:
        """Return the state of these rows only."""
        near, apart, existing = ([one.at(rows) for one in some] for some in (self._near, self._apart, self._existing))
        out = AffinityState(
            len(rows),
            matches_itself=self._matches_itself,
            near=near,
            apart=apart,
            existing=existing,
            nominated=self._nominated.at(rows),
        )
        out.changes_on_add = self.changes_on_add
        return out

    @property
    def _is_first(self) -> bool:
        """Whether a pod that its own affinity means needs nobody, for there is none of them anywhere."""
        return self._matches_itself and not any(one.counts.any() for one in self._near)

    def _lonely(self) -> Mask | None:
        """bool[rows]: nodes whose domains lack what the affinity wants; the first that wants its own needs no one."""
        if not self._near:
            return None
        first = self._is_first
        lonely = np.zeros(self._rows, dtype=np.bool_)
        for one in self._near:
            lonely |= ~(one.domains.known if first else one.any_there())
        return lonely

    def _any(self, counted: list[DomainCounts], nominated: Mask | None) -> Mask | None:
        if not counted:
            return nominated
        out = counted[0].any_there()
        for one in counted[1:]:
            out |= one.any_there()
        if nominated is not None:
            out |= nominated
        return out


TermWeigher = Callable[[TermKind, PodTerm], int | None]
"""What a term of a pod on a node counts; None: nothing."""


@dataclass(slots=True)
class TermWeights:
    """Of one topology key: int64[codes], what pods on nodes count, and bool[codes], which of them count at all.

    Weights may cancel out.
    """

    of_codes: Counts
    meant: Codes

    @classmethod
    def none(cls, nodes: NodeColumns) -> TermWeights:
        """Nobody counts yet."""
        codes = nodes.label_index.codes
        return cls(np.zeros(codes, dtype=np.int64), np.zeros(codes, dtype=np.bool_))


def weigh_terms(pod_class: PodClass, nodes: NodeColumns, weigh: TermWeigher) -> dict[str, TermWeights]:
    """Return per topology key the weights of each resident's terms that mean the class."""
    answers: dict[PodQuery, bool] = {}
    out: dict[str, TermWeights] = {}
    for code, terms in nodes.label_index.terms_about(pod_class.namespace, pod_class.labels):
        for kind, term in terms:
            weight = weigh(kind, term)
            if weight is None:
                continue
            answer = answers.get(term.query)
            if answer is None:
                answer = answers[term.query] = means(term.query, pod_class, nodes)
            if answer:
                weights = out.get(term.topology_key)
                if weights is None:
                    weights = out[term.topology_key] = TermWeights.none(nodes)
                weights.of_codes[code] += weight
                weights.meant[code] = True
    return out


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    """The filter."""

    concerns: int = field(default=Feature.POD_AFFINITY | Feature.PLACED_TERMS, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> AffinityState | None:  # noqa: ARG002 - a filter's signature
        """Count who is where; None where neither the class nor anybody on a node has terms."""
        constraints = pod_class.inter_pod
        with_terms = nodes.label_index.with_terms or (nodes.nominated is not None and nodes.nominated.with_terms)
        if not constraints.affinity and not constraints.anti_affinity and not with_terms:
            return None
        return AffinityState.of(pod_class, nodes)


def is_first(nodes: NodeColumns, terms: Sequence[PodTerm]) -> bool:
    """Whether nobody is anywhere that terms of affinity mean: then a pod that they mean needs nobody."""
    return not any(one.counts.any() for one in _count_near(nodes, terms, step=0))


def means_itself(nodes: NodeColumns, pod_class: PodClass) -> bool:
    """Whether the affinity of a class means its own pods."""
    return all(means(term.query, pod_class, nodes) for term in pod_class.inter_pod.affinity)


def _count_near(nodes: NodeColumns, terms: Sequence[PodTerm], *, step: int) -> list[DomainCounts]:
    """Count, for each term's topology, the pods that all terms mean."""
    if not terms:
        return []
    chosen = np.logical_and.reduce([nodes.label_index.matching(term.query, nodes.namespaces) for term in terms])
    out = []
    for key in dict.fromkeys(term.topology_key for term in terms):
        domains = Domains.of(nodes, key)
        out.append(DomainCounts(domains, count_by_domain(nodes, chosen, domains), step))
    return out


def _count_apart(nodes: NodeColumns, pod_class: PodClass) -> list[DomainCounts]:
    """Count, per topology key, the pods that any term of the class means; a key that no node has keeps nobody off."""
    by_key: dict[str, list[PodTerm]] = {}
    for term in pod_class.inter_pod.anti_affinity:
        by_key.setdefault(term.topology_key, []).append(term)
    out = []
    for key, terms in by_key.items():
        domains = Domains.of(nodes, key)
        if domains.size:
            signatures = np.logical_or.reduce(
                [nodes.label_index.matching(term.query, nodes.namespaces) for term in terms]
            )
            step = any(means(term.query, pod_class, nodes) for term in terms)
            out.append(DomainCounts(domains, count_by_domain(nodes, signatures, domains), int(step), signatures))
    return out


def _count_existing(nodes: NodeColumns, pod_class: PodClass) -> list[DomainCounts]:
    """Count, per topology key, the pods whose own anti-affinity means the class."""
    weights = weigh_terms(pod_class, nodes, lambda kind, _: 1 if kind == "anti_affinity" else None)
    own = {term.topology_key for term in pod_class.inter_pod.anti_affinity if means(term.query, pod_class, nodes)}
    out = []
    for key in dict.fromkeys((*weights, *sorted(own))):
        domains = Domains.of(nodes, key)
        if not domains.size:
            continue
        found = weights.get(key) or TermWeights.none(nodes)
        rows, counts, codes = nodes.label_index.where(found.meant)
        out.append(
            DomainCounts(domains, domains.sum(rows, counts * found.of_codes[codes]), int(key in own), found.meant)
        )
    return out
