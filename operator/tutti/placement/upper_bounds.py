"""What no arrangement of a gang's roles can exceed, and affinity between them that is checked when all are placed.

kube-scheduler wants the pods that a required affinity names to be there first, so two roles that want to be near each
other both wait. Placed together, one of them goes first with its affinity deferred: it is checked in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.domains import Domains, count_by_domain, means
from tutti.placement.feasible_capacity import limited_per_node
from tutti.placement.framework import Counts
from tutti.placement.gang import Ask
from tutti.placement.plugins.topology_spread import SpreadState
from tutti.placement.profile import Profile, pre_filter, static_filter_result
from tutti.placement.sequential import feasible

_KEY = "with its affinity deferred"


def without_affinity(pod_class: PodClass) -> PodClass:
    """Return the class without its required affinity; others see the same in its pods."""
    known = pod_class.cache.get(_KEY)
    if isinstance(known, PodClass):
        return known
    out = replace(pod_class, inter_pod=replace(pod_class.inter_pod, affinity=()), cache={})
    out.pod_signature = pod_class.pod_signature
    pod_class.cache[_KEY] = out
    return out


def others_can_satisfy_affinity(pod_class: PodClass, classes: Iterable[PodClass], nodes: NodeColumns) -> bool:
    """Whether pods of another of these classes can be what the affinity of a class asks for."""
    return any(
        means(t.query, one, nodes) for one in classes if one is not pod_class for t in pod_class.inter_pod.affinity
    )


def may_defer_affinity(pod_class: PodClass, classes: Iterable[PodClass], nodes: NodeColumns) -> bool:
    """Whether pods of a class may be placed before those that their affinity asks for.

    Not where they ask for each other: then the first needs nobody, and the others are to be where it is.
    """
    own = all(means(term.query, pod_class, nodes) for term in pod_class.inter_pod.affinity)
    return not own and others_can_satisfy_affinity(pod_class, classes, nodes)


def has_affinity_satisfied(pod_class: PodClass, rows: Sequence[int], nodes: NodeColumns) -> bool:
    """Whether each pod of a class on these rows has the pods near it that its affinity requires, itself not counted.

    All pods count that are in the label index now.
    """
    index, terms = nodes.label_index, pod_class.inter_pod.affinity
    if not terms:
        return True
    chosen = np.logical_and.reduce([index.matching(term.query, nodes.namespaces) for term in terms])
    itself = int(all(means(term.query, pod_class, nodes) for term in terms))
    for term in terms:
        domains = Domains.of(nodes, term.topology_key)
        counts, codes = count_by_domain(nodes, chosen, domains), domains.codes[list(rows)]
        if (codes < 0).any() or (counts[codes] <= itself).any():
            return False
    return True


def upper_bound(nodes: NodeColumns, ask: Ask, classes: Sequence[PodClass], profile: Profile) -> Counts:
    """Return int64[rows]: the most pods of an ask that each node could take, whoever is placed beside or before them.

    Left out is what others of these classes can lift: affinity, which wants others near; spreading, for balance.
    """
    pod_class = (
        without_affinity(ask.pod_class) if others_can_satisfy_affinity(ask.pod_class, classes, nodes) else ask.pod_class
    )
    lasting = [one for one in pre_filter(pod_class, nodes, ask.where, profile) if not isinstance(one, SpreadState)]
    mask = feasible(static_filter_result(pod_class, nodes, ask.where, profile).mask, lasting)
    most = 1 if any(one.one_per_node for one in lasting) else max(1, ask.required)
    return limited_per_node(profile.fit.capacity(nodes, pod_class, mask, most=most), lasting)


def upper_bound_in_all(nodes: NodeColumns, ask: Ask, classes: Sequence[PodClass], room: Counts) -> int:
    """Return the most pods of an ask that nodes with so much room (int64[rows]) could take together.

    Pods that keep apart take one of each domain; pods that want their own kind and find none all share one.
    """
    pod_class, most = ask.pod_class, int(room.sum())
    for term in pod_class.inter_pod.anti_affinity:
        if means(term.query, pod_class, nodes):
            domains = Domains.of(nodes, term.topology_key)
            per_domain = domains.sum_all(room)
            most = min(most, int(np.count_nonzero(per_domain)) + int(room[~domains.known].sum()))
    terms = pod_class.inter_pod.affinity
    if not terms or others_can_satisfy_affinity(pod_class, classes, nodes):
        return most
    index = nodes.label_index
    if not np.logical_and.reduce([index.matching(term.query, nodes.namespaces) for term in terms]).any():
        for term in terms:
            most = min(most, int(Domains.of(nodes, term.topology_key).sum_all(room).max(initial=0)))
    return most
