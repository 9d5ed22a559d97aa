"""Choosing victims in one domain of a topology, for a gang that must stay in one.

Of all domains that have room for the gang once everybody up to the least possible priority is gone, those with the
most room are looked at one by one; the choice that hurts least counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask
from tutti.placement.preemption.budgets import Coverage
from tutti.placement.preemption.by_room import ByRoom
from tutti.placement.preemption.closed import Closed
from tutti.placement.preemption.enough import Enough
from tutti.placement.preemption.units import Numbers, Units
from tutti.placement.profile import Profile
from tutti.placement.topology.nearness import Nearness
from tutti.placement.topology.request import Together
from tutti.placement.topology.tree import tree_of

MOST_LOOKED_AT = 16
"""How many domains are looked at; each takes about as long as a choice among all nodes of a small cluster."""


def only_asks_for_a_domain(near: Nearness) -> bool:
    """Whether nearness means no more than nodes of the topology, or one domain of it, for pods that are the first."""
    return not (near.there or near.asked.slices or near.asked.within or near.home is not None)


def in_one_domain(
    cluster: Cluster,
    ask: Ask,
    units: Units,
    coverage: Coverage,
    profile: Profile,
    enough: Enough,
    closed: Closed | None = None,
) -> Mask | None:
    """Return bool[units] that must go so that an ask fits as near as it must be; None where that is not found."""
    near = ask.near
    assert near is not None  # only then there are domains to choose from
    domain, plain = _domains(cluster, near), replace(ask, near=None)
    nobody = np.zeros(len(units), dtype=np.bool_)
    everywhere = ByRoom(cluster, plain, units, coverage, profile, enough, within=domain >= 0, closed=closed)
    if near.asked.together is not Together.REQUIRED:
        return everywhere.choose(nobody)
    able = _able(everywhere, units, domain, ask.required)
    found: list[tuple[Mask, Mask]] = []
    for one in able[:MOST_LOOKED_AT].tolist():
        rows = domain == one
        there = nobody.copy()
        there[units.of[rows[cluster.tenants.row[units.slots]]]] = True
        numbers = np.flatnonzero(there)
        some = ByRoom(
            cluster,
            plain,
            units.some(there),
            coverage,
            profile,
            _for_some(enough, numbers, len(units)),
            within=rows,
            closed=closed,
        )
        chosen = some.choose(np.zeros(len(numbers), dtype=np.bool_))
        if chosen is not None:
            gone = nobody.copy()
            gone[numbers[chosen]] = True
            found.append((gone, rows))
    if not found:
        return None
    return min(found, key=lambda one: units.harm(cluster, one[0], coverage))[0]


def _domains(cluster: Cluster, near: Nearness) -> Rows:
    """Return int64[rows]: each node's domain of the level that is asked for, -1 where it is in none."""
    tree = tree_of(cluster.nodes, near.levels)
    level = tree.levels.index(near.asked.level) if near.asked.level else 0
    of_leaf = tree.above(np.arange(len(tree.samples)), tree.lowest, level)
    return np.append(of_leaf, -1)[tree.leaf_of]


def _able(everywhere: ByRoom, units: Units, domain: Rows, wanted: int) -> Numbers:
    """Return the domains with room for all once those up to the least grade that does are gone, the roomiest first."""
    known = domain >= 0
    room = np.zeros(int(domain.max(initial=-1)) + 1, dtype=np.int64)
    grades = np.unique(units.grade)
    low, high = -1, len(grades)
    while high - low > 1:
        middle = (low + high) // 2
        if (_sums(everywhere.capacity(units.grade <= grades[middle]), domain, known, room) >= wanted).any():
            high = middle
        else:
            low = middle
    if high == len(grades):
        return np.zeros(0, dtype=np.int64)
    sums = _sums(everywhere.capacity(units.grade <= grades[high]), domain, known, room)
    able = np.flatnonzero(sums >= wanted)
    return able[np.argsort(-sums[able], kind="stable")]


def _sums(capacity: Rows, domain: Rows, known: Mask, like: Rows) -> Rows:
    out = np.zeros_like(like)
    np.add.at(out, domain[known], capacity[known])
    return out


def _for_some(enough: Enough, numbers: Numbers, count: int) -> Enough:
    """Return the same rule for some of the units."""

    def of_some(gone: Mask) -> bool:
        all_gone = np.zeros(count, dtype=np.bool_)
        all_gone[numbers[gone]] = True
        return enough(all_gone)

    return of_some
