"""Which nodes are ruled out for pods that are nominated there: by what a class says of them, and they of it.

A pod keeps off its own node by whatever topology key it is to be apart: who goes there is in the same domain. Affinity
is to be met without those who are nominated; with them it is met all the more (kube-scheduler 1.36,
framework/runtime, RunFilterPluginsWithNominatedPods). kube-scheduler does not ask what nominated pods say of others
while neither these nor any pod on a node has terms (plugins/interpodaffinity, PreFilter, Skip); here they are asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.domains import Domains, means
from tutti.placement.framework import Counts, Mask, Rows


class NominatedConflicts(NamedTuple):
    """Nodes that are ruled out: bool[rows], None for none.

    Attributes:
        apart: By what the class says of those who are nominated.
        existing: By what these say of the class.
    """

    apart: Mask | None
    existing: Mask | None

    @property
    def none(self) -> bool:
        """Whether no node is."""
        return self.apart is None and self.existing is None

    def at(self, rows: Rows) -> NominatedConflicts:
        """Return the same of these rows only."""
        if self.none:
            return self
        return NominatedConflicts(*(None if refused is None else refused[rows] for refused in self))


NOBODY_NOMINATED = NominatedConflicts(None, None)


def kept_off_by_nominated(pod_class: PodClass, nodes: NodeColumns) -> NominatedConflicts:
    """Return where those who are nominated and pods of a class keep off one another."""
    nominated = nodes.nominated
    if nominated is None:
        return NOBODY_NOMINATED
    apart: dict[str, Counts] = {}
    existing: dict[str, Counts] = {}
    for term in pod_class.inter_pod.anti_affinity:
        found = nominated.count(len(nodes), lambda other: means(term.query, other, nodes))  # noqa: B023 - asked at once
        _add(apart, term.topology_key, found)
    if nominated.with_terms:
        for other, rows, counts in nominated.placed:
            for term in other.inter_pod.anti_affinity:
                if means(term.query, pod_class, nodes):
                    found = np.zeros(len(nodes), dtype=np.int64)
                    found[rows] = counts
                    _add(existing, term.topology_key, found)
    return NominatedConflicts(_refused(apart, nodes), _refused(existing, nodes))


def _add(by_key: dict[str, Counts], key: str, found: Counts) -> None:
    by_key[key] = by_key[key] + found if key in by_key else found


def _refused(by_key: dict[str, Counts], nodes: NodeColumns) -> Mask | None:
    """Return bool[rows]: which nodes have any of those who count for each topology key, or None for none."""
    out: Mask | None = None
    for key, found in by_key.items():
        if found.any():
            domains = Domains.of(nodes, key)
            refused = (found > 0) & domains.known
            if nodes.nominated is not None and nodes.nominated.in_domains:
                refused = domains.spread(domains.sum_all(found)) > 0
            out = refused if out is None else out | refused
    return out if out is not None and out.any() else None
