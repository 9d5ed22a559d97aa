"""How much room an ask would have if nobody else were placed: what no arrangement can exceed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.choosing import rationed
from tutti.placement.company import allowed
from tutti.placement.credit import on_credit, others_can_be_company
from tutti.placement.domains import Domains
from tutti.placement.framework import Counts
from tutti.placement.gang import Ask
from tutti.placement.judging import standing, tallies
from tutti.placement.plugins.inter_pod_affinity import means
from tutti.placement.plugins.pod_topology_spread import SpreadTally
from tutti.placement.profile import Profile


def room_alone(nodes: NodeColumns, ask: Ask, classes: Sequence[PodClass], profile: Profile) -> Counts:
    """Return int64[rows]: the most pods of an ask that each node could take, whoever is placed beside or before them.

    Left out is what others of these classes can lift: affinity, which wants company; spreading, which wants balance.
    """
    klass = on_credit(ask.klass) if others_can_be_company(ask.klass, classes, nodes) else ask.klass
    lasting = [one for one in tallies(klass, nodes, ask.where, profile) if not isinstance(one, SpreadTally)]
    mask = allowed(standing(klass, nodes, ask.where, profile).mask, lasting)
    most = 1 if any(one.alone for one in lasting) else max(1, ask.required)
    return rationed(profile.fit.capacity(nodes, klass, mask, most=most), lasting)


def most_in_all(nodes: NodeColumns, ask: Ask, classes: Sequence[PodClass], room: Counts) -> int:
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
    if not terms or others_can_be_company(klass, classes, nodes):
        return most
    residents = nodes.residents
    if not np.logical_and.reduce([residents.matching(term.query, nodes.around) for term in terms]).any():
        for term in terms:
            most = min(most, int(Domains.of(nodes, term.topology_key).sum_all(room).max(initial=0)))
    return most
