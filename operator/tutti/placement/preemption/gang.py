"""Whom to take out so that a whole gang fits: the least harm that makes room for all of it, or nobody.

Victims come in units: a pod by itself, or a gang that leaves as a whole. First it is asked whether the gang would fit
if everybody who may go were gone; if not, nobody is. Otherwise units are chosen such that the gang fits, by
kube-scheduler's tie-breaks over the whole set: fewest beyond a disruption budget, lowest highest priority, smallest
sum of priorities, fewest pods, latest start; and none of them is one that could stay.

Where only room decides, the choice is made on columns (`by_room`). So it is, as far as that goes, for pods that keep
off nodes where others are: nodes that these close are among them (`closed`), if all of these may go. For one pod by
itself, other nodes are tried that its company rules out or may rule out (`by_node`). Where that is not enough, and for
gangs that look farther around, everybody on all nodes is tried (`by_trial`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first, place
from tutti.placement.preemption.budgets import Budget, Coverage
from tutti.placement.preemption.by_domain import in_one_domain, only_asks_for_a_domain
from tutti.placement.preemption.by_node import ByNode, open_now
from tutti.placement.preemption.by_room import ByRoom, looks_around, moves
from tutti.placement.preemption.by_trial import ByTrial
from tutti.placement.preemption.closed import Closed
from tutti.placement.preemption.enough import Enough, always
from tutti.placement.preemption.harm import Harm
from tutti.placement.preemption.lifting import Lifting
from tutti.placement.preemption.units import Numbers, Units
from tutti.placement.profile import Profile
from tutti.placement.together import Shortfall, place_together


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who would have to go, and where the gang would be then.

    Attributes:
        units: int64[...], ascending; none where the gang fits as things are.
        victims: Their pods, the least important first; those that are leaving already among them.
        rows: Per ask, the rows of its pods as `gang.place` gives them.
        harm: What their leaving does; units that hurt nobody do not count.
    """

    units: Numbers
    victims: tuple[PodRecord, ...]
    rows: list[Rows]
    harm: Harm


def choose(
    cluster: Cluster,
    asks: Sequence[Ask],
    units: Units,
    *,
    profile: Profile,
    budgets: Sequence[Budget] = (),
    enough: Enough = always,
) -> Chosen | None:
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
    if any(ask.klass.refusal for ask in asks) or not enough(np.ones(len(units), dtype=np.bool_)):
        return None
    coverage = Coverage(budgets, of_leaving=False)
    seen = any(looks_around(cluster, ask, profile) for ask in asks)
    best: Chosen | None = None
    known = np.zeros(len(cluster.nodes), dtype=np.bool_)
    if not any(moves(cluster, ask, profile) for ask in asks) and _are_simply_near(asks):
        closed = [Closed.of(cluster, ask, units, profile) if seen else None for ask in asks]
        for those in ([None] * len(asks), closed) if any(closed) else (closed,):
            found = _by_room(cluster, asks, units, coverage, profile, enough, those)
            rows = None if found is None else _placed(cluster, asks, units, found, profile, seen=seen)
            if found is not None and rows is not None:
                best = _better(best, _result(cluster, units, found, rows, coverage))
                known |= False if those[0] is None else those[0].rows
        if len(asks) == 1 and not seen and asks[0].near is None:
            return best
        known |= open_now(cluster, asks[0], profile)
    if _is_one_pod(asks) and enough(np.zeros(len(units), dtype=np.bool_)):
        one = ByNode.of(cluster, asks[0], units, coverage, profile)
        cleared = one.choose(known, than=None if best is None else best.harm)
        if cleared is not None and cleared.gone.any():
            return _result(cluster, units, cleared.gone, [np.array([cleared.row])], coverage)
    if best is not None:
        return best
    found = ByTrial(cluster, asks, units, coverage, profile, enough, seen).choose()
    rows = None if found is None else _placed(cluster, asks, units, found, profile, seen=seen)
    return None if found is None or rows is None else _result(cluster, units, found, rows, coverage)


def _better(one: Chosen | None, other: Chosen) -> Chosen:
    return other if one is None or other.harm < one.harm else one


def _is_one_pod(asks: Sequence[Ask]) -> bool:
    return len(asks) == 1 and asks[0].required == 1 and asks[0].near is None


def _are_simply_near(asks: Sequence[Ask]) -> bool:
    """Whether nearness, if any is asked for, is no more than a choice of domains for one ask."""
    near = [ask.near for ask in asks if ask.near is not None]
    return not near or (len(asks) == 1 and only_asks_for_a_domain(near[0]))


def _placed(
    cluster: Cluster, asks: Sequence[Ask], units: Units, gone: Mask, profile: Profile, *, seen: bool
) -> list[Rows] | None:
    """Return where a gang goes when some units are gone; None where it does not fit then."""
    with Lifting(cluster, units.pods(gone), seen=seen), cluster.transaction() as transaction:
        rows = place_together(cluster.nodes, transaction, asks, profile)
    return None if isinstance(rows, Shortfall) else rows


def _result(cluster: Cluster, units: Units, chosen: Mask, rows: list[Rows], coverage: Coverage) -> Chosen:
    order = units.least_harm_first(np.zeros(len(units), dtype=np.bool_))
    victims = [pod for unit in order[chosen[order]].tolist() for pod in cluster.tenants.at(units.pods_of(unit))]
    return Chosen(np.flatnonzero(chosen), tuple(victims), rows, units.harm(cluster, chosen, coverage))


def _by_room(
    cluster: Cluster,
    asks: Sequence[Ask],
    units: Units,
    coverage: Coverage,
    profile: Profile,
    enough: Enough,
    closed: Sequence[Closed | None],
) -> Mask | None:
    """Choose for one ask after another, the hardest first, each with the ones before it placed.

    Per ask, nodes that are `closed` to it now may be chosen, too.

    Returns:
        bool[units]; None where that does not work out, though another order might.
    """
    if asks[0].near is not None:
        return in_one_domain(cluster, asks[0], units, coverage, profile, enough, closed[0])
    chosen = np.zeros(len(units), dtype=np.bool_)
    order = hardest_first(cluster.nodes, asks)
    with cluster.transaction() as transaction:
        for index in order:
            last = index == order[-1]
            must = enough if last else always
            one = ByRoom(cluster, asks[index], units, coverage, profile, must, closed=closed[index])
            more = one.choose(chosen)
            if more is None:
                return None
            chosen = more
            if not last:
                with Lifting(cluster, units.pods(chosen), seen=any(closed)):
                    if place(cluster.nodes, transaction, asks[index], profile) is None:
                        return None
    return chosen
