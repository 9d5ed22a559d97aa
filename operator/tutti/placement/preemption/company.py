"""Whom a gang would take out though its own affinity asks for them.

Pods whose affinity means pods like themselves need nobody where there is none of these anywhere (plugins/
interpodaffinity). That is no reason to take out those who are there: who is to be near them would be where they are
not. So not all of them leave but where that makes room on the nodes to which the gang goes. kube-scheduler takes out
nobody on other nodes at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.cluster.label_index import Codes
from tutti.placement.domains import means
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask
from tutti.placement.preemption.units import NO_BAND, VictimUnits, are_of


def without_company(cluster: Cluster, asks: Sequence[Ask], units: VictimUnits, gone: Mask, rows: Rows) -> Mask | None:
    """Return bool[units] who may leave so that a gang has the company that it asks for; None where all may.

    Args:
        cluster: Where the pods are.
        asks: What the gang wants.
        units: Everybody who may go.
        gone: bool[units], who would leave.
        rows: int64[...], where the gang would be then.
    """
    columns = cluster.pod_columns
    for codes in _company(cluster, asks):
        wanted = are_of(codes, columns.at(units.slots))
        leaves, hurt = wanted & gone[units.of], units.band[units.of] != NO_BAND
        _, counts, _ = cluster.nodes.label_index.where(codes)
        elsewhere = ~np.isin(columns.row[units.slots], rows)
        if (leaves & hurt & elsewhere).any() and int(counts.sum()) == np.count_nonzero(leaves):
            may = np.ones(len(units), dtype=np.bool_)
            may[units.of[wanted & hurt]] = False
            return may
    return None


def _company(cluster: Cluster, asks: Sequence[Ask]) -> Iterator[Codes]:
    """Yield bool[codes]: whom the affinity of each ask means, where it means its own pods as well."""
    nodes = cluster.nodes
    for ask in asks:
        terms = ask.pod_class.inter_pod.affinity
        if terms and all(means(term.query, ask.pod_class, nodes) for term in terms):
            yield np.logical_and.reduce([nodes.label_index.matching(term.query, nodes.namespaces) for term in terms])
