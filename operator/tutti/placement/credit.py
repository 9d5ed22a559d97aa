"""Affinity between pods that are placed together may be met by pods that come after.

kube-scheduler wants a pod's company to be there first, so two roles that want to be near each other both wait. Placed
together, one of them goes first *on credit*: without its affinity being asked, which is checked when all are placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.domains import Domains, count_by_domain
from tutti.placement.plugins.inter_pod_affinity import means

_KEY = "on credit"


def on_credit(klass: PodClass) -> PodClass:
    """Return the class without its required affinity; others see the same in its pods."""
    known = klass.cache.get(_KEY)
    if isinstance(known, PodClass):
        return known
    out = replace(klass, company=replace(klass.company, affinity=()), cache={})
    out.kin = klass.kin
    klass.cache[_KEY] = out
    return out


def others_can_be_company(klass: PodClass, classes: Iterable[PodClass], nodes: NodeColumns) -> bool:
    """Whether pods of another of these classes can be what the affinity of a class asks for."""
    return any(means(t.query, one, nodes) for one in classes if one is not klass for t in klass.company.affinity)


def may_go_on_credit(klass: PodClass, classes: Iterable[PodClass], nodes: NodeColumns) -> bool:
    """Whether pods of a class may be placed before their company.

    Not where they are company to each other: then the first needs nobody, and the others are to be where it is.
    """
    own = all(means(term.query, klass, nodes) for term in klass.company.affinity)
    return not own and others_can_be_company(klass, classes, nodes)


def has_company(klass: PodClass, rows: Sequence[int], nodes: NodeColumns) -> bool:
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
