"""Whom to take out so that a whole gang fits: the victims that cost least and make room for all of it, or nobody.

Victims come in units: a pod by itself, or a gang that leaves as a whole. First it is asked whether the gang would fit
if everybody who may go were gone; if not, nobody is. Otherwise units are chosen such that the gang fits, by
kube-scheduler's tie-breaks over the whole set: fewest beyond a disruption budget, lowest highest priority, smallest
sum of priorities, fewest pods, latest start; and none of them is one that could stay.

Where only room decides, the choice is made on columns (`by_room`). So it is, as far as that goes, for pods that keep
off nodes where others are: nodes that these bar are among them, if all of these may go. For one pod by itself, other
nodes are tried that inter-pod constraints rule out or may rule out (`by_node.ByNode`). Where that is not enough, and
for gangs that look farther around, everybody on all nodes is tried (`by_trial.ByTrial`).

For a gang that must stay in one domain of a topology, the domain is chosen first (`one_domain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tutti.cluster.classes import Feature
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask
from tutti.placement.preemption.ask_by_ask import ask_by_ask
from tutti.placement.preemption.by_node import ByNode, open_nodes
from tutti.placement.preemption.by_room import has_inter_pod_constraints, placement_changes_other_nodes
from tutti.placement.preemption.by_trial import ByTrial
from tutti.placement.preemption.company import without_company
from tutti.placement.preemption.one_domain import (
    all_in_one_domain,
    are_one_set,
    asks_for_one_domain_only,
    in_one_domain,
)
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
            found = in_one_domain(search, asks[0], those[0]) if asks[0].topology else ask_by_ask(search, asks, those)
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
    if are_one_set(asks):
        return _in_one_domain(search, asks, seen=seen)
    return _by_trial(search, asks, seen=seen)


def _in_one_domain(search: VictimSearch, asks: Sequence[Ask], *, seen: bool) -> ChosenVictims | None:
    """Choose the domain where it hurts least to make room for all of several asks."""
    best: ChosenVictims | None = None
    for found in all_in_one_domain(search, asks, seen=seen):
        rows = _placed(search, asks, found, seen=seen)
        best = best if rows is None else _better(best, _result(search, found, rows))
    return best


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
