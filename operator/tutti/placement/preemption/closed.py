"""Nodes that are closed to pods by single pods that may leave: a host port or a disk they use, anti-affinity.

Each of those pods keeps the others off its own node whoever else is there, so that for a choice on columns they are one
more resource: the node has it once all of them have left (`Wish.barring`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.cluster.residents import Codes
from tutti.cluster.tenants import Slots
from tutti.placement.company import allowed
from tutti.placement.framework import Excluding, Mask
from tutti.placement.gang import Ask
from tutti.placement.judging import standing, tallies
from tutti.placement.preemption.lifting import Lifting
from tutti.placement.preemption.units import Units
from tutti.placement.profile import Profile

MOST = 512
"""How many closed nodes are looked at, those with the least important pods first: their pods are asked one by one."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Nodes that are closed now, and open once some pods have left.

    Attributes:
        rows: bool[rows], which nodes.
        slots: int64[m], the pods that keep them closed; all of them may leave.
    """

    rows: Mask
    slots: Slots

    @classmethod
    def of(cls, cluster: Cluster, ask: Ask, units: Units, profile: Profile) -> Closed | None:
        """Return the nodes that are closed to pods of an ask by some of the units only; None where none is."""
        nodes, tenants = cluster.nodes, cluster.tenants
        static = standing(ask.klass, nodes, ask.where, profile).mask
        company = tallies(ask.klass, nodes, ask.where, profile)
        codes = np.zeros(nodes.residents.codes, dtype=np.bool_)
        for tally in company:
            if isinstance(tally, Excluding):
                codes |= tally.in_the_way(nodes)
        at, counts, _ = nodes.residents.where(codes)
        there = np.zeros(len(nodes), dtype=np.int64)
        np.add.at(there, at, counts)
        shut = static & ~allowed(static, company) & (there > 0)
        if not shut.any():
            return None
        row = tenants.row[units.slots].astype(np.int64)
        known = np.flatnonzero(_least_important(units, row, shut)[row])
        mine = known[_are_of(codes, tenants.at(units.slots[known]))]
        rows = (there == np.bincount(row[mine], minlength=len(nodes))) & shut
        slots = units.slots[mine[rows[row[mine]]]]
        with Lifting(cluster, slots, seen=True):
            rows &= allowed(static, tallies(ask.klass, nodes, ask.where, profile))
        return cls(rows, slots[rows[tenants.row[slots]]]) if rows.any() else None


def _least_important(units: Units, row: Slots, shut: Mask) -> Mask:
    """Return bool[rows]: so many of the nodes as are looked at."""
    least = np.full(len(shut), np.iinfo(np.int64).max)
    np.minimum.at(least, row, units.grade[units.of])
    order = np.flatnonzero(shut)
    order = order[np.argsort(least[order], kind="stable")][:MOST]
    out = np.zeros_like(shut)
    out[order] = True
    return out


def _are_of(codes: Codes, records: list[PodRecord]) -> Mask:
    """Return bool[records]: which are of these codes."""
    of = [one.kin.leaving_code if one.deleting else one.kin.code for one in records]
    return codes[of] if of else np.zeros(0, dtype=np.bool_)
