"""Whom to take out so that a whole gang fits: the victims that cost least and make room for all of it, or nobody.

Victims come in units: a pod by itself, or a gang that leaves as a whole. First it is asked whether the gang would fit
if everybody who may go were gone; if not, nobody is. Otherwise units are chosen such that the gang fits, by
kube-scheduler's tie-breaks over the whole set: fewest beyond a disruption budget, lowest highest priority, smallest
sum of priorities, fewest pods, latest start; and none of them is one that could stay.

Where only room decides, the choice is made on columns (`by_room`). So it is, as far as that goes, for pods that keep
off nodes where others are: nodes that these bar are among them, if all of these may go. For one pod by itself, other
nodes are tried that inter-pod constraints rule out or may rule out (`by_trial.ByNode`). Where that is not enough, and
for gangs that look farther around, everybody on all nodes is tried (`by_trial.ByTrial`).

For a gang that must stay in one domain of a topology: of all domains that have room for it once everybody up to the
least possible priority is gone, those with the most room are looked at one by one; the cheapest choice counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tutti.cluster.classes import Feature
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first, place_ask
from tutti.placement.preemption.by_room import ByRoom, has_inter_pod_constraints, placement_changes_other_nodes
from tutti.placement.preemption.by_trial import ByNode, ByTrial, open_nodes
from tutti.placement.preemption.company import without_company
from tutti.placement.preemption.search import VictimSearch
from tutti.placement.preemption.units import (
    BarredNodes,
    Numbers,
    SimulatedRemoval,
    VictimPredicate,
    VictimUnits,
    always_true,
)
from tutti.placement.preemption.victim_cost import Budget, Coverage, VictimCost
from tutti.placement.profile import Profile
from tutti.placement.together import fit_together
from tutti.placement.topology.request import Together, TopologyPlacement
from tutti.placement.topology.tree import domain_tree

MOST_LOOKED_AT = 16
"""How many domains are looked at; each takes about as long as a choice among all nodes of a small cluster."""


def asks_for_one_domain_only(topology: TopologyPlacement) -> bool:
    """Whether nearness means no more than nodes of the topology, or one domain of it, for pods that are the first."""
    return not (topology.there or topology.asked.slices or topology.asked.within or topology.home is not None)


def in_one_domain(search: VictimSearch, ask: Ask, closed: BarredNodes | None = None) -> Mask | None:
    """Return bool[units] that must go so that an ask fits as near as it must be; None where that is not found."""
    topology, units = ask.topology, search.units
    assert topology is not None  # only then there are domains to choose from
    domain, plain = domains_of(search.cluster, topology), replace(ask, topology=None)
    nobody = np.zeros(len(units), dtype=np.bool_)
    everywhere = ByRoom(search, plain, within=domain >= 0, closed=closed)
    if topology.asked.together is not Together.REQUIRED:
        return everywhere.choose(nobody)
    able = _able(everywhere, units, domain, ask.required)
    found: list[Mask] = []
    for one in able[:MOST_LOOKED_AT].tolist():
        rows = domain == one
        there = nobody.copy()
        there[units.of[rows[search.cluster.pod_columns.row[units.slots]]]] = True
        chosen = ByRoom(search.among(there), plain, within=rows, closed=closed).choose(nobody[there])
        if chosen is not None:
            gone = nobody.copy()
            gone[there] = chosen
            found.append(gone)
    return min(found, key=search.cost) if found else None


def domains_of(cluster: Cluster, topology: TopologyPlacement) -> Rows:
    """Return int64[rows]: each node's domain of the level that is asked for, -1 where it is in none."""
    tree = domain_tree(cluster.nodes, topology.levels)
    level = tree.levels.index(topology.asked.level) if topology.asked.level else 0
    of_leaf = tree.above(np.arange(len(tree.samples)), tree.lowest, level)
    return np.append(of_leaf, -1)[tree.leaf_of]


def _able(everywhere: ByRoom, units: VictimUnits, domain: Rows, wanted: int) -> Numbers:
    """Return the domains with room for all once those up to the least band that does are gone, the roomiest first."""
    known = domain >= 0
    room = np.zeros(int(domain.max(initial=-1)) + 1, dtype=np.int64)
    bands = np.unique(units.band)
    low, high = -1, len(bands)
    while high - low > 1:
        middle = (low + high) // 2
        if (_sums(everywhere.capacity(units.band <= bands[middle]), domain, known, room) >= wanted).any():
            high = middle
        else:
            low = middle
    if high == len(bands):
        return np.zeros(0, dtype=np.int64)
    sums = _sums(everywhere.capacity(units.band <= bands[high]), domain, known, room)
    able = np.flatnonzero(sums >= wanted)
    return able[np.argsort(-sums[able], kind="stable")]


def _sums(capacity: Rows, domain: Rows, known: Mask, like: Rows) -> Rows:
    out = np.zeros_like(like)
    np.add.at(out, domain[known], capacity[known])
    return out


@dataclass(frozen=True, slots=True)
class ChosenVictims:
    """Who would have to go, and where the gang would be then.

    Attributes:
        units: int64[...], ascending; none where the gang fits as things are.
        victims: Their pods, the least important first; those that are leaving already among them.
        rows: Per ask, the rows of its pods as `gang.place_ask` gives them.
        cost: What their leaving does; units that hurt nobody do not count.
    """

    units: Numbers
    victims: tuple[PodRecord, ...]
    rows: list[Rows]
    cost: VictimCost


def choose_victims(
    cluster: Cluster,
    asks: Sequence[Ask],
    units: VictimUnits,
    *,
    profile: Profile,
    budgets: Sequence[Budget] = (),
    enough: VictimPredicate = always_true,
) -> ChosenVictims | None:
    """Choose the units to take out so that all required pods of some asks fit; nothing is changed.

    Args:
        cluster: What is where. No transaction may be open on it.
        asks: What the gang wants; only what is required counts.
        units: Everybody who may go.
        profile: How its pods are placed.
        budgets: All PodDisruptionBudgets.
        enough: What else must hold, given bool[units] that are gone; once it holds it must hold when more are gone.

    Returns:
        The choice; None where the gang would not fit even if all of them were gone.
    """
    asks = [replace(ask, extra=0) for ask in asks if ask.required]
    if any(ask.pod_class.refusal for ask in asks) or not enough(np.ones(len(units), dtype=np.bool_)):
        return None
    with SimulatedRemoval(cluster, np.zeros(0, dtype=np.int64), seen=False):
        return _choose(VictimSearch(cluster, units, Coverage(budgets, of_leaving=False), profile, enough), asks)


def _choose(search: VictimSearch, asks: Sequence[Ask]) -> ChosenVictims | None:
    cluster, units, profile = search.cluster, search.units, search.profile
    seen = any(has_inter_pod_constraints(cluster, ask, profile) for ask in asks)
    best: ChosenVictims | None = None
    known = np.zeros(len(cluster.nodes), dtype=np.bool_)
    if not any(placement_changes_other_nodes(cluster, ask, profile) for ask in asks) and _are_simply_near(asks):
        closed = [BarredNodes.of(cluster, ask, units, profile) if seen else None for ask in asks]
        for those in ([None] * len(asks), closed) if any(closed) else (closed,):
            found = _by_room(search, asks, those)
            rows = None if found is None else _placed(search, asks, found, seen=seen)
            if found is not None and rows is not None:
                best = _better(best, _result(search, found, rows))
                known |= False if those[0] is None else those[0].rows
        by_amounts = best is None and bool(asks[0].pod_class.features & Feature.DEVICES)
        if len(asks) == 1 and not seen and asks[0].topology is None and not by_amounts:
            return best
        known |= open_nodes(cluster, asks[0], profile)
    if _is_one_pod(asks) and search.enough(np.zeros(len(units), dtype=np.bool_)):
        cleared = ByNode(search, asks[0]).choose(known, than=None if best is None else best.cost)
        if cleared is not None and cleared.gone.any():
            return _result(search, cleared.gone, [np.array([cleared.row])])
    if best is not None:
        return best
    return _by_trial(search, asks, seen=seen)


def _by_trial(search: VictimSearch, asks: Sequence[Ask], *, seen: bool) -> ChosenVictims | None:
    """Try everybody on all nodes; those the gang is to be near stay where they would leave so that there are none."""
    found = ByTrial(search, asks, seen=seen).choose()
    rows = None if found is None else _placed(search, asks, found, seen=seen)
    if found is None or rows is None:
        return None
    may = without_company(search.cluster, asks, search.units, found, np.concatenate(rows))
    if may is None:
        return _result(search, found, rows)
    numbers, rest = np.flatnonzero(may), search.among(may)
    chosen = None
    if rest.enough(np.ones(len(numbers), dtype=np.bool_)):
        chosen = _by_trial(rest, asks, seen=seen)
    return None if chosen is None else replace(chosen, units=numbers[chosen.units])


def _better(one: ChosenVictims | None, other: ChosenVictims) -> ChosenVictims:
    return other if one is None or other.cost < one.cost else one


def _is_one_pod(asks: Sequence[Ask]) -> bool:
    return len(asks) == 1 and asks[0].required == 1 and asks[0].topology is None


def _are_simply_near(asks: Sequence[Ask]) -> bool:
    """Whether nearness, if any is asked for, is no more than a choice of domains for one ask."""
    topology = [ask.topology for ask in asks if ask.topology is not None]
    return not topology or (len(asks) == 1 and asks_for_one_domain_only(topology[0]))


def _placed(search: VictimSearch, asks: Sequence[Ask], gone: Mask, *, seen: bool) -> list[Rows] | None:
    """Return where a gang goes when some units are gone; None where it does not fit then."""
    cluster = search.cluster
    with SimulatedRemoval(cluster, search.units.pods(gone), seen=seen), cluster.transaction() as transaction:
        return fit_together(cluster.nodes, transaction, asks, search.profile)


def _result(search: VictimSearch, chosen: Mask, rows: list[Rows]) -> ChosenVictims:
    units, columns = search.units, search.cluster.pod_columns
    order = units.cheapest_first(np.zeros(len(units), dtype=np.bool_))
    victims = [pod for unit in order[chosen[order]].tolist() for pod in columns.at(units.pods_of(unit))]
    return ChosenVictims(np.flatnonzero(chosen), tuple(victims), rows, search.cost(chosen))


def _by_room(search: VictimSearch, asks: Sequence[Ask], closed: Sequence[BarredNodes | None]) -> Mask | None:
    """Choose for one ask after another, the hardest first, each with the ones before it placed.

    Per ask, nodes that are `closed` to it now may be chosen, too.

    Returns:
        bool[units]; None where that does not work out, though another order might.
    """
    if asks[0].topology is not None:
        return in_one_domain(search, asks[0], closed[0])
    cluster, units = search.cluster, search.units
    chosen = np.zeros(len(units), dtype=np.bool_)
    order = hardest_first(cluster.nodes, asks)
    with cluster.transaction() as transaction:
        for index in order:
            last = index == order[-1]
            must = search if last else replace(search, enough=always_true)
            more = ByRoom(must, asks[index], closed=closed[index]).choose(chosen)
            if more is None:
                return None
            chosen = more
            if not last:
                with SimulatedRemoval(cluster, units.pods(chosen), seen=any(closed)):
                    if place_ask(cluster.nodes, transaction, asks[index], search.profile) is None:
                        return None
    return chosen
