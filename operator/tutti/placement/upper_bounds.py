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
from tutti.placement.domains import Domains, count_by_domain
from tutti.placement.framework import Counts
from tutti.placement.gang import Ask
from tutti.placement.node_choice import limited_per_node
from tutti.placement.plugins.inter_pod_affinity import means
from tutti.placement.plugins.topology_spread import SpreadState
from tutti.placement.profile import Profile, pre_filter, static_filter_result
from tutti.placement.sequential import feasible

_KEY = "on credit"


def without_affinity(klass: PodClass) -> PodClass:
    """Return the class without its required affinity; others see the same in its pods."""
    known = klass.cache.get(_KEY)
    if isinstance(known, PodClass):
        return known
    out = replace(klass, company=replace(klass.company, affinity=()), cache={})
    out.kin = klass.kin
    klass.cache[_KEY] = out
    return out


def others_can_satisfy_affinity(klass: PodClass, classes: Iterable[PodClass], nodes: NodeColumns) -> bool:
    """Whether pods of another of these classes can be what the affinity of a class asks for."""
    return any(means(t.query, one, nodes) for one in classes if one is not klass for t in klass.company.affinity)


def may_defer_affinity(klass: PodClass, classes: Iterable[PodClass], nodes: NodeColumns) -> bool:
    """Whether pods of a class may be placed before their company.

    Not where they are company to each other: then the first needs nobody, and the others are to be where it is.
    """
    own = all(means(term.query, klass, nodes) for term in klass.company.affinity)
    return not own and others_can_satisfy_affinity(klass, classes, nodes)


def has_affinity_satisfied(klass: PodClass, rows: Sequence[int], nodes: NodeColumns) -> bool:
    """Whether each pod of a class on these rows has the company that it requires, itself not counted.

    All pods count that are among the residents now.
    """
    residents, terms = nodes.residents, klass.company.affinity
    if not terms:
        return True
    chosen = np.logical_and.reduce([residents.matching(term.query, nodes.around) for term in terms])
    itself = int(all(means(term.query, klass, nodes) for term in terms))
    for term in terms:
        domains = Domains.of(nodes, term.topology_key)
        counts, codes = count_by_domain(nodes, chosen, domains), domains.codes[list(rows)]
        if (codes < 0).any() or (counts[codes] <= itself).any():
            return False
    return True


def upper_bound(nodes: NodeColumns, ask: Ask, classes: Sequence[PodClass], profile: Profile) -> Counts:
    """Return int64[rows]: the most pods of an ask that each node could take, whoever is placed beside or before them.

    Left out is what others of these classes can lift: affinity, which wants company; spreading, which wants balance.
    """
    klass = without_affinity(ask.klass) if others_can_satisfy_affinity(ask.klass, classes, nodes) else ask.klass
    lasting = [one for one in pre_filter(klass, nodes, ask.where, profile) if not isinstance(one, SpreadState)]
    mask = feasible(static_filter_result(klass, nodes, ask.where, profile).mask, lasting)
    most = 1 if any(one.alone for one in lasting) else max(1, ask.required)
    return limited_per_node(profile.fit.capacity(nodes, klass, mask, most=most), lasting)


def upper_bound_in_all(nodes: NodeColumns, ask: Ask, classes: Sequence[PodClass], room: Counts) -> int:
    """Return the most pods of an ask that nodes with so much room (int64[rows]) could take together.

    Pods that keep apart take one of each domain; pods that want their own kind and find none all share one.
    """
    klass, most = ask.klass, int(room.sum())
    for term in klass.company.anti_affinity:
        if means(term.query, klass, nodes):
            domains = Domains.of(nodes, term.topology_key)
            per_domain = domains.sum_all(room)
            most = min(most, int(np.count_nonzero(per_domain)) + int(room[~domains.known].sum()))
    terms = klass.company.affinity
    if not terms or others_can_satisfy_affinity(klass, classes, nodes):
        return most
    residents = nodes.residents
    if not np.logical_and.reduce([residents.matching(term.query, nodes.around) for term in terms]).any():
        for term in terms:
            most = min(most, int(Domains.of(nodes, term.topology_key).sum_all(room).max(initial=0)))
    return most
